"""Rows in the forms that clients accept: JSON, lines of JSON, CSV and streams of Arrow.

Decimals, dates and times are texts in JSON and bytes Base64, as everywhere in Tidemill; Arrow has all types as such.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from tidemill.changes.arrow import from_arrow
from tidemill.engine.results import present_rows
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.serving.render import csv_line, json_line

__all__ = ["ARROW", "CSV", "JSON", "NDJSON", "ROW_FORMS", "arrow_bytes", "columns_of", "json_rows", "rows_response"]

JSON, NDJSON = "application/json", "application/x-ndjson"
CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"
ROW_FORMS = (JSON, NDJSON, CSV, ARROW)

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


def arrow_bytes(table: pa.Table, metadata: Mapping[str, str] | None = None) -> bytes:
    """A table as a stream of Arrow; ``metadata`` goes with its schema."""
    if metadata:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def rows_response(kind: str, table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> Response:
    """Rows in the form that was asked for; ``facts`` such as the epoch are in JSON, and unless empty in headers."""
    encode = _ENCODERS[kind]
    headers = {f"tidemill-{name}": _fact(value) for name, value in facts.items() if value != []}
    return Response(encode(table, fields, facts), 200, headers, kind)


def _as_json(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> str:
    head = json_line({"columns": columns_of(fields), **facts, "count": table.num_rows})
    return f'{head[:-1]}, "rows": {json_rows(rows_of(table, fields), fields)}}}'


def _as_lines(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> str:
    names = [field.name for field in fields]
    return "".join(f"{json_line(dict(zip(names, row, strict=True)))}\n" for row in rows_of(table, fields))


def _as_csv(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> str:
    lines = [csv_line(field.name for field in fields), *map(csv_line, rows_of(table, fields))]
    return "".join(f"{line}\r\n" for line in lines)


def _as_arrow(table: pa.Table, fields: Sequence[Field], facts: Mapping[str, Any]) -> bytes:
    types = json_line([str(field.type) for field in fields])
    return arrow_bytes(table, {"types": types, **{name: _fact(value) for name, value in facts.items()}})


def _fact(value: Any) -> str:
    """A fact in a header: a list as JSON, in ASCII."""
    return json.dumps(value) if isinstance(value, list) else str(value)


_ENCODERS: Mapping[str, Callable[[pa.Table, Sequence[Field], Mapping[str, Any]], str | bytes]] = {
    JSON: _as_json,
    NDJSON: _as_lines,
    CSV: _as_csv,
    ARROW: _as_arrow,
}
