"""Comparisons of CHAR columns: texts of different lengths are filled up with spaces before they are compared.

As in Spark, a column of CHAR(n) is compared with a constant, or with another CHAR column, in the longer of both
lengths, so ``c = 'ab'`` finds ``'ab   '``. Beside any other expression its spaces count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.model import types as t
from tidemill.model.errors import Unsupported

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq", "in"})
"""Functions that compare their arguments."""


def padded_to_compare(arguments: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The arguments of a comparison, filled up where one of them is a CHAR column.

    >>> padded_to_compare([Column("c", t.STRING, char=3), Literal("a", t.STRING)])[1]
    Literal(value='a  ', of=String())
    """
    lengths = [_length(argument) for argument in arguments]
    if not any(isinstance(argument, Column) and argument.char for argument in arguments):
        return tuple(arguments)
    if any(length is None and _is_constant(one) for one, length in zip(arguments, lengths, strict=True)):
        raise Unsupported(
            "a CHAR column is compared with a computed constant", hint="Write the constant as a text, or use TRIM."
        )
    if None in lengths:
        return tuple(arguments)
    most = max(length for length in lengths if length is not None)
    return tuple(_padded(one, length, most) for one, length in zip(arguments, lengths, strict=True))


def with_spaces(argument: Scalar) -> Scalar:
    """An argument whose spaces count: BETWEEN and NULLIF compare a CHAR column as the text that it is."""
    return replace(argument, char=None) if isinstance(argument, Column) and argument.char else argument


def _length(argument: Scalar) -> int | None:
    """The length of a CHAR column or of a text; None if the argument is none of both."""
    if isinstance(argument, Column):
        return argument.char
    if isinstance(argument, Literal) and argument.of in (t.STRING, t.VOID):
        return len(argument.value or "")
    return None


def _is_constant(argument: Scalar) -> bool:
    """True if the argument has one value, which Spark then computes before it compares."""
    match argument:
        case Literal():
            return True
        case Cast(input=inner):
            return _is_constant(inner)
        case Call(arguments=parts):
            return all(map(_is_constant, parts))
        case Case(branches=branches, default=default):
            return all(_is_constant(part) for part in (default, *(one for pair in branches for one in pair)))
    return False


def _padded(argument: Scalar, length: int | None, most: int) -> Scalar:
    if length == most or (isinstance(argument, Literal) and argument.value is None):
        return argument
    if isinstance(argument, Literal):
        return Literal(argument.value.ljust(most), t.STRING)
    return Call("rpad", (argument, Literal(most, t.INT), Literal(" ", t.STRING)), t.STRING)
