"""Ring values in Spark: the term of a row, sums of terms, and the value of a sum in expressions.

Every sum is exact, because a deletion must subtract precisely what the insertion added:

- BIGINT terms are summed as DECIMAL(38,0), so that only a total can overflow and never a partial sum.
- DECIMAL(38,s) terms are summed by Spark's own ``sum``, whose type keeps the scale.
- DOUBLE terms are pairs (high, low), see ``program.maps``. They are collected and folded with a compensated sum: the
  rounding error of the high part is kept in the low part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.algebra.expressions.scalars import Case, Cast, Literal, Scalar
from tidemill.algebra.functions.numbers.ring_arithmetic import spell_product
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import BIGINT, DOUBLE, INT, Decimal, Type
from tidemill.program.maps import SPECIALS, RingField
from tidemill.runtimes.spark.lowering.sql_text import comma_list, expression_sql, quote, struct_sql, type_sql

_SPLITTER = "134217729D"  # 2**27 + 1 splits a double into two halves whose products with a small weight are exact
HALVES = "the halves"
"""The member of a struct of sums that holds those of DOUBLEs, each as a high half and a low one."""

_ZERO = "named_struct('w', 0L, 's', 0D, 'c', 0D)"


def stored_columns(value: RingField) -> tuple[str, ...]:
    """The columns in which a value is stored."""
    return (value.name, value.name + LOW, *_specials(value)) if value.type == DOUBLE else (value.name,)


def _specials(value: RingField) -> tuple[str, ...]:
    return tuple(value.name + special for special in SPECIALS)


def lower_terms(value: RingField, argument: Scalar, weight: str) -> dict[str, str]:
    """The terms of a row for a value, by stored column: weight times argument; NULL if it adds nothing."""
    text = expression_sql(argument)
    if value.type == DOUBLE:
        return _double_terms(value, _as_double(argument, text), weight)
    if isinstance(value.type, Decimal):
        typed = f"CAST({text} AS {type_sql(value.type)})"
        product = spell_product((text, weight), (value.type, BIGINT), value.type)
        # Most weights are 1, and then no product of decimals is needed.
        return {value.name: f"CASE {weight} WHEN 1L THEN {typed} ELSE {product} END"}
    if is_narrow(argument):
        return {value.name: f"CAST({text} AS BIGINT) * {weight}"}
    return {value.name: f"CAST({text} AS DECIMAL(20,0)) * {weight}"}


def lower_amounts(value: RingField, amount: Scalar) -> dict[str, str]:
    """An amount that is added to a value as it is, by stored column."""
    text = expression_sql(amount)
    if value.type == DOUBLE:
        return _double_terms(value, _as_double(amount, text), "1L")
    return {value.name: f"CAST({text} AS {_wide(value)})"}


def negated(text: str, type_: Type) -> str:
    """The negated ring value. Spark's own minus rounds a DECIMAL to 34 digits."""
    return spell_product((text, "-1L"), (type_, BIGINT), type_) if isinstance(type_, Decimal) else f"-{text}"


def is_narrow(argument: Scalar) -> bool:
    """True if an argument has at most 32 bits, so that 64 are enough for its sums."""
    match argument:
        case Cast(input=inner):
            return inner.type == INT
        case Literal(value=value):
            return value is None or abs(value) < 1 << 31
        case Case(branches=branches, default=default):
            return is_narrow(default) and all(is_narrow(value) for _, value in branches)
    return argument.type == INT


def _as_double(scalar: Scalar, text: str) -> str:
    return text if scalar.type == DOUBLE else f"CAST({text} AS DOUBLE)"


def _double_terms(value: RingField, text: str, weight: str) -> dict[str, str]:
    finite = f"abs({text}) < double('Infinity')"
    half = f"({_SPLITTER} * {text} - ({_SPLITTER} * {text} - {text}))"
    product = f"({text} * {weight})"
    error = f"(({half} * {weight} - {product}) + ({text} - {half}) * {weight})"
    exact = f"abs({weight}) = 1L OR abs({text}) > 1E300D"
    nan, infinity, negative = _specials(value)
    return {
        value.name: f"CASE WHEN {finite} THEN {product} WHEN {text} IS NOT NULL THEN 0D END",
        value.name + LOW: f"CASE WHEN {exact} THEN 0D WHEN {finite} THEN {error} WHEN {text} IS NOT NULL THEN 0D END",
        nan: f"CASE WHEN isnan({text}) THEN {weight} ELSE 0L END",
        infinity: f"CASE WHEN {text} = double('Infinity') THEN {weight} ELSE 0L END",
        negative: f"CASE WHEN {text} = double('-Infinity') THEN {weight} ELSE 0L END",
    }


def lower_sum(value: RingField) -> dict[str, str]:
    """Aggregates that sum the terms of a group, but for the halves of a DOUBLE (see ``lower_halves``)."""
    column = quote(value.name)
    if value.type != DOUBLE:
        return {value.name: f"coalesce(CAST(sum({column}) AS {type_sql(value.type)}), {_zero(value)})"}
    return {name: f"coalesce(sum({quote(name)}), 0L)" for name in _specials(value)}


def lower_halves(values: Sequence[RingField]) -> dict[str, str]:
    """The sums of all DOUBLEs of a group, as one array for ``lower_stored_columns``; nothing if there is none.

    They are folded by one expression: Spark goes through a query again and again while it plans it.
    """
    columns = [(quote(value.name), quote(value.name + LOW)) for value in values if value.type == DOUBLE]
    pairs = [f"CASE WHEN {high} IS NOT NULL THEN {struct_sql({'hi': high, 'lo': low})} END" for high, low in columns]
    return {HALVES: _fold([f"collect_list({pair})" for pair in pairs])} if pairs else {}


