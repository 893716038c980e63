"""The kinds of arguments that aggregates declare: each applies Spark's implicit casts, and refuses the rest."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.functions.function import Parameter, StrictParameter, expect
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    AnsiInterval,
    Date,
    Decimal,
    Integral,
    Timestamp,
    TimestampNtz,
    Void,
    is_numeric,
)

ParameterType = Callable[[Scalar], Scalar]
"""An argument as the aggregate takes it; a TypeMismatch if it does not take it."""


def anything(scalar: Scalar) -> Scalar:
    """A value of any type."""
    return scalar


def number(scalar: Scalar) -> Scalar:
    """A number; a text is read as a DOUBLE.

    >>> from tidemill.algebra.expressions.scalars import Literal
    >>> number(Literal("1.5", STRING))
    Literal(value=1.5, of=Double())
    """
    if scalar.type in (STRING, VOID):
        return convert(scalar, DOUBLE)
    if not is_numeric(scalar.type):
        raise TypeMismatch(f"a number was expected, not {scalar.type}", hint="Convert it with CAST.")
    return scalar


def number_or_interval(scalar: Scalar) -> Scalar:
    """A number, or an interval that counts one unit."""
    return scalar if isinstance(scalar.type, AnsiInterval) else number(scalar)


def number_or_moment(scalar: Scalar) -> Scalar:
    """A number or an interval, or a timestamp as its seconds from 1970 on."""
    return convert(scalar, DOUBLE) if scalar.type == TIMESTAMP else number_or_interval(scalar)


def whole_number(scalar: Scalar) -> Scalar:
    """A value whose bits are read."""
    return convert(scalar, INT) if scalar.type == VOID else scalar


def of_type(parameter: Parameter) -> ParameterType:
    """A value of one type, or of those that Spark converts to it."""

    def kind(scalar: Scalar) -> Scalar:
        return convert(scalar, expect(scalar.type, parameter))

    return kind


condition = of_type(BOOLEAN)
"""True, false or NULL; a text is read as one of them."""


def number_or_time(scalar: Scalar) -> Scalar:
    """A number, a date, a timestamp or an interval; a text is read as a DOUBLE."""
    return scalar if isinstance(scalar.type, Date | Timestamp | TimestampNtz) else number_or_interval(scalar)


def text(scalar: Scalar) -> Scalar:
    """Bytes, a text, or a value that can be written as one."""
    return scalar if scalar.type == BINARY else convert(scalar, expect(scalar.type, STRING))


def separator(scalar: Scalar) -> Scalar:
    """Bytes, a text, or a value that can be written as one; NULL is none."""
    return scalar if scalar.type == VOID else text(scalar)


flag = of_type(StrictParameter(BOOLEAN, null=False))
"""True or false as it is."""

real = of_type(DOUBLE)
"""A DOUBLE."""

count = of_type(INT)
"""A number of values."""

bin_count = of_type(StrictParameter(INT))
"""A number of bins."""


def frequency(scalar: Scalar) -> Scalar:
    """Frequency of a value."""
    if not isinstance(scalar.type, Integral | Void):
        raise TypeMismatch(f"a whole number was expected, not {scalar.type}")
    return convert(scalar, BIGINT)


whole = of_type(StrictParameter(BIGINT, (TINYINT, SMALLINT, INT), null=False))
"""A whole number."""


def fraction(scalar: Scalar) -> Scalar:
    """A number with digits behind the point."""
    if not isinstance(scalar.type, type(DOUBLE) | Decimal):
        raise TypeMismatch(f"a number such as 0.05 was expected, not {scalar.type}")
    return scalar


bitmap_position = of_type(BIGINT)
"""The position of a bit."""

bitmap = of_type(StrictParameter(BINARY))
"""Bytes as they are."""
