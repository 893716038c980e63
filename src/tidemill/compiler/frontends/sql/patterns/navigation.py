"""Navigation in expressions over the rows of a pattern: ``a.loss``, ``d[i-1].loss``, ``SUM(d.loss)``, ``PREV(price)``.

Each becomes a ``Navigation`` of the algebra (``algebra.matching.navigation``), and a column of its name takes its
place. The rest is an expression like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, function_of
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Scalar, column
from tidemill.algebra.relational.match import CLASSIFIER, MATCH_NUMBER, ROW_NAVIGATIONS, Navigation
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.frontends.sql.aggregation.aggregates import AggregateSyntax, aggregate_call, is_aggregate
from tidemill.compiler.frontends.sql.aggregation.arguments import AggregateArguments
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import MARK, mark_translated
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import ParseError, Unsupported
from tidemill.model.types import BIGINT, STRING, Date, DayTimeInterval, Timestamp, YearMonthInterval

MATCH_ROWTIME = "match_rowtime"
"""MATCH_ROWTIME(): the time of the last row of a match."""

NAVIGATION_OFFSETS = {"prev": -1, "previous": -1, "next": 1}
"""Functions that navigate to rows before or after one."""

SUBSCRIPT_VARIABLE = "i"
"""The name in a subscript for the row of a variable that is being tried."""


@dataclass(frozen=True)
class NavigationOperand:
    """An expression over columns of one row, and the rows of a run that it is evaluated for.

    ``earlier`` leaves out the row that is being tried; ``offset`` is counted from the last row, or from the first one.
    """

    node: exp.Expr | None
    variable: str | None = None
    first: bool = False
    offset: int = 0
    earlier: bool = False


@dataclass
class NavigationCollector:
    """The navigations that expressions need. ``rows`` translates expressions over the columns of a row.

    ``variables`` are the qualifiers of columns, each with the pattern variables that it stands for.
    With ``bare`` a column without one is left as it is: it is one of the current row. ``order`` is that of the rows of
    a partition. If rows of no match are output, in which all navigations are NULL, it is ``unmatched``.
    """

    rows: ExpressionTranslator
    variables: Mapping[str, tuple[str, ...]]
    names: NameAllocator
    prefix: str = ""
    order: tuple[SortOrder, ...] = ()
    bare: bool = False
    unmatched: bool = False
    navigations: dict[Navigation, Navigation] = field(default_factory=dict)

    def scalar(self, node: exp.Expr, *, condition: bool = False) -> Scalar:
        """The scalar of an expression over the columns of navigations; a condition where one is wanted."""
        if condition and any(part.name.lower() == MATCH_ROWTIME for part in node.find_all(exp.Anonymous)):
            raise ParseError("MATCH_ROWTIME is for measures", where=self.rows.source.place(node))
        replaced = self.replace_navigation(node)
        expressions = self.rows.over(self.scope)
        return expressions.condition(replaced) if condition else expressions.scalar(replaced)

    @property
    def scope(self) -> Scope:
        """The navigations as columns, under names that no query can use."""
        return Scope(
            tuple(
                Binding("", navigation.name, self._column(navigation), hidden=True)
                for navigation in self.navigations.values()
            )
        )

    def _column(self, navigation: Navigation) -> Column:
        field = navigation.field
        return column(replace(field, nullable=field.nullable or self.unmatched))

    def replace_navigation(self, node: exp.Expr, *, final: bool = False) -> exp.Expr:
        """``node`` with a column in place of each navigation."""
        if isinstance(node, exp.Query) or node.find(exp.Query):
            raise Unsupported("a pattern cannot contain a subquery", where=self.rows.source.place(node))
        return node.transform(lambda part: self._placeholder(part, final))

    def _placeholder(self, node: exp.Expr, final: bool) -> exp.Expr:
        navigation = self._navigation_of(node)
        if navigation is None:
            return node
        name = self._known(replace(navigation, final=final)).name
        return _placeholder(name, node)

    def _known(self, navigation: Navigation) -> Navigation:
        """A navigation under a new name, or the name of an equal one."""
        if navigation not in self.navigations:
            self.navigations[navigation] = replace(
                navigation, name=self.names.take(f"{self.prefix}{navigation.function}")
            )
        return self.navigations[navigation]

    def count_of(self, variable: str | None) -> Scalar:
        """The number of rows of a variable, or of all, with the one that is being tried."""
        variables = () if variable is None else (variable,)
        return self._column(self._known(Navigation("", "count", None, BIGINT, variables)))

    def within(self, interval: exp.Expr, clause: exp.Expr) -> Scalar:
        """The condition that a row comes less than an interval after the first row of the run."""
        time, length = self._time(clause, "WITHIN"), self.rows.scalar(interval)
        if not isinstance(length.type, DayTimeInterval | YearMonthInterval) or columns_in(length):
            place = self.rows.source.place(interval)
            raise ParseError("WITHIN takes an interval", where=place, hint="Write WITHIN INTERVAL 10 MINUTES.")
        first, last = (self._known(Navigation("", name, time, time.type)).name for name in ("first", "last"))
        end = exp.Add(this=_placeholder(first, interval), expression=interval)
        condition = exp.LT(this=_placeholder(last, interval), expression=end)
        return self.rows.over(self.scope).condition(_at(condition, interval))

    def _time(self, node: exp.Expr, asking: str) -> Scalar:
        """The column of time that rows are ordered by first."""
        first = self.order[0] if self.order else None
        if first is None or first.descending or not isinstance(first.scalar.type, Timestamp | Date):
            raise Unsupported(
                f"{asking} needs rows in the order of their time",
                where=self.rows.source.place(node),
                hint="Begin ORDER BY with a column of type TIMESTAMP or DATE, ascending.",
            )
        return first.scalar

    def pick(self, function: str, scalar: Scalar) -> Scalar:
        """The value of a scalar in the first or the last row of the run."""
        return column(self._known(Navigation("", function, scalar, scalar.type)).field)

    # ---------------------------------------------------------------------------------------------------- one node

    def _navigation_of(self, node: exp.Expr) -> Navigation | None:
        match node:
            case exp.Anonymous() if node.name.lower() in (CLASSIFIER, MATCH_NUMBER) and not node.expressions:
                of = STRING if node.name.lower() == CLASSIFIER else BIGINT
                return Navigation("", node.name.lower(), None, of)
            case exp.Anonymous() if node.name.lower() == MATCH_ROWTIME and not node.expressions:
                time = self._time(node, "MATCH_ROWTIME")
                return Navigation("", "last", time, time.type, final=True)
            case exp.Anonymous() if node.name.lower() in (*ROW_NAVIGATIONS, *NAVIGATION_OFFSETS):
                return self._picked(node)
            case exp.Anonymous() if is_aggregate(node.name.lower()):
                return self._total(node)
            case exp.Filter() | exp.WithinGroup() | exp.Window():
                raise Unsupported(
                    "in a pattern an aggregate has no further clauses", where=self.rows.source.place(node)
                )
            case exp.Column() | exp.Dot() | exp.Bracket():
                return self._value(node)
        return None

    def _value(self, node: exp.Expr) -> Navigation | None:
        """A column of the last row of a variable, or of that which a subscript names."""
        operand = self._operand(node)
        if operand.variable is None and (self.bare or not isinstance(node, exp.Column)):
            return None
        self._refuse_slice(operand, node)
        return self._pick("first" if operand.first else "last", operand)

    def _picked(self, node: exp.Anonymous) -> Navigation:
        """FIRST, LAST, PREV and NEXT, one within another."""
        name = node.name.lower()
        inner, times = self._arguments(node)
        if name in NAVIGATION_OFFSETS:
            nested = inner if isinstance(inner, exp.Anonymous) and inner.name.lower() in ROW_NAVIGATIONS else None
            navigation = self._pick_of(inner, "last", 0) if nested is None else self._picked(nested)
            mark_translated(inner)
            return replace(navigation, step=NAVIGATION_OFFSETS[name] * (1 if times is None else times))
        return self._pick_of(inner, name, times or 0)

    def _pick_of(self, node: exp.Expr, function: str, offset: int) -> Navigation:
        operand = self._operand(node)
        self._refuse_slice(operand, node)
        if operand.first or operand.offset:
            raise ParseError("use a navigation function or a subscript, not both", where=self.rows.source.place(node))
        return self._pick(function, replace(operand, offset=offset))

    def _arguments(self, node: exp.Anonymous) -> tuple[exp.Expr, int | None]:
        place = self.rows.source.place(node)
        if not 1 <= len(node.expressions) <= 2:
            raise ParseError(f"{node.name.upper()} takes a value, and how many rows away", where=place)
        first, *rest = node.expressions
        if rest and not (isinstance(rest[0], exp.Literal) and rest[0].name.isdigit()):
            raise ParseError(f"{node.name.upper()} takes a number of rows", where=place)
        mark_translated(*rest)
        return first, int(rest[0].name) if rest else None

    def _pick(self, function: str, operand: NavigationOperand) -> Navigation:
        assert operand.node is not None
        scalar = self.rows.scalar(operand.node)
        return Navigation("", function, scalar, scalar.type, self._meant(operand), operand.offset)

    def _total(self, node: exp.Anonymous) -> Navigation:
        """An aggregate over the rows of a variable, or of all of them."""
        source = self.rows.source
        written = AggregateSyntax(node)
        mark_translated(*(argument for argument in node.expressions if isinstance(argument, exp.Distinct)))
        operands = [self._operand(argument) for argument in written.arguments]
        for operand in operands:
            if operand.first or operand.offset:
                raise ParseError("an aggregate is over rows up to one: [..i] or [..i-1]", where=source.place(node))
        given = tuple(self.rows.scalar(operand.node) for operand in operands if operand.node is not None)
        with source.locating(node):
            call = aggregate_call(AggregateArguments(node.name.lower(), given, written.distinct))
        if function_of(call).fold is None or call.filter is not None or call.others:
            known = sorted(name.upper() for name, one in AGGREGATE_FUNCTIONS.items() if one.fold is not None)
            raise Unsupported(
                f"in a pattern there is no {node.name.upper()}",
                where=source.place(node),
                hint=f"There is {', '.join(known)}.",
            )
        meant = operands[0] if operands else NavigationOperand(None)
        variables, distinct = self._meant(meant), call.distinct and not function_of(call).idempotent
        return Navigation(
            "", call.function, call.argument, call.of, variables, earlier=meant.earlier, distinct=distinct
        )

    def _meant(self, operand: NavigationOperand) -> tuple[str, ...]:
        return () if operand.variable is None else self.variables[operand.variable]

    # -------------------------------------------------------------------------------------------------- one operand

    def _operand(self, node: exp.Expr) -> NavigationOperand:
        """An expression without the variables in it, all of which must be one; a star is of no column."""
        marks = list(self.variables_in(node))
        if len({(mark.variable, mark.first, mark.offset, mark.earlier) for mark in marks}) > 1:
            raise Unsupported(
                "a navigation is over one variable",
                where=self.rows.source.place(node),
                hint="Navigate to each variable by itself, and compute with the values.",
            )
        stripped = node.transform(self._stripped)
        plain = None if isinstance(stripped, exp.Star) else stripped
        if plain is None:
            mark_translated(node)
        return replace(marks[0], node=plain) if marks else NavigationOperand(plain)

    def variables_in(self, node: exp.Expr) -> Iterator[NavigationOperand]:
        """The variables in an expression, with their subscripts."""
        for part in node.walk(prune=lambda part: isinstance(part, exp.Bracket) and self._of_bracket(part) is not None):
            if isinstance(part, exp.Bracket):
                marked = self._of_bracket(part)
                if marked is not None:
                    yield marked
            elif isinstance(part, exp.Column) and self._qualifier(part) is not None:
                yield NavigationOperand(None, self._qualifier(part))

    def _stripped(self, node: exp.Expr) -> exp.Expr:
        """A column of a variable as one of the row; it was ``a.loss``, ``d[i].loss`` or ``d.*``."""
        if isinstance(node, exp.Column) and self._qualifier(node) is not None:
            _, *parts = node.parts
            if isinstance(parts[0], exp.Star):
                mark_translated(node, parts[0])
                return exp.Star()
            return _at(exp.Column(**dict(zip(("this", "table", "db"), reversed(parts), strict=False))), node)
        if isinstance(node, exp.Dot) and isinstance(node.this, exp.Bracket) and self._of_bracket(node.this) is not None:
            return exp.Star() if isinstance(node.expression, exp.Star) else _at(exp.Column(this=node.expression), node)
        return node

    def _qualifier(self, node: exp.Column) -> str | None:
        """The variable before a column."""
        parts = [part.name.lower() for part in node.parts]
        return parts[0] if len(parts) > 1 and parts[0] in self.variables else None

    def _of_bracket(self, node: exp.Bracket) -> NavigationOperand | None:
        """The rows that ``d[1]``, ``d[i-1]`` or ``d[..i-1]`` means; None where d is no variable."""
        name = node.this.name.lower() if isinstance(node.this, exp.Column) and len(node.this.parts) == 1 else ""
        if name not in self.variables or len(node.expressions) != 1:
            return None
        (index,) = node.expressions
        mark_translated(*node.walk())
        if isinstance(index, exp.Slice):
            before = None if index.this else _before_ith(index.expression)
            if before in (0, 1):
                return NavigationOperand(None, name, earlier=before == 1)
        elif isinstance(index, exp.Literal) and index.name.isdigit() and int(index.name):
            return NavigationOperand(None, name, first=True, offset=int(index.name) - 1)
        elif (before := _before_ith(index)) is not None:
            return NavigationOperand(None, name, offset=before)
        raise ParseError(
            "this subscript selects no row of a variable",
            where=self.rows.source.place(node),
            hint=f"Write {name}[1], {name}[i], {name}[i-1]; or {name}[..i] and {name}[..i-1] in an aggregate.",
        )

    def _refuse_slice(self, operand: NavigationOperand, node: exp.Expr) -> None:
        sliced = (part for part in node.walk() if isinstance(part, exp.Slice))
        if operand.earlier or any(sliced):
            raise ParseError("a range of rows is allowed in an aggregate only", where=self.rows.source.place(node))


def _placeholder(name: str, node: exp.Expr) -> exp.Expr:
    """The column of a navigation, in place of ``node``."""
    return _at(exp.Column(this=exp.Identifier(this=name, quoted=True)), node)


POSITION_KEYS = ("line", "col", "start", "end")
"""The keys of a node's position in its metadata."""


def _at(node: exp.Expr, original: exp.Expr) -> exp.Expr:
    """A node with the position and the mark of another one."""
    for part in original.walk():
        node.meta.update({key: value for key, value in part.meta.items() if key in POSITION_KEYS})
    if MARK in original.meta:
        node.meta[MARK] = original.meta[MARK]
    return node


def _before_ith(node: exp.Expr | None) -> int | None:
    """The distance of ``i`` or ``i - n`` from the i-th row."""
    match node:
        case exp.Column() if node.sql().lower() == SUBSCRIPT_VARIABLE:
            return 0
        case exp.Sub(this=exp.Column() as row, expression=exp.Literal() as distance) if (
            row.sql().lower() == SUBSCRIPT_VARIABLE
        ):
            return int(distance.name) if distance.name.isdigit() else None
    return None
