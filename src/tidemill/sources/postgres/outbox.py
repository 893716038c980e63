"""Changes from an outbox: a table that triggers fill within the transactions that change ours, for every role.

A trigger runs once for a statement and writes each changed row as JSON, with the number of the transaction. The outbox
is read in the same snapshot as the answers, so what is visible in it is exactly what is visible in the tables. New are
the transactions that the last snapshot did not see. TRUNCATE is recorded as the rows that it removes.

Triggers tell nothing of columns that are altered, of tables that take another one's name, and of what is done while
they are disabled. So each look reads how they are, in its snapshot (``log_structure``), and is an error if that is not
as it was.

NOTIFY wakes us up; if a notification is lost, with a connection for instance, the next poll finds the change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

from tidemill.model.errors import EpochGone, SetupError
from tidemill.sources.polled_source import reader_taken_over
from tidemill.sources.postgres.catalog import OWN
from tidemill.sources.postgres.change_capture import (
    CapturedTransaction,
    ChangeCapture,
    TextRowDecoder,
    parse_json,
    texts,
)
from tidemill.sources.postgres.connection import Connection, execute, trigger_function
from tidemill.sources.postgres.log_structure import LogStructure, StructureReader
from tidemill.sources.postgres.snapshot_position import PgSnapshot, SnapshotPosition
from tidemill.sources.remote_queries.dialects import quoted, quoted_text
from tidemill.sources.remote_queries.remote_tables import RemoteTable

__all__ = ["PostgresOutbox"]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS {outbox} (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " xid xid8 NOT NULL DEFAULT pg_current_xact_id(), relation text NOT NULL, old json, new json)",
    "CREATE INDEX IF NOT EXISTS {index} ON {outbox} (xid)",
    "CREATE TABLE IF NOT EXISTS {readers} (reader text PRIMARY KEY, snapshot pg_snapshot NOT NULL)",
)
_NOTE = """
BEGIN
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        INSERT INTO {outbox} (relation, old) SELECT TG_TABLE_NAME, to_json(o.*) FROM old_rows AS o;
    END IF;
    IF TG_OP IN ('UPDATE', 'INSERT') THEN
        INSERT INTO {outbox} (relation, new) SELECT TG_TABLE_NAME, to_json(n.*) FROM new_rows AS n;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        EXECUTE format({insert}, TG_TABLE_SCHEMA, TG_TABLE_NAME) USING TG_TABLE_NAME;
        -- An older snapshot does not show all rows that TRUNCATE removes. A row without values says so.
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            INSERT INTO {outbox} (relation) VALUES (TG_TABLE_NAME);
        END IF;
    END IF;
    PERFORM pg_notify({channel}, '');
    RETURN NULL;
