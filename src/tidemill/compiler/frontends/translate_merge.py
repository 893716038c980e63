"""MERGE to algebra: for each clause the rows that it changes, as queries over the table and the source.

A row takes the first clause for it whose condition holds, so the query of a clause excludes the conditions of those
before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project
from tidemill.compiler.frontends.script.statements import Merge, MergeClause
from tidemill.compiler.frontends.sql.expressions.stars import bound_column
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions, default_value, is_default
from tidemill.compiler.frontends.sql.names.assignments import Path, assigned_value, column_path
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.compiler.frontends.translate import converted_assignment, translate
from tidemill.model.errors import ParseError
from tidemill.model.schema import RelationFields, Table, names_of

__all__ = ["ClauseRows", "MergeQueries", "translate_merge"]


@dataclass(frozen=True)
class ClauseRows:
    """The rows of a clause: old columns if it has ``old`` rows, then new ones if it has ``new`` ones."""

    relation: Relation
    old: bool
    new: bool


@dataclass(frozen=True)
class MergeQueries:
    """All rows that a MERGE changes, and what tells if a row of the table matches several of the source.

    ``matches`` has each row of the table as often as it matches, ``matched`` once; both are None where that may be.
    """

    clauses: tuple[ClauseRows, ...]
    matches: Relation | None
    matched: Relation | None


def translate_merge(
    statement: Merge, table: Table, relations: RelationFields, named: NamedDefinitions, moment: datetime
) -> MergeQueries:
    """The queries of a MERGE over the known ``relations``; NOW() in it is ``moment``."""
    return _MergeTranslator(statement, table, relations, named, moment).queries()


class _MergeTranslator:
    def __init__(
        self, statement: Merge, table: Table, relations: RelationFields, named: NamedDefinitions, moment: datetime
    ) -> None:
        self._statement = statement
        self._table = table
        self._relations = relations
        self._named = named
        self._moment = moment
        self._names = names_of(table.fields)
        self._target = exp.alias_(
            exp.Table(this=exp.to_identifier(table.name, quoted=True)), statement.alias, table=True
        )

    def queries(self) -> MergeQueries:
        clauses = self._statement.clauses
        found = tuple(self._clause(clause, clauses[:place]) for place, clause in enumerate(clauses))
        matching = [clause for clause in clauses if clause.rows == "matched"]
        if not matching or (len(matching) == 1 and matching[0].action == "delete" and matching[0].condition is None):
            return MergeQueries(found, None, None)
        exists = self._existing(self._source)
        return MergeQueries(
            found,
            self._translated(self._pairs().select(*self._old())),
            None if self._table.primary_key else self._translated(self._rows(self._target).where(exists)),
        )

    # -- queries ------------------------------------------------------------------------------------------------------

    @property
    def _source(self) -> exp.Expr:
        return self._statement.source.node

    def _on(self) -> exp.Expr:
        return self._statement.condition.node.copy()

    def _old(self) -> list[exp.Expr]:
        """The columns of the table, under names that no other column has."""
        named = enumerate(self._names)
        return [exp.alias_(_column(name, self._statement.alias), f"old {place}", quoted=True) for place, name in named]

    def _pairs(self) -> exp.Select:
        """The pairs of rows that match."""
        return exp.select().from_(self._target.copy()).join(self._source.copy(), on=self._on(), join_type="inner")

    def _rows(self, relation: exp.Expr) -> exp.Select:
        query = exp.select().from_(relation.copy())
        return query.select(*self._old()) if relation is self._target else query

    def _existing(self, other: exp.Expr) -> exp.Exists:
        """True for rows that match some row of ``other``."""
        return exp.Exists(this=exp.select(exp.Literal.number(1)).from_(other.copy()).where(self._on()))

    def _clause(self, clause: MergeClause, before: Sequence[MergeClause]) -> ClauseRows:
        if clause.rows == "matched":
            query = self._pairs().select(*self._old())
        elif clause.rows == "not matched":
            query = self._rows(self._source).where(exp.not_(self._existing(self._target)))
        else:
            query = self._rows(self._target).where(exp.not_(self._existing(self._source)))
        for earlier in before:
            if earlier.rows == clause.rows and earlier.condition is not None:
                known = exp.Anonymous(this="COALESCE", expressions=[earlier.condition.node.copy(), exp.false()])
                query = query.where(exp.not_(known))
        if clause.condition is not None:
            query = query.where(clause.condition.node.copy())
        if clause.action == "delete":
            return ClauseRows(self._translated(query), True, False)
        return self._with_new_rows(query, clause)

    def _translated(self, query: exp.Select) -> Relation:
        tree = ParsedText(query, self._statement.source.source)
        return translate(tree, self._relations, "merge", named=self._named, moment=self._moment).relation

    # -- new rows -----------------------------------------------------------------------------------------------------

    def _with_new_rows(self, query: exp.Select, clause: MergeClause) -> ClauseRows:
        """The rows of a clause that updates or inserts."""
        paths, values = [], []
        for path, value in self._assignments(clause):
            paths.append(path)
            values.append(value)
        aliased = [exp.alias_(value, f"new {place}", quoted=True) for place, value in enumerate(values)]
        updates = clause.action == "update"
        rows = self._translated(query.select(*aliased) if values else query)
        width = len(self._names) if updates else 0
        given: dict[str, dict[Path, Scalar]] = {}
        for (name, *below), field in zip(paths, rows.fields[width:], strict=True):
            given.setdefault(name, {})[tuple(below)] = column(field)
        new = []
        for place, field in enumerate(self._table.fields):
            default = default_value(dict(self._table.defaults).get(field.name), field.type)
            current = column(rows.fields[place]) if updates else default
            values_of = given.get(field.name)
            made = (
                assigned_value(field.type, current, values_of, field.name, lambda: self._statement.place)
                if values_of
                else current
            )
            new.append(converted_assignment(field, made, self._statement.place, "changed "))
        old = all_columns(rows)[:width]
        return ClauseRows(Project(rows, (*old, *new)), updates, True)

    def _assignments(self, clause: MergeClause) -> list[tuple[Path, exp.Expr]]:
        """The new value of each column, or member of one, that a clause sets."""
        if clause.assignments is None:
            return [((name,), _column(name, self._source.alias_or_name)) for name in self._names]
        found: list[tuple[Path, exp.Expr]] = []
        for parts, tree in clause.assignments:
            path = column_path(parts, self._statement.alias, self._names)
            place = tree.source.place(tree.node.parent or tree.node)
            if path[0] not in self._names:
                raise unknown_name("column", path[0], self._names, place)
            if path in [other for other, _ in found]:
                raise ParseError(f'column "{".".join(path)}" is assigned twice', where=place)
            found.append((path, self._default(path[0]) if is_default(tree) else tree.node.copy()))
        return found

    def _default(self, name: str) -> exp.Expr:
        of = next(field.type for field in self._table.fields if field.name == name)
        return bound_column("default", default_value(dict(self._table.defaults).get(name), of))


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
