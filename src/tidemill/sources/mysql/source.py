"""A database of MariaDB or MySQL as an autonomous source.

A poll reads the binary log to its end. If something is asked, it then begins a consistent snapshot, of which the
server says which place of the log it shows; it answers in the snapshot, and reads the log on to that place. The
transactions up to it come first, the answers after them. The server has to know that place: MariaDB does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pymysql

from tidemill.model.errors import EpochGone, SetupError
from tidemill.sources.mysql.binary_log import BinaryLog
from tidemill.sources.mysql.catalog import decoder, offered, read_tables
from tidemill.sources.mysql.connection import (
    MySqlAddress,
    MySqlConnection,
    ReconnectingMySql,
    execute,
    statement_text,
)
from tidemill.sources.mysql.position import LogPosition
from tidemill.sources.polled_source import PendingQuery, PolledSource
from tidemill.sources.remote_queries.dialects import quoted
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.mysql_dialect import MYSQL
from tidemill.sources.remote_queries.render_sql import AnswerReader, SqlStatement
from tidemill.sources.source import Answered, Committed, Message, Position

__all__ = ["MySqlSource"]

_NEEDED = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
_TOO_SLOW = (1969, 3024)
"""Numbers of the errors of a statement that took too long."""


class MySqlSource(PolledSource):
    """A database of a MariaDB or MySQL server. Positions are places in its binary log (``mysql.position``).

    Nothing is made in the server, and it keeps nothing for us: its log stays as long as it is set up to.
    ``zero_dates`` says what a date such as ``0000-00-00`` is: refused, or NULL. ``held`` bounds the transactions that
    are buffered here.
    """

    def __init__(
        self,
        name: str,
        address: MySqlAddress,
        *,
        tables: Iterable[str] | None = None,
        columns: Mapping[str, Collection[str]] | None = None,
        poll: float = 0.05,
        patience: float = 60.0,
        query_timeout: float | None = None,
        held: int = 1000,
        zero_dates: str = "refuse",
    ) -> None:
        super().__init__(name, MYSQL, query_timeout)
        # Errors at the beginning are reported soon; a connection that breaks later may well come back.
        self._link = ReconnectingMySql(name, address, min(patience, 5.0))
        self._poll = poll
        self._held = held
        self._zero_dates = zero_dates
        try:
            self._link.run(_check)
            # A server that ignores the case of names writes them in its log in its own way.
            named = "SELECT DATABASE(), @@lower_case_table_names"
            ((database, folds),) = self._link.run(lambda connection: execute(connection, named))
            found = self._link.run(lambda connection: read_tables(connection, database))
            in_use = self._use(offered(found), tables, columns)
        finally:
            self._link.close()
        self._link.patience = patience
        self._log = BinaryLog(
            address,
            database,
            [replace(found[table.name], remote=table) for table in in_use],
            zero_dates,
            self._link.connection,
            folds=folds != "0",
        )
        self._seen = LogPosition("none.0", 0)

    def __repr__(self) -> str:
        return f"MySqlSource({self.name!r}, {str(self._link.address)!r})"

    def start(self, since: Position | None) -> Position:
        """Begin after ``since``, or now."""
        self._log.close()
        if since is None:
            self._seen = replace(self._link.run(_place_of_snapshot), structure=self._log.structure)
        else:
            self._seen = LogPosition.parse(since)
            if self._seen.structure not in ("", self._log.structure):
                raise EpochGone(
                    f'tables of source "{self.name}" have other columns or keys than at {since}',
                    detail="The log has earlier rows in another form, and does not tell what ALTER TABLE changes.",
                    hint="Drop the views over this source and create them again.",
                )
            self._link.run(self._require_kept)
        self._asked.clear()
        self._messages.clear()
        return str(self._seen)

    def key_range(self, table: str, column: str) -> tuple[int, int, int] | None:
        """The least and the greatest key, by the index, and the number of rows as the server estimates it."""
        remote = self._remote[table]
        key, own = quoted(remote.column(column).name), f"{quoted(remote.schema)}.{quoted(remote.name)}"
        sql = f"SELECT MIN({key}), MAX({key}) FROM {own}"
        ((low, high),) = self._link.run(lambda connection: execute(connection, sql))
        known = "SELECT table_rows FROM information_schema.tables WHERE table_schema = \0001\0 AND table_name = \0002\0"
        ((rows,),) = self._link.run(lambda connection: execute(connection, known, remote.schema, remote.name))
        return None if low is None else (int(low), int(high), int(rows or 0))

    def forget(self, upto: Position) -> None:
        """Nothing: the server keeps its log for nobody in particular."""

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._link.close()

    def remove(self) -> None:
        """Nothing but ``close``: there is nothing of ours in the server."""
        self.close()

    def _look(self, asked: Sequence[PendingQuery]) -> list[Message]:
        messages, self._seen = self._link.run(lambda connection: self._snapshot(connection, asked))
        return messages

    def _snapshot(
        self, connection: MySqlConnection, asked: Sequence[PendingQuery]
    ) -> tuple[list[Message], LogPosition]:
        """One poll: the transactions that are in the log by now, and where none are left the answers."""
        told, seen = self._read(connection, self._seen, _end_of_log(connection), self._held)
        if len(told) >= self._held or not asked:
            return [*told], seen
        place = _place_of_snapshot(connection, ends=False)
        answers = [self._answer(connection, one) for one in asked]
        execute(connection, "COMMIT")
        more, seen = self._read(connection, seen, place, None)
        found = [Answered(one.number, one.rows, str(seen), one.received) for one in answers if one is not None]
        return [*told, *more, *found], seen

    def _read(
        self, connection: MySqlConnection, seen: LogPosition, upto: LogPosition, most: int | None
    ) -> tuple[list[Committed], LogPosition]:
        """The transactions of the log after ``seen``; ``most`` of them, and then the position after the last."""
        if not seen.is_before(upto):
            return [], seen
        try:
            return self._log.read(seen, upto, most)
        except BaseException:
            self._log.close()
            raise

    def _answer(self, connection: MySqlConnection, asked: PendingQuery) -> Answered | None:
        """The answer without its position, or None if it takes too long; the snapshot survives that."""
        asking = self._plan(asked.query.view)
        columns = asking.columns
        decoders = [decoder(columns[name], self._zero_dates) for name in asking.fetched]
        incoming = AnswerReader(asking, decoders, _length)
        execute(connection, f"SET SESSION max_statement_time = {asked.timeout or 0:f}")
        try:
            for statement in asking.statements(asked.query):
                with closing(_records(connection, statement)) as records:
                    incoming.take(records)
        except pymysql.err.MySQLError as error:
            if error.args[:1] not in [(number,) for number in _TOO_SLOW]:
                raise
            asked.late += 1
            return None
        finally:
            if connection.open:
                execute(connection, "SET SESSION max_statement_time = 0")
        incoming.total.update_by(evaluate_locally(asked.query))
        return Answered(asked.number, incoming.total, "", incoming.received)

    def _wait(self, seconds: float) -> None:
        if not self._asked:
            time.sleep(min(seconds, self._poll))

    def _require_kept(self, connection: MySqlConnection) -> None:
        """Refuse a position whose file of the log is gone, or belongs to another log."""
        files = {row[0] for row in execute(connection, "SHOW BINARY LOGS")}
        for file in (self._seen.file, *(self._seen.prepared or ())[:1]):
            if file not in files:
                raise _gone(self._seen, f"The server no longer has the file {file} of its log.")
        # What is known is the last transaction, or the last one of each domain that the server numbers by itself.
        known = set(filter(None, self._seen.gtid.split(",")))
        if not known <= set(_gtid_at(connection, self._seen).split(",")):
            raise _gone(self._seen, "The server has another log of that name: it was set up again.")


def _length(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


def _gone(position: LogPosition, detail: str) -> EpochGone:
    return EpochGone(
        f"the log cannot be read on from {position}",
        detail=detail,
        hint="Fill the views again, and let the server keep its log for longer (expire_logs_days).",
    )


def _check(connection: MySqlConnection) -> None:
    """Refuse a server whose log does not tell all that is needed."""
    found = dict(execute(connection, "SHOW GLOBAL VARIABLES"))
    for name, wanted in _NEEDED.items():
        if str(found.get(name, "OFF")).upper() != wanted:
            raise SetupError(
                f"the log of the server does not tell whole rows: {name} is {found.get(name, 'OFF')}",
                detail=f"It must be {wanted}, in the configuration of the server.",
                hint="Set log_bin, binlog_format = ROW and binlog_row_image = FULL.",
            )
    _check_all_is_logged(connection, found)
    if not execute(connection, "SHOW STATUS LIKE 'binlog_snapshot_file'"):
        raise SetupError(
            "the server does not say which place of its log a snapshot shows",
            detail="Without that no answer can be told apart from changes that come with it.",
            hint="MariaDB does, from version 10.3 on; of MySQL use a MariaDB replica, or changes by Debezium.",
        )


def _check_all_is_logged(connection: MySqlConnection, settings: Mapping[str, Any]) -> None:
    """Refuse a server whose log leaves out some of what is committed, or has it in a form that is not read."""
    ((_, _, only, never, *_),) = execute(connection, "SHOW MASTER STATUS")
    replicates = int(dict(execute(connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")).get("Slaves_running", 0))
    clustered = str(settings.get("wsrep_on", "OFF")).upper() == "ON"
    if only or never:
        name, value = ("binlog_do_db", only) if only else ("binlog_ignore_db", never)
        raise SetupError(
            f"the log of the server leaves out databases: {name} is {value}",
            detail="Then statements are missing that are run from another database.",
            hint="Take the filter out of the configuration of the server.",
        )
    if (replicates or clustered) and str(settings.get("log_slave_updates", "OFF")).upper() != "ON":
        raise SetupError(
            "the log of the server leaves out what it replicates: log_slave_updates is OFF",
            hint="Set log_slave_updates = ON in its configuration, or read the server that it replicates.",
        )
    if str(settings.get("log_bin_compress", "OFF")).upper() != "OFF":
        raise SetupError(
            "the log of the server has compressed events: log_bin_compress is ON",
            hint="Set log_bin_compress = OFF in its configuration.",
        )


def _end_of_log(connection: MySqlConnection) -> LogPosition:
    """The present end of the log."""
    rows = execute(connection, "SHOW MASTER STATUS")
    if not rows:
        raise SetupError("the server has no binary log", hint="Set log_bin in its configuration.")
    return LogPosition(rows[0][0], int(rows[0][1]))


def _place_of_snapshot(connection: MySqlConnection, *, ends: bool = True) -> LogPosition:
    """Begin a snapshot; returns the place of the log that it shows."""
    execute(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    status = dict(execute(connection, "SHOW STATUS LIKE 'binlog_snapshot%'"))
    found = {name.lower(): value for name, value in status.items()}
    place = LogPosition(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
    if ends:
        execute(connection, "COMMIT")
        place = LogPosition(place.file, place.place, _gtid_at(connection, place))
    return place


def _gtid_at(connection: MySqlConnection, place: LogPosition) -> str:
    """The numbers of the last transactions before a place of the log."""
    rows = execute(connection, "SELECT BINLOG_GTID_POS(\0001\0, \0002\0)", place.file, place.place)
    return str(rows[0][0] or "")


def _records(connection: MySqlConnection, statement: SqlStatement) -> Generator[Sequence[Any]]:
    """The rows of a statement, one at a time, each value as text."""
    with connection.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute(statement_text(connection, statement.sql, statement.parameters))
        yield from cursor
