"""Which expressions can fail. ANSI SQL makes overflow, division by zero and impossible casts errors."""

from __future__ import annotations

from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Lambda,
    Literal,
    Quantified,
    Scalar,
    Subquery,
)
from tidemill.algebra.relational.walk import children
from tidemill.model import types as t
from tidemill.model.types import Type

TOTAL = frozenset(
    (
        "eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq", "and", "or", "not", "is_null", "is_not_null", "isnan",
        "in", "coalesce", "greatest", "least",
        "concat", "concat_ws", "length", "upper", "lower", "initcap", "reverse", "trim", "ltrim", "rtrim",
        "substring", "left", "right", "replace", "translate",
        "instr", "locate", "position", "startswith", "endswith", "contains", "like",
        "year", "quarter", "month", "day", "week", "dayofweek", "dayofweek_iso", "weekday", "dayofyear", "hour",
        "minute", "second", "datediff", "unix_date",
        "try_add", "try_subtract", "try_multiply", "try_divide", "try_mod", "size", "array_contains",
        "array", "array_append", "array_compact", "array_distinct", "array_except", "array_intersect", "array_join",
        "array_max", "array_min", "array_position", "array_prepend", "array_remove", "array_sort", "array_union",
        "arrays_overlap", "arrays_zip", "flatten", "get", "sort_array",
        "aggregate", "exists", "filter", "filter_placed", "forall", "transform", "transform_placed", "zip_with",
        "named_struct", "get_field", "ring_product", "ring_sum",
    )
)  # fmt: skip
"""Functions with a value for every argument of their types."""

CLOSED = frozenset(("add", "subtract", "multiply", "negate"))
"""Functions that fail only where a result does not fit its type."""


def may_fail(scalar: Scalar) -> bool:
    """Whether ``scalar`` can raise an error for some row. Errs towards yes.

    A condition that can fail must not be tried on rows that a condition before it would have kept away, as in
    ``x <> 0 AND 10 / x > 1``; one that cannot may go wherever its columns are. The sum of a subquery is taken over all
    rows of its tables at once, as Spark takes it, so nothing could protect it from an overflow.

    >>> from tidemill.model.types import BOOLEAN, INT
    >>> x, one = Column("x", INT), Literal(1, INT)
    >>> may_fail(Call("gt", (x, one), BOOLEAN)), may_fail(Call("add", (x, one), INT))
    (False, True)
    """
    match scalar:
        case Column() | Literal() | Case() | Lambda() | Subquery() | Exists() | Quantified():
            fails = False
        case Cast(input=input_, of=of, lenient=lenient):
            fails = not (lenient or _widens(input_.type, of))
        case Call(function=name, of=of):
            fails = name not in TOTAL and not (name in CLOSED and _roomy(of))
        case _:
            fails = True
    return fails or any(may_fail(child) for child in children(scalar))


def is_exact(cast: Cast) -> bool:
    """Whether ``cast`` gives every exact number more room and nothing else: the same number before and after.

    >>> from tidemill.model.types import BIGINT, DOUBLE, INT
    >>> is_exact(Cast(Column("x", INT), BIGINT)), is_exact(Cast(Column("x", BIGINT), DOUBLE))
    (True, False)
    """
    exact = (t.Int, t.BigInt, t.Decimal)
    return isinstance(cast.input.type, exact) and isinstance(cast.of, exact) and _widens(cast.input.type, cast.of)


def _widens(source: Type, target: Type) -> bool:
    """Whether every value of ``source`` has its place in ``target``."""
    match source, target:
        case _ if source == target or isinstance(source, t.Void):
            return True
        case t.Int(), t.BigInt() | t.Double():
            return True
        case t.BigInt(), t.Double():
            return True
        case t.Int() | t.BigInt(), t.Decimal(precision, scale):
            return precision - scale >= (10 if source == t.INT else 19)
        case t.Decimal(old_precision, old_scale), t.Decimal(precision, scale):
            return scale >= old_scale and precision - scale >= old_precision - old_scale
        case t.Decimal(), t.Double():
            return True
        case t.Date(), t.Timestamp():
            return True
        case t.Boolean() | t.Int() | t.BigInt() | t.Decimal() | t.Double() | t.Date() | t.Timestamp(), t.String():
            return True
    return False


def _roomy(of: Type) -> bool:
    """Whether sums and products of this type always fit: Spark's rules widen decimals up to 38 digits."""
    return of == t.DOUBLE or (isinstance(of, t.Decimal) and of.precision < t.MAX_PRECISION)
