"""``ON CONFLICT`` of INSERT: what becomes of a row whose key is there already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from sqlglot import exp

from tidemill.compiler.frontends.script.assignments import Assignments, read_assignments
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.model.errors import ParseError, TextLocation, Unsupported

__all__ = ["ConflictClause", "read_conflict"]


@dataclass(frozen=True)
class ConflictClause:
    """``ON CONFLICT [(key)] DO NOTHING``, which has no ``assignments``, or ``DO UPDATE SET ... [WHERE ...]``.

    ``alias`` is the table's name in them, ``excluded`` that of the row that was to be inserted.
    """

    key: tuple[str, ...] | None
    assignments: Assignments
    where: ParsedText | None
    place: TextLocation = field(compare=False)
    alias: str = ""

    @property
    def updates(self) -> bool:
        """True for DO UPDATE."""
        return bool(self.assignments)

    @property
    def trees(self) -> Iterator[ParsedText]:
        """Its expressions."""
        yield from (tree for _, tree in self.assignments)
        yield from () if self.where is None else (self.where,)

    def called(self, alias: str) -> Self:
        """The same clause of an INSERT in which the table has this name."""
        return replace(self, alias=alias)


def read_conflict(node: exp.Expr | None, source: SqlText) -> ConflictClause | None:
    """The ON CONFLICT of an INSERT, if it has one."""
    if not isinstance(node, exp.OnConflict):
        return None
    place = source.place(node)
    if node.args.get("duplicate") or node.args.get("constraint") or node.args.get("index_predicate"):
        raise Unsupported(
            "a conflict is one of the primary key", where=place, hint="Write ON CONFLICT (key columns) DO ..."
        )
    action, where = node.args["action"].name.upper(), node.args.get("where")
    if action == "DO NOTHING" and where is None:
        return ConflictClause(_key(node, source), (), None, place)
    if action != "DO UPDATE" or not node.expressions:
        raise ParseError("ON CONFLICT does NOTHING, or UPDATE SET ...", where=place)
    guard = ParsedText(where.this, source) if where else None
    return ConflictClause(_key(node, source), read_assignments(node.expressions, source), guard, place)


def _key(node: exp.Expr, source: SqlText) -> tuple[str, ...] | None:
    """The columns that the clause names; None if it names none."""
    listed = node.args.get("conflict_keys")
    return None if listed is None else tuple(_column(one, source) for one in listed)


def _column(node: exp.Expr, source: SqlText) -> str:
    ordered = isinstance(node, exp.Ordered) and node.args.get("desc") is None
    column = node.this if ordered else node
    if isinstance(column, exp.Column) and len(column.parts) == 1:
        column = column.this
    if not isinstance(column, exp.Identifier):
        raise ParseError("the name of a column was expected here", where=source.place(node))
    return str(column.name).lower()
