"""Functions that the native runtime inlines instead of calling them.

A template has ``{0}``, ``{1}`` for its arguments and is valid if none is NULL, like ``Function.python``. These few are
here and not with the functions because they rely on the generated code around them: decimals are computed in the
context ``EXACT``, and NaN and zero are brought into normal form only where they leave the expression.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.model import types as t
from tidemill.model.types import Type

_SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*"}

# Python's integers have no bounds, and EXACT has digits for the product of any four sums.
_RING = {"ring_sum": "{0} + {1}", "ring_product": "{0} * {1}"}

_RANGED = {name: f"{{0}} {symbol} {{1}}" for name, symbol in _SYMBOLS.items()} | {
    "negate": "-{0}",
    "bigint_checked": "{0}",
}

# In SQL NaN equals itself and is greater than every number; Python's comparisons do neither.
_DOUBLES = {
    "eq": "({0} == {1} or ({0} != {0} and {1} != {1}))",
    "ne": "not ({0} == {1} or ({0} != {0} and {1} != {1}))",
    "lt": "({0} < {1} or ({1} != {1} and {0} == {0}))",
    "le": "({0} <= {1} or {1} != {1})",
    "gt": "({1} < {0} or ({0} != {0} and {1} == {1}))",
    "ge": "({1} <= {0} or {0} != {0})",
}


def template(name: str, types: Sequence[Type], of: Type) -> str:
    """The Python expression of function ``name`` for arguments of ``types``; empty means: call the function.

    >>> template("add", (t.DOUBLE, t.DOUBLE), t.DOUBLE)
    '{0} + {1}'
    """
    doubles = bool(types) and all(isinstance(type_, t.Floating) for type_ in types)
    if name in _DOUBLES and doubles:
        return _DOUBLES[name]
    if name in _RING:
        return _RING[name]
    if name in _SYMBOLS:
        symbol = _SYMBOLS[name]
        if of == t.DOUBLE or (isinstance(of, t.Decimal) and of.precision < t.MAX_PRECISION):
            return f"{{0}} {symbol} {{1}}"
    return FUNCTIONS[name].inline(types, of)


def checked_template(name: str, of: Type) -> str:
    """The expression of integer arithmetic; ``{temporary}`` holds the result while its range is checked. Or empty."""
    if name not in _RANGED or not isinstance(of, t.Integral):
        return ""
    limit = f"2**{of.bits - 1}"
    return f"{{temporary}} if -{limit} <= ({{temporary}} := {_RANGED[name]}) < {limit} else {{overflow}}"
