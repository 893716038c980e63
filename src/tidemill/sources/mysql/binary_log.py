"""Committed transactions from the binary log of MariaDB, which a server sends to its replicas.

The log is read as a replica reads it, over a connection of its own that stays open from poll to poll. A transaction's
rows come between its beginning and its commit. One that is prepared (XA) has its rows in the log before, perhaps long
before, it is committed or rolled back: until then they are kept here, and a position says from where on they have to be
read again. Statements that the log has as text say nothing of rows: one that may have changed a table in use is an
error, and so is whatever the log has that is not understood.
"""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from zlib import crc32

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import (
    ExecuteLoadQueryEvent,
    FormatDescriptionEvent,
    MariadbGtidEvent,
    NotImplementedEvent,
    QueryEvent,
    RotateEvent,
    XAPrepareEvent,
    XidEvent,
)
from pymysqlreplication.logger import logger as library_logger
from pymysqlreplication.row_event import RowsEvent

from tidemill.model.errors import TidemillError
from tidemill.sources.mysql.catalog import MySqlTable, read_tables
from tidemill.sources.mysql.connection import MySqlAddress, MySqlConnection, execute
from tidemill.sources.mysql.log_statements import LoggedStatement
from tidemill.sources.mysql.log_texts import LoggedTexts
from tidemill.sources.mysql.log_transaction import LogTransaction
from tidemill.sources.mysql.logged_rows import LoggedRows, untold
from tidemill.sources.mysql.position import LogPlace, LogPosition
from tidemill.sources.source import Committed

__all__ = ["BinaryLog"]

library_logger.setLevel(logging.ERROR)  # it advises settings that are not needed here

_IGNORABLE = 0x80
"""Flag of events that a reader need not understand."""
_STANDALONE = 1
"""Flag of a transaction that no commit ends."""
_COMPRESSED = range(165, 172)
_USES_CHECKSUMS = "_BinLogStreamReader__use_checksum"
_UNREADABLE = (AssertionError, AttributeError, struct.error, LookupError, ValueError)
"""Errors of the reader where the form of an event is not what it expects."""


