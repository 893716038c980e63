"""The rows of a table compared with a constraint that it is to have: one that they violate is refused, with some."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.expressions.scalars import Call, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Scan, TopK
from tidemill.algebra.relational.walk import substitute
from tidemill.changes.arrow import arrow_type
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.compiler.frontends.script.definitions.check_conditions import check_condition
from tidemill.compiler.frontends.sql.table_references import quoted
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.catalog.altered.table import AlteredTable, Constraint
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import DataError
from tidemill.model.schema import (
    EPOCH,
    WEIGHT,
    CheckConstraint,
    ReferentialConstraint,
    Table,
    UniqueConstraint,
)
from tidemill.model.types import BOOLEAN
from tidemill.program.maps import Map
from tidemill.storage.compaction.consolidate import difference

__all__ = ["ExistingRows"]

SHOWN = 3
"""Number of rows that an error names."""


class ExistingRows:
    """Compares the rows that are there with what an altered table demands of them."""

    def __init__(self, state: EngineState, answer: Callable[[Relation, Relation | None], ChangeSet]) -> None:
        self._state = state
        self._answer = answer

    def require_fit(self, altered: AlteredTable) -> None:
        """Refuse an altered table whose rows violate what is new."""
        for name in altered.required:
            self._require_not_null(altered.before, name)
        if altered.key:
            self._require_distinct(altered.before, altered.key)
        for constraint in altered.constraints:
            self._require_holds(altered.table, constraint)

    def _require_distinct(self, table: Table, key: Sequence[str]) -> None:
        """Refuse a primary key in which rows are equal."""
        fields = tuple(f for f in table.fields if f.name in key)
        rows = self._state.store.read(table.name, fields)
        found = difference(rows.slice(0, 0), rows, Map(table.name, fields))
        equal = found.filter(pc.greater(found.column(WEIGHT), 1))
        if equal.num_rows:
            (row,) = ChangeSet.of_arrow(equal.slice(0, 1), fields).zset()
            raise DataError(
                f'"{table.name}" cannot have the primary key ({", ".join(key)})',
                detail=f"Several rows have the same values there, such as {row!r}.",
                hint="Delete the other rows first.",
            )

    def _require_not_null(self, table: Table, name: str) -> None:
        """Refuse NOT NULL for a column in which rows are NULL."""
        (field,) = (f for f in table.fields if f.name == name)
        sought = {name: pa.nulls(1, arrow_type(field.type))}
        rows = self._state.store.read(table.name, table.fields, where=sought)
        found = ChangeSet.of_arrow(rows.drop_columns([EPOCH]), table.fields).zset()
        if len(found):
            raise DataError(
                f'column "{name}" of "{table.name}" cannot be NOT NULL',
                detail=f"It is NULL in {len(found):,} of its rows.",
                hint=f"UPDATE {table.name} SET {name} = ... WHERE {name} IS NULL first.",
            )

    def _require_holds(self, table: Table, constraint: Constraint) -> None:
        """Refuse a constraint that rows violate; a stream has none."""
        if not table.kept:
            return
        match constraint:
            case CheckConstraint():
                violating, what = _false_of(table, constraint), f"CHECK ({constraint.text}) is false of"
            case UniqueConstraint():
                violating, what = (
                    self._repeated(table, constraint),
                    f"Several rows have the same {_listed(constraint)}:",
                )
            case ReferentialConstraint():
                violating, what = self._orphans(table, constraint), f'"{constraint.table}" has no row for'
        rows = self._first_of(violating)
        if rows:
            more = " and more" if len(rows) > SHOWN else ""
            raise DataError(
                f'"{table.name}" cannot have the constraint "{constraint.name}"',
                detail=f"{what} {', '.join(map(repr, rows[:SHOWN]))}{more}.",
                hint="Correct or delete these rows first. Nothing was changed.",
            )

    def _first_of(self, relation: Relation) -> list[Row]:
        """Some rows of a query, one more than are shown."""
        found = self._answer(relation, TopK(relation, (), (), SHOWN + 1)).zset()
        return sorted(found, key=repr)[: SHOWN + 1]

    def _repeated(self, table: Table, unique: UniqueConstraint) -> Relation:
        columns = ", ".join(map(quoted, unique.columns))
        there = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in unique.columns)
        return self._query(
            f"SELECT {columns} FROM {quoted(table.name)} WHERE {there} GROUP BY {columns} HAVING COUNT(*) > 1"
        )

    def _orphans(self, table: Table, reference: ReferentialConstraint) -> Relation:
        """The rows that name no row of the parent; all that name one if there is no such table."""
        parent = self._state.catalog.tables.get(reference.table)
        there = " AND ".join(f"c.{quoted(name)} IS NOT NULL" for name in reference.columns)
        query = f"SELECT c.* FROM {quoted(table.name)} AS c"
        if parent is not None:
            named = zip(reference.columns, reference.referenced or parent.primary_key, strict=True)
            match = " AND ".join(f"c.{quoted(own)} = p.{quoted(other)}" for own, other in named)
            query = f"{query} LEFT ANTI JOIN {quoted(parent.name)} AS p ON {match}"
        return self._query(f"{query} WHERE {there}")

    def _query(self, text: str) -> Relation:
        return translate(text, self._state.catalog.relations).relation


def _false_of(table: Table, check: CheckConstraint) -> Relation:
    scan = Scan(table.name, table.name, table.fields)
    columns = {field.name: column(inner) for field, inner in zip(table.fields, scan.fields, strict=True)}
    condition = substitute(check_condition(table, check), columns)
    return Filter(scan, Call("not", (condition,), BOOLEAN))


def _listed(unique: UniqueConstraint) -> str:
    return ", ".join(unique.columns)
