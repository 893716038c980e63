"""Changes by logical decoding: the server retains its log for us behind a replication slot, and decodes it.

Two slots are used. The permanent one is advanced by ``forget``, and is where a restart begins. It is copied into a
temporary one for each connection, from which the log is read exactly once; the copy ends with the connection, the next
one begins at the permanent slot, and transactions that were already delivered are recognised by their numbers. So
nothing is decoded twice in normal operation, and nothing is lost after a failure.

The log has transactions in commit order, but one may be in it before it is visible to snapshots: it is held back until
a snapshot sees it.

The log does not say which rows TRUNCATE removes. With the owner's permission a trigger writes them to the log before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from zlib import crc32

import psycopg

from tidemill.model.errors import EpochGone, SetupError, SourceLost
from tidemill.sources.polled_source import reader_taken_over
from tidemill.sources.postgres.catalog import OWN
from tidemill.sources.postgres.change_capture import CapturedTransaction, ChangeCapture, TextRowDecoder, flushed
from tidemill.sources.postgres.connection import Connection, execute, trigger_function
from tidemill.sources.postgres.pgoutput import MESSAGE_PREFIX, transactions
from tidemill.sources.postgres.snapshot_position import PgSnapshot, SnapshotPosition, lsn_number, lsn_text
from tidemill.sources.remote_queries.dialects import quoted
from tidemill.sources.remote_queries.remote_tables import RemoteTable

__all__ = ["ReplicationSlot", "may_decode", "slot_name"]

_EMPTIED = """
BEGIN
    EXECUTE format('SELECT pg_logical_emit_message(true, %L, json_build_array($1, to_json(o.*))::text)'
                   ' FROM ONLY %I.%I AS o', '{prefix}', TG_TABLE_SCHEMA, TG_TABLE_NAME) USING TG_TABLE_NAME;
    -- An older snapshot does not show all rows that TRUNCATE removes; then nothing says that these were all.
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM pg_logical_emit_message(true, '{prefix}', json_build_array(TG_TABLE_NAME, NULL)::text);
    END IF;
    RETURN NULL;
END
"""
_TABLES = """
SELECT c.relname, c.relreplident = 'f', t.oid IS NOT NULL, r.prrelid IS NOT NULL,
       coalesce(to_jsonb(r) ->> 'prqual', '') <> '', coalesce(to_jsonb(r) ->> 'prattrs', '') <> '',
       p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
FROM pg_class c
LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = $2
LEFT JOIN pg_publication p ON p.pubname = $3
LEFT JOIN pg_publication_rel r ON r.prrelid = c.oid AND r.prpubid = p.oid
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND c.relname = ANY ($4)
"""
_READ = """
SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, $2::int4,
    'proto_version', '1', 'publication_names', $3, 'messages', 'true')
