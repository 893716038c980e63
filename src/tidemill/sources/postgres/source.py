"""A PostgreSQL database as an autonomous source.

A poll is one REPEATABLE READ transaction: its snapshot determines which transactions are visible, they are delivered,
and the queries are answered in the same snapshot. If the connection breaks in the middle, the poll is repeated over a
new one. Nothing is locked, and no writer waits for us.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import psycopg

from tidemill.model.errors import SourceLost, Unsupported
from tidemill.sources.polled_source import PendingQuery, PolledSource
from tidemill.sources.postgres.catalog import decoder, read_tables
from tidemill.sources.postgres.change_capture import CapturedTransaction, flushed
from tidemill.sources.postgres.connection import Address, Connection, ReconnectingConnection, execute
from tidemill.sources.postgres.outbox import PostgresOutbox
from tidemill.sources.postgres.publication import narrowed
from tidemill.sources.postgres.replication_slot import ReplicationSlot, may_decode
from tidemill.sources.postgres.snapshot_position import PgSnapshot, SnapshotPosition
from tidemill.sources.remote_queries.dialects import POSTGRES, quoted
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.remote_tables import RemoteTable
from tidemill.sources.remote_queries.render_sql import AnswerReader, Decoder, SqlStatement
from tidemill.sources.source import Answered, Committed, Message, Position

__all__ = ["PostgresSource", "fetch_rows"]

_TOGETHER = 50
"""Queries that are sent to the server before the answer of the first is read."""


class PostgresSource(PolledSource):
    """A schema of a PostgreSQL database. Positions are snapshots (``postgres.snapshot_position``).

    ``changes`` selects how changes are captured: ``'slot'`` (logical decoding), ``'outbox'`` (triggers), or ``'auto'``,
    the slot if server and role allow it. ``setup='create'`` allows creating what is missing in the database. ``held``
    bounds the transactions that are buffered here. ``publication`` is one that an administrator has made, with the
    tables and the parts of them that this source has.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        schema: str = "public",
        tables: Iterable[str] | None = None,
        columns: Mapping[str, Collection[str]] | None = None,
        changes: str = "auto",
        setup: str = "exists",
        reader: str | None = None,
        poll: float = 0.05,
        patience: float = 60.0,
        query_timeout: float | None = None,
        held: int = 1000,
        publication: str | None = None,
    ) -> None:
        super().__init__(name, POSTGRES, query_timeout)
        # Errors at the beginning are reported soon; a connection that breaks later may well come back.
        self._link = ReconnectingConnection(name, address, min(patience, 5.0))
        self._held = held
        try:
            kind = self._link.run(lambda connection: _kind(connection, changes, publication))
            there = self._link.run(lambda connection: _tables(connection, schema, kind.FROM_LOG, publication))
            used = self._use(there, tables, columns)
            self._changes = (
                ReplicationSlot(schema, reader or name, used, poll, publication or "", setup)
                if kind is ReplicationSlot
                else PostgresOutbox(schema, reader or name, used, poll)
            )
            if setup == "create":
                self._link.run(self._changes.create)
            self._link.run(self._changes.check)
            again = self._link.run(lambda connection: _tables(connection, schema, kind.FROM_LOG, publication))
            if not set(used) <= set(self._use(again, tables, columns)):
                raise SourceLost(f'tables of source "{name}" were changed while it was opened', hint="Open it again.")
            self._link.close()
        except BaseException:
            self._link.close()
            raise
        self._link.prepare = self._changes.prepare
        self._link.patience = patience
        self._seen = SnapshotPosition(PgSnapshot(0, 0, frozenset()))

    def __repr__(self) -> str:
        return f"PostgresSource({self.name!r}, {str(self._link.address)!r})"

    @property
    def changes(self) -> str:
        """The way that changes are captured: ``slot`` or ``outbox``."""
        return "slot" if self._changes.FROM_LOG else "outbox"

    def start(self, since: Position | None) -> Position:
        """Begin after ``since``, or now."""
        seen = None if since is None else SnapshotPosition.parse(since)
        self._seen = self._link.run(lambda connection: self._changes.start(connection, seen))
        self._asked.clear()
        self._messages.clear()
        return str(self._seen)

    def key_range(self, table: str, column: str) -> tuple[int, int, int] | None:
        """The least and the greatest key, by the index, and the number of rows as the planner knows it, or counted."""
        remote = self._remote[table]
        key, own = quoted(remote.column(column).name), f"{POSTGRES.relation(remote)} AS o"
        sql = f"SELECT min({key}), max({key}) FROM {own}"
        ((low, high),) = self._link.run(lambda connection: execute(connection, sql))
        if low is None:
            return None
        known = "SELECT reltuples::int8 FROM pg_class WHERE oid = format('%I.%I', $1::text, $2::text)::regclass"
        ((rows,),) = self._link.run(lambda connection: execute(connection, known, remote.schema, remote.name))
        if rows <= 0 or remote.filter or remote.partitioned:
            plan = f"EXPLAIN (FORMAT JSON) SELECT FROM {own}"
            ((rows,),) = self._link.run(lambda connection: execute(connection, plan))
            rows = rows[0]["Plan"]["Plan Rows"]
        return int(low), int(high), int(rows)

    def forget(self, upto: Position) -> None:
        """Release changes up to here in the database, unless another reader needs them."""
        self._link.run(lambda connection: self._changes.forget(connection, SnapshotPosition.parse(upto)))

    def close(self) -> None:
        """Close the connection; slot or outbox stay."""
        self._link.close()

    def remove(self) -> None:
        """Remove from the database what it keeps for this source, for DROP SOURCE."""
        self._link.run(self._changes.remove)
        self._link.close()

    def _look(self, asked: Sequence[PendingQuery]) -> list[Message]:
        messages, self._seen = self._link.run(lambda connection: self._snapshot(connection, asked))
        return messages

    def _snapshot(
        self, connection: Connection, asked: Sequence[PendingQuery]
    ) -> tuple[list[Message], SnapshotPosition]:
        """One poll. A backlog is delivered from the snapshot in which it began; queries are answered at its end."""
        ready = self._begin(connection, asked)
        snapshot = self._changes.snapshot(connection, self._seen)
        target = self._seen.target or snapshot
        within = not self._changes.FROM_LOG
        if within:
            fresh, complete = self._fresh(connection, target, asked)
        now = target is snapshot and (not within or complete is not None)
        answers = self._answers(connection, asked) if now and ready else []
        if answers and not self._changes.answered_in(connection):
            answers = []
        execute(connection, "COMMIT")
        if not within:
            fresh, complete = self._fresh(connection, target, asked)
        elif fresh:
            flushed(connection)
        messages, seen = self._told(fresh, target)
        if complete is None:
            return [*messages], seen
        position = str(complete)
        last = [replace(message, position=position) for message in messages[-1:]]
        found = [replace(answer, position=position) for answer in answers if answer is not None]
        return [*messages[:-1], *last, *found], complete

    def _begin(self, connection: Connection, asked: Sequence[PendingQuery]) -> bool:
        """Begin the transaction of a poll, and lock the tables that are asked about; false if that takes too long.

        A snapshot does not keep tables from being emptied or altered between its beginning and its use.
        """
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        names = {
            POSTGRES.stored(self._remote[leaf.relation])
            for one in asked
            for term in one.query.remote.terms
            for leaf in one.query.view.leaves
            if leaf.alias not in term.bound
        }
        limit = min((round(one.timeout * 1000) for one in asked if one.timeout), default=0)
        lock = f"SET LOCAL lock_timeout = {max(limit, 1)}; " if limit else ""
        lock += f"LOCK TABLE {', '.join(sorted(names))} IN ACCESS SHARE MODE" if names else ""
        try:
            execute(connection, f"{begin}; {lock}")
        except psycopg.errors.LockNotAvailable:
            for one in asked:
                one.late += bool(one.timeout)
            self._changes.after_error()
            execute(connection, f"ROLLBACK; {begin}")
            return False
        return True

    def _fresh(
        self, connection: Connection, target: PgSnapshot, asked: Sequence[PendingQuery]
    ) -> tuple[list[CapturedTransaction], SnapshotPosition | None]:
        """The transactions to deliver. One that cannot be delivered is an error when it is the next."""
        fresh, complete = self._changes.fresh(connection, self._seen, target, self._held, wanted=bool(asked))
        told = list(takewhile(lambda one: one.trouble is None, fresh))
        if len(told) == len(fresh):
            return told, complete
        trouble = fresh[len(told)].trouble
        if not told and trouble is not None:
            raise trouble
        return told, None

    def _told(
        self, told: Sequence[CapturedTransaction], target: PgSnapshot
    ) -> tuple[list[Committed], SnapshotPosition]:
        seen, messages = replace(self._seen, structure=self._changes.structure), []
        for one in told:
            seen = seen.told(target, one.mark)
            changes = {name: rows for name, rows in one.changes.items() if rows}
            if changes:
                messages.append(Committed(changes, str(seen)))
        return messages, seen

    def _answers(self, connection: Connection, asked: Sequence[PendingQuery]) -> list[Answered | None]:
        """The answers to queries. Those without a limit of time are sent together, so that none waits for another."""
        if len(asked) == 1 or any(one.timeout for one in asked):
            return [self._answer(connection, one) for one in asked]
        answers: list[Answered | None] = []
        for first in range(0, len(asked), _TOGETHER):
            few = asked[first : first + _TOGETHER]
            with connection.pipeline():
                sent = [[send(connection, one) for one in self._statements(query)] for query in few]
            answers += [
                self._taken(query, map(received_rows, cursors)) for query, cursors in zip(few, sent, strict=True)
            ]
        return answers

    def _statements(self, asked: PendingQuery) -> list[SqlStatement]:
        return self._plan(asked.query.view).statements(asked.query)

    def _answer(self, connection: Connection, asked: PendingQuery) -> Answered | None:
        """The answer without its position, or None if it takes too long; the snapshot survives that."""
        if not asked.timeout:
            return self._taken(asked, self._rows(connection, asked))
        execute(connection, "SAVEPOINT asked")
        limit = str(max(1, round(asked.timeout * 1000)))
        execute(connection, "SELECT set_config('statement_timeout', $1, true)", limit)
        try:
            answered = self._taken(asked, self._rows(connection, asked))
        except psycopg.errors.QueryCanceled:
            asked.late += 1
            self._changes.after_error()
            execute(connection, "ROLLBACK TO SAVEPOINT asked")
            return None
        execute(connection, "RELEASE SAVEPOINT asked")
        execute(connection, "SELECT set_config('statement_timeout', '0', true)")
        return answered

    def _rows(self, connection: Connection, asked: PendingQuery) -> Iterator[Iterator[list[bytes | None]]]:
        return (fetch_rows(connection, statement) for statement in self._statements(asked))

    def _taken(self, asked: PendingQuery, rows: Iterable[Iterable[list[bytes | None]]]) -> Answered:
        """The answer to a query, from the rows of its statements."""
        asking = self._plan(asked.query.view)
        columns = asking.columns
        decoders = [_of_bytes(decoder(columns[name], widened=True)) for name in asking.fetched]
        incoming = AnswerReader(asking, decoders, len)
        for some in rows:
            incoming.take(some)
        incoming.total.update_by(evaluate_locally(asked.query))
        return Answered(asked.number, incoming.total, "", incoming.received)

    def _wait(self, seconds: float) -> None:
        if not self._asked:
            self._link.run(lambda connection: self._changes.wait(connection, seconds))