class BinaryLog:
    """The log of a server, read for some tables of one database; it is asked over ``connection``.

    ``folds`` says that the server takes names that differ in case only for the same.
    """

    def __init__(
        self,
        address: MySqlAddress,
        database: str,
        tables: Iterable[MySqlTable],
        zero_dates: str,
        connection: Callable[[], MySqlConnection],
        *,
        folds: bool = False,
    ) -> None:
        self._address = address
        self._tables = {table.remote.name: table for table in tables}
        self._database = database
        self._connection = connection
        self._folds = folds
        texts = LoggedTexts(lambda sql: execute(connection(), sql))
        self._rows = {name: LoggedRows(table, zero_dates, texts) for name, table in self._tables.items()}
        logged = sorted((name, table.logged, table.remote.key) for name, table in self._tables.items())
        self.structure = f"{crc32(repr(logged).encode()):08x}"
        self._stream: Any = None
        self._checksums = False
        self._at = LogPosition("none.0", 0)
        self._current = LogTransaction(("none.0", 0))
        self._prepared: dict[str, LogTransaction] = {}

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
        for event, place in self._events():
            ended = self._take(event)
            if ended is not None:
                if ended.trouble is not None and after.is_before(LogPosition(*place)):
                    self.close()
                    if told:
                        break
                    raise ended.trouble
                self._move(place, ended.gtid)
                if after.is_before(self._at) and (changes := ended.changes()):
                    told.append(Committed(changes, str(self._at)))
            elif not self._current.begun:
                self._move(place, self._at.gtid)
            if len(told) == most or not LogPosition(*place).is_before(upto):
                break
        return told, self._at

    def _move(self, place: LogPlace, gtid: str) -> None:
        oldest = min((one.start for one in self._prepared.values()), key=_order, default=None)
        self._at = LogPosition(*place, gtid, oldest, self.structure)

    def _events(self) -> Iterator[tuple[Any, LogPlace]]:
        """The events of the log, each with the place after it. There is one as long as the end was not reached."""
        while (event := self._next()) is not None:
            if isinstance(event, FormatDescriptionEvent):
                # Each file of the log says by itself if its events end with a checksum.
                self._checksums = event.checksum_algorithm == 1
                setattr(self._stream, _USES_CHECKSUMS, self._checksums)
            if not isinstance(event, RotateEvent) and event.packet.log_pos == 0:
                continue  # it is not in the log, and tells of the connection
            yield event, (self._stream.log_file, self._stream.log_pos)

    def _next(self) -> Any:
        try:
            return self._stream.fetchone()
        except _UNREADABLE as error:
            self.close()
            raise _unreadable(error) from error

    def _open(self, after: LogPosition) -> None:
        self.close()
        file, place = after.prepared or (after.file, after.place)
        self._stream = BinLogStreamReader(
            connection_settings=self._address.login | {"read_timeout": 60},
            server_id=random.randrange(
                1 << 16, 1 << 32
            ),  # a server ends the connection of a replica of the same number
            only_schemas=[self._database],  # it fails over types of columns that it does not know
            only_tables=list(self._tables),
            log_file=file,
            log_pos=place,
            resume_stream=True,
            blocking=True,
            filter_non_implemented_events=False,
            slave_heartbeat=10,
            enable_logging=False,
        )
        self._prepared.clear()
        self._at = after if after.prepared is None else LogPosition(file, place)
        self._current = LogTransaction((file, place), after.gtid)

    def _take(self, event: Any) -> LogTransaction | None:
        """Take in an event. Returns the transaction that it ends, if it does."""
        current = self._current
        match event:
            case RotateEvent():  # what a crash has cut off in the last file was not committed
                self._current = LogTransaction(self._place)
            case MariadbGtidEvent():
                single = bool(event.flags & _STANDALONE)
                self._current = LogTransaction(self._place, str(event.gtid), begun=True, single=single)
            case XidEvent():
                return self._end(current)
            case XAPrepareEvent():
                return self._prepare(_number_of(event))
            case QueryEvent():
                return self._statement(self._said(_text(event.query), _text(event.schema)))
            case ExecuteLoadQueryEvent():
                current.trouble = current.trouble or self._loaded(_text(event.packet.read(_rest(event))))
            case RowsEvent():
                try:
                    current.note(event.table, self._rows[event.table].read(event, checksums=self._checksums))
                except _UNREADABLE as error:
                    current.trouble = _unreadable(error)
            case NotImplementedEvent() if not event.packet.flags & _IGNORABLE:
                current.begun = True
                current.trouble = current.trouble or _unknown(event.event_type)
        return None

    @property
    def _place(self) -> LogPlace:
        return self._at.file, self._at.place

    def _end(self, ended: LogTransaction) -> LogTransaction:
        self._current = LogTransaction(self._place, ended.gtid)
        return ended

    def _prepare(self, number: str) -> LogTransaction:
        """Keep the rows of a transaction until it is committed; until then it is one without rows."""
        self._prepared[number] = self._current
        return self._end(LogTransaction(self._place, self._current.gtid))

    def _said(self, text: str, schema: str) -> LoggedStatement:
        return LoggedStatement(text, schema, folds=self._folds)

    def _statement(self, statement: LoggedStatement) -> LogTransaction | None:
        current = self._current
        current.begun = True
        if (savepoint := statement.savepoint) is not None:
            verb, name = savepoint
            (current.save if verb == "savepoint" else current.return_to)(name)
            return None
        match statement.ends:
            case "commit":
                return self._end(current)
            case "rollback":
                return self._end(LogTransaction(self._place, current.gtid))
            case "xa commit" | "xa rollback":
                return self._decide(statement)
        if statement.verb in ("xa", "begin"):
            return None
        current.trouble = current.trouble or self._change_of(statement)
        return self._end(current) if current.single else None

    def _decide(self, statement: LoggedStatement) -> LogTransaction:
        """The end of a prepared transaction: its rows are told where it is committed."""
        gtid = self._current.gtid
        found = self._prepared.pop(statement.prepared(), None)
        ended = LogTransaction(self._place, gtid)
        if statement.ends == "xa commit":
            if found is None:
                ended.trouble = untold(
                    "A transaction was committed that was prepared (XA) before the views were created."
                )
            else:
                ended, ended.gtid = found, gtid
        return self._end(ended)

    def _change_of(self, statement: LoggedStatement) -> TidemillError | None:
        """The error of a statement that changes rows or columns of a table in use and does not say which."""
        database = self._database
        if statement.drops_database(database):
            return untold(f"The log says {statement.verb.upper()} of the database {database}.")
        if named := statement.touches(database, self._rows):
            verb = statement.verb.upper()
            return untold(f"The log says {verb} of {', '.join(named)}, and not which rows or columns that changed.")
        if statement.may_change_definitions and (named := statement.names(database, self._rows)):
            present = read_tables(self._connection(), database)
            if changed := [name for name in named if not self._tables[name].is_as_in(present.get(name))]:
                return untold(f"{', '.join(changed)} has other columns, keys or foreign keys than before.")
        return None

    def _loaded(self, text: str) -> TidemillError | None:
        """The error of LOAD DATA that is in the log as a statement, whose text comes with other fields."""
        named = self._said(text, self._database).names(self._database, self._rows)
        return untold(f"The log says LOAD DATA of {', '.join(named)}, and not which rows.") if named else None


def _number_of(event: XAPrepareEvent) -> str:
    """The number of a transaction as ``XA COMMIT`` writes it, in lower case."""
    gtrid, bqual = (f"x'{part.hex()}'" for part in (event.xid_gtrid, event.xid_bqual))
    return f"{gtrid},{bqual},{event.xid_format_id}"


def _text(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _rest(event: Any) -> int:
    return max(0, int(event.event_size) - int(event.packet.read_bytes))


def _order(place: LogPlace) -> tuple[int, int]:
    return LogPosition(*place).order


def _unknown(number: int) -> TidemillError:
    if number in _COMPRESSED:
        return untold(
            "The log has compressed events, which are not read: log_bin_compress is or was ON.",
            "Set log_bin_compress = OFF in the configuration of the server, and create the views again.",
        )
    return untold(f"The log has an event of type {number}, which is not known.")


def _unreadable(error: Exception) -> TidemillError:
    return untold(f"The log has an event that cannot be read: {type(error).__name__}.")
