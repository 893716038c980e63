"""A warehouse that another process serves: the same methods as those of a local one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.sql.registered_functions import read_type
from tidemill.engine.boundary import public_class
from tidemill.engine.intake_counts import IntakeCounts, IntakeEpoch
from tidemill.engine.quarantine.notes import tell_reader
from tidemill.engine.results import Result
from tidemill.engine.row_changes import key_table
from tidemill.engine.statements.prepared_statements.parameters import parameters_of
from tidemill.engine.streams.given_rows import records_of
from tidemill.model.errors import BadValue, UnknownName
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field
from tidemill.serving.client.connection import Connection
from tidemill.serving.client.decoded import decoded, facts_of, fields_of, rows_of
from tidemill.serving.client.remote_relations import ARROW, RemoteRows, RemoteView, where_texts
from tidemill.serving.client.remote_subscription import RemoteSubscription
from tidemill.serving.render import json_line
from tidemill.sources.ingest.frames import changes_of

__all__ = ["RemoteSnapshot", "RemoteWarehouse"]

JSON, NDJSON = "application/json", "application/x-ndjson"


@public_class
class RemoteWarehouse:
    """A warehouse at the address of its server. Any number of threads may use it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.url

    @property
    def epoch(self) -> int:
        """The last committed epoch."""
        return int(self._connection.json("/readyz")["epoch"])

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None, **parameters: Any) -> Result:
        """Run statements; returns the rows of the last one. Parameters are those of a local warehouse.

        What changes rows is not sent again when the connection is lost: whether it was done is then not known.
        """
        parameters_of(args, parameters)
        given = list(args) if isinstance(args, list | tuple) else {**(dict(args) if args else {}), **parameters}
        body = json_line({"sql": text, "parameters": given or None}).encode()
        table = decoded(self._connection.post("/v1/sql", body, JSON, accept=ARROW))
        facts, fields = facts_of(table), fields_of(table)
        rows, notes = rows_of(table, fields) if fields else [], json.loads(facts["notes"])
        tell_reader(notes)
        return Result(rows, fields, message=facts["message"], notes=notes)

    def apply(
        self, changes: Mapping[str, Any], *, mode: str = "changes", on_error: str = "refuse", key: str | None = None
    ) -> int:
        """Commit one epoch of pairs ``(weight, row)``, or of frames, for each table; returns it once it is durable.

        ``key`` is the key by which the server knows the same changes again; by default one is made, so that they are
        sent again when the connection is lost, and made once. With ``on_error="quarantine"`` rows that their table
        cannot take go to the table ``<table>_errors``, and the epoch has ``counts``.
        """
        known = self._tables()
        if on_error != "refuse":
            return self._send_rows({_named(known, name): data for name, data in changes.items()}, mode, on_error, key)
        streams = []
        for name, data in changes.items():
            table = _named(known, name)
            streams.append(_stream(table.name, changes_of(data, key_table(table) if mode == "delete" else table)))
        return self._send(streams, mode, key)

    def upsert(self, table: str, rows: Any, *, key: str | None = None) -> int:
        """Insert rows, each in the place of the one with its primary key; returns the epoch."""
        return self.apply({table: _weighted(rows)}, mode="upsert", key=key)

    def delete(self, table: str, keys: Any, *, key: str | None = None) -> int:
        """Delete the rows with these primary keys, as far as they are there; returns the epoch."""
        return self.apply({table: _weighted(keys, single=True)}, mode="delete", key=key)

    def _send_rows(self, changes: Mapping[Table, Any], mode: str, on_error: str, key: str | None) -> IntakeEpoch:
        """Send rows as they were given, good or bad: only the server can tell."""
        given = [(table.name, row) for table, data in changes.items() for row in records_of(data, table)]
        lines = [json_line({"table": name, "weight": row.pop(WEIGHT, 1), "row": dict(row)}) for name, row in given]
        asked = {"mode": mode, "on_error": on_error}
        body, key = "\n".join(lines).encode(), uuid4().hex if key is None else key
        answer = json.loads(self._connection.post("/v1/changes", body, NDJSON, asked, key=key))
        rejected = int(answer.get("rejected", 0))
        return IntakeEpoch(int(answer["epoch"]), IntakeCounts(int(answer["rows"]) - rejected, rejected=rejected))

    def _send(self, streams: Sequence[bytes], mode: str, key: str | None) -> int:
        key = uuid4().hex if key is None else key
        answer = self._connection.post("/v1/changes", b"".join(streams), ARROW, {"mode": mode}, key=key)
        return int(json.loads(answer)["epoch"])

    def table(self, name: str) -> RemoteRows:
        """The handle of a table, for reading."""
        return RemoteRows(self._connection, "tables", _named(self._tables(), name).name)

    def view(self, name: str) -> RemoteView:
        """The handle of a view, for reading, following and explaining."""
        if name.lower() not in self.views():
            known = ", ".join(self.views()) or "none yet"
            raise UnknownName(f'there is no view "{name}"', hint=f"Views: {known}.")
        return RemoteView(self._connection, "views", name.lower())

    def tables(self) -> tuple[str, ...]:
        """The names of all tables and streams."""
        return tuple(one["name"] for one in self._relations() if one["kind"] == "table")

    def views(self) -> tuple[str, ...]:
        """The names of all views, each after those that it reads."""
        return tuple(one["name"] for one in self._relations() if one["kind"] == "view")

    def status(self) -> dict[str, Any]:
        """The status of the warehouse, as the server tells it."""
        found: dict[str, Any] = self._connection.json("/v1/status")
        return found

    def at(self, epoch: int) -> RemoteSnapshot:
        """The warehouse as it was at an epoch."""
        return RemoteSnapshot(self._connection, epoch)

    def subscribe(
        self,
        view: str,
        *,
        since: int | None = None,
        timeout: float | None = None,
        where: Mapping[str, Any] | None = None,
        patience: float = 300.0,
    ) -> RemoteSubscription:
        """Subscribe to the changes of each epoch in a view, after epoch ``since`` (default: from now on).

        A lost connection is made again, and goes on where it was; after ``patience`` seconds without a server
        ``SourceLost`` is raised.
        """
        handle = self.view(view)
        texts = where_texts(where)
        return RemoteSubscription(self._connection, handle.name, handle.fields, texts, since, timeout, patience)

    def wait(self, epoch: int, view: str | None = None, *, timeout: float = 60.0) -> bool:
        """Wait until the warehouse, or a view, shows an epoch; False after ``timeout`` seconds."""
        found = self._connection.json(f"/v1/epochs/{epoch}/wait", {"view": view, "timeout": timeout})
        return bool(found["reached"])

    def close(self) -> None:
        """Close the connections; the server goes on."""
        self._connection.close()

    def _relations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._connection.json("/v1/catalog")["relations"]
        return found

    def _tables(self) -> dict[str, Table]:
        return {one["name"]: _table(one) for one in self._relations() if one["kind"] == "table"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@public_class
class RemoteSnapshot:
    """A served warehouse as of an epoch."""

    def __init__(self, connection: Connection, epoch: int) -> None:
        self._connection = connection
        self.epoch = epoch

    def view(self, name: str) -> RemoteRows:
        """A view as of the epoch."""
        return RemoteRows(self._connection, "views", name.lower(), self.epoch)

    def table(self, name: str) -> RemoteRows:
        """A table as of the epoch."""
        return RemoteRows(self._connection, "tables", name.lower(), self.epoch)


def _named(tables: Mapping[str, Table], name: str) -> Table:
    if name.lower() not in tables:
        raise UnknownName(f'there is no table "{name}"', hint=f"Tables: {', '.join(tables) or 'none yet'}.")
    return tables[name.lower()]


def _table(one: Mapping[str, Any]) -> Table:
    """A table as far as rows have to fit it here: the server has all of its rules."""
    fields = tuple(Field(column["name"], _type_of(column["type"])) for column in one["columns"])
    return Table(one["name"], fields, primary_key=tuple(one["key"]))


def _type_of(declared: str) -> Any:
    return read_type("STRING" if declared.startswith(("VARCHAR", "CHAR")) else declared)


def _stream(name: str, change: ChangeSet) -> bytes:
    table = change.arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata({"table": name})) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _weighted(rows: Any, *, single: bool = False) -> Any:
    """Rows, or primary keys, as changes of weight 1; a frame is one already."""
    if hasattr(rows, "__arrow_c_stream__") or type(rows).__module__.startswith("pandas"):
        return rows
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise BadValue(f"rows cannot come from a {type(rows).__name__}", hint="Give a list or a frame.")
    listed = list(rows)
    plain = single and bool(listed) and not isinstance(listed[0], tuple | list | Mapping)
    return [(1, (row,) if plain else row) for row in listed]
