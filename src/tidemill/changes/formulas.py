"""Formulas: columns of stored rows that are computed from others when they are read, as text of a manifest.

A formula is a list: ``["column", name]``, ``["value", type, value]``, or a kernel with the type of its result and its
arguments, such as ``["div", "int64", ["column", "n"], ["value", "int64", 100]]``. Its kernels are few: each gives what
SQL does, or an error of Arrow's where SQL has one. So rows for which a formula was evaluated once can be read by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import without_negative_zeros

__all__ = ["COMPARISONS", "KERNELS", "Formula", "columns_of", "evaluated"]

Formula = Sequence[Any]
"""See above; after a manifest was read, the lists are lists again."""

COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
"""Kernels of which SQL means the same for whole numbers and dates."""


def _case(*arguments: Any) -> Any:
    """The value after the first condition that is true, else the last argument."""
    *branches, default = arguments
    pairs = list(zip(branches[::2], branches[1::2], strict=True))
    return reduce(lambda rest, pair: pc.if_else(pc.fill_null(pair[0], False), pair[1], rest), reversed(pairs), default)


def _remainder(left: Any, right: Any) -> Any:
    """The remainder of whole numbers, with the sign of ``left``."""
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))


KERNELS: Mapping[str, Callable[..., Any]] = {
    **COMPARISONS,
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "negate": pc.negate_checked,
    "divide": pc.divide_checked,
    "div": pc.divide_checked,
    "remainder": _remainder,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is_null": pc.is_null,
    "is_not_null": pc.is_valid,
    "coalesce": pc.coalesce,
    "case": _case,
    "cast": lambda value: value,
}


def evaluated(formula: Formula, column_of: Callable[[str], Any], rows: int) -> pa.Array | pa.ChunkedArray:
    """The column of a formula, for so many rows of which ``column_of`` gives the others.

    >>> half = ["div", "int64", ["column", "n"], ["value", "int64", 2]]
    >>> evaluated(half, {"n": pa.array([7, None, -7])}.__getitem__, 3).to_pylist()
    [3, None, -3]
    """
    found = _value(formula, column_of)
    return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found


def columns_of(formula: Formula) -> Iterator[str]:
    """The columns that a formula reads."""
    kind, *parts = formula
    if kind == "column":
        yield parts[0]
    elif kind != "value":
        for part in parts[1:]:
            yield from columns_of(part)


def _value(formula: Formula, column_of: Callable[[str], Any]) -> Any:
    kind, *parts = formula
    if kind == "column":
        return column_of(parts[0])
    type_ = pa.type_for_alias(parts[0])
    if kind == "value":
        return pa.scalar(parts[1], type_)
    found = KERNELS[kind](*(_value(part, column_of) for part in parts[1:]))
    if not pa.types.is_floating(type_):
        return found.cast(type_)
    found = without_negative_zeros(found.cast(type_, safe=False))  # of whole numbers the nearest DOUBLE
    return pc.if_else(pc.is_nan(found), pa.scalar(math.nan, type_), found)
