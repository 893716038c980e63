"""Tables and views of a served warehouse: their rows, and of a view its changes and explanation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill.engine.boundary import public_class
from tidemill.engine.html_output import Explanation
from tidemill.engine.quarantine.notes import tell_reader
from tidemill.engine.results import ArrowRows
from tidemill.model.schema import EPOCH, WEIGHT, names_of
from tidemill.model.types import Field
from tidemill.serving.client.connection import Connection
from tidemill.serving.client.decoded import decoded, facts_of, fields_of, rows_of
from tidemill.serving.render import json_line

__all__ = ["RemoteRows", "RemoteView"]

ARROW = "application/vnd.apache.arrow.stream"


@public_class
class RemoteRows(ArrowRows):
    """The rows of a table or view, of now or as of an epoch; read anew each time."""

    def __init__(self, connection: Connection, kind: str, name: str, epoch: int | None = None) -> None:
        self.name = name
        self._connection = connection
        self._path = f"/v1/{kind}/{name}"
        self._epoch = epoch

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._read().replace_schema_metadata(None)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, with duplicates, in no particular order."""
        table = self._read()
        return rows_of(table, fields_of(table))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns with their types."""
        return fields_of(decoded(self._asked(limit=0)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names."""
        return names_of(self.fields)

    def __len__(self) -> int:
        return int(self._read().num_rows)

    def _read(self, **query: Any) -> pa.Table:
        return _told(self._asked(**query))

    def _asked(self, **query: Any) -> bytes:
        return self._connection.get(self._path, {"epoch": self._epoch, **query}, accept=ARROW)


@public_class
class RemoteView(RemoteRows):
    """A view: its rows, its changes, and its explanation."""

    @property
    def definition(self) -> str:
        """The statement that creates the view."""
        return str(self._connection.json(f"{self._path}/definition")["definition"])

    def where(self, **values: Any) -> list[tuple[Any, ...]]:
        """The rows with these values, each a value or a list of them; None is NULL."""
        table = self._read(where=where_texts(values))
        return rows_of(table, fields_of(table))

    def changes(self, since: int = 0) -> list[tuple[int, tuple[Any, ...]]]:
        """The changes after epoch ``since``, as ``(weight, row)`` pairs: all epochs summed into one net change."""
        table = self._changes(since)
        rows = rows_of(table.drop_columns([WEIGHT, EPOCH]), fields_of(table)[:-2])
        net: dict[str, tuple[int, tuple[Any, ...]]] = {}
        for weight, row in zip(table.column(WEIGHT).to_pylist(), rows, strict=True):
            before, _ = net.get(repr(row), (0, row))
            net[repr(row)] = (before + weight, row)
        return [(weight, row) for weight, row in net.values() if weight]

    def net_changes(self, since: int) -> pa.Table:
        """The changes after epoch ``since`` as Arrow, epoch by epoch, with their weights in ``_weight``."""
        return self._changes(since).drop_columns([EPOCH]).replace_schema_metadata(None)

    def explain(self) -> Explanation:
        """Strategy, runtime, program and cost of this view, with reasons."""
        path = f"{self._path}/explain"
        parts = self._connection.json(path)
        text = str(parts.pop("text"))
        return Explanation(text, lambda: self._connection.get(path, accept="image/svg+xml").decode(), lambda: parts)

    def lineage(self, row: Sequence[Any] | Mapping[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
        """The base rows that a row of the view derives from, by table; values as JSON has them."""
        given = dict(row) if isinstance(row, Mapping) else list(row)
        answer = self._connection.post(f"{self._path}/lineage", json_line({"row": given}).encode(), "application/json")
        return {name: [tuple(one) for one in table["rows"]] for name, table in json.loads(answer)["tables"].items()}

    def refresh(self) -> int:
        """Refresh a deferred view; returns the epoch that it then shows."""
        return int(json.loads(self._connection.post(f"{self._path}/refresh", b"{}", "application/json"))["epoch"])

    def _changes(self, since: int) -> pa.Table:
        return _told(self._connection.get(f"{self._path}/changes", {"since": since}, accept=ARROW))


def _told(answer: bytes) -> pa.Table:
    """The table of an answer, of which the reader is told what it does not show."""
    table = decoded(answer)
    tell_reader(json.loads(facts_of(table).get("notes", "[]")))
    return table


def where_texts(where: Mapping[str, Any] | None) -> list[str]:
    """Values by column as a request has them.

    >>> where_texts({"k": ["a", None], "n": 7})
    ['k:a', 'k', 'n:7']
    """
    found = []
    for column, given in (where or {}).items():
        several = isinstance(given, list | tuple | set | frozenset)
        for value in given if several else [given]:
            found.append(column if value is None else f"{column}:{_text(value)}")
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json_line(value)
    return text if not text.startswith('"') else str(value if isinstance(value, str) else text[1:-1])
