"""From aggregates in SQL to aggregate calls: names, arguments and clauses.

Synonyms become one call, and some aggregates are expressed by simpler ones: COUNT_IF is COUNT with a FILTER, ANY_VALUE
is MIN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.algebra.aggregates.approximate.distinct_counts import register_bits
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction
from tidemill.algebra.aggregates.order_statistics import percentile_type
from tidemill.algebra.aggregates.parameters import (
    anything,
    bin_count,
    condition,
    count,
    flag,
    fraction,
    frequency,
    number,
    number_or_interval,
    number_or_time,
    real,
    separator,
    text,
    whole,
)
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.collations import is_collated
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Case, Literal, Scalar, is_nullable
from tidemill.compiler.frontends.sql.aggregation.arguments import AggregateArguments, AggregateRule, with_parameters
from tidemill.compiler.frontends.sql.aggregation.sketches import SKETCH_RULES
from tidemill.compiler.frontends.sql.grammar.named_arguments import by_position
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, VOID, Type

DEFAULT_ACCURACY = 10_000
MAX_ACCURACY = 2**31 - 1
DEFAULT_RELATIVE_ERROR = 0.05
MAX_RELATIVE_ERROR = 0.39
MIN_BINS = 2
MOST_EXTREMES = 100_000


@dataclass(frozen=True)
class AggregateSyntax:
    """An aggregate in a text: the call itself, the FILTER and the WITHIN GROUP (ORDER BY ...) that follow it.

    ``nulls`` is the node of IGNORE NULLS or RESPECT NULLS, if there is one.
    """

    node: exp.Anonymous
    condition: exp.Expr | None = None
    order: tuple[exp.Expr, ...] = ()
    nulls: type[exp.Expr] | None = None

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
        found = by_position(self.node).expressions
        return list(found[0].expressions) if self.distinct else list(found)


def read_aggregate(node: exp.Expr) -> AggregateSyntax | None:
    """``node`` as an aggregate with all of its clauses; None if it is none."""
    match node:
        case exp.Anonymous() if is_aggregate(node.name.lower()):
            return AggregateSyntax(node)
        case exp.Filter() if below := read_aggregate(node.this):
            return replace(below, condition=node.expression.this)
        case exp.WithinGroup() if below := read_aggregate(node.this):
            return replace(below, order=tuple(node.expression.expressions))
        case exp.IgnoreNulls() | exp.RespectNulls() if below := read_aggregate(node.this):
            return replace(below, nulls=type(node))
    return None


def aggregate_call(clauses: AggregateArguments) -> AggregateCall:
    """The call, without a name yet, of an aggregate with these arguments and clauses."""
    rule = _rule(clauses.name)
    assert rule is not None, f"{clauses.name} is not an aggregate"
    if clauses.name not in OF_COLLATED and any(is_collated(argument.type) for argument in clauses.arguments):
        raise Unsupported(f"{clauses.name} of a text with a collation", hint="Convert it with CAST(x AS STRING).")
    found = rule(clauses)
    respects = clauses.nulls is exp.RespectNulls
    if clauses.nulls is not None and not respects and clauses.name not in TAKE_NULLS:
        raise TypeMismatch(f"{clauses.name.upper()} takes no IGNORE NULLS")
    if respects and clauses.name in TAKE_NULLS:
        return replace(found, function=f"{found.function}_with_nulls")
    return found


TAKE_NULLS = frozenset(("array_agg", "collect_list", "collect_set"))
"""Aggregates that take IGNORE NULLS, which is what they do, and RESPECT NULLS."""

OF_COLLATED = frozenset(
    ("any_value", "array_agg", "collect_list", "count", "first", "last", "max", "max_by", "min", "min_by")
)
"""Aggregates that give texts with a collation as they are; those that compare them are refused later."""


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


def from_string_agg(given: AggregateArguments) -> AggregateCall:
    """``STRING_AGG(text, separator) WITHIN GROUP (ORDER BY ...)``; the default separator is empty."""
    argument, *separators = given.arguments
    listed = text(argument)
    if separators and separators[0].type not in (listed.type, VOID):
        raise TypeMismatch(f"{given.name.upper()} separates {listed.type} by {listed.type}, not {separators[0].type}")
    separator = given.constant(separators[0], listed.type) if separators else None
    if given.distinct and any(term.scalar not in (argument, listed) for term in given.order):
        raise TypeMismatch(f"{given.name.upper()} over DISTINCT is ordered by its argument only")
    if given.distinct and given.order and argument != listed and not _keeps_order(argument.type):
        raise TypeMismatch(f"{given.name.upper()} over DISTINCT is ordered by texts", hint="Convert both with CAST.")
    nothing = "" if listed.type == STRING else b""
    return given.to_call("string_agg", listed, ordered=True, parameters=[separator or nothing])


def _keeps_order(of: Type) -> bool:
    """True if values of this type that differ are different as texts, which Spark asks for."""
    return isinstance(of, t.Integral | t.Decimal | t.Boolean | t.Date | t.Timestamp | t.TimestampNtz)


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
    """``PERCENTILE(x, share, frequency)``: the share is a constant or an array of constants; each x counts so often."""
    argument, share, *frequencies = given.arguments
    if not frequencies or (isinstance(frequencies[0], Literal) and frequencies[0].value == 1):
        return _percentile(given, "percentile_cont", argument, share)
    return _percentile(given, "percentile_of_frequencies", argument, share, others=frequencies)


def from_approx_percentile(given: AggregateArguments) -> AggregateCall:
    """``APPROX_PERCENTILE(x, share, accuracy)``: a value of x."""
    argument, share, *accuracies = given.arguments
    accuracy = given.constant(accuracies[0], BIGINT) if accuracies else DEFAULT_ACCURACY
    if not 0 < (accuracy or 0) <= MAX_ACCURACY:
        raise TypeMismatch(f"{given.name.upper()} takes an accuracy between 1 and {MAX_ACCURACY}")
    found = _percentile(given, "approx_percentile", argument, share, of=argument.type)
    return replace(found, parameters=(found.parameters[0], accuracy))


def from_histogram(given: AggregateArguments) -> AggregateCall:
    """``HISTOGRAM_NUMERIC(x, bins)``."""
    argument, bins = given.arguments
    count = given.constant(bins, INT)
    if count is None or count < MIN_BINS:
        raise TypeMismatch(f"{given.name.upper()} takes at least {MIN_BINS} bins")
    return given.to_call("histogram_numeric", argument, parameters=[count])


def within_group(function: str) -> AggregateRule:
    """``PERCENTILE_CONT(share) WITHIN GROUP (ORDER BY x)``."""

    def rule(given: AggregateArguments) -> AggregateCall:
        argument, descending = _ordered(given)
        return _percentile(_unordered(given), function, number_or_interval(argument), given.arguments[0], descending)

    return rule


def _percentile(
    given: AggregateArguments,
    function: str,
    argument: Scalar,
    share: Scalar,
    descending: bool = False,
    of: Type | None = None,
    others: Sequence[Scalar] = (),
) -> AggregateCall:
    of = of or percentile_type(argument.type) or DOUBLE
    several = isinstance(share.type, t.Array)
    shares = given.constant(share, t.Array(DOUBLE) if several else DOUBLE)
    for one in shares if isinstance(shares, tuple | ArrayTree) else (shares,):
        if one is None or not 0 <= one <= 1:
            raise TypeMismatch(f"{given.name.upper()} takes a share between 0 and 1")
    result = t.Array(of) if several else of
    return given.to_call(function, argument, others, of=result, parameters=[shares, descending])


def _ordered(given: AggregateArguments) -> tuple[Scalar, bool]:
    """The expression that WITHIN GROUP orders by, and whether it is descending."""
    if len(given.order) != 1:
        raise TypeMismatch(f"{given.name.upper()} takes WITHIN GROUP (ORDER BY one expression)")
    return given.order[0].scalar, given.order[0].descending


def _unordered(given: AggregateArguments) -> AggregateArguments:
    return AggregateArguments(given.name, given.arguments, given.distinct, given.filter)


def from_count_distinct(given: AggregateArguments) -> AggregateCall:
    """APPROX_COUNT_DISTINCT over the registers of hashes, as many as the allowed error asks for."""
    argument, *errors = given.arguments
    error = given.constant(errors[0], DOUBLE) if errors else DEFAULT_RELATIVE_ERROR
    if not 0 < (error or 0) <= MAX_RELATIVE_ERROR:
        raise TypeMismatch(f"{given.name.upper()} takes an error of at most {MAX_RELATIVE_ERROR}")
    bits = register_bits(error)
    register = call("hash_register", call("xxhash64", argument), Literal(bits, INT))
    entry = (
        Case(((call("is_null", argument), Literal(None, INT)),), register, INT) if is_nullable(argument) else register
    )
    return given.to_call("approx_count_distinct", entry, distinct=False, parameters=[bits])


RULES: dict[str, AggregateRule] = {
    **SKETCH_RULES,
    **{name: with_parameters(from_string_agg, anything, separator, optional=1) for name in ("listagg", "string_agg")},
    **{
        name: with_parameters(from_approx_percentile, number_or_time, anything, whole, optional=1)
        for name in ("approx_percentile", "percentile_approx")
    },
    **{
        name: with_parameters(within_group(name), anything, distinct=False)
        for name in ("percentile_cont", "percentile_disc")
    },
    "any_value": with_parameters(from_any_value, anything, flag, optional=1),
    "approx_count_distinct": with_parameters(from_count_distinct, anything, fraction, optional=1),
    **dict.fromkeys(("max_by", "min_by"), with_parameters(from_extreme_by, anything, anything, count, optional=1)),
    "regr_avgx": with_parameters(regression_mean(1), anything, anything, distinct=False),
    "regr_avgy": with_parameters(regression_mean(0), anything, anything, distinct=False),
    "count": from_count,
    "count_if": with_parameters(from_count_if, condition),
    "median": with_parameters(from_median, number_or_interval),
    "mode": with_parameters(from_mode, anything, flag, optional=2, distinct=False),
    "percentile": with_parameters(from_percentile, number_or_interval, anything, frequency, optional=1),
    "histogram_numeric": with_parameters(from_histogram, number_or_time, bin_count),
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
