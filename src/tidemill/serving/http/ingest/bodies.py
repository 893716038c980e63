"""The rows in a body: lines of JSON, CSV, Arrow, or change records of Debezium."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.errors import BadValue, TidemillError, UnknownName
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import BINARY
from tidemill.serving.http.content import ARROW, CSV, JSON, NDJSON
from tidemill.serving.http.errors import HttpError
from tidemill.serving.http.ingest.arrow_streams import read_stream
from tidemill.serving.http.ingest.decoded_bytes import DecodedBytes
from tidemill.sources.ingest.debezium import read_debezium
from tidemill.sources.ingest.frames import changes_of, weight_of
from tidemill.sources.ingest.pairs import read_pairs
from tidemill.sources.ingest.text_records import TextRecord, parse_json, read_csv, read_json

__all__ = ["BODIES", "DEBEZIUM", "arrow_streams", "changes_in", "rows_in", "text_of"]

Tables = Mapping[str, Table]

DEBEZIUM = "application/vnd.debezium+json"

BODIES: Mapping[str, str] = {
    JSON: "A row as an object by the names of columns, or an array of them; `_weight` is its weight, by default 1.",
    NDJSON: "The same, a row a line.",
    CSV: "Rows below a header of columns, which may have `_weight`.",
    ARROW: "A stream of Arrow, which may have a column `_weight`.",
    DEBEZIUM: "Change records of Debezium for this table, one a line.",
}
"""The types of bodies, and what they hold."""

_exact = json.JSONDecoder(parse_float=Decimal).decode


def rows_in(body: bytes, kind: str, table: Table, limit: DecodedBytes) -> ChangeSet:
    """The changes of ``table`` that a body of some type has, as far as they are within a limit."""
    read = _READERS.get(kind)
    if read is None:
        hint = f"Content-Type: {', '.join(_READERS)}"
        raise HttpError(415, f"there is no such form of rows: {kind[:100] or 'none was named'}", hint=hint)
    if kind != ARROW:
        limit.take_rows(body.count(b"{" if kind == JSON else b"\n"))
    return read(body, table, limit)


def changes_in(body: bytes, kind: str, tables: Tables, limit: DecodedBytes) -> dict[str, ChangeSet]:
    """The changes of several tables: lines of JSON that name their table, or a stream of Arrow for each, whose schema
    names it, one after the other.
    """
    if kind == ARROW:
        return {name: changes_of(part, tables[name]) for name, part in arrow_streams(body, tables, limit)}
    if kind not in (NDJSON, JSON):
        raise HttpError(415, "changes of several tables come as JSON lines or Arrow", hint=f"{NDJSON}, {ARROW}")
    limit.take_rows(body.count(b"\n"))
    return read_pairs(text_of(body).split("\n"), tables, name="line")


def arrow_streams(body: bytes, tables: Tables, limit: DecodedBytes) -> Iterator[tuple[str, pa.Table]]:
    """The streams of Arrow in a body, each with the table that its schema names."""
    source = pa.BufferReader(body)
    while source.tell() < len(body):
        part = read_stream(source, limit, "changes")
        name = (part.schema.metadata or {}).get(b"table", b"").decode("utf-8", "replace").lower()
        if name not in tables:
            raise UnknownName(f'there is no table "{name[:100]}"', hint='The schema names it, as "table".')
        yield name, part.replace_schema_metadata(None)


def _json(body: bytes, table: Table, limit: DecodedBytes) -> ChangeSet:
    try:
        found = _exact(body.decode("utf-8"))
    except (ValueError, InvalidOperation, RecursionError):
        return _lines(body, table, limit)
    if any(field.type == BINARY for field in table.fields):
        rows = found if isinstance(found, list) else [found]
        return _records(read_json(map(json.dumps, map(_plain, rows)), table), table)
    return _pairs(found if isinstance(found, list) else [found], table)


def _plain(row: Any) -> Any:
    return {name: str(v) if isinstance(v, Decimal) else v for name, v in row.items()} if isinstance(row, dict) else row


def _lines(body: bytes, table: Table, limit: DecodedBytes) -> ChangeSet:
    text = text_of(body)
    if any(field.type == BINARY for field in table.fields):
        return _records(read_json(text.split("\n"), table), table)
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line and not line.isspace():
            try:
                rows.append(_exact(line))
            except (ValueError, RecursionError):
                parse_json_at(line, number)
    return _pairs(rows, table)


def parse_json_at(line: str, number: int) -> None:
    """Raise the error for a line that is not JSON."""
    try:
        parse_json(line)
    except BadValue as error:
        error.where = f"line {number}"
        raise


def _pairs(rows: Iterable[Any], table: Table) -> ChangeSet:
    """Rows that are objects, with their weights."""
    pairs = []
    for number, row in enumerate(rows, start=1):
        if type(row) is not dict:
            raise BadValue(
                "a row is an object", where=f"row {number}, {table.name}", hint='Send {"column": value, ...}.'
            )
        weight = row.pop(WEIGHT, 1)
        pairs.append((1 if weight is None else weight, row))
    return changes_of(pairs, table)


def _csv(body: bytes, table: Table, limit: DecodedBytes) -> ChangeSet:
    return _records(read_csv(io.StringIO(text_of(body), newline=""), table), table)


def _records(records: Iterable[TextRecord], table: Table) -> ChangeSet:
    convert: Callable[[Any], Row] = table.row_converter
    pairs = []
    for record in records:
        try:
            if isinstance(record.values, TidemillError):
                raise record.values
            values = dict(record.values)
            weight = values.pop(WEIGHT, 1)
            pairs.append((convert(values), weight_of(1 if weight is None else weight, f"{table.name}.{WEIGHT}")))
        except TidemillError as error:
            error.where = f"line {record.line}, {error.where or table.name}"
            raise
    return ChangeSet.of(pairs, table.fields)


def _arrow(body: bytes, table: Table, limit: DecodedBytes) -> ChangeSet:
    return changes_of(read_stream(pa.BufferReader(body), limit, table.name), table)


def _debezium(body: bytes, table: Table, limit: DecodedBytes) -> ChangeSet:
    """Changes by key where the table has one: then old rows need not be in the records."""
    by_key = _key_only(table) if table.primary_key else None
    found = read_debezium(text_of(body).split("\n"), {table.name: table}, lookup=by_key, name="line")
    return found.get(table.name, ChangeSet.of((), table.fields))


def _key_only(table: Table) -> Callable[[str, Row], Row]:
    places = {position: number for number, position in enumerate(table.key_positions)}

    def row(name: str, key: Row) -> Row:
        return tuple(key[places[position]] if position in places else None for position in range(len(table.fields)))

    return row


def text_of(body: bytes) -> str:
    """A body as text."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadValue("the body is not UTF-8", where=f"byte {error.start + 1}") from None


_READERS: Mapping[str, Callable[[bytes, Table, DecodedBytes], ChangeSet]] = {
    JSON: _json,
    NDJSON: _lines,
    CSV: _csv,
    ARROW: _arrow,
    DEBEZIUM: _debezium,
}
