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
from dataclasses import replace
from zlib import crc32

import psycopg

from tidemill.model.errors import EpochGone, SetupError, SourceLost
from tidemill.sources.polled_source import reader_taken_over
from tidemill.sources.postgres.change_capture import CapturedTransaction, ChangeCapture, TextRowDecoder, flushed
from tidemill.sources.postgres.connection import Connection, execute
from tidemill.sources.postgres.log_structure import LogStructure, StructureReader, attached_with_rows, partition_ids
from tidemill.sources.postgres.pgoutput import LogTables, transactions
from tidemill.sources.postgres.publication import Publication
from tidemill.sources.postgres.snapshot_position import PgSnapshot, SnapshotPosition, lsn_number, lsn_text
from tidemill.sources.remote_queries.dialects import quoted
from tidemill.sources.remote_queries.remote_tables import RemoteTable

__all__ = ["ReplicationSlot", "may_decode", "slot_name"]

_READ = """
SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, $2::int4,
    'proto_version', '1', 'publication_names', $3, 'messages', 'true')
"""
_PATIENCE = 60.0
_PREPARE_SECONDS = 1.0


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

    def __init__(
        self,
        schema: str,
        reader: str,
        tables: Iterable[RemoteTable],
        poll: float,
        publication: str = "",
        setup: str = "",
    ) -> None:
        self._tables = list(tables)
        self._poll = poll
        self._rows = TextRowDecoder(self._tables)
        self._reader = reader
        self._slot = slot_name(reader)
        self._publication = Publication(schema, publication or self._slot, bool(publication), self._tables)
        self._structures = StructureReader(schema, self._publication.name, self._tables)
        self._setup = setup
        self._growing = any(table.partitioned for table in self._tables)
        self._filtered = frozenset(table.name.lower() for table in self._tables if table.filter)
        self._opened: LogStructure | None = None
        self._known: LogStructure | None = None
        self._now_there: LogStructure | None = None
        self._prepared = True
        self._prepare_again = 0.0
        self._copy = ""
        self._copies = 0
        self._unread: list[CapturedTransaction] = []

    def create(self, connection: Connection) -> None:
        """Create the publication, and make the log contain whole old rows and the rows that TRUNCATE removes."""
        self._check_allowed(connection)
        self._publication.create(connection)

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
        self._publication.check(connection)
        self._opened = self._structures.read(connection)[1]

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
        snapshot, structure = self._structures.read(connection)
        if self._opened is not None and not structure.reads_like(self._opened):
            unlike = structure.tables_unlike(self._opened)
            raise self._structures.changed(self._opened.digest, structure, unlike)
        if since is not None:
            place, status, _ = known[0] if known else ("", "missing", True)
            if status in ("lost", "missing") or lsn_number(since.lsn or "0/0") < lsn_number(place):
                raise EpochGone(
                    f"the log cannot be read on from {since}",
                    detail=f"The replication slot {self._slot} is {status if not place else 'at ' + place}.",
                    hint="Fill the views again.",
                )
            self._known = structure.seen_by(since.target or since.base, snapshot)
            if since.structure not in ("", self._known.digest):
                raise self._structures.changed(since.structure, self._known)
            return replace(since, structure=self._known.digest)
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
        snapshot, self._known = self._structures.read(connection)
        return SnapshotPosition(snapshot, lsn=place, structure=self._known.digest)

    @property
    def structure(self) -> str:
        """Digest of the publication, the columns and the partitions."""
        return self._known.digest if self._known else ""

    def snapshot(self, connection: Connection, seen: SnapshotPosition) -> PgSnapshot:
        """The snapshot of the transaction that the connection has begun, with the definitions that it sees.

        Refused if they are others than those so far, unless all that was added are partitions that had no rows.
        """
        snapshot, self._now_there = self._structures.read(connection)
        if seen.target is None and self._now_there != self._known:
            self._adopt(connection, self._now_there)
        return snapshot

    def _adopt(self, connection: Connection, now: LogStructure) -> None:
        assert self._known is not None
        new = now.partitions - self._known.partitions
        attached = attached_with_rows(connection, list(new)) if new else None
        if not now.reads_like(self._known) or not now.partitions >= self._known.partitions or attached is not None:
            raise self._structures.changed(self._known.digest, now, now.tables_unlike(self._known), attached)
        if self._setup == "create":
            self._prepared, self._prepare_again = False, 0.0
        else:
            self._publication.check(connection)
        self._known = now

    def answered_in(self, connection: Connection) -> bool:
        """True if queries were about the partitions of the snapshot: the server plans them with the newest."""
        assert self._now_there is not None
        partitions = self._now_there.partitions
        roots = [table for table in self._tables if table.partitioned]
        return all(
            partition_ids(connection, f"{quoted(root.schema)}.{quoted(root.name)}")
            == {one.relid for one in partitions if one.table == root.name}
            for root in roots
        )

    def fresh(
        self, connection: Connection, seen: SnapshotPosition, target: PgSnapshot, most: int, wanted: bool
    ) -> tuple[list[CapturedTransaction], SnapshotPosition | None]:
        """The transactions of ``target`` in the log, in commit order."""
        if not self._prepared and time.monotonic() > self._prepare_again:
            self._prepared = self._publication.prepare_partitions(connection)
            if not self._prepared:
                self.after_error()
            self._prepare_again = time.monotonic() + _PREPARE_SECONDS
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
        lsn = lsn_text(min([lsn_number(place), *waiting]))
        return self._visible(target), SnapshotPosition(target, lsn=lsn, structure=self.structure)

    def _visible(self, target: PgSnapshot) -> list[CapturedTransaction]:
        assert self._known is not None
        found = [one for one in self._unread if target.sees(one.xid)]
        for one in found:
            one.settle(self._known.names)
        return found

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
        cursor.execute(_READ.encode(), (self._copy, most, quoted(self._publication.name)), binary=True)
        messages = [row[0] for row in cursor.fetchall()]
        assert self._known is not None
        names = self._known.names
        tables = LogTables(self._rows, names, self._publication.name, self._filtered, self._growing)
        for transaction in transactions(messages, tables):
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
        self._publication.remove(connection)

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
