"""``SELECT ... FROM s PATTERN (a, b, c, d+) WHERE a.loss > 10 ... GROUP BY src, dest``: patterns as in ViewDF.

GROUP BY gives the keys of the partitions. Each condition of WHERE belongs to the last of its variables in the pattern.
One with ``d[i]``, ``d[i-1]`` or ``d[..i-1]`` is for the second row of d and those after it, one with ``d[1]`` for the
first; all others are for every row. The list is over the row that completes the pattern, and navigates to the rows
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.algebra.matching.automaton import automaton_of
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import MATCH_NUMBER, WITHIN, Match, Navigation, RowsPerMatch
from tidemill.algebra.relational.row_patterns import anchors_in, excludes_rows
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import PatternOptions, pattern_options_of
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import column_label, is_star
from tidemill.compiler.frontends.sql.names.projections import project_to
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.patterns.match_recognize import variables_of
from tidemill.compiler.frontends.sql.patterns.navigation import NavigationCollector
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import ParseError, Unsupported
from tidemill.model.types import BIGINT, Date, Timestamp

CLAUSES_WITHOUT_PATTERN = ("joins", "laterals", "having", "qualify", "windows")
"""Clauses that a SELECT with a pattern does not have."""


def pattern_of(node: exp.Select) -> exp.MatchRecognize | None:
    """The PATTERN clause of a SELECT."""
    clause = node.args.get("from_")
    found = None if clause is None else clause.this.args.get("match")
    is_pattern = isinstance(found, exp.MatchRecognize) and pattern_options_of(found).output.rows is RowsPerMatch.EACH
    return found if is_pattern else None


def refuse_misplaced_pattern(item: exp.Expr, clause: exp.Expr, source: SqlText) -> None:
    """PATTERN belongs to the SELECT whose only item of FROM it stands after."""
    if not isinstance(item.parent, exp.From) or not isinstance(item.parent.parent, exp.Select):
        raise Unsupported(
            "PATTERN must follow the only item of FROM",
            where=source.place(clause),
            hint="Put the SELECT with the pattern into a subquery, and join that.",
        )


def from_pattern(
    node: exp.Select,
    relation: Relation,
    rows: ExpressionTranslator,
    extra: Sequence[exp.Expr],
    aliases: NameAllocator,
) -> tuple[exp.Select, Relation, Scope]:
    """A SELECT over the rows of ``relation`` that complete its pattern: the rest of the SELECT, and these rows.

    ``rows`` translates over the columns of ``relation``. ``extra`` are expressions beside the SELECT list.
    """
    clause = pattern_of(node)
    assert clause is not None
    options = pattern_options_of(clause)
    mark_translated(clause)
    source, scope = rows.source, rows.scope
    _refuse(node, options, clause, source)
    order = rows.sort_orders(clause.args.get("order")) or _time(scope, clause, source)
    collector = NavigationCollector(
        rows, variables_of(options, clause, source), NameAllocator(), f"{aliases.take('match')}.", order
    )
    keys = tuple(rows.scalar(key) for key in _keys(node, source))
    conditions = _VariableConditions(source, collector, options, keys).read(node.args.get("where"))
    if options.within is not None:
        conditions[WITHIN] = collector.within(options.within, clause)
    navigations = tuple(collector.navigations.values())
    collector.navigations, collector.bare = {}, True
    left = _left(node, collector)
    measures = tuple(collector.navigations.values())
    _refuse_numbers((*navigations, *measures), clause, source)
    match = Match(
        relation,
        () if options.strict else keys,
        order,
        options.pattern,
        tuple(conditions.items()),
        navigations,
        measures,
        RowsPerMatch.EACH,
        options.skips,
        options.skip,
    )
    shown = [*keys, *_columns(scope, [*left.expressions, *extra])]
    kept = [*match.partition, *(term.scalar for term in match.order), *match.navigation_arguments, *shown]
    return left, replace(match, input=project_to(relation, kept)), scope + collector.scope


def _refuse(node: exp.Select, options: PatternOptions, clause: exp.Expr, source: SqlText) -> None:
    if options.skip.variables:
        raise Unsupported(
            "AFTER MATCH SKIP of a PATTERN must be PAST LAST ROW or TO NEXT ROW",
            where=source.place(clause),
            hint="MATCH_RECOGNIZE can skip to a row of a variable.",
        )
    if anchors_in(options.pattern) or excludes_rows(options.pattern):
        raise Unsupported(
            "a PATTERN has no anchors and no exclusion",
            where=source.place(clause),
            detail="A row comes out whenever the pattern is complete, which at $ the next row would take back.",
            hint="MATCH_RECOGNIZE has ^, $ and {- -}.",
        )
    for name in CLAUSES_WITHOUT_PATTERN:
        found = node.args.get(name)
        if found:
            part = found[0] if isinstance(found, list) else found
            raise Unsupported(
                f"a SELECT with a PATTERN has no {name.upper().removesuffix('S')}",
                where=source.place(part),
                hint="Put it into a query around this one, or into a subquery in FROM.",
            )


def _refuse_numbers(navigations: Sequence[Navigation], clause: exp.Expr, source: SqlText) -> None:
    if any(navigation.function == MATCH_NUMBER for navigation in navigations):
        raise Unsupported("MATCH_NUMBER belongs to MATCH_RECOGNIZE", where=source.place(clause))


def _keys(node: exp.Select, source: SqlText) -> list[exp.Expr]:
    group = node.args.get("group")
    if group is None:
        return []
    for name, found in group.args.items():
        if found and name != "expressions":
            raise Unsupported("a pattern is grouped by keys alone", where=source.place(group))
    return list(group.expressions)


def _time(scope: Scope, clause: exp.Expr, source: SqlText) -> tuple[SortOrder, ...]:
    """Rows are ordered by their only column of type TIMESTAMP or DATE."""
    times: list[Binding] = []
    for kind in (Timestamp, Date):
        times = times or [binding for binding in scope.star() if isinstance(binding.column.type, kind)]
    if len(times) != 1:
        raise ParseError(
            "a pattern needs an order of rows",
            where=source.place(clause),
            detail=f"There are {len(times) or 'no'} columns of type TIMESTAMP or DATE; only a single one is a default.",
            hint="Add ORDER BY directly after the pattern: PATTERN (a, b+) ORDER BY ts.",
        )
    return (SortOrder(times[0].column),)


def _left(node: exp.Select, collector: NavigationCollector) -> exp.Select:
    """The SELECT with columns in place of navigations, without the clauses that the pattern has taken."""
    left = node.copy()
    for clause in ("where", "group"):
        left.set(clause, None)
    items = [item if isinstance(item, exp.Alias) or is_star(item) else _called(item) for item in left.expressions]
    left.set("expressions", [collector.replace_navigation(item) for item in items])
    return left


def _called(item: exp.Expr) -> exp.Expr:
    return exp.Alias(this=item, alias=exp.Identifier(this=column_label(item), quoted=True))


def _columns(scope: Scope, nodes: Sequence[exp.Expr]) -> Iterator[Scalar]:
    """The columns of the row that expressions name; a star names all."""
    for node in nodes:
        if isinstance(node, exp.Star) or any(is_star(part) for part in node.find_all(exp.Column)):
            yield from (binding.column for binding in scope.star())
        for part in node.find_all(exp.Column):
            found = None if is_star(part) else scope.find([name.name.lower() for name in part.parts])
            if found is not None:
                yield found[0]


class _VariableConditions:
    """Assigns the conditions of WHERE to variables."""

    def __init__(
        self, source: SqlText, collector: NavigationCollector, options: PatternOptions, keys: Sequence[Scalar]
    ) -> None:
        self._source = source
        self._collector = collector
        self._options = options
        self._keys = keys
        self._variables = automaton_of(options.pattern).variables

    def read(self, where: exp.Expr | None) -> dict[str, Scalar]:
        """The condition of each variable that has one."""
        found: dict[str, list[Scalar]] = {}
        for node in _conjuncts(where.this) if where is not None else ():
            variable = self._last(node)
            found.setdefault(variable, []).append(self._condition(node, variable))
        if self._options.strict:
            for variable in dict.fromkeys(self._variables):
                found.setdefault(variable, []).extend(self._same_key())
        joined = {variable: conjunction(conditions) for variable, conditions in found.items()}
        return {variable: condition for variable, condition in joined.items() if condition is not None}

    def _last(self, node: exp.Expr) -> str:
        """Of the variables in a condition, the last one in the pattern."""
        named = [mark.variable for mark in self._collector.variables_in(node)]
        if not named:
            raise Unsupported(
                "a condition beside a pattern names a variable",
                where=self._source.place(node),
                hint="Filter rows before they are matched in a subquery in FROM.",
            )
        places = {variable: place for place, variable in enumerate(self._variables)}
        return max((name for name in named if name is not None), key=places.__getitem__)

    def _condition(self, node: exp.Expr, variable: str) -> Scalar:
        """A condition that is true for the rows of the variable to which it does not apply."""
        condition = self._collector.scalar(node, condition=True)
        if _follows(node, variable):
            return call("or", call("eq", self._collector.count_of(variable), Literal(1, BIGINT)), condition)
        numbers = [
            mark.offset + 1 for mark in self._collector.variables_in(node) if mark.variable == variable and mark.first
        ]
        if numbers:
            return call("or", call("ne", self._collector.count_of(variable), Literal(max(numbers), BIGINT)), condition)
        return condition

    def _same_key(self) -> Iterator[Scalar]:
        """With strict contiguity, adjacent rows of the whole stream match only if they have the same key."""
        for key in self._keys:
            yield call("null_safe_eq", self._collector.pick("last", key), self._collector.pick("first", key))


def _follows(node: exp.Expr, variable: str) -> bool:
    """True for a condition on the i-th row of a variable, or on rows before that."""
    brackets = (part for part in node.find_all(exp.Bracket) if part.this.name.lower() == variable)
    return any(not isinstance(part.expressions[0], exp.Literal) for part in brackets)


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        mark_translated(node)
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
        mark_translated(node)
        yield from _conjuncts(node.this)
    else:
        yield node
