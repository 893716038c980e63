"""Aggregates as they are written: names, arguments and clauses, and the call that each of them means.

Names that mean the same become one, and what can be said by a simpler aggregate is: COUNT_IF is COUNT with a FILTER,
ANY_VALUE is MIN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tidemill.algebra.aggregates import AggregateCall, aggregate_type
from tidemill.algebra.coercion import convert
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.functions import call
from tidemill.algebra.ordering import Order
from tidemill.algebra.scalars import Case, Literal, Scalar
from tidemill.algebra.text import spoken
from tidemill.algebra.walk import columns_in, conjunction, is_nullable
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BOOLEAN, DOUBLE, STRING, VOID, Type


@dataclass(frozen=True)
class Written:
    """An aggregate in a text: the call itself, the FILTER and the WITHIN GROUP (ORDER BY ...) that follow it."""

    node: exp.Anonymous
    condition: exp.Expr | None = None
    order: tuple[exp.Expr, ...] = ()

    @property
    def name(self) -> str:
        """The name in lower case."""
        return self.node.name.lower()

    @property
    def distinct(self) -> bool:
        """Whether it is over DISTINCT."""
        return any(isinstance(argument, exp.Distinct) for argument in self.node.expressions)

    @property
    def arguments(self) -> list[exp.Expr]:
        """The arguments; COUNT(*) has a star."""
        found = self.node.expressions
        return list(found[0].expressions) if self.distinct else list(found)


def read_aggregate(node: exp.Expr) -> Written | None:
    """The aggregate that ``node`` is, with all of its clauses; None where it is none."""
    match node:
        case exp.Anonymous() if node.name.lower() in AGGREGATES:
            return Written(node)
        case exp.Filter() if below := read_aggregate(node.this):
            return Written(below.node, node.expression.this, below.order)
        case exp.WithinGroup() if below := read_aggregate(node.this):
            return Written(below.node, below.condition, tuple(node.expression.expressions))
    return None


@dataclass(frozen=True)
class Clauses:
    """What an aggregate is given: arguments and clauses as scalars. COUNT(*) has no argument."""

    name: str
    arguments: tuple[Scalar, ...]
    distinct: bool = False
    filter: Scalar | None = None
    order: tuple[Order, ...] = ()

    def means(
        self,
        function: str,
        argument: Scalar | None,
        others: Sequence[Scalar] = (),
        *,
        of: Type | None = None,
        distinct: bool | None = None,
        ordered: bool = False,
        parameters: Sequence[Any] = (),
    ) -> AggregateCall:
        """The call of ``function`` with the clauses as they are given, but for those that are given here."""
        if self.order and not ordered:
            raise TypeMismatch(f"{spoken(self.name)} has no WITHIN GROUP")
        return AggregateCall(
            "",
            function,
            argument,
            of or aggregate_type(function, None if argument is None else argument.type),
            self.distinct if distinct is None else distinct,
            self.filter,
            tuple(others),
            self.order if ordered else (),
            tuple(parameters),
        )

    def expect(self, least: int, most: int | None = None) -> None:
        """Refuse too few or too many arguments."""
        if not least <= len(self.arguments) <= (most or least):
            wanted = ("no argument", "one argument", "two arguments")[most or least]
            raise TypeMismatch(f"{spoken(self.name)} takes {wanted}")

    def constant(self, scalar: Scalar, of: Type) -> Any:
        """The value of an argument that must be the same for all rows."""
        if columns_in(scalar):
            raise TypeMismatch(f"{spoken(self.name)} takes a constant here, not a value of each row")
        return evaluate_scalar(convert(scalar, of), {})


def aggregate_call(clauses: Clauses) -> AggregateCall:
    """The call, without a name yet, that an aggregate of these arguments and clauses means."""
    return AGGREGATES[clauses.name](clauses)


def from_count(given: Clauses) -> AggregateCall:
    """COUNT of rows in which no argument is NULL. A constant is never NULL, so counting it is counting rows."""
    nullable = [argument for argument in given.arguments if is_nullable(argument)]
    if len(given.arguments) > 1:
        known = conjunction([call("is_not_null", argument) for argument in nullable])
        given = _restricted(given, known)
        members = [part for i, one in enumerate(given.arguments) for part in (Literal(f"col{i}", STRING), one)]
        return given.means("count", call("named_struct", *members) if given.distinct else None)
    if not given.distinct and all(isinstance(argument, Literal) for argument in given.arguments) and not nullable:
        return given.means("count", None)
    return given.means("count", given.arguments[0])


def from_count_if(given: Clauses) -> AggregateCall:
    """COUNT_IF(condition) is COUNT(*) FILTER (WHERE condition)."""
    given.expect(1)
    condition = _condition(given)
    if given.distinct:
        return given.means("count", Case(((condition, condition),), Literal(None, BOOLEAN), BOOLEAN))
    return _restricted(given, condition).means("count", None)


def _restricted(given: Clauses, condition: Scalar | None) -> Clauses:
    filters = [one for one in (given.filter, condition) if one is not None]
    return Clauses(given.name, given.arguments, given.distinct, conjunction(filters), given.order)


def of_numbers(function: str) -> Callable[[Clauses], AggregateCall]:
    """An aggregate of one number."""

    def rule(given: Clauses) -> AggregateCall:
        given.expect(1)
        return given.means(function, _number(given.arguments[0]))

    return rule


def of_pairs(function: str) -> Callable[[Clauses], AggregateCall]:
    """An aggregate of two numbers."""

    def rule(given: Clauses) -> AggregateCall:
        given.expect(2)
        one, other = map(_number, given.arguments)
        aggregate_type(function, other.type)
        return given.means(function, one, [other])

    return rule


def _number(scalar: Scalar) -> Scalar:
    return convert(scalar, DOUBLE) if scalar.type in (STRING, VOID) else scalar


def of_conditions(function: str) -> Callable[[Clauses], AggregateCall]:
    """An aggregate of truth values. That some come twice makes no difference to it."""

    def rule(given: Clauses) -> AggregateCall:
        given.expect(1)
        return given.means(function, _condition(given), distinct=False)

    return rule


def _condition(given: Clauses) -> Scalar:
    (condition,) = given.arguments
    return convert(condition, BOOLEAN) if condition.type == VOID else condition


def of_extremes(function: str) -> Callable[[Clauses], AggregateCall]:
    """The least or the greatest value, whether or not it comes twice."""

    def rule(given: Clauses) -> AggregateCall:
        given.expect(1)
        return given.means(function, given.arguments[0], distinct=False)

    return rule


def from_any_value(given: Clauses) -> AggregateCall:
    """ANY_VALUE: of all values the least that is not NULL, so that the answer is always one."""
    given.expect(1, 2)
    return given.means("min", given.arguments[0], distinct=False)


def of_extremes_by(function: str) -> Callable[[Clauses], AggregateCall]:
    """The first argument in the row in which the second is least or greatest."""

    def rule(given: Clauses) -> AggregateCall:
        given.expect(2)
        argument, by = given.arguments
        return given.means(function, argument, [by], distinct=False)

    return rule


def from_array_agg(given: Clauses) -> AggregateCall:
    """ARRAY_AGG and COLLECT_LIST."""
    given.expect(1)
    return given.means("array_agg", given.arguments[0])


def from_collect_set(given: Clauses) -> AggregateCall:
    """COLLECT_SET is ARRAY_AGG over DISTINCT."""
    given.expect(1)
    return given.means("array_agg", given.arguments[0], distinct=True)


def from_string_agg(given: Clauses) -> AggregateCall:
    """``STRING_AGG(text, separator) WITHIN GROUP (ORDER BY ...)``; without a separator there is nothing between."""
    given.expect(1, 2)
    text = convert(given.arguments[0], STRING)
    separator = given.constant(given.arguments[1], STRING) if len(given.arguments) > 1 else ""
    if given.distinct and any(term.scalar != given.arguments[0] for term in given.order):
        raise TypeMismatch(f"{given.name.upper()} over DISTINCT is ordered by its argument only")
    return given.means("string_agg", text, ordered=True, parameters=[separator or ""])


def from_mode(given: Clauses) -> AggregateCall:
    """``MODE(x)``, or ``MODE() WITHIN GROUP (ORDER BY x)``: of several values that come most often the first."""
    given.expect(0 if given.order else 1, 2)
    argument, descending = _ordered(given) if given.order else (given.arguments[0], False)
    return _unordered(given).means("mode", argument, parameters=[descending])


def from_median(given: Clauses) -> AggregateCall:
    """MEDIAN is the percentile at a half."""
    given.expect(1)
    return _percentile(given, "percentile_cont", given.arguments[0], Literal(0.5, DOUBLE))


def from_percentile(given: Clauses) -> AggregateCall:
    """``PERCENTILE(x, share)``, where the share is a constant or an array of constants."""
    given.expect(2)
    argument, share = given.arguments
    return _percentile(given, "percentile_cont", argument, share)


def from_approx_percentile(given: Clauses) -> AggregateCall:
    """``APPROX_PERCENTILE(x, share, accuracy)``: a value of x, here always the exact one."""
    if len(given.arguments) == 3:
        given = Clauses(given.name, given.arguments[:2], given.distinct, given.filter, given.order)
    given.expect(2)
    argument, share = given.arguments
    return _percentile(given, "percentile_disc", argument, share, of=_number(argument).type)


def within_group(function: str) -> Callable[[Clauses], AggregateCall]:
    """``PERCENTILE_CONT(share) WITHIN GROUP (ORDER BY x)``."""

    def rule(given: Clauses) -> AggregateCall:
        given.expect(1)
        argument, descending = _ordered(given)
        return _percentile(_unordered(given), function, argument, given.arguments[0], descending)

    return rule


def _percentile(
    given: Clauses, function: str, argument: Scalar, share: Scalar, descending: bool = False, of: Type = DOUBLE
) -> AggregateCall:
    argument = _number(argument)
    aggregate_type(function, argument.type)
    several = isinstance(share.type, t.Array)
    shares = given.constant(share, t.Array(DOUBLE) if several else DOUBLE)
    for one in shares if isinstance(shares, tuple) else (shares,):
        if one is None or not 0 <= one <= 1:
            raise TypeMismatch(f"{given.name.upper()} takes a share between 0 and 1")
    return given.means(function, argument, of=t.Array(of) if several else of, parameters=[shares, descending])


def _ordered(given: Clauses) -> tuple[Scalar, bool]:
    """What WITHIN GROUP orders by, and whether from the greatest on."""
    if len(given.order) != 1:
        raise TypeMismatch(f"{given.name.upper()} takes WITHIN GROUP (ORDER BY one expression)")
    return given.order[0].scalar, given.order[0].descending


def _unordered(given: Clauses) -> Clauses:
    return Clauses(given.name, given.arguments, given.distinct, given.filter)


def from_count_distinct(given: Clauses) -> AggregateCall:
    """APPROX_COUNT_DISTINCT, which is exact here; the second argument says how wrong it might have been."""
    given.expect(1, 2)
    return given.means("count", given.arguments[0], distinct=True)


AGGREGATES: dict[str, Callable[[Clauses], AggregateCall]] = {
    "any": of_conditions("bool_or"),
    "any_value": from_any_value,
    "approx_count_distinct": from_count_distinct,
    "approx_percentile": from_approx_percentile,
    "array_agg": from_array_agg,
    "avg": of_numbers("avg"),
    "bool_and": of_conditions("bool_and"),
    "bool_or": of_conditions("bool_or"),
    "collect_list": from_array_agg,
    "collect_set": from_collect_set,
    "corr": of_pairs("corr"),
    "count": from_count,
    "count_if": from_count_if,
    "covar_pop": of_pairs("covar_pop"),
    "covar_samp": of_pairs("covar_samp"),
    "every": of_conditions("bool_and"),
    "listagg": from_string_agg,
    "max": of_extremes("max"),
    "max_by": of_extremes_by("max_by"),
    "mean": of_numbers("avg"),
    "median": from_median,
    "min": of_extremes("min"),
    "min_by": of_extremes_by("min_by"),
    "mode": from_mode,
    "percentile": from_percentile,
    "percentile_approx": from_approx_percentile,
    "percentile_cont": within_group("percentile_cont"),
    "percentile_disc": within_group("percentile_disc"),
    "some": of_conditions("bool_or"),
    "std": of_numbers("stddev_samp"),
    "stddev": of_numbers("stddev_samp"),
    "stddev_pop": of_numbers("stddev_pop"),
    "stddev_samp": of_numbers("stddev_samp"),
    "string_agg": from_string_agg,
    "sum": of_numbers("sum"),
    "var_pop": of_numbers("var_pop"),
    "var_samp": of_numbers("var_samp"),
    "variance": of_numbers("var_samp"),
}
"""Every aggregate by each of its names in SQL."""
