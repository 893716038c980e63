"""Functions of texts that have a translation. Characters are code points in both engines.

Functions that depend on tables of characters, such as UPPER, are left to DuckDB for ASCII alone: other texts are an
error, and the caller asks a runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Literal
from tidemill.model import types as t
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, comma_list, error_unless_sql

Condition = Callable[[Any], bool]
TextFunction = Callable[[Call, Sequence[str]], str]


def _filled(text: str, conditions: dict[int, Condition] | None = None) -> TextFunction:
    """Arguments filled into a text. Those at the positions of ``conditions`` must be constants of which these hold."""

    def translation(call: Call, arguments: Sequence[str]) -> str:
        if any(argument.type == t.BINARY for argument in call.arguments):
            raise NotLowered(f"{call.function} of BINARY")
        for position, condition in (conditions or {}).items():
            if position < len(arguments):
                _require(call, position, condition)
        return cast_sql(text.format(*arguments, args=comma_list(arguments)), call.of)

    return translation


def _md5(call: Call, arguments: Sequence[str]) -> str:
    return f"md5({arguments[0]})"


def _require(call: Call, position: int, condition: Condition) -> None:
    argument = call.arguments[position]
    if not isinstance(argument, Literal) or argument.value is None or not condition(argument.value):
        raise NotLowered(f"argument {position + 1} of {call.function}")


def _of_ascii(name: str) -> TextFunction:
    def translation(call: Call, arguments: Sequence[str]) -> str:
        if call.of != t.STRING:
            raise NotLowered(f"{name} of {call.of}")
        (text,) = arguments
        plain = f"(strlen({text}) = length({text}))"
        return error_unless_sql(plain, f"{name}({text})", t.STRING, f"{name} of characters beyond ASCII")

    return translation


def _concat(call: Call, arguments: Sequence[str]) -> str:
    if call.of != t.STRING or not arguments:
        raise NotLowered(f"concat of {call.of}")
    return f"({' || '.join(arguments)})"


def _like(call: Call, arguments: Sequence[str]) -> str:
    """LIKE with a constant pattern. A backslash escapes in Spark and not in DuckDB, so a pattern must have none."""
    if len(arguments) != 2:
        raise NotLowered("LIKE with ESCAPE")
    _require(call, 1, lambda pattern: "\\" not in pattern)
    return f"({arguments[0]} LIKE {arguments[1]})"


def _replace(call: Call, arguments: Sequence[str]) -> str:
    _require(call, 1, bool)
    replacement = arguments[2] if len(arguments) == 3 else "''"
    return f"replace({arguments[0]}, {arguments[1]}, {replacement})"


def _positive(value: int) -> bool:
    return value > 0


def _not_negative(value: int) -> bool:
    return value >= 0


TEXT_FUNCTION_SQL: dict[str, TextFunction] = {
    "concat": _concat,
    "length": _filled("length({0})"),
    "upper": _of_ascii("upper"),
    "lower": _of_ascii("lower"),
    "reverse": _of_ascii("reverse"),
    "trim": _filled("trim({0}, {1})", {1: bool}),
    "ltrim": _filled("ltrim({0}, {1})", {1: bool}),
    "rtrim": _filled("rtrim({0}, {1})", {1: bool}),
    "substring": _filled("substring({args})", {1: _positive, 2: _not_negative}),
    "left": _filled("left({0}, {1})", {1: _not_negative}),
    "right": _filled("right({0}, {1})", {1: _not_negative}),
    "replace": _replace,
    "instr": _filled("instr({0}, {1})", {1: bool}),
    "startswith": _filled("starts_with({0}, {1})"),
    "endswith": _filled("ends_with({0}, {1})"),
    "contains": _filled("contains({0}, {1})"),
    "like": _like,
    "md5": _md5,
}
"""Every function of texts that has a translation."""
