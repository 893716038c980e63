"""Nested records as new objects: a nested record becomes an object, a key is resolved to one.

A reference is written as the key of a new or existing object; as ``{"oid": 17}``; or as the object itself, which is
then created too, unless it consists of a key alone and an object has this key. ``"class"`` names a subclass of the
declared class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import arrow_type, to_arrow
from tidemill.changes.zset import Row
from tidemill.engine.objects.attribute_values import attribute_value
from tidemill.engine.objects.draft import ObjectDraft
from tidemill.model.classes import OID, Attribute
from tidemill.model.coerce import coerce, coercer
from tidemill.model.converters import Converter
from tidemill.model.errors import BadValue, DanglingReference, TidemillError, UnknownName
from tidemill.model.schema import WEIGHT
from tidemill.sources.ingest.nested_records import LocatedRecord

__all__ = ["NestedRecords"]

CLASS_ENTRY = "class"
"""Entry of a record that names its class, unless the class has an attribute of this name."""

KeyAttributes = tuple[str, tuple[str, ...]]
"""A class and the attributes of one of its keys."""


@dataclass(frozen=True, slots=True)
class PendingReference:
    """A reference by key that is not resolved yet; an object written as ``record`` may have to be created."""

    target: str
    key: KeyAttributes
    value: Row
    where: str
    record: Mapping[str, Any] | None = None


class NestedRecords:
    """Collects objects from records, and converts them to columns."""

    def __init__(self, draft: ObjectDraft) -> None:
        self._draft = draft
        self._module = draft.module
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._known: dict[KeyAttributes, dict[Row, int]] = {}
        self._wanted: list[PendingReference] = []
        self._last = draft.last
        self._converters: dict[str, dict[str, Converter]] = {}

    def take(self, cls: str, records: Iterable[LocatedRecord]) -> None:
        """Add records of a class."""
        for where, record in records:
            self._object(cls, record, where)

    def tables(self) -> dict[str, pa.Table]:
        """All objects, in columns by class, with keys resolved to identities."""
        found = self._found()
        return {cls: self._table(cls, rows, found) for cls, rows in self._rows.items()}

    # -- records ------------------------------------------------------------------------------------------------

    def _object(self, cls: str, record: Mapping[str, Any], where: str) -> int:
        """Add an object; returns its identity."""
        given = {str(name).lower(): value for name, value in record.items() if value is not None}
        cls = self._class(cls, given, where)
        attributes = self._module.attributes_of(cls)
        self._module.require_creatable(cls)
        plain = self._plain(cls)
        self._last += 1
        row: dict[str, Any] = {OID: self._last}
        for name, value in given.items():
            if name in plain:
                try:
                    row[name] = plain[name](value)
                    continue
                except BadValue:
                    pass  # the location of a value is computed only if it is refused
            if name not in attributes:
                raise UnknownName(
                    f'class "{cls}" has no attribute "{name}"',
                    where=where,
                    hint=f"Attributes: {', '.join(attributes)}.",
                )
            row[name] = self._value(attributes[name], value, f"{where}.{name}")
        self._rows.setdefault(cls, []).append(row)
        for key in self._module.keys[cls]:
            value = tuple([row.get(name) for name in key[1]])
            if None not in value and all(attributes[name].target is None for name in key[1]):
                self._known.setdefault(key, {}).setdefault(value, row[OID])
        return int(row[OID])

    def _plain(self, cls: str) -> Mapping[str, Converter]:
        """The converters of the single-valued attributes of a class."""
        if cls not in self._converters:
            self._converters[cls] = {
                name: coercer(attribute.type)
                for name, attribute in self._module.attributes[cls].items()
                if attribute.target is None and attribute.collection is None and not attribute.among
            }
        return self._converters[cls]

    def _class(self, cls: str, given: dict[str, Any], where: str) -> str:
        if CLASS_ENTRY not in given or CLASS_ENTRY in self._module.attributes[cls]:
            return cls
        named = str(given.pop(CLASS_ENTRY)).lower()
        if named not in {below.name for below in self._module.schema.below(cls)}:
            raise BadValue(f'"{named}" is not class "{cls}", and none that extends it', where=where)
        return named

    def _value(self, attribute: Attribute, value: Any, where: str) -> Any:
        if attribute.target is None:
            return attribute_value(attribute, value, where)
        if attribute.collection is None:
            return self._reference(attribute.target, value, where)
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise BadValue(f"{value!r} is no collection", where=where, hint="Give a list.")
        return [self._reference(attribute.target, item, f"{where}[{i}]") for i, item in enumerate(value)]

    def _reference(self, target: str, value: Any, where: str) -> int | PendingReference:
        if not isinstance(value, Mapping):
            return self._wanting(PendingReference(target, *self._key(target, value, where), where))
        given = {str(name).lower(): item for name, item in value.items() if item is not None}
        if given.keys() == {OID}:
            return int(coerce(given[OID], self._module.stored[target].fields[0].type, where=where))
        for key in self._module.keys[target]:
            if given.keys() == set(key[1]):
                values = tuple([self._coerced(target, name, given[name], where) for name in key[1]])
                return self._wanting(PendingReference(target, key, values, where, value))
        return self._object(target, value, where)

    def _wanting(self, wanted: PendingReference) -> PendingReference:
        self._wanted.append(wanted)
        return wanted

    def _key(self, target: str, value: Any, where: str) -> tuple[KeyAttributes, Row]:
        """The key that a single value belongs to: the first one whose type it has."""
        for key in self._module.keys[target]:
            if len(key[1]) == 1:
                try:
                    return key, (self._coerced(target, key[1][0], value, where),)
                except TidemillError:
                    continue
        keys = ", ".join(f"({', '.join(names)})" for _, names in self._module.keys[target]) or "none"
        raise BadValue(
            f'{value!r} is no key of class "{target}"',
            where=where,
            detail=f"Its keys: {keys}.",
            hint='Give a key, the object itself, or {"oid": ...}.',
        )

    def _coerced(self, target: str, name: str, value: Any, where: str) -> Any:
        return coerce(value, self._module.attributes[target][name].type, where=where, nullable=False)

    # -- references ---------------------------------------------------------------------------------------------

    def _found(self) -> dict[tuple[KeyAttributes, Row], int]:
        """The objects by key: new ones first, then stored ones, all in one lookup."""
        sought: dict[KeyAttributes, dict[Row, PendingReference]] = {}
        found: dict[tuple[KeyAttributes, Row], int] = {}
        for wanted in self._wanted:
            mine = self._known.get(wanted.key, {}).get(wanted.value)
            if mine is not None:
                found[wanted.key, wanted.value] = mine
            else:
                known = sought.setdefault(wanted.key, {})
                if wanted.value not in known or wanted.record is not None:
                    known[wanted.value] = wanted
        for key, values in sought.items():
            stored = self._draft.stored.rows(key[0], key[1], values)
            for value, wanted in values.items():
                if value in stored:
                    found[key, value] = stored[value][0][0]
                elif wanted.record is not None:
                    found[key, value] = self._object(wanted.target, wanted.record, wanted.where)
                else:
                    named = ", ".join(f"{name} = {part!r}" for name, part in zip(key[1], value, strict=True))
                    raise DanglingReference(
                        f'there is no object of class "{wanted.target}" with {named}',
                        where=wanted.where,
                        hint="Load it first or in the same files, or put the object itself in this place.",
                    )
        return found

    # -- columns ------------------------------------------------------------------------------------------------

    def _table(self, cls: str, rows: list[dict[str, Any]], found: Mapping[tuple[KeyAttributes, Row], int]) -> pa.Table:
        attributes = self._module.attributes[cls]
        columns: dict[str, Any] = {OID: pa.array([row[OID] for row in rows], pa.int64())}
        given = {name for row in rows for name in row}
        for attribute in attributes.values():
            if attribute.name not in given:
                continue
            values = (row.get(attribute.name) for row in rows)
            if attribute.target is None:
                empty = None if attribute.collection is None else ()
                pairs = (((empty if value is None else value,), 1) for value in values)
                columns[attribute.name] = to_arrow(pairs, (attribute.field,)).drop_columns([WEIGHT]).column(0)
            else:
                kind = arrow_type(attribute.field.type)
                columns[attribute.name] = pa.array(list(_identities(values, attribute, found)), kind)
        return pa.table(columns)


def _identities(
    values: Iterable[Any], attribute: Attribute, found: Mapping[tuple[KeyAttributes, Row], int]
) -> Iterator[int | list[int] | None]:
    def identity(reference: Any) -> int:
        return found[reference.key, reference.value] if isinstance(reference, PendingReference) else int(reference)

    for value in values:
        if attribute.collection is None:
            yield None if value is None else identity(value)
        else:
            yield [identity(reference) for reference in value or ()]
