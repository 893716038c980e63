"""From aggregates in SQL to aggregate calls: names, arguments and clauses.

Synonyms become one call, and some aggregates are expressed by simpler ones: COUNT_IF is COUNT with a FILTER, ANY_VALUE
is MIN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction
from tidemill.algebra.aggregates.parameters import (
    ParameterType,
    anything,
    condition,
    count,
    flag,
    fraction,
    number,
    real,
    separator,
    text,
    whole,
)
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, aggregate_type
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Case, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.algebra.text import function_text
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Type

MAX_ACCURACY = 2**31 - 1
MAX_RELATIVE_ERROR = 0.39
MOST_EXTREMES = 100_000


@dataclass(frozen=True)
class AggregateSyntax:
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
        """True for an aggregate over DISTINCT."""
        return any(isinstance(argument, exp.Distinct) for argument in self.node.expressions)

    @property
    def arguments(self) -> list[exp.Expr]:
        """The arguments; COUNT(*) has a star."""
        found = self.node.expressions
        return list(found[0].expressions) if self.distinct else list(found)


def read_aggregate(node: exp.Expr) -> AggregateSyntax | None:
    """``node`` as an aggregate with all of its clauses; None if it is none."""
    match node:
        case exp.Anonymous() if is_aggregate(node.name.lower()):
            return AggregateSyntax(node)
        case exp.Filter() if below := read_aggregate(node.this):
            return AggregateSyntax(below.node, node.expression.this, below.order)
        case exp.WithinGroup() if below := read_aggregate(node.this):
            return AggregateSyntax(below.node, below.condition, tuple(node.expression.expressions))
    return None


@dataclass(frozen=True)
class AggregateArguments:
    """The arguments and clauses of an aggregate, as scalars. COUNT(*) has no argument."""

    name: str
    arguments: tuple[Scalar, ...]
    distinct: bool = False
    filter: Scalar | None = None
    order: tuple[SortOrder, ...] = ()

    def to_call(
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
            raise TypeMismatch(f"{function_text(self.name)} has no WITHIN GROUP")
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

    def constant(self, scalar: Scalar, of: Type) -> Any:
        """The value of an argument that must be the same for all rows."""
        if columns_in(scalar) or subqueries(scalar):
            raise TypeMismatch(f"{function_text(self.name)} takes a constant here, not a value of each row")
        return evaluate_scalar(convert(scalar, of), {})


AggregateRule = Callable[[AggregateArguments], AggregateCall]
"""The aggregate call of these arguments and clauses."""


def aggregate_call(clauses: AggregateArguments) -> AggregateCall:
    """The call, without a name yet, of an aggregate with these arguments and clauses."""
    rule = _rule(clauses.name)
    assert rule is not None, f"{clauses.name} is not an aggregate"
    return rule(clauses)


def with_parameters(
    rule: AggregateRule, *kinds: ParameterType, optional: int = 0, distinct: bool = True
) -> AggregateRule:
    """``rule`` with a check of its arguments: these kinds, of which the last ``optional`` may be missing.

    Without ``distinct`` DISTINCT is refused as well.
    """
    counts = range(len(kinds) - optional, len(kinds) + 1)

    def checked(given: AggregateArguments) -> AggregateCall:
        if len(given.arguments) not in counts:
            wanted = " or ".join(map(str, counts))
            raise TypeMismatch(f"{function_text(given.name)} takes {wanted} arguments, not {len(given.arguments)}")
        if given.distinct and not distinct:
            raise TypeMismatch(f"{function_text(given.name)} takes no DISTINCT")
        try:
            arguments = tuple(kind(argument) for kind, argument in zip(kinds, given.arguments, strict=False))
        except TypeMismatch as error:
            raise TypeMismatch(
                f"{function_text(given.name)}: {error.what}", detail=error.detail, hint=error.hint
            ) from None
        return rule(replace(given, arguments=arguments))

    return checked


def from_count(given: AggregateArguments) -> AggregateCall:
    """COUNT of rows in which no argument is NULL. A constant is never NULL, so counting it is counting rows."""
    nullable = [argument for argument in given.arguments if is_nullable(argument)]
    if len(given.arguments) > 1:
        known = conjunction([call("is_not_null", argument) for argument in nullable])
        given = _restricted(given, known)
        members = [part for i, one in enumerate(given.arguments) for part in (Literal(f"col{i}", STRING), one)]
        return given.to_call("count", call("named_struct", *members) if given.distinct else None)
    if not given.distinct and all(isinstance(argument, Literal) for argument in given.arguments) and not nullable:
        return given.to_call("count", None)
    return given.to_call("count", given.arguments[0])


def from_count_if(given: AggregateArguments) -> AggregateCall:
    """COUNT_IF(condition) is COUNT(*) FILTER (WHERE condition)."""
    (condition,) = given.arguments
    if given.distinct:
        return given.to_call("count", Case(((condition, condition),), Literal(None, BOOLEAN), BOOLEAN))
    return _restricted(given, condition).to_call("count", None)


def _restricted(given: AggregateArguments, condition: Scalar | None) -> AggregateArguments:
    filters = [one for one in (given.filter, condition) if one is not None]
    return AggregateArguments(given.name, given.arguments, given.distinct, conjunction(filters), given.order)


def from_any_value(given: AggregateArguments) -> AggregateCall:
    """ANY_VALUE is the least value that is not NULL, which makes it deterministic."""
    return given.to_call("min", given.arguments[0], distinct=False)


def regression_mean(place: int) -> AggregateRule:
    """REGR_AVGX(y, x) and REGR_AVGY(y, x): AVG of one argument over the rows in which none is NULL."""

    def rule(given: AggregateArguments) -> AggregateCall:
        known = conjunction([call("is_not_null", real(argument)) for argument in given.arguments])
        return _restricted(given, known).to_call("avg", number(given.arguments[place]))

    return rule


def from_extreme_by(given: AggregateArguments) -> AggregateCall:
    """``MAX_BY(x, y)``, or with a third argument the array of so many x with the greatest y; MIN_BY alike."""
    argument, by, *counts = given.arguments
    if not counts:
        return given.to_call(given.name, argument, [by], distinct=False)
    wanted = given.constant(counts[0], INT)
    if wanted is None or not 0 < wanted <= MOST_EXTREMES:
        raise TypeMismatch(f"{given.name.upper()} takes a number between 1 and {MOST_EXTREMES}")
    return given.to_call(f"{given.name}_several", argument, [by], parameters=[wanted])


def from_collect_set(given: AggregateArguments) -> AggregateCall:
    """COLLECT_SET is ARRAY_AGG over DISTINCT."""
    return given.to_call("array_agg", given.arguments[0], distinct=True)


def from_string_agg(given: AggregateArguments) -> AggregateCall:
    """``STRING_AGG(text, separator) WITHIN GROUP (ORDER BY ...)``; the default separator is empty."""
    text, *separators = given.arguments
    separator = given.constant(separators[0], STRING) if separators else ""
    if given.distinct and any(term.scalar != text for term in given.order):
        raise TypeMismatch(f"{given.name.upper()} over DISTINCT is ordered by its argument only")
    return given.to_call("string_agg", text, ordered=True, parameters=[separator or ""])


def from_mode(given: AggregateArguments) -> AggregateCall:
    """``MODE(x)``, or ``MODE() WITHIN GROUP (ORDER BY x)``: the first of several most frequent values.

    ``MODE(x, true)`` asks for the least of them, which it is anyway.
    """
    if len(given.arguments) > 1 and given.constant(given.arguments[1], BOOLEAN) is None:
        raise TypeMismatch("MODE takes true or false as its second argument")
    if bool(given.order) == bool(given.arguments) or (given.order and len(given.arguments) > 1):
        raise TypeMismatch("MODE takes an argument, or WITHIN GROUP (ORDER BY one expression)")
    argument, descending = _ordered(given) if given.order else (given.arguments[0], False)
    return _unordered(given).to_call("mode", argument, parameters=[descending])


def from_median(given: AggregateArguments) -> AggregateCall:
    """MEDIAN is the percentile at a half."""
    return _percentile(given, "percentile_cont", given.arguments[0], Literal(0.5, DOUBLE))


def from_percentile(given: AggregateArguments) -> AggregateCall:
    """``PERCENTILE(x, share)``, where the share is a constant or an array of constants."""
    argument, share = given.arguments
    return _percentile(given, "percentile_cont", argument, share)


def from_approx_percentile(given: AggregateArguments) -> AggregateCall:
    """``APPROX_PERCENTILE(x, share, accuracy)``: a value of x, here always the exact one."""
    argument, share, *accuracy = given.arguments
    if accuracy and not 0 < (given.constant(accuracy[0], BIGINT) or 0) <= MAX_ACCURACY:
        raise TypeMismatch(f"{given.name.upper()} takes an accuracy between 1 and {MAX_ACCURACY}")
    return _percentile(given, "percentile_disc", argument, share, of=argument.type)


def within_group(function: str) -> AggregateRule:
    """``PERCENTILE_CONT(share) WITHIN GROUP (ORDER BY x)``."""

    def rule(given: AggregateArguments) -> AggregateCall:
        argument, descending = _ordered(given)
        return _percentile(_unordered(given), function, number(argument), given.arguments[0], descending)

    return rule


def _percentile(
    given: AggregateArguments,
    function: str,
    argument: Scalar,
    share: Scalar,
    descending: bool = False,
    of: Type = DOUBLE,
) -> AggregateCall:
    several = isinstance(share.type, t.Array)
    shares = given.constant(share, t.Array(DOUBLE) if several else DOUBLE)
    for one in shares if isinstance(shares, tuple) else (shares,):
        if one is None or not 0 <= one <= 1:
            raise TypeMismatch(f"{given.name.upper()} takes a share between 0 and 1")
    return given.to_call(function, argument, of=t.Array(of) if several else of, parameters=[shares, descending])


def _ordered(given: AggregateArguments) -> tuple[Scalar, bool]:
    """The expression that WITHIN GROUP orders by, and whether it is descending."""
    if len(given.order) != 1:
        raise TypeMismatch(f"{given.name.upper()} takes WITHIN GROUP (ORDER BY one expression)")
    return given.order[0].scalar, given.order[0].descending


def _unordered(given: AggregateArguments) -> AggregateArguments:
    return AggregateArguments(given.name, given.arguments, given.distinct, given.filter)


def from_count_distinct(given: AggregateArguments) -> AggregateCall:
    """APPROX_COUNT_DISTINCT, which is exact here; the second argument, the allowed error, is only checked."""
    argument, *errors = given.arguments
    if errors and not 0 < (given.constant(errors[0], DOUBLE) or 0) <= MAX_RELATIVE_ERROR:
        raise TypeMismatch(f"{given.name.upper()} takes an error of at most {MAX_RELATIVE_ERROR}")
    return given.to_call("count", argument, distinct=True)


RULES: dict[str, AggregateRule] = {
    **{name: with_parameters(from_string_agg, text, separator, optional=1) for name in ("listagg", "string_agg")},
    **{
        name: with_parameters(from_approx_percentile, number, anything, whole, optional=1)
        for name in ("approx_percentile", "percentile_approx")
    },
    **{
        name: with_parameters(within_group(name), anything, distinct=False)
        for name in ("percentile_cont", "percentile_disc")
    },
    "any_value": with_parameters(from_any_value, anything, flag, optional=1),
    "approx_count_distinct": with_parameters(from_count_distinct, anything, fraction, optional=1),
    "collect_set": with_parameters(from_collect_set, anything),
    **dict.fromkeys(("max_by", "min_by"), with_parameters(from_extreme_by, anything, anything, count, optional=1)),
    "regr_avgx": with_parameters(regression_mean(1), anything, anything, distinct=False),
    "regr_avgy": with_parameters(regression_mean(0), anything, anything, distinct=False),
    "count": from_count,
    "count_if": with_parameters(from_count_if, condition),
    "median": with_parameters(from_median, number),
    "mode": with_parameters(from_mode, anything, flag, optional=2, distinct=False),
    "percentile": with_parameters(from_percentile, number, anything),
}
"""Names in SQL whose arguments differ from those of the aggregate, with the rule of each."""


def _declared_rule(function: AggregateFunction) -> AggregateRule:
    """The rule of an aggregate that takes its arguments as they are declared."""

    def rule(given: AggregateArguments) -> AggregateCall:
        argument, *others = given.arguments
        return given.to_call(function.name, argument, others, distinct=False if function.idempotent else None)

    return with_parameters(rule, *function.parameters)


def _rule(name: str) -> AggregateRule | None:
    if name in RULES:
        return RULES[name]
    function = AGGREGATE_FUNCTIONS.get(name)
    if function is None:
        function = next((one for one in AGGREGATE_FUNCTIONS.values() if name in one.synonyms), None)
    return _declared_rule(function) if function is not None and function.parameters else None


def is_aggregate(name: str) -> bool:
    """True if a function of this name, in lower case, is an aggregate."""
    return _rule(name) is not None


def aggregate_names() -> list[str]:
    """Every name of an aggregate in SQL."""
    declared = (function for function in AGGREGATE_FUNCTIONS.values() if function.parameters)
    return [*RULES, *(name for function in declared for name in (function.name, *function.synonyms))]
