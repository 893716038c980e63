"""Text to records: CSV and JSON lines, each record with its line and the text that it was read from."""

from __future__ import annotations

import csv
import json
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

from tidemill.model import types as t
from tidemill.model.errors import BadValue
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Type
from tidemill.sources.ingest.csv_options import DEFAULT_CSV, CsvOptions
from tidemill.sources.ingest.frames import check_names

__all__ = ["TextRecord", "parse_json", "parser_of", "read_csv", "read_json", "row_of_json"]


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One record: its first line, counted from 1, its text, and its values by lower-case name or the error."""

    line: int
    text: str
    values: Mapping[str, Any] | BadValue


def read_json(lines: Iterable[str], table: Table | None = None) -> Iterator[TextRecord]:
    """One object a line; empty lines are skipped. BINARY columns of ``table`` are in Base64, as Spark writes them.

    >>> [record.values for record in read_json(['{"Id": 1, "price": 1.10}', '', '[1'])]
    [{'id': 1, 'price': Decimal('1.10')}, BadValue(...)]
    """
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text:
            try:
                values = row_of_json(parse_json(text), table)
            except BadValue as error:
                values = error
            yield TextRecord(number, text, values)


def row_of_json(value: Any, table: Table | None) -> Mapping[str, Any] | BadValue:
    """The row that a JSON value is, by lower-case name, or why it is none."""
    if not isinstance(value, dict):
        return BadValue("the line is not a JSON object", hint='Each line is one row, such as {"id": 1}.')
    values = {name.lower(): item for name, item in value.items()}
    encoded = [f.name for f in table.fields if f.type == t.BINARY] if table else []
    given = {name: values[name] for name in encoded if isinstance(values.get(name), str)}
    try:
        return {**values, **{name: b64decode(text, validate=True) for name, text in given.items()}}
    except ValueError as error:
        return BadValue("a BINARY column is not Base64", detail=str(error))


def parse_json(text: str) -> Any:
    """A JSON value whose fractions are exact, so that a DECIMAL column sees the digits that were written."""
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, InvalidOperation, RecursionError) as error:
        raise BadValue("the line is not JSON", detail=str(error)) from None


def read_csv(
    lines: Iterable[str],
    table: Table,
    options: CsvOptions = DEFAULT_CSV,
    *,
    suffix: str = ".csv",
    without: Collection[str] = (),
) -> Iterator[TextRecord]:
    """The rows below a header of column names, or without one in the order of the table's columns.

    Columns that are ``without`` a cell come from elsewhere.
    """
    kept = _LineBuffer(lines)
    names = [field.name for field in table.fields if field.name not in without]
    known = [*names, WEIGHT] if options.header else names
    separator = options.separator_of(kept.peek(), known, suffix)
    reader = csv.reader(kept, delimiter=separator, quotechar=options.quote)
    header = [name.strip().lower() for name in next(reader, [])] if options.header else names
    if header:
        check_names(header, table)
    types: dict[str, Type] = {WEIGHT: t.BIGINT} | {field.name: field.type for field in table.fields}
    parsers = [options.reader_of(types[name]) or parser_of(types[name]) for name in header]
    kept.take()
    while True:
        line = reader.line_num + 1
        values = _next_row(reader, header, parsers, options.null)
        if values is None:
            return
        text = kept.take()
        if values or isinstance(values, BadValue):
            yield TextRecord(line, text, values)


class _LineBuffer:
    """Buffers the lines that the CSV reader consumes until a record is complete: one may span several."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._kept: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._kept.append(line)
        return line

    def peek(self) -> str:
        """The next line, which is still to be read; empty at the end."""
        first = next(self._lines, None)
        if first is None:
            return ""
        self._lines = chain([first], self._lines)
        return first

    def take(self) -> str:
        """The lines since the last call."""
        text = "".join(self._kept).rstrip("\r\n")
        self._kept.clear()
        return text


def _next_row(
    reader: Iterator[list[str]], header: list[str], parsers: list[Callable[[str], Any]], null: str
) -> Mapping[str, Any] | BadValue | None:
    """The next record by column name, empty for an empty line; None at the end."""
    try:
        cells = next(reader, None)
    except csv.Error as error:
        return BadValue("the line is not CSV", detail=str(error))
    if cells is None:
        return None
    if cells and len(cells) != len(header):
        return BadValue(
            f"the row has {len(cells)} cells for {len(header)} columns", detail=f"Header: {','.join(header)}"
        )
    return {
        name: None if cell == null else parse(cell) for name, parse, cell in zip(header, parsers, cells, strict=False)
    }


def parser_of(type_: Type) -> Callable[[str], Any]:
    """The parser of a cell of ``type_``. It returns text that it cannot parse as it is, for ``coerce`` to refuse."""
    match type_:
        case t.Boolean():
            return lambda text: {"true": True, "false": False}.get(text.strip().lower(), text)
        case t.Integral():
            return lambda text: _number(int, text)
        case t.Floating():
            return lambda text: _number(float, text)
        case t.Binary():
            return str.encode
        case t.Array() | t.Map() | t.Struct() | t.Variant():
            return _nested
    return lambda text: text


def _number(kind: Callable[[str], Any], text: str) -> Any:
    try:
        return text if "_" in text else kind(text)
    except ValueError:
        return text


def _nested(text: str) -> Any:
    try:
        return parse_json(text)
    except BadValue:
        return text
