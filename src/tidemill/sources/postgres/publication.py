"""The publication behind a replication slot: which rows and columns of the tables in use the log tells of.

Ours is made for the tables in use, whole. One that an administrator has made, and the option ``publication`` names, may
have filters and lists of columns: then the source's table *is* that part, for notifications and answers alike.

A partitioned table is published by its partitions, each under its own number. ``publish_via_partition_root`` would tell
all changes in its name, but then TRUNCATE of a partition leaves no trace in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import psycopg

from tidemill.model.errors import SetupError
from tidemill.sources.postgres.catalog import OWN
from tidemill.sources.postgres.connection import Connection, event_function, execute, trigger_function
from tidemill.sources.postgres.pgoutput import MESSAGE_PREFIX
from tidemill.sources.remote_queries.dialects import quoted, quoted_text
from tidemill.sources.remote_queries.remote_tables import RemoteTable

__all__ = ["Publication", "narrowed"]

_EMPTIED = """
DECLARE
    parts text := '';
BEGIN
    {filters}
    EXECUTE format('SELECT pg_logical_emit_message(true, %L,'
                   ' json_build_array($1, to_json(o.*), json_build_array(%s))::text) FROM ONLY %I.%I AS o',
                    {prefix}, parts, TG_TABLE_SCHEMA, TG_TABLE_NAME) USING TG_RELID::int8;
    -- An older snapshot does not show all rows that TRUNCATE removes; then nothing says that these were all.
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM pg_logical_emit_message(true, {prefix}, json_build_array(TG_RELID::int8, NULL)::text);
    END IF;
    RETURN NULL;
END
"""
_FILTERS = """
    -- The publications of a part of the table to which the row belongs.
    SELECT coalesce(string_agg(format('CASE WHEN %s THEN %L END', pg_get_expr(r.prqual, r.prrelid), p.pubname),
                               ', '), '') INTO parts
    FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
    WHERE r.prrelid = TG_RELID AND r.prqual IS NOT NULL;
"""
_PREPARED = """
DECLARE
    part record;
BEGIN
    FOR part IN
        SELECT n.nspname, c.relname FROM pg_event_trigger_ddl_commands() d
        CROSS JOIN LATERAL pg_partition_tree(d.objid) p JOIN pg_class c ON c.oid = p.relid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE d.classid = 'pg_class'::regclass AND c.relkind = 'r'
              AND NOT EXISTS (SELECT FROM pg_publication_rel r
                              WHERE r.prrelid = c.oid AND to_jsonb(r) ->> 'prattrs' <> '')
              AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = {trigger})
              AND EXISTS (SELECT FROM pg_trigger t WHERE t.tgname = {trigger} AND t.tgfoid = {function}::regproc
                          AND t.tgrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid) AS a(relid)))
    LOOP
        BEGIN
            {statements}
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'changes of partition %.% cannot be read: %', part.nspname, part.relname, SQLERRM;
        END;
    END LOOP;
END
"""
_LISTED = """
SELECT t.tablename, to_jsonb(t) -> 'attnames', to_jsonb(t) ->> 'rowfilter' FROM pg_publication_tables t
WHERE t.pubname = $1 AND t.schemaname = $2
"""
_ROOTS = """
SELECT u.relname FROM (
    SELECT c.oid, c.relname, p.oid AS publication, p.puballtables
    FROM pg_class c JOIN pg_publication p ON p.pubname = $1
    WHERE c.relkind = 'p' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $2)
) u WHERE {whole}
"""
_RELATIONS = """
WITH used AS (
    SELECT c.oid, c.relname, c.relkind, p.oid AS publication, p.puballtables, p.pubviaroot,
           p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AS kinds
    FROM pg_class c LEFT JOIN pg_publication p ON p.pubname = $3
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND c.relname = ANY ($2)
), listed AS MATERIALIZED (
    SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = $3
), stored AS (
    SELECT u.*, CASE WHEN u.relkind = 'p' THEN p.relid ELSE u.oid END AS relid
    FROM used u LEFT JOIN pg_partition_tree(u.oid) p ON u.relkind = 'p' AND p.isleaf AND p.relid <> u.oid
)
SELECT u.relname, n.nspname, c.relname, c.relreplident = 'f',
       (SELECT coalesce(array_agg(a.attname::text), '{}') FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
        WHERE i.indrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
              AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END),
       EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = $4 AND t.tgenabled = 'A'),
       CASE WHEN u.relkind = 'p' THEN {whole}
            ELSE EXISTS (SELECT FROM listed l WHERE l.schemaname = n.nspname AND l.tablename = c.relname) END,
       coalesce(u.kinds, true), coalesce(u.relkind = 'p' AND u.pubviaroot, false),
       EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = u.publication AND r.prrelid = c.oid
               AND to_jsonb(r) ->> 'prqual' <> ''),
       EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = u.publication AND r.prrelid = c.oid
               AND to_jsonb(r) ->> 'prattrs' <> ''),
       ARRAY(SELECT p.pubname::text FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
             WHERE r.prrelid = c.oid AND to_jsonb(r) ->> 'prattrs' <> '')
