"""GROUP BY: the aggregates of a SELECT, and its expressions rewritten over the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field
from tidemill.algebra.expressions import collations
from tidemill.algebra.expressions.map_keys import holds_map, maps_of_entries, sorted_entries
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate
from tidemill.algebra.relational.walk import children, columns_in, with_children
from tidemill.algebra.text import function_text
from tidemill.compiler.frontends.sql.aggregation.aggregates import AggregateSyntax, aggregate_call, is_aggregate
from tidemill.compiler.frontends.sql.aggregation.arguments import AggregateArguments
from tidemill.compiler.frontends.sql.aggregation.grouping_sets import GroupingSets
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, INT, TINYINT


@dataclass
class SelectGrouping:
    """The keys and aggregates of one SELECT.

    Aggregates are collected while expressions are translated: each becomes a column named after it, equal ones the same
    column. ``over_groups`` then turns an expression over the input's rows into one over the groups. ``local_columns``
    are the columns of these rows: all others in an expression are outer columns, or those of a subquery.
    ``star`` are those that a star stands for.
    ``is_grand_total``: grouped by the empty set alone, by GROUPING SETS (()).
    """

    source: SqlText
    operand: Callable[[exp.Expr], Scalar]
    condition: Callable[[exp.Expr], Scalar]
    local_columns: frozenset[str]
    prefix: str = ""
    star: tuple[Column, ...] = ()
    keys: list[Named] = field(default_factory=list)
    calls: dict[AggregateCall, Column] = field(default_factory=dict)
    names: NameAllocator = field(default_factory=NameAllocator)
    sets: GroupingSets | None = None
    is_grand_total: bool = False
    grouping_calls: dict[str, tuple[exp.Expr, tuple[Scalar, ...]]] = field(default_factory=dict)

    def aggregate(self, written: AggregateSyntax) -> Column:
        """The column that holds an aggregate."""
        call = self.call(written)
        if call not in self.calls:
            self.calls[call] = column(aggregate_field(replace(call, name=self._name(_readable(call)))))
        return self.calls[call]

    def call(self, written: AggregateSyntax) -> AggregateCall:
        """The aggregate call, without a name."""
        mark_translated(written.node)
        nodes, star = written.arguments, written.name == "count" and _is_star(written.node.expressions)
        if written.name == "count" and not star and any(isinstance(node, exp.Star) for node in nodes):
            return self._counted_columns(written)
        if not nodes and not written.order:
            raise TypeMismatch(
                f"{function_text(written.name)} needs an argument", where=self.source.place(written.node)
            )
        if _is_star(nodes) and not star:
            place = self.source.place(written.node)
            raise Unsupported(f"{written.name.upper()} takes no star", where=place, hint="List the columns.")
        if star:
            mark_translated(*nodes)
        arguments = () if star else tuple(map(self.operand, nodes))
        if written.distinct and written.name == "count":
            arguments = tuple(_comparable(collations.key(argument)) for argument in arguments)
        order = tuple(self._term(term) for term in written.order)
        looked_at = set().union(*map(columns_in, (*arguments, *(term.scalar for term in order))))
        if looked_at and looked_at.isdisjoint(self.local_columns):
            raise refusals.OUTER_AGGREGATE.at(self.source.place(written.node))
        condition = None if written.condition is None else self.condition(written.condition)
        with self.source.locating(written.node):
            return aggregate_call(
                AggregateArguments(written.name, arguments, written.distinct, condition, order, written.nulls)
            )

    def _counted_columns(self, written: AggregateSyntax) -> AggregateCall:
        """COUNT(DISTINCT *) and COUNT(*, x): a star among others stands for all columns."""
        stars = [node for node in written.arguments if isinstance(node, exp.Star)]
        if not self.star:
            raise Unsupported("COUNT takes this star over the columns of FROM", where=self.source.place(written.node))
        mark_translated(*stars)
        arguments: list[Scalar] = []
        for node in written.arguments:
            arguments += self.star if isinstance(node, exp.Star) else [self.operand(node)]
        condition = None if written.condition is None else self.condition(written.condition)
        with self.source.locating(written.node):
            return aggregate_call(AggregateArguments("count", tuple(arguments), written.distinct, condition))

    def _term(self, node: exp.Expr) -> SortOrder:
        return SortOrder(self.operand(node.this), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    def grouping_call(self, node: exp.Expr) -> Column:
        """GROUPING(key), GROUPING_ID() and GROUPING__ID as a column, which is replaced once GROUP BY has been read."""
        name = self._name(node.name.lower())
        self.grouping_calls[name] = (node, tuple(map(self.operand, node.expressions)))
        return Column(name, TINYINT if node.name.lower() == "grouping" else BIGINT, nullable=False)

    def group_by(self, sets: Sequence[Sequence[Scalar]]) -> None:
        """Group by each of ``sets``; their keys have been added."""
        known = {canonical(key.scalar): key.scalar for key in self.keys}
        sets = [[known[canonical(_comparable(scalar))] for scalar in one] for one in sets]
        number = Column(self._name("grouping_set"), INT, nullable=False)
        self.sets = GroupingSets(tuple(map(frozenset, sets)), number)

    def add_key(self, scalar: Scalar, name: str) -> None:
        """Group by ``scalar``, too; a column keeps its name. A map becomes its sorted entries."""
        scalar = _comparable(scalar)
        if all(canonical(key.scalar) != canonical(scalar) for key in self.keys):
            wish = scalar.name if isinstance(scalar, Column) else self.prefix + name
            self.keys.append(Named(self.names.take(wish), scalar))

    def _name(self, wish: str) -> str:
        return self.names.take(self.prefix + wish)

    def relation(self, input_: Relation) -> Aggregate:
        """The groups of ``input_``. Call it when every expression has been translated."""
        calls = tuple(replace(call, name=column_.name) for call, column_ in self.calls.items())
        if self.sets is not None:
            return self.sets.relation(input_, self.keys, calls)
        return Aggregate(input_, tuple(self.keys), calls)

    def over_groups(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """``scalar`` with columns of the groups in place of keys; any other column is refused."""
        sought = canonical(_comparable(scalar))
        for key in self.keys:
            if canonical(key.scalar) == sought:
                found = column(key.field) if self.sets is None else self.sets.key(key)
                return found if found.type == scalar.type else maps_of_entries(found, scalar.type)
        if isinstance(scalar, Column) and scalar.name in self.grouping_calls:
            return self._grouping_bits(*self.grouping_calls[scalar.name])
        if isinstance(scalar, Column) and scalar.name in self.local_columns:
            raise Unsupported(
                f'"{_short(scalar.name)}" is neither grouped by nor aggregated',
                where=self.source.place(node),
                detail="The rows of a group may have different values of it.",
                hint="Add it to GROUP BY, or put it into an aggregate.",
            )
        below: Sequence[Scalar] = children(scalar)
        return with_children(scalar, [self.over_groups(child, node) for child in below]) if below else scalar

    def _grouping_bits(self, node: exp.Expr, arguments: Sequence[Scalar]) -> Scalar:
        keys, place = [key.scalar for key in self.keys], self.source.place(node)
        arguments = [*map(_comparable, arguments)]
        if self.is_grand_total and node.name.lower() != "grouping" and not arguments:
            return Literal(0, BIGINT)
        if self.sets is None:
            raise Unsupported(f"{node.name.upper()} belongs to GROUPING SETS, ROLLUP or CUBE", where=place)
        if node.name.lower() == "grouping":
            if len(arguments) != 1 or arguments[0] not in keys:
                raise Unsupported("GROUPING takes a key of GROUP BY", where=place)
            return self.sets.grouping_bit(arguments[0])
        if arguments and arguments != keys:
            raise Unsupported("GROUPING_ID takes the keys of GROUP BY, all and in their order", where=place)
        return self.sets.identity(self.keys)


def _comparable(scalar: Scalar) -> Scalar:
    """``scalar`` as a key of groups."""
    return sorted_entries(scalar) if holds_map(scalar.type) else scalar


COMMUTATIVE = frozenset(("add", "multiply", "eq", "and", "or"))
"""Functions whose operands Spark takes in any order where it looks for equal expressions."""


def canonical(scalar: Scalar) -> Scalar:
    """``scalar`` with operands in one order where any will do: ``1 + k`` is grouped by with ``k + 1``."""
    below = [canonical(child) for child in children(scalar)]
    if isinstance(scalar, Call) and scalar.function in COMMUTATIVE:
        below.sort(key=repr)
    return with_children(scalar, below) if below else scalar


def _is_star(arguments: Sequence[exp.Expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], exp.Star)


def has_aggregate(node: exp.Expr) -> bool:
    """True if ``node`` needs groups. A subquery does not, nor a function before OVER; its operands may."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        return any(map(has_aggregate, _looked_at(node)))
    if isinstance(node, exp.Anonymous) and is_aggregate(node.name.lower()):
        return True
    return any(has_aggregate(child) for child in node.iter_expressions())


def _looked_at(window: exp.Window) -> Iterator[exp.Expr]:
    """The operands of a window function: its arguments, its FILTER, and those of OVER."""
    function = window.this
    while isinstance(function, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(function, exp.Filter | exp.WithinGroup):
            yield function.expression
        function = function.this
    yield from function.iter_expressions()
    yield from (part for part in window.iter_expressions() if part is not window.this)


def _readable(call: AggregateCall) -> str:
    name = function_text(call.function).lower()
    return f"{name}_{_short(call.argument.name)}" if isinstance(call.argument, Column) else name


def _short(name: str) -> str:
    return name.rpartition(".")[2]
