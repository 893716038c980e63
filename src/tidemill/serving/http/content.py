"""Rows in the forms that clients accept: JSON, lines of JSON, CSV and streams of Arrow.

Decimals, dates and times are texts in JSON and bytes Base64, as everywhere in Tidemill; Arrow has all types as such.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from tidemill.changes.arrow import from_arrow
from tidemill.engine.results import present_rows
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.serving.render import csv_line, json_line

__all__ = [
    "ARROW",
    "CSV",
    "JSON",
    "NDJSON",
    "ROW_FORMS",
    "arrow_pieces",
    "columns_of",
    "json_pieces",
    "json_rows",
    "pieces_response",
    "rows_response",
]

JSON, NDJSON = "application/json", "application/x-ndjson"
CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"
ROW_FORMS = (JSON, NDJSON, CSV, ARROW)

PIECE_ROWS = 10_000
"""Rows of a response that are encoded at a time."""

Rows = Sequence[Sequence[Any]]

_PLAIN = (t.Integral, t.String, t.Boolean)
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def columns_of(fields: Iterable[Field]) -> list[dict[str, Any]]:
    """Names and types of columns."""
    return [{"name": field.name, "type": field.declared} for field in fields]


def json_rows(rows: Sequence[Sequence[Any]], fields: Sequence[Field]) -> str:
    """Rows as a JSON array of arrays.

    >>> json_rows([(1, "a"), (2, None)], [Field("id", t.BIGINT), Field("name", t.STRING)])
    '[[1,"a"],[2,null]]'
    """
    if all(isinstance(field.type, _PLAIN) for field in fields):
        return _dumps(rows)
    return json_line(rows)


def rows_of(table: pa.Table, fields: Sequence[Field]) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table as Python users see them; it may have a column of weights like any other."""
    if WEIGHT not in table.column_names:
        table = table.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))
    return present_rows((row for row, _ in from_arrow(table, fields)), fields)


def arrow_pieces(table: pa.Table, metadata: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """A table as a stream of Arrow, in pieces; ``metadata`` goes with its schema."""
    if metadata:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(PIECE_ROWS):
            writer.write_batch(batch)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    found = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return found


def rows_response(kind: str, table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> Response:
    """Rows in the form that was asked for; ``facts`` such as the epoch are in JSON, and unless empty in headers."""
    headers = {f"tidemill-{name}": _fact(value) for name, value in facts.items() if value != []}
    return pieces_response(_ENCODERS[kind](table, fields, facts), kind, table.num_rows, headers)


def pieces_response(
    pieces: Iterator[str | bytes], kind: str, rows: int, headers: Mapping[str, str] | None = None
) -> Response:
    """A response of pieces: whole if it has few rows, else each is made when the client has taken those before."""
    first = next(pieces)  # what cannot be encoded is mostly known by now
    encoded = (piece if isinstance(piece, bytes) else piece.encode() for piece in chain((first,), pieces))
    if rows <= PIECE_ROWS:
        return Response(b"".join(encoded), 200, headers, kind)
    return StreamingResponse(encoded, 200, headers, kind)


def json_pieces(head: Mapping[str, Any], rows: Iterable[Rows], fields: Sequence[Field]) -> Iterator[str]:
    """A JSON object of ``head`` and rows, which come in parts."""
    yield f'{json_line(head)[:-1]}, "rows": ['
    between = ""
    for part in rows:
        if part:
            yield between + json_rows(part, fields)[1:-1]
            between = ","
    yield "]}"


def _parts(table: pa.Table, fields: Sequence[Field]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table as Python users see them, some at a time."""
    for begin in range(0, table.num_rows, PIECE_ROWS):
        yield rows_of(table.slice(begin, PIECE_ROWS), fields)


def _as_json(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> Iterator[str]:
    head = {"columns": columns_of(fields), **facts, "count": table.num_rows}
    return json_pieces(head, _parts(table, fields), fields)


def _as_lines(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> Iterator[str]:
    names = [field.name for field in fields]
    yield ""
    for rows in _parts(table, fields):
        yield "".join(f"{json_line(dict(zip(names, row, strict=True)))}\n" for row in rows)


def _as_csv(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"{csv_line(field.name for field in fields)}\r\n"
    for rows in _parts(table, fields):
        yield "".join(f"{csv_line(row)}\r\n" for row in rows)


def _as_arrow(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> Iterator[bytes]:
    types = json_line([str(field.type) for field in fields])
    return arrow_pieces(table, {"types": types, **{name: _fact(value) for name, value in facts.items()}})


def _fact(value: Any) -> str:
    """A fact in a header: a list as JSON, in ASCII."""
    return json.dumps(value) if isinstance(value, list) else str(value)


_ENCODERS: Mapping[str, Callable[[pa.Table, Sequence[Field], Mapping[str, Any]], Iterator[str] | Iterator[bytes]]] = {
    JSON: _as_json,
    NDJSON: _as_lines,
    CSV: _as_csv,
    ARROW: _as_arrow,
}