FROM stored u LEFT JOIN pg_class c ON c.oid = u.relid LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_WHOLE = """(u.puballtables OR EXISTS (
           SELECT FROM pg_publication_rel r WHERE r.prpubid = u.publication
           AND (r.prrelid = u.oid OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(u.oid) AS a(relid)))
       ){schemas})"""
_SCHEMAS = """ OR EXISTS (
           SELECT FROM pg_publication_namespace s WHERE s.pnpubid = u.publication
           AND s.pnnspid = (SELECT relnamespace FROM pg_class WHERE oid = u.oid))"""
_LOCK_MILLISECONDS = "100"


@dataclass(frozen=True)
class _Stored:
    """Relation that stores rows of a table in use: the table itself, or one of its partitions."""

    used: RemoteTable
    schema: str | None
    name: str | None
    full: bool
    identity: frozenset[str]
    watched: bool
    published: bool
    all_kinds: bool
    by_root: bool
    filtered: bool
    listed: bool
    lists: Sequence[str]

    @property
    def there(self) -> str:
        """Its name in SQL."""
        return f"{quoted(self.schema or '')}.{quoted(self.name or '')}"

    @property
    def whole(self) -> bool:
        """True if the log has the old values of all columns in use."""
        return self.full or {column.name for column in self.used.columns} <= self.identity