"""
_PATIENCE = 60.0


def may_decode(connection: Connection) -> str:
    """The reason why this server and role cannot use logical decoding; empty if they can."""
    version, level, allowed = execute(
        connection,
        "SELECT current_setting('server_version_num')::int4, current_setting('wal_level'),"
        " (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)",
    )[0]
    if version < 140000:
        return "Logical decoding is used from PostgreSQL 14 on."
    if level != "logical":
        return f"wal_level is {level}, and must be logical (it takes a restart of the server)."
    return "" if allowed else "The role needs the attribute REPLICATION."


class ReplicationSlot(ChangeCapture):
    """Logical decoding for some tables of ``schema``, with a slot and a publication of the reader's own."""

    FROM_LOG = True

    def __init__(self, schema: str, reader: str, tables: Iterable[RemoteTable], poll: float) -> None:
        self._schema = schema
        self._tables = list(tables)
        self._poll = poll
        self._rows = TextRowDecoder(self._tables)
        self._reader = reader
        self._slot = slot_name(reader)
        self._function = f"{quoted(schema)}.{OWN}_emptied"
        self._copy = ""
        self._copies = 0
        self._unread: list[CapturedTransaction] = []

    def create(self, connection: Connection) -> None:
        """Create the publication, and make the log contain whole old rows and the rows that TRUNCATE removes."""
        self._check_allowed(connection)
        found = self._found(connection)
        with connection.transaction():
            execute(connection, trigger_function(self._function, _EMPTIED.format(prefix=MESSAGE_PREFIX)))
            for table in self._tables:
                whole, watched, _ = found[table.name]
                if not whole:
                    execute(connection, f"ALTER TABLE ONLY {_there(table)} REPLICA IDENTITY FULL")
                if not watched:
                    trigger = f"CREATE TRIGGER {OWN}_emptied BEFORE TRUNCATE ON {_there(table)} FOR EACH STATEMENT"
                    execute(connection, f"{trigger} EXECUTE FUNCTION {self._function}()")
                    execute(connection, f"ALTER TABLE {_there(table)} ENABLE ALWAYS TRIGGER {OWN}_emptied")
            self._publish(connection, all(published for _, _, published in found.values()))

    def _publish(self, connection: Connection, done: bool) -> None:
        name = quoted(self._slot)
        tables = ", ".join(f"ONLY {_there(table)}" for table in self._tables)
        if not execute(connection, "SELECT 1 FROM pg_publication WHERE pubname = $1", self._slot):
            execute(connection, f"CREATE PUBLICATION {name} FOR TABLE {tables}")
        elif not done:
            execute(connection, f"ALTER PUBLICATION {name} SET TABLE {tables}")

    def _found(self, connection: Connection) -> dict[str, tuple[bool, bool, bool]]:
        """For each table: true if old rows are logged whole, if TRUNCATE is captured, if it is published."""
        names = [table.name for table in self._tables]
        rows = execute(connection, _TABLES, self._schema, f"{OWN}_emptied", self._slot, names)
        for name, _, _, published, *partly in rows:
            if published:
                self._require_all_published(name, *partly)
        return {name: (whole, watched, published) for name, whole, watched, published, *_ in rows}

    def _require_all_published(self, name: str, filtered: bool, listed: bool, all_operations: bool) -> None:
        """Refuse a publication that somebody has made for a part of the changes of a table: answers have all rows."""
        parts = {"some of its rows (WHERE)": filtered, "some of its columns": listed}
        parts |= {"some kinds of changes (publish = ...)": not all_operations}
        for part, lacks in parts.items():
            if lacks:
                raise SetupError(
                    f"the publication {self._slot} tells only a part of the changes of {quoted(name)}",
                    where=f"{quoted(self._schema)}.{quoted(name)}",
                    detail=f"It publishes {part}, and queries see all of the table.",
                    hint=f"ALTER PUBLICATION {quoted(self._slot)}, or drop it and use setup = 'create'.",
                )

    def _check_allowed(self, connection: Connection) -> None:
        reason = may_decode(connection)
        if reason:
            raise SetupError(
                "the database does not let us read its log",
                detail=reason,
                hint="The option changes = 'outbox' needs no log.",
            )

    def check(self, connection: Connection) -> None:
        """Refuse a database that does not publish the tables in use with their whole old rows."""
        self._check_allowed(connection)
        found = self._found(connection)
        lacking = [name for name, (whole, _, published) in found.items() if not (whole and published)]
        if lacking:
            tables = ", ".join(f"{quoted(self._schema)}.{quoted(name)}" for name in lacking)
            raise SetupError(
                f"the log does not tell the changes of {tables}",
                detail=f"They need REPLICA IDENTITY FULL, and a place in the publication {self._slot}.",
                hint="Allow that it is done, with the option setup = 'create' and a role that owns the tables.",
            )

    def prepare(self, connection: Connection) -> None:
        """Note that a new connection has no copy of the slot yet."""
        self.after_error()

    def after_error(self) -> None:
        """Start with a new copy and resume after the last delivered transaction: the server drops temporary slots on
        error."""
        self._copy = ""
        self._unread = []

    def start(self, connection: Connection, since: SnapshotPosition | None) -> SnapshotPosition:
        """The position at which delivery begins. Without ``since`` that is now, with a new slot if there is none."""
        known = execute(
            connection,
            "SELECT confirmed_flush_lsn::text, coalesce(wal_status, ''), database = current_database()"
            " FROM pg_replication_slots WHERE slot_name = $1",
            self._slot,
        )
        if known and not known[0][2]:
            raise SetupError(
                f"another database of this server has the replication slot {self._slot}",
                hint="Give this source a name of its own in the option reader.",
            )
        self._drop_copy(connection)
        if since is not None:
            place, status, _ = known[0] if known else ("", "missing", True)
            if status in ("lost", "missing") or lsn_number(since.lsn or "0/0") < lsn_number(place):
                raise EpochGone(
                    f"the log cannot be read on from {since}",
                    detail=f"The replication slot {self._slot} is {status if not place else 'at ' + place}.",
                    hint="Fill the views again.",
                )
            return since
        if not known or known[0][1] == "lost":
            self._make(connection, dropped=bool(known))
        return self._now(connection)

    def _make(self, connection: Connection, dropped: bool) -> None:
        """Create a slot. The server waits until the running transactions have ended."""
        if dropped:
            execute(connection, "SELECT pg_drop_replication_slot($1)", self._slot)
        execute(connection, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", self._slot)
        # A transaction may have written its commit before the slot's beginning and still be invisible: wait for it.
        running = _snapshot(connection).running
        deadline = time.monotonic() + _PATIENCE
        while running & _snapshot(connection).running:
            if time.monotonic() > deadline:
                raise SourceLost("transactions of the source go on for too long", hint="End them, then try again.")
            time.sleep(self._poll)

    def _now(self, connection: Connection) -> SnapshotPosition:
        """The current position, which counts all visible transactions as delivered; the slot may begin earlier."""
        place = execute(
            connection, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", self._slot
        )[0][0]
        return SnapshotPosition(_snapshot(connection), lsn=place)

    def fresh(
        self, connection: Connection, seen: SnapshotPosition, target: PgSnapshot, most: int, wanted: bool
    ) -> tuple[list[CapturedTransaction], SnapshotPosition | None]:
        """The transactions of ``target`` in the log, in commit order."""
        if not self._copy:
            self._copy_slot(connection, seen)
        more = self._read(connection, seen, target, 4 * most)
        if not (more or wanted or self._visible(target)):
            return [], None
        if more:
            return self._visible(target), None
        # Only the flushed log is read. Commits that the snapshot sees may have been flushed since.
        place = flushed(connection)
        if self._read(connection, seen, target, 4 * most):
            return self._visible(target), None
        # The log before this position is not needed any more, except for transactions that are not visible yet.
        waiting = [one.mark for one in self._unread if not target.sees(one.xid)]
        return self._visible(target), SnapshotPosition(target, lsn=lsn_text(min([lsn_number(place), *waiting])))

    def _visible(self, target: PgSnapshot) -> list[CapturedTransaction]:
        return [one for one in self._unread if target.sees(one.xid)]

    def _copy_slot(self, connection: Connection, seen: SnapshotPosition) -> None:
        """Copy the slot, to read from the copy; refused if the slot was advanced by another reader."""
        self._copies += 1
        name = f"{self._slot}_{connection.info.backend_pid}_{self._copies}"
        begins = execute(
            connection, "SELECT lsn::text FROM pg_copy_logical_replication_slot($1, $2, true)", self._slot, name
        )[0][0]
        self._copy = name
        if lsn_number(begins) > lsn_number(seen.lsn):
            raise reader_taken_over(self._reader)

    def _read(self, connection: Connection, seen: SnapshotPosition, target: PgSnapshot, most: int) -> bool:
        """Read about ``most`` further messages of the log; true if there may be more."""
        cursor = psycopg.RawCursor(connection)
        cursor.execute(_READ.encode(), (self._copy, most, self._slot), binary=True)
        messages = [row[0] for row in cursor.fetchall()]
        for transaction in transactions(messages, self._rows):
            transaction.xid = target.whole(transaction.xid)
            self._unread.append(transaction)
        self._unread = [one for one in self._unread if not seen.sees(one.xid, one.mark)]
        return len(messages) >= most

    def forget(self, connection: Connection, upto: SnapshotPosition) -> None:
        """Release the server's log up to here."""
        if upto.lsn:
            execute(
                connection,
                "SELECT pg_replication_slot_advance(slot_name, $2::text::pg_lsn) FROM pg_replication_slots"
                " WHERE slot_name = $1 AND confirmed_flush_lsn < $2::text::pg_lsn",
                self._slot,
                upto.lsn,
            )

    def wait(self, connection: Connection, seconds: float) -> None:
        """Wait until the next poll."""
        time.sleep(min(seconds, self._poll))

    def remove(self, connection: Connection) -> None:
        """Drop slot and publication: an unused slot retains the server's log forever."""
        self._drop_copy(connection)
        sql = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1"
        execute(connection, sql, self._slot)
        execute(connection, f"DROP PUBLICATION IF EXISTS {quoted(self._slot)}")

    def _drop_copy(self, connection: Connection) -> None:
        if self._copy:
            execute(connection, "SELECT pg_drop_replication_slot($1)", self._copy)
        self.after_error()


def slot_name(reader: str) -> str:
    """The name of a reader's slot and publication; readers of different names never share one.

    >>> slot_name("shop"), slot_name("Ärger")
    ('tidemill_shop', 'tidemill__rger_48f7e1ab')
    """
    plain = re.sub("[^a-z0-9_]", "_", reader.lower())[:30]
    return f"tidemill_{plain}" if plain == reader else f"tidemill_{plain}_{crc32(reader.encode()):08x}"


def _snapshot(connection: Connection) -> PgSnapshot:
    return PgSnapshot.parse(execute(connection, "SELECT pg_current_snapshot()::text")[0][0])


def _there(table: RemoteTable) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"
