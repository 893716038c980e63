"""The functions and operators that have a translation. A function that is not in ``FUNCTION_SQL`` is refused.

A translation may refuse arguments by their types and constants. Where DuckDB has no error but Spark does, as for a zero
divisor, the text raises one; the caller then asks a runtime, which has the same error with its words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.algebra.expressions.scalars import Call, Literal
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.duckdb import decimals
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, comma_list, error_unless_sql, type_sql
from tidemill.runtimes.duckdb.text_functions import TEXT_FUNCTION_SQL
from tidemill.runtimes.duckdb.time_functions import TIME_FUNCTION_SQL

FunctionSql = Callable[[Call, Sequence[str]], str]
"""From a call, and the texts of its arguments, to its text."""

ZERO_DIVISOR = "division by zero"


def function_sql(call: Call, arguments: Sequence[str]) -> str:
    """The text of a call; refused if the function, or what it is applied to, has no translation."""
    translation = FUNCTION_SQL.get(call.function) or SUM_FUNCTION_SQL.get(call.function)
    if translation is None:
        raise NotLowered(f"function {call.function}")
    return translation(call, arguments)


def _template(text: str) -> FunctionSql:
    """Arguments filled into a text, for any types that DuckDB has."""

    def translation(call: Call, arguments: Sequence[str]) -> str:
        for argument in call.arguments:
            type_sql(argument.type)
        return text.format(*arguments, args=comma_list(arguments), rest=comma_list(arguments[1:]))

    return translation


def _alike(text: str) -> FunctionSql:
    """As ``_template``, for arguments of one type: nothing is left for DuckDB to convert."""
    fill = _template(text)

    def translation(call: Call, arguments: Sequence[str]) -> str:
        if len({argument.type for argument in call.arguments}) > 1:
            raise NotLowered(f"{call.function} of different types")
        return fill(call, arguments)

    return translation


def _types(call: Call) -> tuple[Type, ...]:
    return tuple(argument.type for argument in call.arguments)


def _require_same_types(call: Call) -> None:
    if any(type_ != call.of for type_ in _types(call)):
        raise NotLowered(f"{call.function} of {call.of} over other types")


def _sum(symbol: str) -> FunctionSql:
    def translation(call: Call, arguments: Sequence[str]) -> str:
        if isinstance(call.of, t.Decimal):
            one, other = _decimal_types(call)
            if call.of.scale != max(one.scale, other.scale):
                raise NotLowered(f"a sum that loses digits in {call.of}")
            return decimals.sum_sql(symbol, arguments[0], arguments[1], call.of)
        _require_same_types(call)
        return cast_sql(f"({arguments[0]} {symbol} {arguments[1]})", call.of)

    return translation


def _multiply(call: Call, arguments: Sequence[str]) -> str:
    if isinstance(call.of, t.Decimal):
        one, other = _decimal_types(call)
        if call.of.scale != one.scale + other.scale:
            raise NotLowered(f"a product that loses digits in {call.of}")
        return decimals.product_sql(arguments[0], arguments[1], call.of)
    _require_same_types(call)
    return cast_sql(f"({arguments[0]} * {arguments[1]})", call.of)


def _decimal_types(call: Call) -> tuple[t.Decimal, t.Decimal]:
    one, other = _types(call)
    if not (isinstance(one, t.Decimal) and isinstance(other, t.Decimal)):
        raise NotLowered(f"{call.function} of {one} and {other}")
    return one, other


def _divide(call: Call, arguments: Sequence[str]) -> str:
    left, right = arguments
    if isinstance(call.of, t.Decimal):
        one, other = _decimal_types(call)
        quotient = decimals.quotient_sql(left, one, right, other, call.of)
    else:
        _require_same_types(call)
        quotient = f"({left} / {right})"
    return _with_divisor(call, arguments, quotient)


def _whole_division(symbol: str) -> FunctionSql:
    """DIV and ``%`` of whole numbers: both engines cut the quotient off towards zero."""

    def translation(call: Call, arguments: Sequence[str]) -> str:
        if any(not isinstance(type_, t.Integral) for type_ in _types(call)):
            raise NotLowered(f"{call.function} of {call.of}")
        result = cast_sql(f"({arguments[0]} {symbol} {arguments[1]})", call.of)
        return _with_divisor(call, arguments, result)

    return translation


def _positive_remainder(call: Call, arguments: Sequence[str]) -> str:
    remainder = _whole_division("%")(call, arguments)
    shifted = cast_sql(f"(({remainder} + {arguments[1]}) % {arguments[1]})", call.of)
    return f"CASE WHEN {remainder} < 0 THEN {shifted} ELSE {remainder} END"


def _with_divisor(call: Call, arguments: Sequence[str], result: str) -> str:
    """A quotient or remainder, or an error for a zero divisor; NULL divided by zero is NULL."""
    left, right = arguments
    return error_unless_sql(f"({right} <> 0 OR {left} IS NULL)", result, call.of, ZERO_DIVISOR)


def _negate(call: Call, arguments: Sequence[str]) -> str:
    _require_same_types(call)
    if isinstance(call.of, t.Integral):
        # As a subtraction: DuckDB's parser widens a negated constant, and the overflow would go unnoticed.
        return cast_sql(f"({cast_sql('0', call.of)} - {arguments[0]})", call.of)
    return cast_sql(f"(- {arguments[0]})", call.of)


def _absolute(call: Call, arguments: Sequence[str]) -> str:
    _require_same_types(call)
    return cast_sql(f"abs({arguments[0]})", call.of)


def _round(call: Call, arguments: Sequence[str]) -> str:
    """ROUND of whole numbers and DECIMALs; that of a DOUBLE goes by its shortest text in Spark."""
    places = call.arguments[1]
    source = call.arguments[0].type
    if not isinstance(places, Literal) or places.value is None or places.value < 0:
        raise NotLowered("ROUND to tens")
    if source == call.of and isinstance(source, t.Integral):
        return arguments[0]
    if isinstance(source, t.Decimal) and isinstance(call.of, t.Decimal):
        if call.of.scale != min(places.value, source.scale):
            raise NotLowered(f"ROUND of {source} to {places.value} places")
        return cast_sql(arguments[0], call.of)
    raise NotLowered(f"ROUND of {source}")


def _to_whole(name: str) -> FunctionSql:
    def translation(call: Call, arguments: Sequence[str]) -> str:
        source = call.arguments[0].type
        if source == call.of == t.BIGINT:
            return arguments[0]
        if source == t.DOUBLE or isinstance(source, t.Decimal):
            return cast_sql(f"{name}({arguments[0]})", call.of)
        raise NotLowered(f"{name} of {source}")

    return translation


FUNCTION_SQL: dict[str, FunctionSql] = {
    "add": _sum("+"),
    "subtract": _sum("-"),
    "multiply": _multiply,
    "divide": _divide,
    "remainder": _whole_division("%"),
    "pmod": _positive_remainder,
    "div": _whole_division("//"),
    "negate": _negate,
    "positive": _alike("{0}"),
    "abs": _absolute,
    "round": _round,
    "floor_whole": _to_whole("floor"),
    "ceil_whole": _to_whole("ceil"),
    "sqrt": _template("sqrt({0})"),
    "eq": _alike("({0} = {1})"),
    "ne": _alike("({0} <> {1})"),
    "lt": _alike("({0} < {1})"),
    "le": _alike("({0} <= {1})"),
    "gt": _alike("({0} > {1})"),
    "ge": _alike("({0} >= {1})"),
    "null_safe_eq": _alike("({0} IS NOT DISTINCT FROM {1})"),
    "and": _alike("({0} AND {1})"),
    "or": _alike("({0} OR {1})"),
    "not": _alike("(NOT {0})"),
    "is_null": _template("({0} IS NULL)"),
    "is_not_null": _template("({0} IS NOT NULL)"),
    "isnan": _template("coalesce(isnan({0}), false)"),
    "in": _alike("({0} IN ({rest}))"),
    "coalesce": _alike("coalesce({args})"),
    "greatest": _alike("greatest({args})"),
    "least": _alike("least({args})"),
    **TEXT_FUNCTION_SQL,
    **TIME_FUNCTION_SQL,
}
"""Every function that has a translation."""


def _average(call: Call, arguments: Sequence[str]) -> str:
    total, _ = _types(call)
    if not (isinstance(total, t.Decimal) and isinstance(call.of, t.Decimal)):
        raise NotLowered(f"an average of {total}")
    # The sum of DECIMAL(p, s) is ten digits wider than its values.
    values = t.Decimal(max(total.precision - 10, 1), total.scale)
    return decimals.average_sql(decimals.unscaled_sql(arguments[0], total), arguments[1], values, call.of)


def _mean(call: Call, arguments: Sequence[str]) -> str:
    total, _ = _types(call)
    if not (isinstance(total, t.Integral) or (isinstance(total, t.Decimal) and not total.scale)):
        raise NotLowered(f"a mean of {total}")
    whole = cast_sql(cast_sql(arguments[0], t.BIGINT), t.DOUBLE)
    return f"({whole} / {cast_sql(arguments[1], t.DOUBLE)})"


def _checked_sum(call: Call, arguments: Sequence[str]) -> str:
    return cast_sql(arguments[0], t.BIGINT)


SUM_FUNCTION_SQL: dict[str, FunctionSql] = {"average": _average, "mean": _mean, "bigint_checked": _checked_sum}
"""The last steps of SUM and AVG from the sums of a map, which only stages have. They are those of ``aggregates``."""
