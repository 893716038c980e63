"""Committed transactions from the binary log of MariaDB and MySQL, which a server sends to its replicas.

The log is read as a replica reads it, over a connection of its own that stays open from poll to poll. A transaction's
rows come between its beginning and its commit; what was rolled back is not in the log. Statements that the log has as
text say nothing of rows: one that empties or alters a table in use is an error, and so are changes that a session wrote
as statements.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import MariadbGtidEvent, QueryEvent, RotateEvent, XidEvent
from pymysqlreplication.logger import logger as library_logger
from pymysqlreplication.row_event import DeleteRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent

from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import DataError, SourceLost, TidemillError
from tidemill.sources.mysql.catalog import MySqlTable, decoder
from tidemill.sources.mysql.connection import MySqlAddress
from tidemill.sources.mysql.log_values import read_value
from tidemill.sources.mysql.position import LogPosition
from tidemill.sources.source import Committed

__all__ = ["BinaryLog"]

library_logger.setLevel(logging.ERROR)  # it advises settings that are not needed here

_HARMLESS = re.compile(
    r"\s*(create\s+table|begin|commit|rollback|savepoint|xa|grant|revoke|flush|analyze|optimize|set"
    r"|((create|drop|alter)\s+)?(or\s+replace\s+)?(unique\s+)?(index|trigger|view|procedure|function|event))\b",
    re.IGNORECASE,
)
"""Statements that change no rows or columns of a table."""


class BinaryLog:
    """The log of a server, read for some tables of one database; ``present`` reads how these are now."""

    def __init__(
        self,
        address: MySqlAddress,
        tables: Iterable[MySqlTable],
        zero_dates: str,
        present: Callable[[], Mapping[str, MySqlTable]],
    ) -> None:
        self._address = address
        self._tables = {table.remote.name: table for table in tables}
        self._present = present
        self._rows = {name: _LoggedRows(table, zero_dates) for name, table in self._tables.items()}
        self._stream: Any = None
        self._at = LogPosition("none.0", 0)

    def close(self) -> None:
        """Close the connection."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.close()

    def read(self, after: LogPosition, upto: LogPosition, most: int | None) -> tuple[list[Committed], LogPosition]:
        """The transactions between two places, about ``most`` of them, and the place after the last.

        A transaction that cannot be told is an error once it is the next.
        """
        if self._stream is None or self._at != after:
            self._open(after)
        told: list[Committed] = []
        current = _Transaction(after.gtid)
        for event, place in self._events():
            trouble = self._take(event, current)
            ended = isinstance(event, XidEvent) or (isinstance(event, QueryEvent) and not _begins(event))
            if ended and (trouble := current.trouble or trouble) is not None:
                self.close()
                if told:
                    break
                raise trouble
            if ended:
                self._at = LogPosition(*place, current.gtid)
                if changes := {name: rows for name, rows in current.changes.items() if rows}:
                    told.append(Committed(changes, str(self._at)))
                current = _Transaction(current.gtid)
            elif not current.changes and not current.begun:
                self._at = LogPosition(*place, current.gtid)
            if len(told) == most or not LogPosition(*place).is_before(upto):
                break
        return told, self._at

    def _events(self) -> Iterator[tuple[Any, tuple[str, int]]]:
        """The events of the log, each with the place after it. There is one as long as the end was not reached."""
        while (event := self._stream.fetchone()) is not None:
            if not isinstance(event, RotateEvent) and event.packet.log_pos == 0:
                continue  # it is not in the log, and tells of the connection
            yield event, (self._stream.log_file, self._stream.log_pos)

    def _open(self, after: LogPosition) -> None:
        self.close()
        self._stream = BinLogStreamReader(
            connection_settings=self._address.login | {"read_timeout": 60},
            server_id=random.randrange(
                1 << 16, 1 << 32
            ),  # a server ends the connection of a replica of the same number
            log_file=after.file,
            log_pos=after.place,
            resume_stream=True,
            blocking=True,
            filter_non_implemented_events=False,
            slave_heartbeat=10,
            enable_logging=False,
        )
        self._at = after

    def _take(self, event: Any, current: _Transaction) -> TidemillError | None:
        match event:
            case MariadbGtidEvent():
                current.begun, current.gtid = True, str(event.gtid)
            case QueryEvent():
                current.begun = True
                return self._statement(event)
            case RowsEvent() if event.schema == self._address.database and event.table in self._rows:
                current.note(event.table, self._rows[event.table], event)
        return None

    def _statement(self, event: Any) -> TidemillError | None:
        """The error of a statement that changes rows or columns of a table in use and does not say which."""
        text = event.query.decode("utf-8", "replace") if isinstance(event.query, bytes) else str(event.query)
        if _HARMLESS.match(text):
            return None
        schema = event.schema.decode() if isinstance(event.schema, bytes) else event.schema
        named = [name for name in self._rows if self._address.database in _schemas_of(name, text, schema)]
        if not named:
            return None
        verb = text.split(maxsplit=1)[0].upper()
        if verb == "ALTER" and self._have_their_columns(named):
            return None  # an index, for instance, or another engine and back
        return _untold(f"The log says {verb} of {', '.join(named)}, and not which rows or columns that changed.")

    def _have_their_columns(self, names: Iterable[str]) -> bool:
        """True if tables have the columns that they had when the source was opened."""
        present = self._present()
        return all(name in present and present[name].logged == self._tables[name].logged for name in names)


