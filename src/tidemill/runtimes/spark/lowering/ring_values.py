"""Ring values in Spark: the term of a row, sums of terms, and the value of a sum in expressions.

Every sum is exact, because a deletion must subtract precisely what the insertion added:

- BIGINT terms are summed as DECIMAL(38,0), so that only a total can overflow and never a partial sum.
- DECIMAL(38,s) terms are summed by Spark's own ``sum``, whose type keeps the scale.
- DOUBLE terms are pairs (high, low), see ``program.maps``. They are collected and folded with a compensated sum: the
  rounding error of the high part is kept in the low part.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.algebra.expressions.scalars import Case, Cast, Literal, Scalar
from tidemill.algebra.functions.ring_arithmetic import spell_product
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import BIGINT, DOUBLE, INT, Decimal, Type
from tidemill.program.maps import SPECIALS, RingField
from tidemill.runtimes.spark.lowering.sql_text import expression_sql, quote, struct_sql, type_sql

_SPLITTER = "134217729D"  # 2**27 + 1 splits a double into two halves whose products with a small weight are exact
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
        return _double_terms(value, f"CAST({text} AS DOUBLE)", weight)
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
        return _double_terms(value, f"CAST({text} AS DOUBLE)", "1L")
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
    """Aggregates that sum the terms of a group; for DOUBLE the first is a struct, for ``lower_stored_columns``."""
    column = quote(value.name)
    if value.type != DOUBLE:
        return {value.name: f"coalesce(CAST(sum({column}) AS {type_sql(value.type)}), {_zero(value)})"}
    pair = struct_sql({"hi": column, "lo": quote(value.name + LOW)})
    folded = _fold(f"collect_list(CASE WHEN {column} IS NOT NULL THEN {pair} END)", "x.hi", "x.lo")
    return {value.name: folded, **{name: f"coalesce(sum({quote(name)}), 0L)" for name in _specials(value)}}


def lower_history(value: RingField, old: str) -> tuple[dict[str, str], dict[str, str]]:
    """The sum of a group's stored rows, before and after the rows for which the column ``old`` is false.

    A DOUBLE is folded in the order of epochs and starts again from zero whenever the weight of its key reaches zero.
    """
    if value.type != DOUBLE:
        total = f"CAST({quote(value.name)} AS {_wide(value)})"
        cast = f"CAST(sum({total}) {{}}AS {type_sql(value.type)})"
        before = cast.format(f"FILTER (WHERE {old}) ")
        return {value.name: f"coalesce({before}, {_zero(value)})"}, {value.name: cast.format("")}
    members = {"new": f"NOT {old}", "e": quote(EPOCH), "w": quote(WEIGHT)}
    members |= {"hi": quote(value.name), "lo": quote(value.name + LOW)}
    history = f"sort_array(collect_list({struct_sql(members)}))"
    before = _fold(f"filter({history}, x -> NOT x.new)", "x.hi", "x.lo", resets=True)
    after = _fold(history, "x.hi", "x.lo", resets=True)
    specials = {name: f"coalesce(sum({quote(name)}) FILTER (WHERE {old}), 0L)" for name in _specials(value)}
    return {value.name: before, **specials}, {value.name: after, **{n: f"sum({quote(n)})" for n in _specials(value)}}


def lower_stored_columns(value: RingField, source: str) -> dict[str, str]:
    """The stored columns of a sum that ``lower_sum`` or ``lower_history`` made, out of the struct ``source``."""
    names = stored_columns(value)
    parts = {name: f"{source}.{quote(name)}" for name in names}
    if value.type == DOUBLE:
        pair = f"{source}.{quote(value.name)}"
        parts |= {value.name: f"{pair}.hi", value.name + LOW: f"{pair}.lo"}
    return parts


def lower_visible_values(value: RingField, source: str) -> dict[str, str]:
    """The values that expressions see, by name, out of the struct ``source`` of stored columns.

    A DOUBLE is rounded, with its rounding error as a second value, its low half.
    """
    column = f"{source}.{quote(value.name)}"
    if value.type != DOUBLE:
        return {value.name: column}
    nan, infinity, negative = (f"{source}.{quote(name)}" for name in _specials(value))
    rounded = (
        f"CASE WHEN {nan} <> 0 OR ({infinity} <> 0 AND {negative} <> 0) THEN double('NaN') "
        f"WHEN {infinity} <> 0 THEN double('Infinity') WHEN {negative} <> 0 THEN double('-Infinity') ELSE {column} END"
    )
    return {value.name: rounded, value.name + LOW: f"{source}.{quote(value.name + LOW)}"}


def any_nonzero(columns: Iterable[str]) -> str:
    """The condition that some of the columns are not zero."""
    return " OR ".join(f"{column} <> 0" for column in columns)


def _fold(pairs: str, high: str, low: str, *, resets: bool = False) -> str:
    """The sum of pairs of doubles as a pair: a compensated sum, normalised at the end.

    ``s`` is the running sum and ``c`` its accumulated rounding error. The larger operand decides which error is exact.
    """
    total = f"(a.s + {high})"
    lost = f"IF(abs(a.s) >= abs({high}), (a.s - {total}) + {high}, ({high} - {total}) + a.s)"
    weight = "a.w + x.w" if resets else "0L"
    step = f"named_struct('w', {weight}, 's', {total}, 'c', a.c + {low} + {lost})"
    if resets:
        step = f"IF({weight} = 0, {_ZERO}, {step})"
    rest = "IF(abs(a.s) >= abs(a.c), a.c - ((a.s + a.c) - a.s), a.s - ((a.s + a.c) - a.c))"
    ends = f"named_struct('hi', a.s + a.c, 'lo', {rest})"
    return f"aggregate({pairs}, {_ZERO}, (a, x) -> {step}, a -> {ends})"


def _wide(value: RingField) -> str:
    """The type in which stored values are summed: wide enough that no partial sum overflows before the total does."""
    return type_sql(value.type) if isinstance(value.type, Decimal) else "DECIMAL(38,0)"


def _zero(value: RingField) -> str:
    return f"CAST(0 AS {type_sql(value.type)})"
