"""``WITH RECURSIVE``: a common table expression that reads itself.

It is a UNION [ALL] whose first part does not read it and gives its columns and types, and whose other parts do. These
compute new rows from the rows last found. They must be *linear* in those: each reads them once, and the result for a
row does not depend on other rows. So the result for a row can be added and subtracted on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Recursive, Scan, UnionAll
from tidemill.algebra.relational.walk import children, expressions, outer_columns, subqueries, walk_all, with_children
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.table_grammar import LEVELS
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.query.context import NamedRelation, QueryContext
from tidemill.model.errors import ParseError, TextLocation, TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, Field

ROW_BY_ROW = (r.Filter, r.Project, r.Unnest)
"""Nodes that work row by row."""

NONLINEAR_OPERATORS: dict[type[Relation], tuple[str, str]] = {
    r.Aggregate: ("under GROUP BY or an aggregate", "the result of a group depends on all of its rows"),
    r.Distinct: ("under DISTINCT or UNION", "whether a row is new depends on the rows before it"),
    r.OuterJoin: ("in an outer join", "whether a row has a partner depends on all rows of the other side"),
    r.Intersect: ("under INTERSECT", "whether a row stays depends on its count on both sides"),
    r.Except: ("under EXCEPT", "whether a row stays depends on its count on both sides"),
    r.Repeat: ("in a set operation", "whether a row stays depends on its count on both sides"),
    r.TopK: ("under LIMIT", "which rows are first depends on all of them"),
    r.Window: ("under a window function", "the result for a row depends on the rows around it"),
    Match: ("under a pattern", "which rows match depends on the rows around them"),
    r.Recursive: ("within another recursive query", "each iteration of the one would be a recursion of the other"),
}
"""The operators under which a recursive part cannot read its own rows, and why."""

REFUSED_CLAUSES = {"order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET"}


def split_recursion(node: exp.CTE, source: SqlText) -> tuple[exp.Expr, list[exp.Expr]]:
    """The base of a common table expression, and the parts that read it: none where it is not recursive."""
    name, whole = node.alias.lower(), node.this
    if not _mentions(whole, name):
        return whole, []
    _refuse_clauses(whole, source)
    _refuse_reading_below(node, source)
    first = whole
    steps: list[exp.Expr] = []
    while isinstance(first, exp.Union) and first.args.get("distinct") == whole.args.get("distinct"):
        if not _mentions(first.expression, name):
            break
        mark_translated(first)
        steps.insert(0, first.expression)
        first = first.this
    if not steps or _mentions(first, name):
        raise ParseError(
            f'"{name}" reads itself, but has no part that does not',
            where=source.place(node),
            hint="Write WITH RECURSIVE t AS (SELECT ... UNION ALL SELECT ... FROM t ...); the first part comes first.",
        )
    return first, steps


def _mentions(node: exp.Expr, name: str) -> bool:
    """True if ``node`` reads table ``name``, and not a common table expression of its own that is called so."""
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        return node.name.lower() == name or any(_mentions(child, name) for child in node.iter_expressions())
    clause = node.args.get("with_")
    recursive = clause is not None and bool(clause.args.get("recursive"))
    for expression in clause.expressions if clause is not None else ():
        hides = expression.alias.lower() == name
        if not (hides and recursive) and _mentions(expression.this, name):
            return True
        if hides:
            return False
    return any(_mentions(child, name) for child in node.iter_expressions() if child is not clause)


def _refuse_clauses(node: exp.Expr, source: SqlText) -> None:
    for clause, word in REFUSED_CLAUSES.items():
        if node.args.get(clause):
            raise Unsupported(
                f"{word} is not allowed on the union of a recursive query",
                where=source.keyword(node, word.partition(" ")[0]),
                hint="Put it into the query that reads the recursive one.",
            )


def _refuse_reading_below(node: exp.CTE, source: SqlText) -> None:
    """Refuse a WITH on the union whose definitions read the recursive query."""
    clause = node.this.args.get("with_")
    for expression in clause.expressions if clause is not None else ():
        if _mentions(expression.this, node.alias.lower()):
            raise Unsupported(
                f'"{node.alias.lower()}" is read by a WITH before its first part',
                where=source.place(expression),
                hint="Put the WITH into the part of the union that reads it, in parentheses.",
            )


def from_recursion(
    context: QueryContext, node: exp.CTE, base: NamedRelation, steps: Sequence[exp.Expr]
) -> NamedRelation:
    """The rows of a common table expression that reads itself; ``base`` are those that it starts from."""
    name = node.alias.lower()
    # The alias is unique in the query, and no table has a name of two words.
    again = f"recursive {context.prefix.removesuffix('.')}"
    columns = _columns(base)

    def last_found(alias: str) -> NamedRelation:
        return replace(base, relation=Scan(again, alias, columns))

    within = replace(context, tables={**context.tables, name: last_found})
    inputs = []
    for tree in steps:
        step = _converted(within.rows(tree), base, context.source.place(tree))
        check_linear(step, again, name, context.source.place(tree))
        inputs.append(step)
    union = inputs[0] if len(inputs) == 1 else UnionAll(tuple(inputs))
    distinct = bool(node.this.args.get("distinct"))
    relation = Recursive(again, base.relation, union, distinct, _levels(node, distinct))
    if outer_columns(relation):
        raise Unsupported(
            f'"{name}" cannot read outer columns',
            where=context.source.place(node),
            detail="There would be a recursion for each outer row.",
            hint="Compute it for all rows at once, and join the result.",
        )
    return replace(base, relation=relation)


def _levels(node: exp.CTE, distinct: bool) -> int:
    """The most iterations that find rows: as MAX RECURSION LEVEL says, or 100 for UNION ALL, as in Spark."""
    written = node.args["alias"].args.get(LEVELS)
    if written is not None:
        return int(written.name)
    return r.DISTINCT_LEVELS if distinct else r.DEFAULT_LEVELS


DEPTH = "depth of recursion"
"""The column that counts the iterations of a recursion that LIMIT ends; no name in SQL has blanks."""


def limited_recursion(relation: Relation, count: int) -> Relation | None:
    """``relation`` with a last column that has the iteration of each row, of which ``count`` are wanted.

    ``relation`` is a recursion with UNION ALL, perhaps with projections above it; None for any other. Each iteration
    finds a row or is the last, so the first ``count`` rows are among those of as many iterations. One iteration beyond
    the allowed ones is computed, so that it can be told whether the recursion goes on.
    """
    match relation:
        case r.Project(input=input_, outputs=outputs):
            below = limited_recursion(input_, count)
            return None if below is None else r.Project(below, (*outputs, _depth(below)))
        case Recursive(name=name, base=base, step=step, distinct=False, levels=levels):
            first = r.Project(base, (*all_columns(base), Named(DEPTH, Literal(0, BIGINT))))
            return Recursive(name, first, _counted(step, name, min(count - 1, levels)), False, levels, count)
    return None


def _depth(relation: Relation) -> Named:
    return Named(DEPTH, next(column(f) for f in relation.fields if f.name == DEPTH))


def _counted(node: Relation, again: str, count: int) -> Relation:
    """A recursive part with the number of its iteration as its last column; ``count`` is the last number."""
    if isinstance(node, Scan):
        scan = replace(node, columns=(*node.columns, Field("depth", BIGINT, nullable=False)))
        depth = column(scan.fields[-1])
        rows = r.Filter(scan, call("lt", depth, Literal(count, BIGINT)))
        following = Named(DEPTH, call("add", depth, Literal(1, BIGINT)))
        return r.Project(rows, (*(Named(f.name, column(f)) for f in node.fields), following))
    below = [_counted(child, again, count) if reads(child, again) else child for child in children(node)]
    made = with_children(node, below)
    if isinstance(node, UnionAll):
        return made
    if isinstance(node, r.Project):
        return r.Project(below[0], (*node.outputs, _depth(below[0])))
    return r.Project(made, (*(Named(f.name, column(f)) for f in node.fields), _depth(made)))


def _columns(base: NamedRelation) -> tuple[Field, ...]:
    """The columns of the rows last found, all nullable, since the recursive parts are not translated yet."""
    taken: list[str] = []
    for name in base.names:
        taken.append(fresh(name, taken))
    return tuple(Field(name, f.type) for name, f in zip(taken, base.relation.fields, strict=True))


def _converted(step: NamedRelation, base: NamedRelation, place: TextLocation) -> Relation:
    """A recursive part under the names and types of the first part, which are those of the whole."""
    if len(step.names) != len(base.names):
        raise TypeMismatch(
            f"UNION of {len(base.names)} and {len(step.names)} columns", where=place, hint="Each part has the same."
        )
    outputs = []
    for name, wanted, given in zip(base.names, base.relation.fields, step.relation.fields, strict=True):
        if common_type([wanted.type, given.type]) != wanted.type:
            raise TypeMismatch(
                f'column "{name}" starts as {wanted.type}, and then is {given.type}',
                where=place,
                detail="The columns of a recursive query have the types of its first part.",
                hint=f"Use CAST({name} AS {given.type}) in the first part, or CAST(... AS {wanted.type}) in this one.",
            )
        outputs.append(Named(wanted.name, convert(column(given), wanted.type)))
    return r.Project(step.relation, tuple(outputs))


def check_linear(step: Relation, again: str, name: str, place: TextLocation | None = None) -> None:
    """Refuse a recursive part that reads ``again``, the rows of ``name`` that were last found, other than once."""
    if not reads(step, again):
        raise _refused(
            name,
            "by some parts of a UNION ALL only",
            "the other parts would return their rows in each iteration",
            place,
        )
    for node in _around(step, again):
        if isinstance(node, UnionAll):
            for part in node.inputs:
                check_linear(part, again, name, place)
            return
        if any(reads(subquery.relation, again) for scalar in expressions(node) for subquery in subqueries(scalar)):
            raise _refused(name, "in a subquery of an expression", "its value depends on all rows", place)
        if sum(reads(child, again) for child in children(node)) > 1:
            raise _refused(name, "twice", "the result for one row would depend on the others", place)
        preserved = isinstance(node, r.OuterJoin) and _keeps_its_rows(node, again)
        if not preserved and not isinstance(node, (*ROW_BY_ROW, r.Join)):
            raise _refused(name, *NONLINEAR_OPERATORS[type(node)], place)


def _keeps_its_rows(join: r.OuterJoin, again: str) -> bool:
    """True for a LEFT or RIGHT JOIN that keeps the rows last found: what becomes of one depends on it alone."""
    kept = (join.left, join.keeps_left, join.keeps_right), (join.right, join.keeps_right, join.keeps_left)
    return any(reads(side, again) and keeps and not other for side, keeps, other in kept)


_NOWHERE = Scan("", "", ())


def _around(node: Relation, again: str) -> Iterator[Relation]:
    """The nodes above the scan of ``again``, from the root down its first such branch."""
    while not isinstance(node, Scan):
        yield node
        node = next((child for child in children(node) if reads(child, again)), _NOWHERE)


def reads(relation: Relation, name: str) -> bool:
    """True if ``relation`` scans relation ``name``, be it in a subquery of an expression."""
    return any(isinstance(node, Scan) and node.relation == name for node in walk_all(relation))


def _refused(name: str, where: str, why: str, place: TextLocation | None) -> Unsupported:
    return Unsupported(
        f'"{name}" cannot read itself {where}',
        where=place,
        detail=f"Each iteration reads the rows of the one before, one by one; {why}.",
        hint="Join, filter and compute with its rows in the recursive part; do the rest in the query that reads it.",
    )
