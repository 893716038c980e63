"""Comparisons, three-valued logic and tests for NULL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, Inference, always, expect_count, never, takes
from tidemill.algebra.values.coercion import common_type, compared_type, widest_type
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type


def order_key(value: Any) -> Any:
    """A Python value that sorts as ``value`` does in SQL: NULL first, NaN last, nested values piece by piece.

    >>> order_key(math.nan) > order_key(math.inf), order_key(None) < order_key(0)
    (True, True)
    """
    if value is None:
        return (0,)
    if isinstance(value, tuple | ArrayTree):
        return (1, tuple(map(order_key, value)))
    if isinstance(value, float):
        return (1, value != value, 0.0 if value != value else value)
    return (1, value)


def compare(left: Any, right: Any) -> int:
    """Minus one, zero or one, as ``left`` sorts before, with or after ``right``."""
    one, other = order_key(left), order_key(right)
    return int(one > other) - int(one < other)


def pair(gives: Type = t.BOOLEAN) -> Inference:
    """Two arguments, brought to the type in which they are compared."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        common = compared_type(types[0], types[1])
        return (common, common), gives

    return infer


def truth_values(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """Two truth values. A STRING is read as one beside a BOOLEAN alone."""
    if t.STRING in types and t.BOOLEAN not in types:
        raise TypeMismatch("a condition was expected, not a STRING", hint="Compare it, or convert it with CAST.")
    return _TRUTH_VALUES(types)


_TRUTH_VALUES = takes(t.BOOLEAN, t.BOOLEAN, gives=t.BOOLEAN)


def together(
    least: int = 1, gives: Type | None = None, common: Callable[[Sequence[Type]], Type] = common_type
) -> Inference:
    """Any number of arguments, all brought to their common type, which is the result's unless it ``gives`` another."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, least)
        of = common(types)
        return (of,) * len(types), gives or of

    return infer


def anything(gives: Type) -> Inference:
    """One argument of any type."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 1, 1)
        return tuple(types), gives

    return infer


def all_true(*values: bool | None) -> bool | None:
    """AND: false wins over NULL, NULL over true."""
    return False if False in values else None if None in values else True


def any_true(*values: bool | None) -> bool | None:
    """OR: true wins over NULL, NULL over false."""
    return True if True in values else None if None in values else False


def first_known(*values: Any) -> Any:
    """COALESCE: the first value that is not NULL."""
    return next((value for value in values if value is not None), None)


def is_in(value: Any, *others: Any) -> bool | None:
    """IN: an equal value wins, then a NULL among those not equal makes it unknown."""
    if value is None:
        return None
    if any(other is not None and compare(value, other) == 0 for other in others):
        return True
    return None if None in others else False


def greatest(*values: Any) -> Any:
    """The greatest value that is not NULL."""
    return max((value for value in values if value is not None), key=order_key, default=None)


def least(*values: Any) -> Any:
    """The least value that is not NULL."""
    return min((value for value in values if value is not None), key=order_key, default=None)


def _operator(symbol: str) -> Callable[[Sequence[Type], Type], str]:
    """Python's own comparison, where it agrees with SQL: not on NaN, nor on nested values that may hold NULL."""

    def specialize(types: Sequence[Type], of: Type) -> str:
        agrees = not any(isinstance(type_, t.Floating | t.Array | t.Struct) for type_ in types)
        return f"({{0}} {symbol} {{1}})" if agrees else ""

    return specialize


def _comparison(name: str, symbol: str, python: str, holds: Callable[[int], bool]) -> Function:
    def apply(left: Any, right: Any) -> bool:
        return holds(compare(left, right))

    return Function(name, pair(), apply, f"({{0}} {symbol} {{1}})", specialize=_operator(python), total=True)


def raise_error(message: str | None) -> None:
    """The error that a query asks for."""
    raise ArithmeticFault(message or "RAISE_ERROR was called")


def _is_nan(value: float) -> bool:
    return value is not None and math.isnan(value)


RELATIONS = (
    _comparison("eq", "=", "==", lambda order: order == 0),
    _comparison("ne", "<>", "!=", lambda order: order != 0),
    _comparison("lt", "<", "<", lambda order: order < 0),
    _comparison("le", "<=", "<=", lambda order: order <= 0),
    _comparison("gt", ">", ">", lambda order: order > 0),
    _comparison("ge", ">=", ">=", lambda order: order >= 0),
    Function(
        "null_safe_eq",
        pair(),
        lambda left, right: compare(left, right) == 0,
        "({0} <=> {1})",
        strict=False,
        null_when=never,
        total=True,
    ),
)
"""The binary comparisons."""

COMPARISON = (
    *RELATIONS,
    Function("and", truth_values, all_true, "({0} AND {1})", strict=False, total=True),
    Function("or", truth_values, any_true, "({0} OR {1})", strict=False, total=True),
    Function(
        "not", takes(t.BOOLEAN, gives=t.BOOLEAN), lambda value: not value, "(NOT {0})", python="(not {0})", total=True
    ),
    Function(
        "is_null",
        anything(t.BOOLEAN),
        lambda value: value is None,
        "({0} IS NULL)",
        strict=False,
        null_when=never,
        total=True,
    ),
    Function(
        "is_not_null",
        anything(t.BOOLEAN),
        lambda value: value is not None,
        "({0} IS NOT NULL)",
        strict=False,
        null_when=never,
        total=True,
    ),
    Function(
        "isnan", takes(t.DOUBLE, gives=t.BOOLEAN), _is_nan, "isnan({0})", strict=False, null_when=never, total=True
    ),
    Function(
        "raise_error", takes(t.STRING, gives=t.VOID), raise_error, "raise_error({0})", strict=False, null_when=always
    ),
    Function("in", together(2, t.BOOLEAN), is_in, "({0} IN ({rest}))", strict=False, total=True),
    Function("coalesce", together(), first_known, "coalesce({args})", strict=False, null_when=all, total=True),
    Function(
        "greatest",
        together(2, common=widest_type),
        greatest,
        "greatest({args})",
        strict=False,
        null_when=all,
        total=True,
    ),
    Function("least", together(2, common=widest_type), least, "least({args})", strict=False, null_when=all, total=True),
)
