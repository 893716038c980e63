"""Intervals at the boundary between Arrow and Spark.

Arrow has no months alone in Python, and computes little with durations and calendar intervals: they cross as an INT, as
a BIGINT of microseconds and as a struct of three numbers (see ``changes.arrow``).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.functions.datetime.intervals import of_units_sql, units_sql
from tidemill.model import types as t
from tidemill.model.types import Field, Type
from tidemill.runtimes.spark.lowering.sql_text import aliased, quote, type_sql


def to_arrow_columns(fields: Sequence[Field]) -> list[str] | None:
    """Spark SQL for columns as Arrow takes them; None where they are that already."""
    if not any(t.holds_interval(f.type) for f in fields):
        return None
    return [aliased(_outward(quote(f.name), f.type) or quote(f.name), f.name) for f in fields]


def from_arrow_columns(fields: Sequence[Field], given: Sequence[str]) -> list[str] | None:
    """Spark SQL for the columns ``given``, of which ``fields`` are known, as they came from Arrow; None as above."""
    if not any(t.holds_interval(f.type) for f in fields):
        return None
    known = {f.name: f.type for f in fields}
    return [aliased(_inward(quote(n), known[n]) if n in known else quote(n), n) for n in given]


def _outward(text: str, type_: Type, depth: int = 0) -> str:
    """The value as numbers; empty where it is no interval and has none in it."""
    match type_:
        case t.AnsiInterval():
            return f"CAST({units_sql(text, type_)} AS {'INT' if isinstance(type_, t.YearMonthInterval) else 'BIGINT'})"
        case t.CalendarInterval():
            return _calendar_numbers(text)
        case t.Array(element) if inner := _outward(f"e{depth}", element, depth + 1):
            return f"transform({text}, e{depth} -> {inner})"
        case t.Map(key, value) if _outward("k", key) or _outward("v", value):
            keys = _outward(f"e{depth}", key, depth + 1) or f"e{depth}"
            values = _outward(f"e{depth}", value, depth + 1) or f"e{depth}"
            parts = (
                f"transform(map_keys({text}), e{depth} -> {keys}), transform(map_values({text}), e{depth} -> {values})"
            )
            return f"map_from_arrays({parts})"
        case t.Struct(fields) if any(_outward("e", f.type) for f in fields):
            members = (f"'{f.name}', {_member(text, f, depth)}" for f in fields)
            return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(members)}) END"
    return ""


def _map(text: str, name: str, key: str, value: str) -> str:
    """A map with other keys and values, expressions of ``name``."""
    keys, values = f"transform(map_keys({text}), {name} -> {key})", f"transform(map_values({text}), {name} -> {value})"
    return f"map_from_arrays({keys}, {values})"


def _member(text: str, field: Field, depth: int) -> str:
    member = f"{text}.{quote(field.name)}"
    return _outward(member, field.type, depth) or member


def _calendar_numbers(text: str) -> str:
    months = f"extract(YEAR FROM {text}) * 12 + extract(MONTH FROM {text})"
    minutes = f"extract(HOUR FROM {text}) * 60 + extract(MINUTE FROM {text})"
    micros = f"({minutes}) * 60000000 + CAST(extract(SECOND FROM {text}) * 1000000 AS BIGINT)"
    numbers = f"'months', {months}, 'days', extract(DAY FROM {text}), 'microseconds', {micros}"
    return f"CASE WHEN {text} IS NOT NULL THEN named_struct({numbers}) END"


def _inward(text: str, type_: Type, depth: int = 0) -> str:
    """The value of numbers that ``_outward`` made."""
    match type_:
        case t.AnsiInterval():
            return of_units_sql(text, type_)
        case t.CalendarInterval():
            time = f"{text}.microseconds"
            parts = f"{text}.months, 0, {text}.days, CAST({time} DIV 3600000000 AS INT), 0"
            return f"make_interval(0, {parts}, ({time} % 3600000000) / 1000000BD)"
        case t.Array(element) if t.holds_interval(element):
            return f"transform({text}, e{depth} -> {_inward(f'e{depth}', element, depth + 1)})"
        case t.Map(key, value) if t.holds_interval(type_):
            keys, values = (_inward(f"e{depth}", one, depth + 1) for one in (key, value))
            parts = (
                f"transform(map_keys({text}), e{depth} -> {keys}), transform(map_values({text}), e{depth} -> {values})"
            )
            return f"map_from_arrays({parts})"
        case t.Struct(fields) if t.holds_interval(type_):
            members = (f"'{f.name}', {_inward(f'{text}.{quote(f.name)}', f.type, depth)}" for f in fields)
            return (
                f"CAST(CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(members)}) END AS {type_sql(type_)})"
            )
    return text
