"""CSV lines as records of a type, as FROM_CSV reads them, and records as lines."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidemill.algebra.values import formats
from tidemill.algebra.values.documents.csv_lines import REFUSED_OPTIONS, CsvSyntax
from tidemill.algebra.values.documents.json_schema import schema_sql
from tidemill.algebra.values.documents.options import DateTimeFormats, Options, fails_fast, read_options
from tidemill.algebra.values.records.json_values import (
    CORRUPT,
    check_corrupt_record,
    floating,
    read_by_cast,
    read_decimal,
)
from tidemill.algebra.values.records.json_writer import LOCAL_PATTERN, TIMESTAMP_PATTERN
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import MAX_PRECISION, Field, Type
from tidemill.model.whole_numbers import whole_number

Converter = Callable[[str], Any]
"""The value of a field; None where the text is none."""

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[dDfF]?", re.ASCII)
_LOWEST = "".join(map(chr, range(33)))


@lru_cache(maxsize=256)
def csv_reader(of: t.Struct, options: tuple[str, ...]) -> CsvReader:
    """The reader of lines of a type with options; refuses those that there are not."""
    return CsvReader(of, read_options(options, REFUSED_OPTIONS))


class CsvReader:
    """Reads CSV lines as records of one type.

    >>> reader = csv_reader(t.Struct((Field("a", t.INT), Field("b", t.STRING))), ())
    >>> reader.read('1,"x, y"'), reader.read("one,x")
    ((1, 'x, y'), (None, 'x'))
    """

    def __init__(self, of: t.Struct, options: Options) -> None:
        self._of = of
        self._syntax = CsvSyntax.of(options)
        self._fail = fails_fast(options, "from_csv")
        self._corrupt = options.get("columnnameofcorruptrecord", CORRUPT)
        check_corrupt_record(of, self._corrupt)
        conversions = CsvConversions(options)
        self._fields = [(f.name == self._corrupt, conversions.of(f.type)) for f in of.fields]
        self._width = sum(not corrupt for corrupt, _ in self._fields)

    def read(self, line: str) -> tuple[Any, ...]:
        """The record of a line; a field that is not of its type is NULL."""
        texts = self._syntax.fields(line)
        whole = texts is not None and len(texts) == self._width
        given = iter(texts or ())
        values: list[Any] = []
        for corrupt, convert in self._fields:
            text = None if corrupt else next(given, None)
            value = None if text is None or text == self._syntax.null else convert(text)
            whole = whole and (corrupt or value is not None or text is None or text == self._syntax.null)
            values.append(value)
        if whole:
            return tuple(values)
        if self._fail:
            raise ArithmeticFault(
                f"{line[:100]!r} is no CSV of type {self._of}", hint="Leave the mode FAILFAST out to get NULLs instead."
            )
        return tuple(line if corrupt else value for (corrupt, _), value in zip(self._fields, values, strict=True))


class CsvConversions:
    """The conversion of each type; names of infinities and NaN are options."""

    def __init__(self, options: Options) -> None:
        self._formats = DateTimeFormats.of(options, reading=True)
        self._named = {
            options.get("nanvalue", "NaN"): math.nan,
            options.get("negativeinf", "-Inf"): -math.inf,
            options.get("positiveinf", "Inf"): math.inf,
        }

    def of(self, type_: Type) -> Converter:
        """The conversion of a type."""
        match type_:
            case t.String():
                return lambda text: text
            case t.Boolean():
                return lambda text: {"true": True, "false": False}.get(text.lower())
            case t.Integral():
                return lambda text: _integer(text, type_)
            case t.Floating():
                return lambda text: self._floating(text, type_)
            case t.Decimal():
                return lambda text: read_decimal(text.replace(",", ""), type_)
            case t.Date() | t.Timestamp() | t.Time():
                return lambda text: self._formats.read(text, type_)
            case t.AnsiInterval() | t.CalendarInterval():
                return lambda text: read_by_cast(text, type_)
            case t.Binary():
                return lambda text: text.encode()
        raise Unsupported(f"{type_} cannot be read from CSV", hint="Read it as STRING.")

    def _floating(self, text: str, type_: Type) -> float | None:
        if text in self._named:
            return self._named[text]
        number = text.strip(_LOWEST)
        if _DOUBLE.fullmatch(number):
            return floating(number.rstrip("dDfF"), type_)
        words = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
        return words.get(number)


def _integer(text: str, type_: t.Integral) -> int | None:
    number = whole_number(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -type_.limit <= number < type_.limit else None


@lru_cache(maxsize=256)
def csv_writer(options: tuple[str, ...]) -> CsvWriter:
    """The writer of lines with options; refuses those that there are not."""
    return CsvWriter(read_options(options, REFUSED_OPTIONS))


class CsvWriter:
    """Writes records as CSV lines.

    >>> csv_writer(()).write((1, None, "x, y"), t.Struct((Field("a", t.INT), Field("b", t.INT), Field("c", t.STRING))))
    '1,,"x, y"'
    """

    def __init__(self, options: Options) -> None:
        self._syntax = CsvSyntax.of(options)
        given = {"timestampformat": TIMESTAMP_PATTERN, "timestampntzformat": LOCAL_PATTERN, **options}
        self._formats = DateTimeFormats.of(given, reading=False)

    def write(self, record: tuple[Any, ...], of: t.Struct) -> str | None:
        """A record as a line."""
        pairs = zip(record, of.fields, strict=True)
        return self._syntax.written([None if value is None else self._text(value, f.type) for value, f in pairs])

    def _text(self, value: Any, of: Type) -> str:
        match of:
            case t.Date() | t.Timestamp() | t.Time():
                return self._formats.write(value, of)
            case t.Decimal():
                return str(value if value else value.copy_abs())
        return _nested_text(value, of)


def _nested_text(value: Any, of: Type) -> str:
    """A value as a text in which NULL is nothing."""
    match of:
        case t.Binary():
            return f"[{value.hex(' ').upper()}]"
        case t.Array(element):
            return f"[{_listed([(each, element) for each in value])}]"
        case t.Struct(fields):
            return f"{{{_listed([(each, f.type) for each, f in zip(value, fields, strict=True)])}}}"
        case t.Map(key, element):
            entries = [f"{_nested_text(k, key)} ->{_after(v, element)}" for k, v in value]
            return f"{{{', '.join(entries)}}}"
    return formats.write(value, of)


def _listed(parts: list[tuple[Any, Type]]) -> str:
    return (
        ",".join(_after(value, of) for value, of in parts)[1:]
        if parts and parts[0][0] is not None
        else ",".join(_after(value, of) for value, of in parts)
    )


def _after(value: Any, of: Type) -> str:
    return "" if value is None else f" {_nested_text(value, of)}"


def schema_of_csv(line: str, *options: str) -> str:
    """The type of a CSV line, as DDL.

    >>> schema_of_csv("1,abc")
    'STRUCT<_c0: INT, _c1: STRING>'
    """
    given = read_options(options, (*REFUSED_OPTIONS, "infertimestamp", "prefersdate"))
    texts = CsvSyntax.of(given).fields(line)
    if texts is None:
        raise TypeMismatch("an empty line has no type")
    dates = DateTimeFormats.of(given, reading=True)
    return schema_sql(t.Struct(tuple(Field(f"_c{n}", _type_of(text, dates)) for n, text in enumerate(texts))))


def _type_of(text: str | None, dates: DateTimeFormats) -> Type:
    if not text:
        return t.STRING
    if _INTEGER.fullmatch(text):
        return _integer_type(text)
    conversions = CsvConversions({})
    if conversions.of(t.DOUBLE)(text) is not None:
        return t.DOUBLE
    if dates.read(text, t.DATE) is not None and (dates.date or len(text.strip()) <= 10):
        return t.DATE
    if dates.read(text, t.TIMESTAMP) is not None:
        return t.TIMESTAMP
    return t.BOOLEAN if text.lower() in ("true", "false") else t.STRING


def _integer_type(text: str) -> Type:
    number = whole_number(text)
    for of in (t.INT, t.BIGINT):
        if -of.limit <= number < of.limit:
            return of
    digits = len(decimal.Decimal(number).as_tuple().digits)
    return t.Decimal(digits, 0) if digits <= MAX_PRECISION else t.DOUBLE
