"""The outbox in a SQLite file: a table of changed rows, filled by triggers within the transactions that change them.

A row is recorded with weight 1 when it is inserted and -1 when it is deleted, its values in columns without a type,
which keep them exactly: 64-bit integers, doubles to the last bit, text. The mapping from a table's columns to these
columns is stored beside it and never changes, so rows recorded before the table got another column can still be read.

SQLite has one writer at a time, and a rollback also reverts ids: the order of ids is the order of commits. It has no
transaction ids, so what is new in one poll counts as one batch. That is sound, as a poll sees only whole transactions.

INSERT OR REPLACE deletes conflicting rows without firing a trigger. Therefore the rows that could conflict are saved
before each insert and update, and those of them that are gone afterwards are recorded.

A table that is dropped, renamed or given other columns takes its triggers along, or changes their text. So each poll
that finds another schema compares them; and where they have to be made again, a row with weight 0 says that changes may
have been missed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from tidemill.changes.zset import ZSet
from tidemill.model.errors import DataError, EpochGone, SetupError
from tidemill.sources.polled_source import reader_taken_over
from tidemill.sources.remote_queries.dialects import quoted, quoted_text
from tidemill.sources.remote_queries.remote_tables import RemoteTable
from tidemill.sources.sqlite.catalog import OWN, decoder, row_number

__all__ = ["SqliteOutbox"]

_TABLES = (
    f"CREATE TABLE IF NOT EXISTS {OWN}_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, relation TEXT, weight INTEGER)",
    f"CREATE TABLE IF NOT EXISTS {OWN}_columns (relation TEXT, name TEXT, place INTEGER, PRIMARY KEY (relation, name))",
    f"CREATE TABLE IF NOT EXISTS {OWN}_readers (reader TEXT PRIMARY KEY, position INTEGER NOT NULL)",
    f"CREATE TABLE IF NOT EXISTS {OWN}_aside (relation TEXT, row INTEGER)",
    f"INSERT OR IGNORE INTO {OWN}_readers VALUES ('', 0)",
)

ValueDecoder = Callable[[Any], Any]


class SqliteOutbox:
    """The outbox for some tables of a file, as seen by one of its readers."""

    def __init__(self, connection: sqlite3.Connection, reader: str, tables: Iterable[RemoteTable]) -> None:
        self._connection = connection
        self._reader = reader
        self._tables = {table.name: table for table in tables}
        self._layouts: dict[str, list[tuple[str, ValueDecoder]]] = {}
        self._version: int | None = None

    def create(self) -> None:
        """Create what is missing: the tables, and for each table in use the triggers that fill them."""
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            for statement in _TABLES:
                self._connection.execute(statement)
            for table in self._tables.values():
                self._watch(table)

    def _watch(self, table: RemoteTable) -> None:
        """Make the triggers of a table, for all columns that some reader wants."""
        before = self._known_places(table)
        if before and not self._has_triggers(table):
            self._connection.execute(f"INSERT INTO {OWN}_outbox (relation, weight) VALUES (?, 0)", (table.name,))
        self._note_places(table)
        self._widen(1 + max(self._known_places(table).values()))
        made = self._made()
        for name, sql in self._wanted(table):
            if made.get(name) != sql:
                self._connection.execute(f"DROP TRIGGER IF EXISTS main.{quoted(name)}")
                self._connection.execute(sql)

    def _wanted(self, table: RemoteTable) -> list[tuple[str, str]]:
        """The triggers of a table, for those of its known columns that it has."""
        rows = self._connection.execute("SELECT name FROM pragma_table_xinfo(?)", (table.name,))
        present = {name for (name,) in rows.fetchall()}
        places = {name: place for name, place in self._known_places(table).items() if name in present}
        return _triggers(table, dict(sorted(places.items(), key=itemgetter(1))), self._unique(table))

    def _made(self) -> dict[str, str]:
        return dict(self._connection.execute("SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger'"))

    def _has_triggers(self, table: RemoteTable) -> bool:
        """True if the triggers of a table are those that its known columns and unique keys need."""
        made = self._made()
        return all(made.get(name) == sql for name, sql in self._wanted(table))

    def _note_places(self, table: RemoteTable) -> None:
        """Note the outbox column of each column of ``table``; a new column gets the next free one."""
        known = self._known_places(table)
        for column in table.columns:
            if column.name not in known:
                known[column.name] = 1 + max(known.values(), default=-1)
                row = (table.name, column.name, known[column.name])
                self._connection.execute(f"INSERT INTO {OWN}_columns VALUES (?, ?, ?)", row)

    def _known_places(self, table: RemoteTable) -> dict[str, int]:
        return dict(
            self._connection.execute(f"SELECT name, place FROM {OWN}_columns WHERE relation = ?", (table.name,))
        )

    def _widen(self, width: int) -> None:
        """Add value columns to both tables up to ``width``, all without a type, so that nothing is converted."""
        for table in (f"{OWN}_outbox", f"{OWN}_aside"):
            present = {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
            for place in range(width):
                if f"c{place}" not in present:
                    self._connection.execute(f"ALTER TABLE {table} ADD COLUMN c{place}")

    def _unique(self, table: RemoteTable) -> list[list[tuple[str, str]]]:
        """The unique keys besides the row number, as sets of columns with their collations."""
        rows = self._connection.execute('SELECT name FROM pragma_index_list(?) WHERE "unique"', (table.name,))
        found = []
        for (index,) in rows.fetchall():
            parts = self._connection.execute("SELECT name, coll FROM pragma_index_xinfo(?) WHERE key", (index,))
            columns = parts.fetchall()
            if any(name is None for name, _ in columns):
                raise SetupError(
                    f'table "{table.name}" cannot be watched',
                    detail=f"Its unique index {index} is over an expression, and REPLACE would go unnoticed.",
                    hint="Leave the table out: name those that are wanted in the option tables.",
                )
            found.append(columns)
        return found

    def check(self) -> None:
        """Refuse a file whose outbox does not cover every column of every table in use."""
        try:
            missing = [table.name for table in self._tables.values() if not self._is_watched(table)]
        except sqlite3.OperationalError:
            missing = list(self._tables)
        if missing:
            raise SetupError(
                "the SQLite file has no outbox for " + ", ".join(f'"{name}"' for name in missing),
                detail="Changes are read from a table that triggers of the file fill.",
                hint="Allow that it is made, with the option setup = 'create'.",
            )

    def _is_watched(self, table: RemoteTable) -> bool:
        known = self._known_places(table)
        return all(column.name in known for column in table.columns) and self._has_triggers(table)

    def _check_unchanged(self) -> None:
        """Refuse a schema under which changes may have been missed; it is looked at when its number is another one."""
        (version,) = self._connection.execute("PRAGMA main.schema_version").fetchone()
        if version != self._version:
            for table in self._tables.values():
                if not self._is_watched(table):
                    raise _missed(table.name)
            self._version = version

    def start(self, since: int | None) -> int:
        """Register as a reader; returns the id after which changes will come."""
        with self._writing():
            newest = self.newest()
            trimmed = self._connection.execute(f"SELECT position FROM {OWN}_readers WHERE reader = ''").fetchone()[0]
            position = newest if since is None else since
            if not trimmed <= position <= newest:
                raise EpochGone(
                    f"the outbox does not reach back to position {position}",
                    detail=f"It holds what came after {trimmed}, up to {newest}.",
                    hint="Fill the views again.",
                )
            row = (self._reader, position)
            self._connection.execute(f"INSERT OR REPLACE INTO {OWN}_readers VALUES (?, ?)", row)
        return position

    def forget(self, upto: int) -> None:
        """Release changes up to here for this reader; what no reader needs is deleted."""
        with self._writing():
            self._connection.execute(
                f"UPDATE {OWN}_readers SET position = ? WHERE reader = ? AND position < ?", (upto, self._reader, upto)
            )
            (low,) = self._connection.execute(f"SELECT min(position) FROM {OWN}_readers WHERE reader <> ''").fetchone()
            self._connection.execute(f"DELETE FROM {OWN}_outbox WHERE id <= ?", (low,))
            self._connection.execute(f"UPDATE {OWN}_readers SET position = ? WHERE reader = ''", (low,))

    def remove(self) -> None:
        """Unregister this reader; the last one removes outbox and triggers."""
        with self._writing():
            self._connection.execute(f"DELETE FROM {OWN}_readers WHERE reader = ?", (self._reader,))
            if self._connection.execute(f"SELECT 1 FROM {OWN}_readers WHERE reader <> ''").fetchone() is None:
                for kind in ("trigger", "table"):
                    made = self._connection.execute(
                        "SELECT name FROM main.sqlite_master WHERE type = ? AND substr(name, 1, ?) = ?",
                        (kind, len(OWN), OWN),
                    )
                    for (name,) in made.fetchall():
                        self._connection.execute(f"DROP {kind} main.{quoted(name)}")

    def _writing(self) -> sqlite3.Connection:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def newest(self) -> int:
        """The last id that a committed transaction has used."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"{OWN}_outbox",)).fetchone()
        return int(row[0]) if row else 0

    def read(self, after: int) -> tuple[dict[str, ZSet], int]:
        """The changes after the id ``after``, as one batch by our table names, and its last id."""
        kept = self._connection.execute(
            f"SELECT position FROM {OWN}_readers WHERE reader = ?", (self._reader,)
        ).fetchone()
        if kept is None or kept[0] > after:
            raise reader_taken_over(self._reader)
        self._check_unchanged()
        changes: dict[str, ZSet] = {}
        last = after
        rows = self._connection.execute(f"SELECT * FROM {OWN}_outbox WHERE id > ? ORDER BY id", (after,))
        names = [part[0] for part in rows.description]
        for id_, relation, weight, *values in rows:
            last = id_
            if relation in self._tables:
                if not weight:
                    raise _missed(relation)
                row = self._row(relation, dict(zip(names[3:], values, strict=True)))
                changes.setdefault(relation.lower(), ZSet()).add(row, weight)
        return {name: rows for name, rows in changes.items() if rows}, last

    def _row(self, relation: str, values: dict[str, Any]) -> tuple[Any, ...]:
        table = self._tables[relation]
        if relation not in self._layouts:
            places = self._known_places(table)
            self._layouts[relation] = [(f"c{places[c.name]}", decoder(c.field.type)) for c in table.columns]
        row = []
        for (place, decode), column in zip(self._layouts[relation], table.columns, strict=True):
            try:
                row.append(None if values[place] is None else decode(values[place]))
            except DataError as error:
                error.where = f"{relation}.{column.name}"
                raise
        return tuple(row)


