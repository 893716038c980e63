"""JSON texts as values of a type, as FROM_JSON reads them.

A value of another kind than its type wants is NULL, and what stands beside it is kept: of a struct the other members,
but of an array or a map nothing. A text that is no JSON gives a struct of NULLs.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidemill.algebra.values.casts import cast_value, timestamp_of
from tidemill.algebra.values.decimals import quantized
from tidemill.algebra.values.documents.json_document import JsonDocument, json_syntax, read_document
from tidemill.algebra.values.documents.json_reader import MAX_DIGITS, NAMED_NUMBERS, MalformedJson
from tidemill.algebra.values.documents.options import DateTimeFormats, Options, fails_fast, read_options
from tidemill.algebra.values.singles import nearest_single
from tidemill.algebra.values.variants import from_document
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import Field, Type
from tidemill.model.variants import NotVariant
from tidemill.model.whole_numbers import whole_number

Converter = Callable[[JsonDocument, int], Any]
"""The value of a type that begins at a position of a document."""

CORRUPT = "_corrupt_record"
"""The member that keeps the text of a record that does not fit, unless an option names another."""

REFUSED_OPTIONS = ("singlevariantcolumn", "infertimestamp")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?")


class Mismatch(Exception):
    """A value is not of the type that is wanted."""


class Partial(Exception):
    """A value of which a part is not of the type that is wanted; that part is NULL."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@lru_cache(maxsize=256)
def json_value_reader(of: Type, options: tuple[str, ...]) -> JsonValueReader:
    """The reader of texts of type ``of`` with options; refuses types and options that there are not."""
    return JsonValueReader(of, read_options(options, REFUSED_OPTIONS))


class JsonValueReader:
    """Reads JSON texts as values of one type.

    >>> reader = json_value_reader(t.Struct((Field("a", t.INT), Field("b", t.Array(t.INT)))), ())
    >>> reader.read('{"a": 1, "b": [2, "x"]}'), reader.read("{"), reader.read(" ")
    ((1, None), (None, None), None)
    """

    def __init__(self, of: Type, options: Options) -> None:
        self._of = of
        self._syntax = json_syntax(options)
        self._fail = fails_fast(options, "from_json")
        self._corrupt = options.get("columnnameofcorruptrecord", CORRUPT)
        if isinstance(of, t.Struct):
            check_corrupt_record(of, self._corrupt)
        self._root = _root(of, _Conversions(DateTimeFormats.of(options, reading=True), self._syntax.non_numeric))

    def read(self, text: str) -> Any:
        """The value of a text."""
        try:
            document = read_document(text, self._syntax)
            return None if document is None else self._root(document, 0)
        except Partial as partial:
            value = partial.value
        except (MalformedJson, Mismatch):
            value = (None,) * len(self._of.fields) if isinstance(self._of, t.Struct) else None
        if self._fail:
            raise ArithmeticFault(
                f"{text[:100]!r} is no JSON of type {self._of}",
                hint="Leave the mode FAILFAST out to get NULLs instead.",
            )
        return self._marked(value, text)

    def _marked(self, value: Any, text: str) -> Any:
        """A record that does not fit, with its text in the member for it."""
        if not isinstance(self._of, t.Struct):
            return value
        pairs = zip(self._of.fields, value, strict=True)
        return tuple(text if field.name == self._corrupt else member for field, member in pairs)


def check_corrupt_record(of: t.Struct, name: str) -> None:
    """Refuse a member for the text of records that do not fit that is no STRING."""
    if any(field.name == name and field.type != t.STRING for field in of.fields):
        raise TypeMismatch(f"the member {name}, which keeps records that do not fit, is a STRING")


def _root(of: Type, conversions: _Conversions) -> Converter:
    """The conversion of a whole text; an object may stand for an array of one struct."""
    convert = conversions.of(of)
    single = conversions.of(of.element) if isinstance(of, t.Array) and isinstance(of.element, t.Struct) else None

    def root(document: JsonDocument, start: int) -> Any:
        kind, text = document.tokens[start]
        if kind == "{" and single is not None:
            try:
                return (single(document, start),)
            except Partial as partial:
                raise Partial((partial.value,)) from None
        if (kind, text) == ("word", "null") and not isinstance(of, t.Variant):
            raise Mismatch
        return convert(document, start)

    return root


