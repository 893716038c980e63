"""Stored objects by identity, by key and by reference, at a cost proportional to the result.

Nothing is cached here. The runtime holds the rows and their indexes, loads them on first use and maintains them, so
results are the same after a restart, and after commits of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.changes.zset import Row
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.engine import Engine
from tidemill.model.classes import OID, Attribute
from tidemill.model.schema import names_of

AttributeValues = dict[str, Any]
"""The attributes of an object by name, in stored form."""


@dataclass(frozen=True, slots=True)
class ObjectState:
    """A stored object: its class and its attributes."""

    oid: int
    cls: str
    values: Mapping[str, Any]


class StoredObjects:
    """The objects of a module as of the last epoch."""

    def __init__(self, engine: Engine, module: ObjectModule) -> None:
        self._engine = engine
        self._module = module

    def find(self, oid: int, within: Iterable[str] | None = None) -> ObjectState | None:
        """The object with this identity, if it exists and is of one of the classes ``within`` or their subclasses."""
        for cls in self._module.children[None] if within is None else within:
            found = self._below(cls, oid)
            if found is not None:
                return found
        return None

    def _below(self, cls: str, oid: int) -> ObjectState | None:
        rows = self.rows(cls, (OID,), [(oid,)]).get((oid,))
        if not rows:
            return None
        for child in self._module.children[cls]:
            found = self._below(child, oid)
            if found is not None:
                return found
        return self.object(cls, rows[0])

    def object(self, cls: str, row: Row) -> ObjectState:
        """A row of the table of a class as an object, which may be of a subclass."""
        return ObjectState(row[0], cls, dict(zip(self._module.attributes[cls], row[1:], strict=True)))

    def is_empty(self, cls: str) -> bool:
        """True if a class has no stored rows; reads none."""
        return not self._engine.store.rows(self._module.stored[cls].name)

    def holding(self, oids: Collection[int], cls: str) -> set[int]:
        """The subset of ``oids`` that are objects of a class."""
        return {key[0] for key in self.rows(cls, (OID,), [(oid,) for oid in oids])}

    def rows(self, cls: str, columns: Sequence[str], keys: Collection[Row]) -> dict[Row, list[Row]]:
        """The rows of the table of a class whose ``columns`` have one of ``keys``, by that key."""
        table = self._module.stored[cls]
        names = names_of(table.fields)
        with self._engine.settled():
            return self._engine.placement.lookup.find(
                table.name, tuple([names.index(column) for column in columns]), keys
            )

    def referring(self, cls: str, attribute: Attribute, oids: Collection[int]) -> list[Row]:
        """The rows of the table of a class that refer to one of ``oids`` by an attribute."""
        if attribute.collection is None:
            found = self.rows(cls, (attribute.name,), [(oid,) for oid in oids])
            return [row for rows in found.values() for row in rows]
        table = self._module.stored[cls]
        with self._engine.settled():
            return self._engine.placement.lookup.holders(table.name, names_of(table.fields).index(attribute.name), oids)
