"""New objects in columns: the input for a class, converted and with all its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_type
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.objects.attribute_values import normalize_elements
from tidemill.model.classes import OID, Attribute, Collection
from tidemill.model.errors import BadValue, NullViolation
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import BIGINT, Field
from tidemill.sources.ingest.frames import changes_of, check_names

__all__ = [
    "ObjectColumns",
    "Oids",
    "ReferenceColumns",
    "collection_column",
    "columns_of",
    "distinct_references",
    "inserted_rows",
    "is_among",
    "reference_column",
]

Oids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReferenceColumns:
    """The links of an attribute: ``owners[i]`` refers to ``others[i]``, in input order."""

    owners: Oids
    others: Oids

    def swapped(self) -> ReferenceColumns:
        """The links with both ends swapped."""
        return ReferenceColumns(self.others, self.owners)

    def ordered(self) -> ReferenceColumns:
        """The links sorted by owner, then by the other end."""
        order = np.lexsort((self.others, self.owners))
        return ReferenceColumns(self.owners[order], self.others[order])

    def __len__(self) -> int:
        return len(self.owners)

    @classmethod
    def together(cls, parts: list[ReferenceColumns]) -> ReferenceColumns:
        """The concatenation of several sets of links."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([empty, *(part.owners for part in parts)]),
            np.concatenate([empty, *(part.others for part in parts)]),
        )


@dataclass
class ObjectColumns:
    """New objects of one class: their identities, the columns of their values, and the links that were given."""

    cls: str
    oids: Oids
    values: dict[str, pa.Array]
    links: dict[str, ReferenceColumns]


def columns_of(module: ObjectModule, cls: str, given: pa.Table, first: int) -> ObjectColumns:
    """The objects of a class in ``given``, references as identities; without ``oid`` these begin at ``first``."""
    given = given.rename_columns([name.lower() for name in given.column_names])
    attributes = module.attributes[cls]
    if OID not in given.column_names:
        given = given.append_column(OID, pa.array(np.arange(first, first + given.num_rows)))
    check_names(given.column_names, module.stored[cls])
    plain = [a for a in attributes.values() if a.target is None or a.collection is None]
    fields = (Field(OID, BIGINT, nullable=False), *(a.field for a in plain))
    named = [f.name for f in fields if f.name in given.column_names]
    lists = {a.name: pa.array([[]] * given.num_rows) for a in plain if a.collection and a.name not in named}
    chosen = given.select(named)
    for name, empty in lists.items():
        chosen = chosen.append_column(name, empty.cast(arrow_type(attributes[name].field.type)))
    converted = changes_of(chosen, Table(module.stored[cls].name, fields)).arrow()
    oids = converted.column(OID).to_numpy()
    columns = ObjectColumns(cls, oids, {}, {})
    for attribute in attributes.values():
        if attribute.target is None:
            columns.values[attribute.name] = _values(attribute, converted.column(attribute.name), cls)
        elif attribute.name in given.column_names:
            source = given if attribute.collection is not None else converted
            columns.links[attribute.name] = _links(attribute, oids, source.column(attribute.name), cls)
    return columns


def _values(attribute: Attribute, column: pa.ChunkedArray, cls: str) -> pa.Array:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if attribute.among:
        values = array if attribute.collection is None else pc.list_flatten(array)
        wrong = values.filter(pc.invert(pc.or_(pc.is_null(values), pc.is_in(values, pa.array(attribute.among)))))
        if len(wrong):
            raise BadValue(
                f'"{wrong[0].as_py()}" is no value of attribute "{attribute.name}"',
                where=f"{cls}.{attribute.name}",
                hint=f"Use one of {', '.join(attribute.among)}.",
            )
    if attribute.collection is None:
        return array
    if pc.list_flatten(array).null_count:
        raise NullViolation("a collection has no NULL among its elements", where=f"{cls}.{attribute.name}")
    kept = [normalize_elements(attribute, values or ()) for values in array.to_pylist()]
    return pa.array(kept, type=array.type)


def _links(attribute: Attribute, oids: Oids, column: pa.ChunkedArray, cls: str) -> ReferenceColumns:
    array = column.combine_chunks()
    where = f"{cls}.{attribute.name}"
    if attribute.collection is None:
        known = pc.is_valid(array).to_numpy(zero_copy_only=False)
        return ReferenceColumns(oids[known], pc.drop_null(array).to_numpy().astype(np.int64))
    try:
        lists = array.cast(pa.list_(pa.int64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadValue(
            f'the elements of "{attribute.name}" are no identities of objects', where=where, detail=str(error)
        ) from None
    others = pc.list_flatten(lists)
    if others.null_count:
        raise NullViolation("a collection has no NULL among its elements", where=where)
    links = ReferenceColumns(oids[pc.list_parent_indices(lists).to_numpy()], others.to_numpy().astype(np.int64))
    return distinct_references(links) if attribute.collection is Collection.SET else links


def distinct_references(links: ReferenceColumns) -> ReferenceColumns:
    """Each link once, in order."""
    ordered = links.ordered()
    if not len(ordered):
        return ordered
    steps = (np.diff(ordered.owners) != 0) | (np.diff(ordered.others) != 0)
    kept = np.concatenate([[True], steps])
    return ReferenceColumns(ordered.owners[kept], ordered.others[kept])


def is_among(oids: Oids, known: Oids) -> npt.NDArray[np.bool_]:
    """A mask of the ``oids`` that are among ``known``, which is sorted."""
    if not len(known):
        return np.zeros(len(oids), dtype=bool)
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, oids), len(known) - 1)] == oids
    return found


def reference_column(oids: Oids, links: ReferenceColumns) -> pa.Array:
    """A column of single references: for each of ``oids`` the object that it is linked with, or NULL."""
    if not len(links):
        return pa.nulls(len(oids), pa.int64())
    order = np.argsort(links.owners, kind="stable")
    owners, others = links.owners[order], links.others[order]
    places = np.minimum(np.searchsorted(owners, oids), len(owners) - 1)
    return pa.array(others[places], mask=owners[places] != oids)


def collection_column(oids: Oids, links: ReferenceColumns, *, in_order: bool) -> pa.Array:
    """A column of collections: for each of ``oids`` the objects that it is linked with; sorted unless ``in_order``."""
    ordered = links.ordered()
    if in_order:
        order = np.argsort(links.owners, kind="stable")
        ordered = ReferenceColumns(links.owners[order], links.others[order])
    first = np.searchsorted(ordered.owners, oids, side="left")
    counts = np.searchsorted(ordered.owners, oids, side="right") - first
    offsets = np.concatenate([[0], np.cumsum(counts)])
    places = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], counts)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ordered.others[places]))


def inserted_rows(columns: Mapping[str, Any], table: Table) -> pa.Table:
    """Columns by name as inserted rows of ``table``."""
    named = {f.name: columns[f.name] for f in table.fields}
    rows = len(next(iter(named.values())))
    return pa.table(named | {WEIGHT: pa.array(np.ones(rows, dtype=np.int64))})