@dataclass(frozen=True)
class _Conversions:
    """The conversion of each type."""

    formats: DateTimeFormats
    non_numeric: bool

    def of(self, type_: Type) -> Converter:
        """The conversion of a type; null is NULL in all of them."""
        if isinstance(type_, t.Variant):
            return _variant
        convert = self._of_present(type_)

        def optional(document: JsonDocument, start: int) -> Any:
            return None if document.tokens[start] == ("word", "null") else convert(document, start)

        return optional

    def _of_present(self, type_: Type) -> Converter:
        match type_:
            case t.Struct(fields):
                return self._struct(fields)
            case t.Array(element):
                return self._array(element)
            case t.Map(t.String(), value):
                return self._map(value)
            case t.String():
                return _string
            case t.Void():
                return lambda document, start: None
        convert = self._scalar(type_)

        def plain(document: JsonDocument, start: int) -> Any:
            kind, text = document.tokens[start]
            if kind in ("integer", "number") and len(text) > MAX_DIGITS:
                raise Mismatch
            return convert(kind, text)

        return plain

    def _struct(self, fields: tuple[Field, ...]) -> Converter:
        converters = {field.name: (place, self.of(field.type)) for place, field in enumerate(fields)}

        def convert(document: JsonDocument, start: int) -> Any:
            _expect(document, start, "{")
            row, whole = [None] * len(fields), True
            for name, position in document.members(start):
                place, member = converters.get(name, (-1, None))
                if member is None:
                    continue
                try:
                    row[place] = member(document, position)
                except Partial as partial:
                    row[place], whole = partial.value, False
                except Mismatch:
                    whole = False
            if not whole:
                raise Partial(tuple(row))
            return tuple(row)

        return convert

    def _array(self, element: Type) -> Converter:
        each = self.of(element)

        def convert(document: JsonDocument, start: int) -> Any:
            _expect(document, start, "[")
            values, whole = list[Any](), True
            for position in document.elements(start):
                try:
                    values.append(each(document, position))
                except Partial as partial:
                    values.append(partial.value)
                    whole = False
            if not whole:
                raise Partial(tuple(values))
            return tuple(values)

        return convert

    def _map(self, value: Type) -> Converter:
        each = self.of(value)

        def convert(document: JsonDocument, start: int) -> Any:
            _expect(document, start, "{")
            entries, whole = list[tuple[str, Any]](), True
            for name, position in document.members(start):
                try:
                    entries.append((_encodable(name), each(document, position)))
                except Partial as partial:
                    entries.append((_encodable(name), partial.value))
                    whole = False
            if not whole:
                raise Partial(tuple(entries))
            return tuple(entries)

        return convert

    def _scalar(self, type_: Type) -> Callable[[str, str], Any]:
        match type_:
            case t.Boolean():
                return _boolean
            case t.Integral():
                return _integer(type_)
            case t.Floating():
                return self._floating(type_)
            case t.Decimal():
                return _decimal(type_)
            case t.Binary():
                return _binary
            case t.Date() | t.Timestamp() | t.Time():
                return self._moment(type_)
            case t.AnsiInterval() | t.CalendarInterval():
                return _interval(type_)
        raise Unsupported(f"{type_} cannot be read from JSON")

    def _floating(self, type_: Type) -> Callable[[str, str], float]:
        def convert(kind: str, text: str) -> float:
            if kind in ("integer", "number") and text not in NAMED_NUMBERS:
                return floating(text, type_)
            if kind in ("string", "number") and self.non_numeric:
                word = NAMED_NUMBERS.get(text)
                if word:
                    return canonical_double(float(word))
            raise Mismatch

        return convert

    def _moment(self, type_: Type) -> Callable[[str, str], Any]:
        def convert(kind: str, text: str) -> Any:
            if kind == "string" and text:
                found = self.formats.read(text, type_)
                if found is not None:
                    return found
            if kind == "integer" and type_ == t.TIMESTAMP:
                return timestamp_of(_within(whole_number(text), t.BIGINT) * 1_000_000)
            raise Mismatch

        return convert


def read_by_cast(text: str, of: Type) -> Any:
    """A text as CAST reads it; None where it is no such value."""
    try:
        return cast_value(text, t.STRING, of)
    except ArithmeticFault:
        return None


def _interval(of: Type) -> Callable[[str, str], Any]:
    def convert(kind: str, text: str) -> Any:
        found = read_by_cast(text, of) if kind == "string" else None
        if found is None:
            raise Mismatch
        return found

    return convert


def floating(text: str, of: Type) -> float:
    """A number as a FLOAT or DOUBLE."""
    return nearest_single(decimal.Decimal(text)) if of == t.FLOAT else canonical_double(float(text))


def _expect(document: JsonDocument, start: int, kind: str) -> None:
    if document.tokens[start][0] != kind:
        raise Mismatch


def _encodable(text: str) -> str:
    """Half a character of two units of UTF-16 is a question mark."""
    return text.encode(errors="replace").decode()


def _variant(document: JsonDocument, start: int) -> str:
    try:
        return from_document(document, start)
    except NotVariant:
        raise Mismatch from None


def _string(document: JsonDocument, start: int) -> str:
    kind, text = document.tokens[start]
    return _encodable(text if kind == "string" else document.written(start))


def _boolean(kind: str, text: str) -> bool:
    if kind != "word":
        raise Mismatch
    return text == "true"


def _within(number: int, type_: t.Integral) -> int:
    if not -type_.limit <= number < type_.limit:
        raise Mismatch
    return number


def _integer(type_: t.Integral) -> Callable[[str, str], int]:
    def convert(kind: str, text: str) -> int:
        if kind != "integer":
            raise Mismatch
        number = whole_number(text)
        if type_ == t.TINYINT and 128 <= number <= 255:
            return number - 256  # Spark's reader takes bytes without a sign
        return _within(number, type_)

    return convert


def read_decimal(text: str, of: t.Decimal) -> decimal.Decimal | None:
    """A number, rounded to the places of a DECIMAL; None where the text is none, or it does not fit."""
    if not _DECIMAL.fullmatch(text):
        return None
    number = decimal.Decimal(text)
    if number and number.adjusted() >= of.precision - of.scale:
        return None
    try:
        return quantized(number, of) if number.adjusted() >= -of.scale - 2 else quantized(decimal.Decimal(0), of)
    except ArithmeticFault:
        return None


def _decimal(type_: t.Decimal) -> Callable[[str, str], decimal.Decimal]:
    def convert(kind: str, text: str) -> decimal.Decimal:
        if kind not in ("integer", "number", "string"):
            raise Mismatch
        found = read_decimal(text.replace(",", "") if kind == "string" else text, type_)
        if found is None:
            raise Mismatch
        return found

    return convert


def _binary(kind: str, text: str) -> bytes:
    if kind != "string":
        raise Mismatch
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Mismatch from None
