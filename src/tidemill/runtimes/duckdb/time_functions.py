"""Functions of dates and timestamps that have a translation. Results outside the years 1 to 9999 are errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.algebra.expressions.scalars import Call, Literal
from tidemill.model import types as t
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, error_unless_sql

TimeFunction = Callable[[Call, Sequence[str]], str]

DAY_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
"""The units of TRUNC, by Spark's names, as DuckDB names them; a week begins on Monday in both."""

CLOCK_UNITS = {**dict.fromkeys(("day", "dd"), "day"), "hour": "hour", "minute": "minute", "second": "second"}
"""The further units of DATE_TRUNC."""


def _part(text: str) -> TimeFunction:
    def translation(call: Call, arguments: Sequence[str]) -> str:
        return cast_sql(text.format(*arguments), call.of)

    return translation


def _moved(text: str) -> TimeFunction:
    """A date or timestamp some time away, within the calendar."""

    def translation(call: Call, arguments: Sequence[str]) -> str:
        moment = cast_sql(text.format(*arguments), call.of)
        first, last = ("'0001-01-01'", "'9999-12-31'") if call.of == t.DATE else _TIMES
        within = f"({moment} BETWEEN {cast_sql(first, call.of)} AND {cast_sql(last, call.of)})"
        return error_unless_sql(within, moment, call.of, "a date lies outside the years 1 to 9999")

    return translation


_TIMES = "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"


def _truncated(unit_position: int, units: dict[str, str]) -> TimeFunction:
    def translation(call: Call, arguments: Sequence[str]) -> str:
        unit = call.arguments[unit_position]
        name = units.get(str(unit.value).lower()) if isinstance(unit, Literal) else None
        if name is None:
            raise NotLowered(f"{call.function} to another unit")
        return cast_sql(f"date_trunc('{name}', {arguments[1 - unit_position]})", call.of)

    return translation


TIME_FUNCTION_SQL: dict[str, TimeFunction] = {
    "year": _part("year({0})"),
    "quarter": _part("quarter({0})"),
    "month": _part("month({0})"),
    "day": _part("day({0})"),
    "week": _part("weekofyear({0})"),
    "dayofweek": _part("(dayofweek({0}) + 1)"),
    "dayofweek_iso": _part("isodow({0})"),
    "weekday": _part("(isodow({0}) - 1)"),
    "dayofyear": _part("dayofyear({0})"),
    "hour": _part("hour({0})"),
    "minute": _part("minute({0})"),
    "second": _part("second({0})"),
    "datediff": _part("({0} - {1})"),
    "unix_date": _part("({0} - DATE '1970-01-01')"),
    "unix_micros": _part("epoch_us({0})"),
    "last_day": _part("last_day({0})"),
    "add_days": _moved("({0} + {1})"),
    "date_add": _moved("({0} + {1})"),
    "date_sub": _moved("({0} - {1})"),
    "add_months": _moved("({0} + to_months({1}))"),
    "add_months_to": _moved("({0} + to_months({1}))"),
    "add_microseconds": _moved("({0} + to_microseconds({1}))"),
    "trunc": _truncated(1, DAY_UNITS),
    "date_trunc": _truncated(0, {**DAY_UNITS, **CLOCK_UNITS}),
}
"""Every function of dates and timestamps that has a translation."""
