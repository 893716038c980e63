"""Bulk load of new objects: the checks of single objects, done on whole columns.

Inverses of relationships are derived if they are not given, and compared if they are. Existing objects take part
through a draft, as in any other epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.engine.objects.draft import ObjectDraft
from tidemill.engine.objects.draft_commit import changes_of_draft, check_draft, duplicate_key
from tidemill.engine.objects.events import ObjectEvent, events_of
from tidemill.engine.objects.object_columns import (
    ObjectColumns,
    Oids,
    ReferenceColumns,
    collection_column,
    columns_of,
    distinct_references,
    inserted_rows,
    is_among,
    reference_column,
)
from tidemill.model.classes import OID, Attribute, Collection, ObjectClass
from tidemill.model.errors import BadValue, DanglingReference, DuplicateKey
from tidemill.model.update_events import UpdateEvent

__all__ = ["BulkLoad"]


class BulkLoad:
    """New objects, in columns by class, over a draft for the existing objects that are related to them."""

    def __init__(self, draft: ObjectDraft, given: Mapping[str, pa.Table]) -> None:
        self._draft = draft
        self._module = draft.module
        self._parts: list[ObjectColumns] = []
        known = draft.last
        for cls, table in given.items():
            self._module.attributes_of(cls)
            self._module.require_creatable(cls)
            part = columns_of(self._module, cls, table, draft.last + 1)
            draft.last = max(draft.last, int(part.oids.max(initial=0)))
            self._parts.append(part)
        self._check_oids(known)

    def changes(self) -> dict[str, ChangeSet]:
        """The inserted rows, and the changed rows of existing objects; raises at the first violation."""
        columns = [dict(part.values) | {OID: pa.array(part.oids)} for part in self._parts]
        for found in self._module.schema.classes.values():
            for attribute in found.attributes:
                if attribute.target is not None:
                    links = self._linked(found, attribute)
                    for part, made in zip(self._parts, columns, strict=True):
                        if attribute.name in self._module.attributes[part.cls] and self._is(part.cls, found.name):
                            made[attribute.name] = _column(part.oids, attribute, links)
        self._check_keys(columns)
        check_draft(self._draft)
        return self._merged(columns, changes_of_draft(self._draft))

    def events(self) -> Iterator[ObjectEvent]:
        """An insert event for each new object, and the events of existing objects that follow from it."""
        for part in self._parts:
            for cls in self._module.lines[part.cls]:
                name = self._module.stored[cls].name
                yield from (ObjectEvent(UpdateEvent.INSERT, name, oid) for oid in part.oids.tolist())
        yield from events_of(self._draft)

    # -- identities ---------------------------------------------------------------------------------------------

    def _check_oids(self, last: int) -> None:
        everything = self._of(self._module.schema.classes)
        again = everything[1:][np.diff(everything) == 0]
        below = everything[everything <= last]
        taken: set[int] = set()
        if len(below):
            # Existing identities are at most ``last``; greater ones need no lookup.
            taken = set().union(
                *(self._draft.stored.holding(below.tolist(), top) for top in self._module.children[None])
            )
        wrong = [*again[:1].tolist(), *sorted(taken)[:1], *everything[everything <= 0][:1].tolist()]
        if wrong:
            reason = "Identities begin at 1." if wrong[0] <= 0 else "Another object has it already."
            raise DuplicateKey(f"no new object can have the identity {wrong[0]}", detail=reason, where=OID)

    def _of(self, classes: Sequence[str] | Mapping[str, ObjectClass]) -> Oids:
        """The new objects of some classes, in order."""
        parts = [part.oids for part in self._parts if part.cls in classes]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))

    @cached_property
    def _new(self) -> dict[str, Oids]:
        """For each class its new objects, in order, including those of subclasses."""
        schema = self._module.schema
        return {name: self._of([below.name for below in schema.below(name)]) for name in schema.classes}

    def _is(self, cls: str, above: str) -> bool:
        return any(found.name == above for found in self._module.schema.line(cls))

    # -- references ---------------------------------------------------------------------------------------------

    def _linked(self, owner: ObjectClass, attribute: Attribute) -> ReferenceColumns:
        """All links of new objects by an attribute: as given, or derived from the inverse."""
        given = self._given(owner.name, attribute)
        links = given if given is not None else ReferenceColumns.together([])
        self._require(owner.name, attribute, links)
        if attribute.inverse is None:
            return links
        assert attribute.target is not None
        back = self._draft.inverse(attribute)
        home = self._module.schema.declares(attribute.target, back.name)
        other = self._given(home, back)
        if attribute == back:
            links = _both_ways(links, self._new[owner.name])
        elif other is not None:
            inner = other.swapped()
            among_new = is_among(inner.owners, self._new[owner.name])
            links = self._agreed(owner, attribute, back, links if given is not None else None, _kept(inner, among_new))
        if None in (attribute.collection, back.collection) or Collection.SET in (attribute.collection, back.collection):
            links = _once(links)
        self._check_single(owner, attribute, links)
        self._adopt(attribute, back, links)
        return links

    def _given(self, owner: str, attribute: Attribute) -> ReferenceColumns | None:
        """The links that were given for an attribute of a class; None if the attribute was not given at all."""
        parts = [p.links[attribute.name] for p in self._parts if self._is(p.cls, owner) and attribute.name in p.links]
        return ReferenceColumns.together(parts) if parts else None

    def _require(self, owner: str, attribute: Attribute, links: ReferenceColumns) -> None:
        """Refuse references to objects that are neither new nor stored, or of the wrong class."""
        assert attribute.target is not None
        outside = links.others[~is_among(links.others, self._new[attribute.target])]
        if not len(outside):
            return
        held = self._draft.stored.holding(outside.tolist(), attribute.target)
        for oid in outside.tolist():
            if oid not in held:
                source = links.owners[links.others == oid][0]
                raise DanglingReference(
                    f'there is no object {oid} of class "{attribute.target}"',
                    where=f"{owner} {source}.{attribute.name}",
                )

    def _agreed(
        self,
        owner: ObjectClass,
        attribute: Attribute,
        back: Attribute,
        given: ReferenceColumns | None,
        derived: ReferenceColumns,
    ) -> ReferenceColumns:
        """The links of both ends, which must agree if both were given for new objects; else those of the inverse."""
        assert attribute.target is not None
        if given is None:
            return derived
        said = _kept(given, is_among(given.others, self._new[attribute.target])).ordered()
        told = derived.ordered()
        if not (np.array_equal(said.owners, told.owners) and np.array_equal(said.others, told.others)):
            raise BadValue(
                f'"{attribute.name}" and its inverse "{back.name}" do not say the same',
                where=f"{owner.name}.{attribute.name}",
                detail=_difference(said, told),
                hint="Give one of them: the other follows.",
            )
        return given

    def _check_single(self, owner: ObjectClass, attribute: Attribute, links: ReferenceColumns) -> None:
        if attribute.collection is None:
            owners = np.sort(links.owners)
            again = owners[1:][owners[1:] == owners[:-1]]
            if len(again):
                oid = int(again[0])
                others = links.others[links.owners == oid][:2].tolist()
                raise BadValue(
                    f'{owner.name} {oid} has one "{attribute.name}" only',
                    where=f"{owner.name} {oid}.{attribute.name}",
                    detail=f"Both {others[0]} and {others[1]} are to be it.",
                )

    def _adopt(self, attribute: Attribute, back: Attribute, links: ReferenceColumns) -> None:
        """Add new objects to the inverses of the existing objects that they are related to."""
        assert attribute.target is not None
        outside = np.nonzero(~is_among(links.others, self._new[attribute.target]))[0]
        taken: dict[int, int] = {}
        for owner, other in zip(links.owners[outside].tolist(), links.others[outside].tolist(), strict=True):
            if back.collection is None and taken.setdefault(other, owner) != owner:
                raise BadValue(
                    f'{back.target} {taken[other]} and {back.target} {owner} cannot both be "{back.name}"',
                    where=f"{attribute.target} {other}.{back.name}",
                )
            self._draft.adopt(attribute, owner, self._draft.look(other))

    # -- keys ---------------------------------------------------------------------------------------------------

    def _check_keys(self, columns: Sequence[Mapping[str, pa.Array]]) -> None:
        for found in self._module.schema.classes.values():
            rows = [made for part, made in zip(self._parts, columns, strict=True) if self._is(part.cls, found.name)]
            for key in found.keys if rows else ():
                table = pa.concat_tables([pa.table({name: made[name] for name in (*key, OID)}) for made in rows])
                for name in key:
                    table = table.filter(pc.is_valid(table.column(name)))
                self._check_key(found.name, key, table)

    def _check_key(self, cls: str, key: tuple[str, ...], table: pa.Table) -> None:
        counts = table.group_by(list(key)).aggregate([(OID, "count"), (OID, "min"), (OID, "max")])
        twice = counts.filter(pc.greater(counts.column(f"{OID}_count"), 1))
        if twice.num_rows:
            row = twice.slice(0, 1).to_pylist()[0]
            raise duplicate_key(cls, key, tuple(row[name] for name in key), row[f"{OID}_min"], row[f"{OID}_max"])
        if not self._draft.stored.is_empty(cls):
            values = list(zip(*(table.column(name).to_pylist() for name in key), strict=True))
            for value, rows in self._draft.stored.rows(cls, key, values).items():
                mine = table.column(OID)[values.index(value)].as_py()
                raise duplicate_key(cls, key, value, rows[0][0], mine)

    # -- rows ---------------------------------------------------------------------------------------------------

    def _merged(
        self, columns: Sequence[Mapping[str, pa.Array]], drawn_in: Mapping[str, ChangeSet]
    ) -> dict[str, ChangeSet]:
        merged: dict[str, list[pa.Table]] = {name: [change.arrow()] for name, change in drawn_in.items()}
        fields = {table.name: table.fields for table in self._module.stored.values()}
        for part, made in zip(self._parts, columns, strict=True):
            for cls in self._module.lines[part.cls]:
                table = self._module.stored[cls]
                rows = inserted_rows(made, table).cast(arrow_schema(table.fields))
                merged.setdefault(table.name, []).append(rows)
        return {n: ChangeSet.of_arrow(pa.concat_tables(tables), fields[n]) for n, tables in merged.items()}


def _column(oids: Oids, attribute: Attribute, links: ReferenceColumns) -> pa.Array:
    if attribute.collection is None:
        return reference_column(oids, links)
    return collection_column(oids, links, in_order=attribute.collection is Collection.LIST)


def _kept(links: ReferenceColumns, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> ReferenceColumns:
    return ReferenceColumns(links.owners[chosen], links.others[chosen])


def _once(links: ReferenceColumns) -> ReferenceColumns:
    """The links without duplicates; unchanged if there are none."""
    found = distinct_references(links)
    return links if len(found) == len(links) else found


def _both_ways(links: ReferenceColumns, new: Oids) -> ReferenceColumns:
    """The links of a self-inverse relationship, from both ends; giving one end is enough."""
    inner = _kept(links, is_among(links.others, new))
    there, back = inner.ordered(), inner.swapped().ordered()
    if np.array_equal(there.owners, back.owners) and np.array_equal(there.others, back.others):
        return links
    apart = _kept(inner, inner.owners != inner.others)
    return ReferenceColumns.together([links, apart.swapped()])


def _difference(one: ReferenceColumns, other: ReferenceColumns) -> str:
    first, second = (set(zip(x.owners.tolist(), x.others.tolist(), strict=True)) for x in (one, other))
    pair = min(first ^ second, default=None)
    return "One has a link more often." if pair is None else f"One of them has {pair[0]} with {pair[1]}."
