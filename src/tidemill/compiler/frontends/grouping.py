"""GROUP BY: which aggregates a SELECT needs, and its expressions rewritten over the groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.aggregates import AggregateCall, aggregate_type
from tidemill.algebra.coercion import convert
from tidemill.algebra.relations import Aggregate, Relation
from tidemill.algebra.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.walk import children, columns_in, with_children
from tidemill.compiler.frontends import refusals
from tidemill.compiler.frontends.names import Allotment
from tidemill.compiler.frontends.places import Source
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import DOUBLE, STRING, VOID

AGGREGATES = {"sum": "sum", "count": "count", "avg": "avg", "mean": "avg"}
"""The aggregates by every name that they have in SQL."""


@dataclass
class Grouping:
    """The keys and aggregates of one SELECT.

    Aggregates are collected while expressions are translated: each becomes a column named after it, equal ones the same
    column. ``over_groups`` then turns an expression over the input's rows into one over the groups. ``own`` are the
    columns of these rows: all others in an expression come from around the SELECT, or from a subquery in it.
    """

    source: Source
    operand: Callable[[exp.Expr], Scalar]
    condition: Callable[[exp.Expr], Scalar]
    own: frozenset[str]
    prefix: str = ""
    keys: list[Named] = field(default_factory=list)
    calls: dict[AggregateCall, Column] = field(default_factory=dict)
    names: Allotment = field(default_factory=Allotment)

    def aggregate(self, node: exp.Anonymous, condition: exp.Expr | None = None) -> Column:
        """The column that holds the aggregate ``node``, restricted to the rows that fulfil ``condition``."""
        function = AGGREGATES[node.name.lower()]
        operand = self._operand(node, function)
        filter_ = self.condition(condition) if condition else None
        of = aggregate_type(function, operand.type if operand else None)
        call = AggregateCall("", function, operand, of, filter=filter_)
        if call not in self.calls:
            self.calls[call] = column(replace(call, name=self._name(_readable(function, operand))).field)
        return self.calls[call]

    def _operand(self, node: exp.Anonymous, function: str) -> Scalar | None:
        arguments = node.expressions
        if len(arguments) != 1:
            raise TypeMismatch(f"{function.upper()} takes one argument", where=self.source.place(node))
        if isinstance(arguments[0], exp.Distinct):
            raise refusals.DISTINCT_AGGREGATE.at(self.source.place(node))
        if isinstance(arguments[0], exp.Star) and function == "count":
            return None
        operand = self.operand(arguments[0])
        read = columns_in(operand)
        if read and read.isdisjoint(self.own):
            raise refusals.OUTER_AGGREGATE.at(self.source.place(node))
        if function == "count":
            # A constant is never NULL, so counting it is counting rows.
            return None if isinstance(operand, Literal) and operand.value is not None else operand
        return convert(operand, DOUBLE) if operand.type in (STRING, VOID) else operand

    def add_key(self, scalar: Scalar, name: str) -> None:
        """Group by ``scalar``, too; a column keeps its name."""
        if all(key.scalar != scalar for key in self.keys):
            wish = scalar.name if isinstance(scalar, Column) else self.prefix + name
            self.keys.append(Named(self.names.take(wish), scalar))

    def _name(self, wish: str) -> str:
        return self.names.take(self.prefix + wish)

    def relation(self, input_: Relation) -> Aggregate:
        """The groups of ``input_``. Call it when every expression has been translated."""
        calls = tuple(replace(call, name=column_.name) for call, column_ in self.calls.items())
        return Aggregate(input_, tuple(self.keys), calls)

    def over_groups(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """``scalar`` with columns of the groups in place of keys. A column that is neither has no single value."""
        for key in self.keys:
            if key.scalar == scalar:
                return column(key.field)
        if isinstance(scalar, Column) and scalar.name in self.own:
            raise Unsupported(
                f'"{_short(scalar.name)}" is neither grouped by nor aggregated',
                where=self.source.place(node),
                detail="A group has many rows, and they may differ in it.",
                hint="Add it to GROUP BY, or put it into an aggregate.",
            )
        below: Sequence[Scalar] = children(scalar)
        return with_children(scalar, [self.over_groups(child, node) for child in below]) if below else scalar


def has_aggregate(node: exp.Expr) -> bool:
    """Whether ``node`` needs groups; what stands in a subquery or a window does not count."""
    if isinstance(node, exp.Query | exp.Window):
        return False
    if isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES:
        return True
    return any(has_aggregate(child) for child in node.iter_expressions())


def _readable(function: str, operand: Scalar | None) -> str:
    return f"{function}_{_short(operand.name)}" if isinstance(operand, Column) else function


def _short(name: str) -> str:
    return name.rpartition(".")[2]