def _kind(
    connection: Connection, changes: str, publication: str | None
) -> type[PostgresOutbox] | type[ReplicationSlot]:
    reason = may_decode(connection) if changes == "auto" else ""
    kinds: dict[str, type[PostgresOutbox] | type[ReplicationSlot]] = {
        "outbox": PostgresOutbox,
        "slot": ReplicationSlot,
        "auto": PostgresOutbox if reason else ReplicationSlot,
    }
    if changes not in kinds:
        raise Unsupported(f"there is no way {changes!r} to learn of changes", hint="changes = 'slot', 'outbox', 'auto'")
    if publication and kinds[changes] is PostgresOutbox:
        raise Unsupported(
            f'an outbox reads no publication "{publication}"', detail=reason or None, hint="Use changes = 'slot'."
        )
    return kinds[changes]


def _tables(connection: Connection, schema: str, from_log: bool, publication: str | None) -> list[RemoteTable]:
    tables = read_tables(connection, schema, from_log)
    return list(narrowed(connection, publication, tables)) if publication else tables


def fetch_rows(connection: Connection, statement: SqlStatement) -> Iterator[list[bytes | None]]:
    """The rows of a statement, each value as the text received."""
    return received_rows(send(connection, statement))


def send(connection: Connection, statement: SqlStatement) -> psycopg.RawCursor[Any]:
    """The cursor of a statement; within a pipeline its result is there once that has ended."""
    cursor = psycopg.RawCursor(connection)
    cursor.execute(statement.sql.encode(), statement.parameters or None)
    return cursor


def received_rows(cursor: psycopg.RawCursor[Any]) -> Iterator[list[bytes | None]]:
    """The rows of a result, each value as the text received."""
    result = cursor.pgresult
    assert result is not None
    places = range(result.nfields)
    for number in range(result.ntuples):
        yield [result.get_value(number, place) for place in places]


def _of_bytes(decode: Callable[[str], Any]) -> Decoder:
    """``decode`` for UTF-8 bytes."""
    return lambda value: decode(value.decode())