class _Transaction:
    """A transaction that is being read."""

    def __init__(self, gtid: str) -> None:
        self.gtid = gtid
        self.begun = False
        self.changes: dict[str, ZSet] = {}
        self.trouble: TidemillError | None = None

    def note(self, table: str, rows: _LoggedRows, event: Any) -> None:
        """Add the rows of an event. An unreadable row fails its own transaction, not those before."""
        if self.trouble is None:
            try:
                for row, weight in rows.read(event):
                    self.changes.setdefault(table.lower(), ZSet()).add(row, weight)
            except TidemillError as error:
                self.trouble = error


class _LoggedRows:
    """Reads the rows of one table."""

    def __init__(self, table: MySqlTable, zero_dates: str) -> None:
        self._table = table
        places = {column.name: place for place, column in enumerate(table.logged)}
        self._wanted: list[tuple[int, Callable[[Any], Any]]] = [
            (places[column.name], decoder(column, zero_dates)) for column in table.remote.columns
        ]

    def read(self, event: Any) -> Iterator[tuple[Row, int]]:
        """The rows that leave and come by an event."""
        if event.number_of_columns != len(self._table.logged):
            raise _untold(f"{self._table.remote.name} has other columns than when the source was opened.")
        weights = {WriteRowsEvent: (1,), DeleteRowsEvent: (-1,), UpdateRowsEvent: (-1, 1)}[type(event)]
        while event.packet.read_bytes + 1 < event.event_size:
            for weight in weights:
                yield self._row(self._values(event)), weight

    def _values(self, event: Any) -> list[Any]:
        """The values of one row image, which has all columns."""
        logged, read = self._table.logged, event.packet.read
        nulls = int.from_bytes(read((len(logged) + 7) // 8), "little")
        return [
            None if nulls >> place & 1 else read_value(read, event.columns[place], column)
            for place, column in enumerate(logged)
        ]

    def _row(self, values: list[Any]) -> Row:
        row = []
        for (place, decode), column in zip(self._wanted, self._table.remote.columns, strict=True):
            try:
                row.append(None if values[place] is None else decode(values[place]))
            except DataError as error:
                error.where = f"{self._table.remote.name}.{column.name}"
                raise
        return tuple(row)


def _schemas_of(name: str, text: str, schema: str) -> set[str]:
    """The databases whose table ``name`` a statement names, which is in ``schema`` where it names none."""
    named = re.compile(rf"(?:[`\"]?([\w$]+)[`\"]?\s*\.\s*)?(?<![\w$]){re.escape(name)}(?![\w$])", re.IGNORECASE)
    quoted = re.compile(rf"(?:([\w$]+)[`\"]?\s*\.\s*)?[`\"]{re.escape(name)}[`\"]", re.IGNORECASE)
    return {found[1] or schema for pattern in (named, quoted) for found in pattern.finditer(text)}


def _begins(event: Any) -> bool:
    text = event.query.decode("utf-8", "replace") if isinstance(event.query, bytes) else str(event.query)
    return text.strip().upper().startswith(("BEGIN", "SAVEPOINT", "XA START", "XA END"))


def _untold(detail: str) -> SourceLost:
    return SourceLost(
        "a transaction of the source cannot be told",
        detail=detail,
        hint="Create the views over this source again.",
    )
