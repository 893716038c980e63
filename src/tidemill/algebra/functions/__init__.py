"""The scalar functions and operators of Spark SQL: types, meaning in Python, spelling in Spark.

Add a function by declaring a ``Function`` in the module of its theme; ``registry`` collects them.

- ``function``: ``Function``, the declaration, and helpers for signatures
- ``registry``: ``FUNCTIONS``, all of them by name
- ``arithmetic``: operators on numbers, and their TRY_ forms
- ``comparison``: comparisons, three-valued logic, tests for NULL, and the order of values
- ``mathematics``: rounding, roots, powers, logarithms
- ``strings``: text functions
- ``regexp``: LIKE, RLIKE and the REGEXP_ functions
- ``java_regex``: translation of Java's regular expressions to RE2
- ``time``: dates and timestamps
- ``time_windows``: tumbling and sliding time windows, and numbers of time partitions
- ``nested``: making arrays and structs, and reading their elements
- ``arrays``: array set operations, slices and sequences
- ``higher_order``: functions that take a lambda
- ``ring_arithmetic``: exact products and sums that triggers compute with
- ``variance``: the last step of variance, covariance and correlation
"""

from __future__ import annotations

import difflib

from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS, VOLATILE
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.algebra.functions.arithmetic import ARITHMETIC
from tidemill.algebra.functions.arrays import ARRAYS
from tidemill.algebra.functions.comparison import COMPARISON, RELATIONS
from tidemill.algebra.functions.function import Function
from tidemill.algebra.functions.higher_order import LAMBDAS
from tidemill.algebra.functions.mathematics import MATHEMATICS
from tidemill.algebra.functions.nested import NESTED
from tidemill.algebra.functions.regexp import PATTERNS
from tidemill.algebra.functions.ring_arithmetic import RING
from tidemill.algebra.functions.strings import STRINGS
from tidemill.algebra.functions.time import TIME
from tidemill.algebra.functions.time_windows import TIME_WINDOWS
from tidemill.algebra.functions.variance import VARIANCE_FUNCTIONS
from tidemill.algebra.text import USER_FUNCTION_MARK
from tidemill.algebra.values.coercion import convert, narrow_literals
from tidemill.model.errors import TypeMismatch, UnknownName, Unsupported
from tidemill.model.types import VOID

__all__ = ["FUNCTIONS", "INTERNAL", "Function", "call", "call_named"]

THEMES = (
    ARITHMETIC, COMPARISON, MATHEMATICS, STRINGS, PATTERNS, TIME, TIME_WINDOWS, NESTED, ARRAYS, LAMBDAS, RING,
    VARIANCE_FUNCTIONS,
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {function.name: function for theme in THEMES for function in theme}
"""Every function that a ``Call`` may name."""

INTERNAL = frozenset({
    *(function.name for theme in (TIME_WINDOWS, RING, VARIANCE_FUNCTIONS) for function in theme),
    *(function.name for function in RELATIONS), "add", "subtract", "multiply", "divide", "remainder", "negate",
    "is_null", "is_not_null", "average", "mean", "bigint_checked", "add_days", "add_months_to", "add_microseconds",
    "ceil_places", "ceil_whole", "floor_places", "floor_whole", "dayofweek_iso", "second_with_fraction",
    "filter_placed", "transform_placed", "sort_by", "get_field", "get_item", "numbered", "log_base",
    "sequence_of_moments", "week",
})  # fmt: skip
"""What operators and other functions are made of: no functions of SQL, and unknown to users by these names."""

OPERATORS = frozenset(function.name for function in (*ARITHMETIC, *RELATIONS))
"""The functions beside which an integer literal is as narrow as its digits."""


def call_named(name: str, *arguments: Scalar) -> Scalar:
    """As ``call``, by a name that a user wrote."""
    if name.lower() in INTERNAL:
        raise _unknown(name.lower())
    return call(name, *arguments)


def call(name: str, *arguments: Scalar) -> Scalar:
    """``name`` applied to ``arguments``: types resolved, conversions inserted as Spark inserts them.

    Most names give a ``Call``; forms such as IF, NVL and BETWEEN give what they stand for.
    """
    name = name.lower()
    name = ALIASES.get(name, name)
    if name in VOLATILE:
        raise Unsupported(
            f"{name}() cannot be used in a view",
            detail="Its value changes although no row changes, so no change would ever carry the new value.",
            hint="Keep the value in a column or a table, and change it there.",
        )
    try:
        return _apply(name, arguments)
    except TypeMismatch as error:
        what = f"{name.partition(USER_FUNCTION_MARK)[0]}: {error.what}"
        raise TypeMismatch(what, where=error.where, detail=error.detail, hint=error.hint) from None


def _apply(name: str, arguments: tuple[Scalar, ...]) -> Scalar:
    if form := DERIVED_FUNCTIONS.get(name):
        return form(call, arguments)
    function = FUNCTIONS.get(name)
    if function is None:
        raise _unknown(name)
    for position in function.constants:
        if position < len(arguments) and not isinstance(arguments[position], Literal):
            raise TypeMismatch(f"argument {position + 1} must be a constant")
    given = narrow_literals(arguments) if name in OPERATORS else arguments
    try:
        types, of = function.infer([argument.type for argument in given])
    except (IndexError, ValueError):
        types, of = (), VOID
    if len(types) != len(given):
        raise TypeMismatch(f"it cannot take {len(given)} arguments")
    if function.check is not None:
        function.check([argument.value if isinstance(argument, Literal) else None for argument in given])
    converted = (convert(argument, type_) for argument, type_ in zip(given, types, strict=True))
    return Call(name, tuple(converted), of)


def _unknown(name: str) -> UnknownName:
    known = {*FUNCTIONS, *DERIVED_FUNCTIONS, *ALIASES} - INTERNAL
    near = difflib.get_close_matches(name, sorted(known), n=3)
    return UnknownName(f"there is no function {name}", hint=f"Did you mean {' or '.join(near)}?" if near else None)