def _missed(table: str) -> EpochGone:
    return EpochGone(
        f'table "{table}", or what notes its changes, was changed',
        detail="It was dropped, renamed or altered, or got another unique key, and changes may have gone unnoticed.",
        hint="Drop the views over this source and create them again.",
    )


def _triggers(
    table: RemoteTable, places: dict[str, int], unique: Sequence[Sequence[tuple[str, str]]]
) -> list[tuple[str, str]]:
    """The triggers of a table by name. They run in the writer's transaction, whoever the writer is."""
    relation = quoted_text(table.name)
    slots = ", ".join(f"c{place}" for place in places.values())

    def values(of: str) -> str:
        return ", ".join(f"{of}.{quoted(name)}" for name in places)

    def note(weight: int, of: str) -> str:
        return f"INSERT INTO {OWN}_outbox (relation, weight, {slots}) VALUES ({relation}, {weight}, {values(of)});"

    clear = f"DELETE FROM {OWN}_aside WHERE relation = {relation};"
    own = quoted(table.name)
    rowid = row_number(places)
    shared = [
        " AND ".join(f"{own}.{quoted(c)} = NEW.{quoted(c)} COLLATE {quoted(collation)}" for c, collation in columns)
        for columns in unique
    ]
    in_the_way = " OR ".join(f"({condition})" for condition in [f"{own}.{rowid} = NEW.{rowid}", *shared])
    aside = (
        f"INSERT INTO {OWN}_aside (relation, row, {slots}) SELECT {relation}, {own}.{rowid}, {values(own)} FROM {own}"
    )
    gone = (
        f"INSERT INTO {OWN}_outbox (relation, weight, {slots}) SELECT {relation}, -1, {slots} FROM {OWN}_aside"
        f" WHERE relation = {relation} AND "
        f"(row = NEW.{rowid} OR NOT EXISTS (SELECT 1 FROM {own} WHERE {own}.{rowid} = row));"
    )
    bodies = {
        "before_insert": ("BEFORE INSERT", f"{clear} {aside} WHERE {in_the_way};"),
        "before_update": (
            "BEFORE UPDATE",
            f"{clear} {aside} WHERE ({in_the_way}) AND {own}.{rowid} <> OLD.{rowid};",
        ),
        "insert": ("AFTER INSERT", f"{gone} {clear} {note(1, 'NEW')}"),
        "update": ("AFTER UPDATE", f"{gone} {clear} {note(-1, 'OLD')} {note(1, 'NEW')}"),
        # With recursive_triggers on, REPLACE does fire: the row is then recorded here and not twice.
        "delete": (
            "AFTER DELETE",
            f"DELETE FROM {OWN}_aside WHERE relation = {relation} AND row = OLD.{rowid}; {note(-1, 'OLD')}",
        ),
    }
    return [
        (name := f"{OWN}_{table.name}_{kind}", f"CREATE TRIGGER {quoted(name)} {when} ON {own} BEGIN {body} END")
        for kind, (when, body) in bodies.items()
    ]