class Publication:
    """The publication ``name`` for some tables of ``schema``. One that is ``given`` is an administrator's."""

    def __init__(self, schema: str, name: str, given: bool, tables: Iterable[RemoteTable]) -> None:
        self.name = name
        self.given = given
        self._schema = schema
        self._tables = {table.name: table for table in tables}
        self._function = f"{quoted(schema)}.{OWN}_emptied"

    def create(self, connection: Connection) -> None:
        """Create the publication, and make the log contain whole old rows and the rows that TRUNCATE removes."""
        stored = self._stored(connection)
        with connection.transaction():
            filters = _FILTERS if connection.info.server_version >= 150000 else ""
            body = _EMPTIED.replace("{filters}", filters).replace("{prefix}", quoted_text(MESSAGE_PREFIX))
            execute(connection, trigger_function(self._function, body))
            for one in stored:
                self._prepare(connection, one)
            self._watch_roots(connection)
            if not self.given:
                self._publish(connection, all(one.published for one in stored))

    def _publish(self, connection: Connection, done: bool) -> None:
        tables = ", ".join(f"ONLY {quoted(table.schema)}.{quoted(table.name)}" for table in self._tables.values())
        if not execute(connection, "SELECT 1 FROM pg_publication WHERE pubname = $1", self.name):
            execute(connection, f"CREATE PUBLICATION {quoted(self.name)} FOR TABLE {tables}")
        elif not done:
            execute(connection, f"ALTER PUBLICATION {quoted(self.name)} SET TABLE {tables}")

    def _prepare(self, connection: Connection, one: _Stored) -> None:
        """Give a table its whole old rows in the log, and a trigger for TRUNCATE."""
        if one.name is not None and not one.whole:
            if one.lists:
                raise self._needs_index(one)
            execute(connection, f"ALTER TABLE ONLY {one.there} REPLICA IDENTITY FULL")
        if one.name is not None and not one.watched:
            for statement in self._trigger_statements(one.there):
                execute(connection, statement)

    def _watch_roots(self, connection: Connection) -> None:
        """Prepare new partitions in the transaction that makes them, if we may: event triggers are superusers'.

        A partitioned table is marked by the trigger that its partitions have, which finds no row of its own in it.
        """
        roots = [one for one in self._tables.values() if one.partitioned]
        sql = "SELECT 1 FROM pg_trigger WHERE tgrelid = $1::text::regclass AND tgname = $2"
        for there in (f"{quoted(root.schema)}.{quoted(root.name)}" for root in roots):
            if not execute(connection, sql, there, f"{OWN}_emptied"):
                for statement in self._trigger_statements(there):
                    execute(connection, statement)
        (mighty,) = execute(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")[0]
        name = f"{OWN}_partition_{crc32(self._schema.encode()):08x}"
        if not roots or not mighty:
            return
        execute(connection, event_function(f"{quoted(self._schema)}.{OWN}_partition", self._partition_body()))
        if not execute(connection, "SELECT 1 FROM pg_event_trigger WHERE evtname = $1", name):
            event = f"CREATE EVENT TRIGGER {name} ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE')"
            execute(connection, f"{event} EXECUTE FUNCTION {quoted(self._schema)}.{OWN}_partition()")

    def _partition_body(self) -> str:
        statements = ["ALTER TABLE ONLY {} REPLICA IDENTITY FULL", *self._trigger_statements("{}")]
        formatted = (one.replace("%", "%%").replace("{}", "%1$I.%2$I") for one in statements)
        executed = [f"EXECUTE format({quoted_text(one)}, part.nspname, part.relname);" for one in formatted]
        parts = {"{trigger}": quoted_text(f"{OWN}_emptied"), "{function}": quoted_text(self._function)}
        parts["{statements}"] = "\n            ".join(executed)
        return re.sub("|".join(map(re.escape, parts)), lambda found: parts[found[0]], _PREPARED)

    def _trigger_statements(self, there: str) -> tuple[str, str]:
        trigger = f"CREATE OR REPLACE TRIGGER {OWN}_emptied BEFORE TRUNCATE ON {there} FOR EACH STATEMENT"
        return (
            f"{trigger} EXECUTE FUNCTION {self._function}()",
            f"ALTER TABLE ONLY {there} ENABLE ALWAYS TRIGGER {OWN}_emptied",
        )

    def prepare_partitions(self, connection: Connection) -> bool:
        """Prepare new partitions as the others; false if somebody else has one of them locked."""
        waiting = [one for one in self._stored(connection) if one.used.partitioned and not (one.whole and one.watched)]
        for one in waiting:
            try:
                with connection.transaction():
                    execute(connection, "SELECT set_config('lock_timeout', $1, true)", _LOCK_MILLISECONDS)
                    self._prepare(connection, one)
            except psycopg.errors.LockNotAvailable:
                return False
            except psycopg.errors.UndefinedTable:
                continue
        return True

    def _stored(self, connection: Connection) -> list[_Stored]:
        """All that holds rows of the tables in use; refused if some of their changes are not published."""
        sql = _RELATIONS.replace("{whole}", _whole(connection))
        rows = execute(connection, sql, self._schema, list(self._tables), self.name, f"{OWN}_emptied")
        found = [_stored(self._tables[used], *rest) for used, *rest in rows]
        for one in found:
            if one.published:
                self._require_whole(one)
        return found

    def _require_whole(self, one: _Stored) -> None:
        """Refuse a publication that tells less of the table than queries see."""
        in_part = one.used.partitioned or not self.given
        parts = {"some of its rows (WHERE)": one.filtered and in_part, "some of its columns": one.listed and in_part}
        parts |= {"some kinds of changes (publish = ...)": not one.all_kinds}
        parts |= {"no TRUNCATE of its partitions (publish_via_partition_root)": one.by_root}
        for part, lacks in parts.items():
            if lacks:
                own = "or drop it and use setup = 'create', or name it in the option publication"
                raise SetupError(
                    f"the publication {self.name} tells only a part of the changes of {quoted(one.used.name)}",
                    where=f"{quoted(self._schema)}.{quoted(one.used.name)}",
                    detail=f"It publishes {part}, and queries see all of the table.",
                    hint=f"ALTER PUBLICATION {quoted(self.name)}" + ("." if self.given else f", {own}."),
                )
        if one.listed and one.full:
            raise self._needs_index(one)

    def _needs_index(self, one: _Stored) -> SetupError:
        names = ", ".join(one.lists)
        return SetupError(
            f"the log has no whole old rows of {one.there}",
            where=one.there,
            detail=f"With its list of columns in {names}, REPLICA IDENTITY FULL makes UPDATE and DELETE fail there.",
            hint="Publish all columns, or ALTER TABLE ... REPLICA IDENTITY USING INDEX over all columns published.",
        )

    def check(self, connection: Connection) -> None:
        """Refuse a database that does not publish the tables in use with their whole old rows."""
        stored = self._stored(connection)
        lacking = [one for one in stored if not one.published or (one.name is not None and not one.whole)]
        for one in lacking:
            if one.published and one.lists:
                raise self._needs_index(one)
        if lacking:
            tables = ", ".join(sorted({_name(self._schema, one) for one in lacking}))
            raise SetupError(
                f"the log does not tell the changes of {tables}",
                detail=f"They need REPLICA IDENTITY FULL, and a place in the publication {self.name}.",
                hint="Allow that it is done, with the option setup = 'create' and a role that owns the tables.",
            )

    def remove(self, connection: Connection) -> None:
        """Drop the publication, unless it is an administrator's."""
        if not self.given:
            execute(connection, f"DROP PUBLICATION IF EXISTS {quoted(self.name)}")


def _stored(used: RemoteTable, schema: str | None, name: str | None, full: bool, *values: Any) -> _Stored:
    identity, *rest = values
    return _Stored(used, schema, name, bool(full), frozenset(identity), *rest)


def _name(schema: str, one: _Stored) -> str:
    return one.there if one.published and one.name is not None else f"{quoted(schema)}.{quoted(one.used.name)}"


def _whole(connection: Connection) -> str:
    """The condition that a partitioned table is published with all partitions that it will ever have."""
    return _WHOLE.replace("{schemas}", _SCHEMAS if connection.info.server_version >= 150000 else "")


def narrowed(connection: Connection, publication: str, tables: Iterable[RemoteTable]) -> Iterator[RemoteTable]:
    """The tables as an administrator's publication tells of them: with its filters and lists of columns."""
    if not execute(connection, "SELECT 1 FROM pg_publication WHERE pubname = $1", publication):
        raise SetupError(
            f'there is no publication "{publication}"',
            hint="CREATE PUBLICATION ..., or leave out the option publication: then one is made for the tables in use.",
        )
    tables = list(tables)
    listed: dict[str, list[Any]] = {}
    for schema in {table.schema for table in tables}:
        listed |= {name: rest for name, *rest in execute(connection, _LISTED, publication, schema)}
        roots = _ROOTS.replace("{whole}", _whole(connection))
        listed |= {name: [None, None] for (name,) in execute(connection, roots, publication, schema)}
    for table in tables:
        if not table.columns:
            yield table
        elif table.name not in listed:
            yield replace(table, columns=(), notes=(f"It is not in the publication {publication}.",))
        else:
            yield _part(table, publication, *listed[table.name])


def _part(table: RemoteTable, publication: str, columns: Sequence[str] | None, filter_: str | None) -> RemoteTable:
    kept = tuple(column for column in table.columns if columns is None or column.name in columns)
    left = [column.name for column in table.columns if column not in kept]
    notes = [f"Column {name} is not in the publication {publication}." for name in left]
    if filter_:
        notes.append(f"Of its rows, those WHERE {filter_} are in the publication {publication}.")
    return replace(table, columns=kept, filter=filter_ or "", notes=(*table.notes, *notes))