END
"""
_TRIGGERS = {
    "insert": "AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows",
    "update": "AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "delete": "AFTER DELETE ON {table} REFERENCING OLD TABLE AS old_rows",
    "truncate": "BEFORE TRUNCATE ON {table}",
}
_FRESH = """
WITH fresh AS (
    SELECT xid, max(id) AS mark FROM {outbox}
    WHERE xid >= $1::text::xid8 AND NOT pg_visible_in_snapshot(xid, $2::pg_snapshot)
          AND pg_visible_in_snapshot(xid, $3::pg_snapshot)
    GROUP BY xid HAVING max(id) > $4::int8 ORDER BY mark LIMIT $5::int8
)
SELECT o.xid::text, fresh.mark, o.relation, o.old::text, o.new::text
FROM fresh JOIN {outbox} AS o ON o.xid = fresh.xid ORDER BY fresh.mark, o.id
"""
_TRIM = """
DELETE FROM {outbox} AS o WHERE o.xid < $1::text::xid8
AND NOT EXISTS (SELECT FROM {readers} AS r WHERE NOT pg_visible_in_snapshot(o.xid, r.snapshot))
"""


class PostgresOutbox(ChangeCapture):
    """The outbox in ``schema``, as seen by one of its readers."""

    FROM_LOG = False

    def __init__(self, schema: str, reader: str, tables: Iterable[RemoteTable], poll: float) -> None:
        self._reader = reader
        self._tables = list(tables)
        self._poll = poll
        self._rows = TextRowDecoder(self._tables)
        self._structures = StructureReader(schema, None, self._tables)
        self._opened: LogStructure | None = None
        self._known: LogStructure | None = None
        self._channel = f"{OWN}_{crc32(schema.encode()):08x}"
        self._names = {
            "outbox": f"{quoted(schema)}.{OWN}_outbox",
            "insert": quoted_text(
                f"INSERT INTO {quoted(schema)}.{OWN}_outbox (relation, old) SELECT $1, to_json(o.*)".replace("%", "%%")
                + " FROM ONLY %I.%I AS o"
            ),
            "readers": f"{quoted(schema)}.{OWN}_readers",
            "function": f"{quoted(schema)}.{OWN}_note",
            "index": f"{OWN}_outbox_xid",
            "channel": quoted_text(self._channel),
        }

    def create(self, connection: Connection) -> None:
        """Create the tables, the function, and the triggers that are missing, in one transaction."""
        with connection.transaction():
            execute(connection, "SELECT pg_advisory_xact_lock(hashtext($1))", self._names["outbox"])
            for statement in _TABLES:
                execute(connection, self._sql(statement))
            execute(connection, trigger_function(self._names["function"], self._sql(_NOTE)))
            for table, kind in self._missing(connection):
                there = f"{quoted(table.schema)}.{quoted(table.name)}"
                event = _TRIGGERS[kind].format(table=there)
                execute(connection, f"DROP TRIGGER IF EXISTS {OWN}_{kind} ON {there}")  # it may be disabled
                execute(
                    connection,
                    f"CREATE TRIGGER {OWN}_{kind} {event} FOR EACH STATEMENT"
                    f" EXECUTE FUNCTION {self._names['function']}()",
                )
                execute(connection, f"ALTER TABLE {there} ENABLE ALWAYS TRIGGER {OWN}_{kind}")

    def _missing(self, connection: Connection) -> list[tuple[RemoteTable, str]]:
        rows = execute(
            connection,
            "SELECT n.nspname, c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE starts_with(t.tgname, $1) AND t.tgenabled = 'A'",
            OWN,
        )
        made = set(rows)
        wanted = [(table, kind) for table in self._tables for kind in _TRIGGERS]
        return [(table, kind) for table, kind in wanted if (table.schema, table.name, f"{OWN}_{kind}") not in made]

    def check(self, connection: Connection) -> None:
        """Refuse a database whose outbox does not cover every table in use."""
        (present,) = execute(connection, "SELECT to_regclass($1) IS NOT NULL", self._names["outbox"])[0]
        missing = sorted({table.name for table, _ in self._missing(connection)})
        if missing or not present:
            raise SetupError(
                "the database has no outbox for " + (", ".join(missing) or "its tables"),
                detail="Changes are read from a table that triggers fill.",
                hint="Allow that it is made, with the option setup = 'create' and a role that owns the tables.",
            )
        _, self._opened = self._structures.read(connection)

    def prepare(self, connection: Connection) -> None:
        """Listen for the triggers' notifications. The driver buffers those that come while we are busy."""
        execute(connection, f"LISTEN {quoted(self._channel)}")

    def start(self, connection: Connection, since: SnapshotPosition | None) -> SnapshotPosition:
        """Register as a reader; a registered one continues where it was, or later."""
        with connection.transaction():
            now, self._known = self._structures.read(connection)
            if self._opened is not None and self._known != self._opened:
                raise self._structures.changed(
                    self._opened.digest, self._known, self._known.tables_unlike(self._opened)
                )
            if since is None:
                since = SnapshotPosition(now)
            else:
                self._check_known(connection, since)
                if since.structure not in ("", self._known.digest):
                    raise self._structures.changed(since.structure, self._known)
            since = replace(since, structure=self._known.digest)
            execute(
                connection,
                self._sql(
                    "INSERT INTO {readers} VALUES ($1, $2::pg_snapshot)"
                    " ON CONFLICT (reader) DO UPDATE SET snapshot = excluded.snapshot"
                ),
                self._reader,
                str(since.base),
            )
        return since

    @property
    def structure(self) -> str:
        """Digest of the definitions, which are the same ones all the while."""
        return self._known.digest if self._known is not None else ""

    def snapshot(self, connection: Connection, seen: SnapshotPosition) -> PgSnapshot:
        """The snapshot, if the definitions that it sees are those that changes were told by."""
        snapshot, now = self._structures.read(connection)
        if self._known is not None and now != self._known:
            raise self._structures.changed(self._known.digest, now, now.tables_unlike(self._known))
        return snapshot

    def _check_known(self, connection: Connection, since: SnapshotPosition) -> None:
        sql = "SELECT snapshot::text, pg_current_snapshot()::text FROM {readers} WHERE reader = $1"
        known = execute(connection, self._sql(sql), self._reader)
        detail = "The outbox keeps nothing for this reader."
        if known:
            kept, now = map(PgSnapshot.parse, known[0])
            if since.base.covers(kept) and since.base.xmax <= now.xmax:
                return
            detail = f"It keeps what came after {kept}, and is at {now}."
        raise EpochGone(f"the outbox cannot go on from {since}", detail=detail, hint="Fill the views again.")

    def fresh(
        self, connection: Connection, seen: SnapshotPosition, target: PgSnapshot, most: int, wanted: bool
    ) -> tuple[list[CapturedTransaction], SnapshotPosition | None]:
        """The visible transactions that were not delivered, by the last id of each."""
        kept = execute(connection, self._sql("SELECT snapshot::text FROM {readers} WHERE reader = $1"), self._reader)
        if not kept or not seen.base.covers(PgSnapshot.parse(kept[0][0])):
            raise reader_taken_over(self._reader)
        mark = seen.mark if seen.target == target else 0
        rows = execute(connection, self._sql(_FRESH), str(seen.base.xmin), str(seen.base), str(target), mark, most + 1)
        found: dict[int, CapturedTransaction] = {}
        for xid, last, relation, old, new in rows:
            if int(xid) not in found and len(found) == most:
                return list(found.values()), None
            transaction = found.setdefault(int(xid), CapturedTransaction(int(xid), last))
            self._note(transaction, relation, old, new)
        return list(found.values()), SnapshotPosition(target, structure=self.structure)

    def _note(self, transaction: CapturedTransaction, relation: str, old: str | None, new: str | None) -> None:
        if old is None and new is None and relation.lower() in self._rows:
            transaction.fail(
                f"{relation} was emptied by TRUNCATE in an old snapshot, which does not show all its rows."
            )
        for text, weight in ((old, -1), (new, 1)):
            if text is not None:
                transaction.note(self._rows, relation.lower(), texts(parse_json(text)), weight)

    def forget(self, connection: Connection, upto: SnapshotPosition) -> None:
        """Advance this reader, and delete what all readers have."""
        with connection.transaction():
            execute(
                connection,
                self._sql("UPDATE {readers} SET snapshot = $2::pg_snapshot WHERE reader = $1"),
                self._reader,
                str(upto.base),
            )
            execute(connection, self._sql(_TRIM), str(upto.base.xmax))

    def wait(self, connection: Connection, seconds: float) -> None:
        """Wait until a trigger notifies us, at most until the next poll, which can be seldom."""
        for _ in connection.notifies(timeout=min(seconds, 20 * self._poll), stop_after=1):
            return

    def remove(self, connection: Connection) -> None:
        """Unregister this reader; the last one removes outbox and triggers."""
        with connection.transaction():
            execute(connection, self._sql("DELETE FROM {readers} WHERE reader = $1"), self._reader)
            if not execute(connection, self._sql("SELECT 1 FROM {readers}")):
                execute(connection, self._sql("DROP FUNCTION {function}() CASCADE"))
                execute(connection, self._sql("DROP TABLE {outbox}, {readers}"))

    def _sql(self, template: str) -> str:
        return template.format(**self._names)
