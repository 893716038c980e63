"""The rows in a body one by one, with those that are no rows at all: bad ones are set aside, as in files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidemill.engine.streams.given_rows import GivenRow, given_row, records_of
from tidemill.model.errors import BadValue, UnknownName
from tidemill.model.schema import WEIGHT, Table
from tidemill.serving.http.content import ARROW, CSV, JSON, NDJSON
from tidemill.serving.http.errors import HttpError
from tidemill.serving.http.ingest.arrow_streams import read_stream
from tidemill.serving.http.ingest.bodies import arrow_streams, text_of
from tidemill.serving.http.ingest.decoded_bytes import DecodedBytes
from tidemill.sources.ingest.text_records import TextRecord, parse_json, read_csv, row_of_json

__all__ = ["given_changes_in", "given_rows_in"]

Tables = Mapping[str, Table]


def given_rows_in(body: bytes, kind: str, table: Table, limit: DecodedBytes) -> list[GivenRow]:
    """The rows of ``table`` in a body of some type, as far as they are within a limit."""
    if kind == ARROW:
        return records_of(read_stream(pa.BufferReader(body), limit, table.name), table)
    if kind not in (JSON, NDJSON, CSV):
        raise HttpError(415, "bad rows are set aside of JSON, CSV and Arrow", hint=f"{JSON}, {NDJSON}, {CSV}, {ARROW}")
    limit.take_rows(body.count(b"{" if kind == JSON else b"\n"))
    text = text_of(body)
    if kind == CSV:
        records: Iterable[TextRecord] = read_csv(io.StringIO(text, newline=""), table)
    else:
        values = _values(text) if kind == JSON else _lines(text)
        records = (TextRecord(place, line, _row(value, table)) for place, line, value in values)
    return [_given(record) for record in records]


def given_changes_in(body: bytes, kind: str, tables: Tables, limit: DecodedBytes) -> dict[str, list[GivenRow]]:
    """The rows of several tables in a body, by their tables: each line, or stream of Arrow, names its own."""
    if kind == ARROW:
        return {name: records_of(part, tables[name]) for name, part in arrow_streams(body, tables, limit)}
    if kind not in (NDJSON, JSON):
        raise HttpError(415, "changes of several tables come as JSON lines or Arrow", hint=f"{NDJSON}, {ARROW}")
    limit.take_rows(body.count(b"\n"))
    found: dict[str, list[GivenRow]] = {}
    for place, line, value in _lines(text_of(body)):
        name, row = _named(place, line, value, tables)
        found.setdefault(name, []).append(row)
    return found


def _named(place: int, line: str, value: Any, tables: Tables) -> tuple[str, GivenRow]:
    """A row with its table, without which it would have no place to go to."""
    name = str(value.get("table")).lower() if isinstance(value, dict) else ""
    if name not in tables:
        what = f'there is no table "{name[:100]}"' if name else "the line is not a weighted row"
        raise UnknownName(what, where=f"line:{place}", hint='It is {"table": ..., "weight": ..., "row": ...}.')
    row, weight = value.get("row"), value.get("weight", 1)
    if not isinstance(row, dict):
        return name, given_row(place, (weight, row), tables[name])
    given = _given(TextRecord(place, line, _row(row, tables[name])))
    return name, given if weight == 1 else GivenRow(place, {**given, WEIGHT: weight}, given.error)


def _values(text: str) -> Iterator[tuple[int, str, Any]]:
    """The rows of a JSON value; what is no JSON value is lines already."""
    try:
        found = parse_json(text)
    except BadValue:
        yield from _lines(text)
        return
    for place, value in enumerate(found if isinstance(found, list) else [found], start=1):
        yield place, "", value


def _lines(text: str) -> Iterator[tuple[int, str, Any]]:
    for place, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield place, line, parse_json(line)
            except BadValue as error:
                yield place, line, error


def _row(value: Any, table: Table) -> Mapping[str, Any] | BadValue:
    return value if isinstance(value, BadValue) else row_of_json(value, table)


def _given(record: TextRecord) -> GivenRow:
    if isinstance(record.values, BadValue):
        return GivenRow(record.line, {"text": record.text}, record.values)
    return GivenRow(record.line, {name: v for name, v in record.values.items() if name != WEIGHT or v is not None})
