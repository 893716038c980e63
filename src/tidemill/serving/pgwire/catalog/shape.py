"""Catalog of a warehouse, read through its public API: relations, columns, keys, definitions."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidemill.model.errors import TidemillError
from tidemill.model.types import Field
from tidemill.serving.pgwire.session import TidemillSession

__all__ = ["Constraint", "RelationShape", "WarehouseShape", "read_shape"]

FIRST_OID = 16_384
"""Numbers below it belong to PostgreSQL itself."""


@dataclass(frozen=True)
class Constraint:
    """A constraint of a table: its kind is that of ``pg_constraint``."""

    name: str
    kind: str
    columns: tuple[str, ...] = ()
    refers_to: str | None = None
    text: str = ""


@dataclass(frozen=True)
class RelationShape:
    """A table (``r``), view (``v``) or materialized view (``m``)."""

    name: str
    kind: str
    fields: tuple[Field, ...]
    rows: int | None = None
    definition: str = ""
    defaults: tuple[tuple[str, str], ...] = ()
    constraints: tuple[Constraint, ...] = field(default=())


@dataclass(frozen=True)
class WarehouseShape:
    """All relations that a user may see, in the order of their names."""

    relations: tuple[RelationShape, ...]

    def oids(self) -> dict[str, int]:
        """A number for each relation and each index and constraint: the same as long as names stay."""
        taken: dict[int, str] = {}
        found: dict[str, int] = {}
        for key in sorted(self._keys()):
            oid = FIRST_OID + zlib.crc32(key.encode("utf-8", "replace")) % (1 << 30)
            while oid in taken:
                oid += 1
            taken[oid], found[key] = key, oid
        return found

    def _keys(self) -> Iterable[str]:
        for relation in self.relations:
            yield relation.name
            yield f"type {relation.name}"
            for constraint in relation.constraints:
                yield f"index {relation.name} {constraint.name}"
                yield f"constraint {relation.name} {constraint.name}"


KINDS = {"MATERIALIZED VIEW": "m", "VIEW": "v", "TEMPORARY VIEW": "v"}


def read_shape(session: TidemillSession) -> WarehouseShape:
    """Catalog of a warehouse as a session may see it."""

    def rows(columns: str, table: str) -> list[tuple[Any, ...]]:
        return list(session.sql(f"SELECT {columns} FROM information_schema.{table}"))

    listed = rows("table_name, table_type, rows", "tables")
    definitions = dict(rows("table_name, view_definition", "views"))
    defaults: dict[str, list[tuple[str, str]]] = {}
    for table, column, default in rows("table_name, column_name, column_default", "columns"):
        if default is not None:
            defaults.setdefault(table, []).append((column, str(default)))
    constraints = _constraints(rows)
    found = []
    for name, kind, count in listed:
        fields = _fields(session, name, KINDS.get(kind, "r"), kind)
        if fields is not None:
            found.append(
                RelationShape(
                    name,
                    KINDS.get(kind, "r"),
                    fields,
                    count,
                    str(definitions.get(name) or ""),
                    tuple(defaults.get(name, ())),
                    tuple(constraints.get(name, ())),
                )
            )
    return WarehouseShape(tuple(sorted(found, key=lambda relation: relation.name)))


def _fields(session: TidemillSession, name: str, kind: str, declared: str) -> tuple[Field, ...] | None:
    """The columns of a relation; none for a view that no longer fits its tables; None if it is gone meanwhile."""
    try:
        if kind == "v":
            quoted = name.replace("`", "``")
            return tuple(session.prepare(f"SELECT * FROM `{quoted}`").describe().fields or ())
        handle = session.view(name) if kind == "m" else session.table(name)
        return tuple(handle.fields)
    except TidemillError:
        return () if kind == "v" else None


def _constraints(rows: Any) -> dict[str, list[Constraint]]:
    columns: dict[tuple[str, str], list[str]] = {}
    usage = rows("table_name, constraint_name, column_name, ordinal_position", "key_column_usage")
    for table, name, column, _ in sorted(usage, key=lambda row: (row[0], row[1], row[3])):
        columns.setdefault((table, name), []).append(column)
    refers = dict(rows("constraint_name, referenced_table", "referential_constraints"))
    checks = dict(rows("constraint_name, check_clause", "check_constraints"))
    kinds = {"PRIMARY KEY": "p", "UNIQUE": "u", "FOREIGN KEY": "f", "CHECK": "c"}
    found: dict[str, list[Constraint]] = {}
    for table, name, kind in rows("table_name, constraint_name, constraint_type", "table_constraints"):
        of = tuple(columns.get((table, name), ()))
        text = str(checks.get(name) or "")
        found.setdefault(table, []).append(Constraint(name, kinds[kind], of, refers.get(name), text))
    return found
