"""Static properties of a scalar, such as that it cannot fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar, is_nullable
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.node import memoized
from tidemill.algebra.relational.walk import children, transform, walk
from tidemill.algebra.values.casts import cast_value
from tidemill.algebra.values.interval_casts import keeps_all
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Type
from tidemill.runtimes.native.python.templates import template


def conversion(source: Type, target: Type) -> str:
    """A cast that always succeeds and is simple in Python; empty for all others."""
    match source, target:
        case _ if source == target:
            return "{0}"
        case t.Integral(), t.Integral() if source.bits < target.bits:
            return "{0}"
        case t.Float(), t.Double():
            return "{0}"
        case t.AnsiInterval(), t.AnsiInterval() if keeps_all(source, target):
            return "{0}"
        case ((t.Integral() | t.Decimal()), t.Double()):
            return "float({0})"
        case t.Decimal(p, s), t.Decimal(precision, scale) if scale >= s and precision - scale >= p - s:
            return "{0}" if s == scale else "{0}.quantize({unit})"
        case t.Integral(), t.Decimal(precision, scale) if precision - scale >= min(source.digits, 19):
            return "Decimal({0})" if scale == 0 else "Decimal({0}).quantize({unit})"
    return ""


def simplified(scalar: Scalar) -> Scalar:
    """``scalar`` without the casts that change nothing in Python, such as INT to BIGINT.

    >>> simplified(Cast(Column("n", t.INT), t.BIGINT))
    Column(name='n', of=Int(), nullable=True)
    """

    def bare(part: Scalar) -> Scalar:
        return part.input if isinstance(part, Cast) and conversion(part.input.type, part.type) == "{0}" else part

    return transform(scalar, bare)


def folded(cast: Cast) -> Any:
    """The value of a cast of a constant; None if it is NULL, or an error that belongs to the row that evaluates it."""
    assert isinstance(cast.input, Literal)
    try:
        return cast_value(cast.input.value, cast.input.type, cast.type, cast.lenient)
    except ArithmeticFault:
        return None


def always_computed(scalar: Scalar) -> Sequence[Scalar]:
    """The subexpressions of ``scalar`` that are computed whenever it is."""
    match scalar:
        case Call("is_null" | "is_not_null", arguments):
            return arguments
        case Call("and" | "or" | "coalesce", arguments):
            return arguments[:1]
        case Call(arguments=arguments):
            certain = next((i for i, argument in enumerate(arguments, 1) if is_nullable(argument)), len(arguments))
            return arguments[:certain]
        case Case(branches=((condition, _), *_)):
            return (condition,)
        case Cast(input=input_):
            return (input_,)
    return ()


def is_plain_membership(scalar: Scalar) -> bool:
    """True if ``scalar`` is an IN that Python's ``in`` decides as SQL does: no NULL, no NaN, nothing nested."""
    if not isinstance(scalar, Call) or scalar.function != "in":
        return False
    nested = t.Floating | t.Array | t.Map | t.Struct | t.CalendarInterval
    return all(
        isinstance(other, Literal) and other.value is not None and not isinstance(other.type, nested)
        for other in scalar.arguments[1:]
    )


@memoized
def calls_in(scalar: Scalar) -> frozenset[tuple[str, Type]]:
    """The functions that are called anywhere in ``scalar``, each with its result type."""
    own = [frozenset([(scalar.function, scalar.type)])] if isinstance(scalar, Call) else []
    return frozenset().union(*own, *map(calls_in, children(scalar)))


@memoized
def is_safe(scalar: Scalar) -> bool:
    """True if computing ``scalar`` cannot fail, and it is NULL only if one of its columns is."""
    match scalar:
        case Column() | Literal():
            return True
        case Cast(input=input_):
            return conversion(input_.type, scalar.type) != "" and is_safe(input_)
        case Call(name, arguments):
            plain = FUNCTIONS[name].strict and FUNCTIONS[name].null_when is any
            written = template(name, [argument.type for argument in arguments], scalar.type)
            return plain and written != "" and all(map(is_safe, arguments))
    return False


@memoized
def cannot_fail(scalar: Scalar) -> bool:
    """True if computing ``scalar`` is never an error. Of functions, only inlined ones are known to be safe.

    >>> from tidemill.model.types import BIGINT
    >>> n = Column("n", BIGINT)
    >>> cannot_fail(Call("is_null", (n,), t.BOOLEAN)), cannot_fail(Call("add", (n, n), BIGINT))
    (True, False)
    """
    match scalar:
        case Column() | Literal():
            return True
        case Cast(input=input_):
            return conversion(input_.type, scalar.type) != "" and cannot_fail(input_)
        case Case(branches, default):
            return all(map(cannot_fail, (*(part for branch in branches for part in branch), default)))
        case Call("and" | "or" | "coalesce" | "is_null" | "is_not_null", arguments):
            return all(map(cannot_fail, arguments))
        case Call(name, arguments):
            written = template(name, [argument.type for argument in arguments], scalar.type)
            return written != "" and all(map(cannot_fail, arguments))
    return False


def suggested_name(scalar: Scalar) -> str:
    """A wish for the name of a local variable that holds ``scalar``: the columns that it is made of.

    >>> from tidemill.model.types import BIGINT
    >>> suggested_name(Call("add", (Column("l.price", BIGINT), Column("l.tax", BIGINT)), BIGINT))
    'price_tax'
    """
    columns = list(dict.fromkeys(p.name.rpartition(".")[2] for p in walk(scalar) if isinstance(p, Column)))
    if len(columns) > 1 or not isinstance(scalar, Call):
        return "_".join(columns[:3]) or "value"
    return "_".join([scalar.function, *columns])