def lower_history(value: RingField, old: str) -> tuple[dict[str, str], dict[str, str]]:
    """The sum of a group's stored rows, before and after the rows for which the column ``old`` is false, but for the
    halves of a DOUBLE (see ``lower_halves_history``)."""
    if value.type != DOUBLE:
        total = f"CAST({quote(value.name)} AS {_wide(value)})"
        cast = f"CAST(sum({total}) {{}}AS {type_sql(value.type)})"
        before = cast.format(f"FILTER (WHERE {old}) ")
        return {value.name: f"coalesce({before}, {_zero(value)})"}, {value.name: cast.format("")}
    specials = {name: f"coalesce(sum({quote(name)}) FILTER (WHERE {old}), 0L)" for name in _specials(value)}
    return specials, {name: f"sum({quote(name)})" for name in _specials(value)}


def lower_halves_history(values: Sequence[RingField], old: str) -> dict[str, str]:
    """The sums of all DOUBLEs of a group before and after, as one array: the old ones, then the new ones.

    Each is folded in the order of epochs and starts again from zero whenever the weight of its key reaches zero.
    """
    members = {"new": f"NOT {old}", "e": quote(EPOCH), "w": quote(WEIGHT)}
    halves = [{"hi": quote(value.name), "lo": quote(value.name + LOW)} for value in values if value.type == DOUBLE]
    after = [f"sort_array(collect_list({struct_sql(members | pair)}))" for pair in halves]
    before = [f"filter({history}, x -> NOT x.new)" for history in after]
    return {HALVES: _fold([*before, *after], resets=True)} if halves else {}


def lower_wide(value: RingField) -> list[str]:
    """The stored columns of a value, wide enough to be summed again: see ``lower_sum``."""
    if value.type == DOUBLE:
        return [quote(name) for name in stored_columns(value)]
    return [f"CAST({quote(value.name)} AS {_wide(value)}) AS {quote(value.name)}"]


def lower_stored_columns(value: RingField, source: str, halves: str) -> dict[str, str]:
    """The stored columns of a sum out of ``source``, a struct of what ``lower_sum`` or ``lower_history`` made;
    ``halves`` are those of a DOUBLE."""
    if value.type != DOUBLE:
        return {value.name: f"{source}.{quote(value.name)}"}
    pair = {value.name: f"{halves}.hi", value.name + LOW: f"{halves}.lo"}
    return pair | {name: f"{source}.{quote(name)}" for name in _specials(value)}


def lower_visible_values(value: RingField, source: str, rounded: str) -> dict[str, str]:
    """The values that expressions see, by name, out of the struct ``source`` of stored columns.

    A DOUBLE is rounded (in the struct ``rounded``), with its rounding error as a second value, its low half.
    """
    if value.type != DOUBLE:
        return {value.name: f"{source}.{quote(value.name)}"}
    low = value.name + LOW
    return {value.name: f"{rounded}.{quote(value.name)}", low: f"{source}.{quote(low)}"}


def lower_rounded(values: Sequence[RingField], source: str) -> dict[str, str]:
    """The DOUBLEs of the struct ``source`` of stored columns, rounded: a sum in which a NaN is, is NaN."""
    rounded = {}
    for value in values:
        if value.type == DOUBLE:
            nan, infinity, negative = (f"{source}.{quote(name)}" for name in _specials(value))
            rounded[value.name] = (
                f"CASE WHEN {nan} <> 0 OR ({infinity} <> 0 AND {negative} <> 0) THEN double('NaN') "
                f"WHEN {infinity} <> 0 THEN double('Infinity') WHEN {negative} <> 0 THEN double('-Infinity') "
                f"ELSE {source}.{quote(value.name)} END"
            )
    return rounded


def any_nonzero(columns: Iterable[str]) -> str:
    """The condition that some of the columns are not zero."""
    return " OR ".join(f"{column} <> 0" for column in columns)


def _fold(lists: Sequence[str], *, resets: bool = False) -> str:
    """The sum of each list of pairs of doubles as a pair: a compensated sum, normalised at the end.

    ``s`` is the running sum and ``c`` its accumulated rounding error. The larger operand decides which error is exact.
    """
    total = "(a.s + x.hi)"
    lost = f"IF(abs(a.s) >= abs(x.hi), (a.s - {total}) + x.hi, (x.hi - {total}) + a.s)"
    weight = "a.w + x.w" if resets else "0L"
    step = f"named_struct('w', {weight}, 's', {total}, 'c', a.c + x.lo + {lost})"
    if resets:
        step = f"IF({weight} = 0, {_ZERO}, {step})"
    rest = "IF(abs(a.s) >= abs(a.c), a.c - ((a.s + a.c) - a.s), a.s - ((a.s + a.c) - a.c))"
    ends = f"named_struct('hi', a.s + a.c, 'lo', {rest})"
    folded = f"aggregate(pairs, {_ZERO}, (a, x) -> {step}, a -> {ends})"
    return f"transform(array({comma_list(lists)}), pairs -> {folded})"


def _wide(value: RingField) -> str:
    """The type in which stored values are summed: wide enough that no partial sum overflows before the total does."""
    return type_sql(value.type) if isinstance(value.type, Decimal) else "DECIMAL(38,0)"


def _zero(value: RingField) -> str:
    return f"CAST(0 AS {type_sql(value.type)})"
