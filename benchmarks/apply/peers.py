"""What others do: DuckDB computes the view again, SQLite and PostgreSQL with pg_ivm keep it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa

from benchmarks.apply.history import Change, Epoch, Row, rows_of
from benchmarks.apply.subject import plain
from benchmarks.apply.workloads import Workload
from tests.sources.server import NoServer, Server


class NotInstalled(Exception):
    """Why a system cannot be measured here."""


class DuckDB:
    """Computes the view again after every change, in memory."""

    def __init__(self, workload: Workload, store: str, folder: Path) -> None:
        self._workload = workload
        self._connection = duckdb.connect(":memory:" if store == "memory" else folder / "duck.db")
        for name, columns in workload.tables.items():
            self._connection.execute(f"CREATE TABLE {name} ({columns.replace(' PRIMARY KEY', '')})")

    def fill(self, tables: dict[str, pa.Table]) -> None:
        """Insert all rows."""
        self.apply(self.prepare(_inserted(tables)))

    def prepare(self, epoch: Epoch) -> Any:
        """Arrow tables, as they are."""
        return epoch

    def apply(self, prepared: Any) -> None:
        """One transaction: rows that go, rows that come, and the view recomputed."""
        self._connection.begin()
        for name, change in prepared.items():
            if change.gone.num_rows:
                self._connection.register("gone", change.gone)
                self._connection.execute(f"DELETE FROM {name} WHERE id IN (SELECT id FROM gone)")
            self._connection.register("come", change.come)
            self._connection.execute(f"INSERT INTO {name} SELECT * FROM come")
        self._connection.execute(f"CREATE OR REPLACE TABLE answer AS {self._workload.query}")
        self._connection.commit()

    def rows(self) -> Counter[Row]:
        """What was computed last."""
        return plain(self._connection.execute("SELECT * FROM answer").fetchall())

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class SQLite:
    """Keeps the sums of each group with triggers for each row; on disk with a log that every commit syncs."""

    def __init__(self, workload: Workload, store: str, folder: Path) -> None:
        self._workload = workload
        self._connection = sqlite3.connect(":memory:" if store == "memory" else folder / "sqlite.db")
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._connection.executescript(sqlite_script(workload))

    def fill(self, tables: dict[str, pa.Table]) -> None:
        """Insert all rows, table by table, so that the triggers make the view."""
        self.apply(self.prepare(_inserted(tables)))

    def prepare(self, epoch: Epoch) -> Any:
        """Statements with their parameters."""
        return _statements(epoch)

    def apply(self, prepared: Any) -> None:
        """One transaction."""
        for statement, rows in prepared:
            self._connection.executemany(statement, rows)
        self._connection.commit()

    def rows(self) -> Counter[Row]:
        """The table that the triggers keep."""
        return plain(self._connection.execute("SELECT * FROM answer"))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def sqlite_script(workload: Workload) -> str:
    """The tables, the sums of each group as a table, and triggers that add and take away what a row adds to them."""
    keys, sums = ", ".join(workload.keys), workload.sums
    parts = [f"CREATE TABLE {name} ({columns.replace('STRING', 'TEXT')})" for name, columns in workload.tables.items()]
    parts += [f"CREATE INDEX i{place} ON {index}" for place, index in enumerate(workload.indexes)]
    parts.append(f"CREATE TABLE answer ({keys}, {', '.join(sums)}, PRIMARY KEY ({keys})) WITHOUT ROWID")
    added = ", ".join(f"{name} = {name} + excluded.{name}" for name in sums)
    for table, delta in workload.deltas.items():
        for event, row, sign in (("INSERT", "NEW", ""), ("DELETE", "OLD", "-")):
            change = delta.format(row=row)
            summed = ", ".join(f"{sign}SUM({name})" for name in sums)
            steps = [
                f"""INSERT INTO answer SELECT {keys}, {summed} FROM ({change}) WHERE true GROUP BY {keys}
                    ON CONFLICT ({keys}) DO UPDATE SET {added}"""
            ]
            if event == "DELETE":
                empty = f"({keys}) IN (SELECT {keys} FROM ({change})) AND {sums[-1]} = 0"
                steps.append(f"DELETE FROM answer WHERE {empty}")
            body = "; ".join(steps)
            parts.append(f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN {body}; END")
    return ";\n".join(parts)


class PgIvm:
    """PostgreSQL with the extension pg_ivm, which keeps the view with every statement; each commit is synced."""

    def __init__(self, workload: Workload, store: str, folder: Path) -> None:
        self._workload = workload
        try:
            self._server = Server(fsync="on", synchronous_commit="on", shared_buffers="1GB")
        except NoServer as error:
            raise NotInstalled(f"no PostgreSQL server: {error}") from error
        self._connection = self._server.connect(autocommit=False)
        try:
            self._run("CREATE EXTENSION pg_ivm")
        except psycopg.Error as error:
            version = self._connection.info.server_version // 10_000
            self.close()
            why = " ".join(filter(None, (error.diag.message_primary, error.diag.message_detail)))
            raise NotInstalled(f"PostgreSQL {version}: {why}") from error
        # Where its functions are depends on its version.
        self._run("SET search_path = public, pgivm")
        for name, columns in workload.tables.items():
            self._run(f"CREATE TABLE {name} ({columns.replace('STRING', 'TEXT')})")
        for index in workload.indexes:
            self._run(f"CREATE INDEX ON {index}")
        self._connection.commit()

    def _run(self, sql: str, *values: object) -> psycopg.Cursor[Any]:
        return self._connection.execute(sql.encode(), values or None)

    def fill(self, tables: dict[str, pa.Table]) -> None:
        """Copy all rows, then make the view."""
        for name, table in tables.items():
            with self._connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for row in rows_of(table):
                    copy.write_row(row)
        self._run("SELECT create_immv('answer', %s)", self._workload.query)
        self._connection.commit()
        self._run("ANALYZE")
        self._connection.commit()

    def prepare(self, epoch: Epoch) -> Any:
        """Statements with whole columns as parameters: pg_ivm works for each statement."""
        return [
            step
            for name, change in epoch.items()
            for step in (
                (f"DELETE FROM {name} WHERE id = ANY(%s)", [change.gone["id"].to_pylist()]),
                (self._unnested(name, change.come), [column.to_pylist() for column in change.come.columns]),
            )
            if step[1][0]
        ]

    def _unnested(self, name: str, table: pa.Table) -> str:
        types = [column.split()[1].replace("STRING", "TEXT") for column in self._workload.tables[name].split(", ")]
        arrays = ", ".join(f"%s::{kind}[]" for kind in types)
        return f"INSERT INTO {name} ({', '.join(table.column_names)}) SELECT * FROM unnest({arrays})"

    def apply(self, prepared: Any) -> None:
        """One transaction."""
        for statement, values in prepared:
            self._run(statement, *values)
        self._connection.commit()

    def rows(self) -> Counter[Row]:
        """The view, without the columns that pg_ivm adds."""
        columns = ", ".join((*self._workload.keys, *self._workload.sums))
        return plain(self._run(f"SELECT {columns} FROM answer").fetchall())

    def close(self) -> None:
        """Stop the server."""
        self._connection.close()
        self._server.remove()


def _inserted(tables: dict[str, pa.Table]) -> Epoch:
    """The first rows as a change."""
    return {name: Change(table.slice(0, 0), table, table.num_rows) for name, table in tables.items()}


def _statements(epoch: Epoch) -> list[tuple[str, list[Row]]]:
    """An epoch as statements that go over rows, those that go first."""
    found = []
    for name, change in epoch.items():
        if change.gone.num_rows:
            ids = [(key,) for key in change.gone["id"].to_pylist()]
            found.append((f"DELETE FROM {name} WHERE id = ?", ids))
        if change.come.num_rows:
            found.append((_insert(name, change.come), _plain_rows(rows_of(change.come))))
    return found


def _insert(name: str, table: pa.Table) -> str:
    columns = ", ".join(table.column_names)
    return f"INSERT INTO {name} ({columns}) VALUES ({', '.join(['?'] * table.num_columns)})"


def _plain_rows(rows: list[Row]) -> list[Row]:
    """Rows for SQLite, which has no dates."""
    if not any(isinstance(value, date) for row in rows[:1] for value in row):
        return rows
    return [tuple(str(value) if isinstance(value, date) else value for value in row) for row in rows]
