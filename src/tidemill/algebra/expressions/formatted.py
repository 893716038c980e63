"""Conversions by a format: TO_NUMBER and TO_CHAR. What they become depends on format and types."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.arguments import Builder, DerivedFunction, constant, expect_arguments
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.algebra.functions.function import StrictParameter, expect
from tidemill.algebra.functions.numbers.number_formats import format_type
from tidemill.algebra.values.coercion import decimal_argument
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch


def to_number(name: str) -> DerivedFunction:
    """TO_NUMBER and TRY_TO_NUMBER: the format is a constant, as it makes the type."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        expect_arguments(arguments, 2, 2)
        text, pattern = arguments
        expect(text.type, t.STRING)
        if isinstance(pattern, Literal) and pattern.value is None:
            return Literal(None, t.Decimal())
        wanted = str(constant(pattern, t.STRING, "the format"))
        return Call(name, (convert(text, t.STRING), Literal(wanted, t.STRING)), format_type(wanted))

    return form


def to_char(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """TO_CHAR(value, format): of a date or timestamp by its pattern, of bytes in a form, of a number by a format."""
    expect_arguments(arguments, 2, 2)
    value, pattern = arguments
    if isinstance(value.type, t.Date | t.Timestamp | t.Time):
        return call("date_format", value, pattern)
    if isinstance(value.type, t.Binary):
        return _bytes_as_text(call, value, pattern)
    return call("number_to_char", convert(value, decimal_argument(value.type)), pattern)


def _bytes_as_text(call: Builder, value: Scalar, pattern: Scalar) -> Scalar:
    expect(pattern.type, StrictParameter(t.STRING, null=False))
    match str(constant(pattern, t.STRING, "the form of bytes")).lower().strip():
        case "base64" | "hex" as form:
            return call(form, value)
        case "utf-8":
            return call("decode", value, pattern)
    raise TypeMismatch("bytes are written as base64, hex or utf-8")
