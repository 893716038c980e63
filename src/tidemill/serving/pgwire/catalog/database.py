"""The catalog in an embedded DuckDB, which knows nothing else and cannot reach anything outside."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from tidemill.serving.pgwire.catalog.columns import catalogs, duckdb_type
from tidemill.serving.pgwire.catalog.functions import macros
from tidemill.serving.pgwire.catalog.information import information_rows
from tidemill.serving.pgwire.catalog.relations import pg_rows
from tidemill.serving.pgwire.catalog.shape import WarehouseShape
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.types import oids

__all__ = ["SCHEMAS", "CatalogDatabase"]

SCHEMAS = {"pg_catalog": "pgc", "information_schema": "pgi"}
"""Our names of PostgreSQL's schemas in DuckDB, which has schemas of these names itself."""

PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*")

OWN_COLUMNS = {"pg_constraint": {"_definition": "text"}}
"""Columns that only our functions read."""


OPTIONS = {
    "threads": 1,
    "async_threads": 0,
    "memory_limit": "256MB",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
"""Memory has a limit, no files are written, and nothing is loaded; ``enable_external_access`` forbids to set these."""

PIECE = 1_000
"""Rows that are fetched in one go."""

MOST_BYTES = 256 << 20
"""Bytes of an answer at most, as they are counted."""


class CatalogDatabase:
    """A database with the rows of the catalog as the last one saw it who asked; one question at a time."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._shown: object = None
        self._settings: Mapping[str, str] | None = None
        self._lock = threading.Lock()

    def query(
        self,
        text: str,
        values: Mapping[str, Any],
        shape: WarehouseShape,
        session: Mapping[str, Any],
        settings: Mapping[str, str],
    ) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """The columns of a query, as names and types of DuckDB, and its rows."""
        with self._lock:
            connection = self._opened()
            for name, value in session.items():
                connection.execute(f"SET VARIABLE {name} = ?", [value])
            shown = shape, session["database"], session["user"]
            if shown != self._shown:
                self._shown = None  # an interrupt may leave a part
                self._show(connection, *shown)
                self._shown = shown
            if settings != self._settings:
                self._settings = None
                _fill(connection, "pgc", "pg_settings", [_setting(*one) for one in settings.items()])
                _set_map(connection, "settings", settings)
                self._settings = settings
            try:
                found = connection.execute(text, dict(values)) if values else connection.execute(text)
                columns = [(name, str(of)) for name, of, *_ in found.description or ()]
                return columns, _rows(found)
            except duckdb.Error as error:
                raise _told(error) from error

    def interrupt(self) -> None:
        """End what runs, from another thread."""
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            connection = duckdb.connect(":memory:", config=OPTIONS)
            connection.execute("SET enable_external_access = false")
            for schema in SCHEMAS.values():
                connection.execute(f"CREATE SCHEMA {schema}")
            for (schema, name), catalog in catalogs().items():
                typed = {**catalog.columns, **OWN_COLUMNS.get(name, {})}
                columns = ", ".join(f'"{column}" {duckdb_type(of)}' for column, of in typed.items())
                connection.execute(f"CREATE TABLE {SCHEMAS[schema]}.{name} ({columns})")
            for statement in macros():
                connection.execute(statement)
            _set_map(connection, "type_oids", {name: one.oid for one in oids.TYPES for name in (one.name, one.title)})
            connection.execute("SET lock_configuration = true")
            self._connection = connection
        return self._connection

    def _show(self, connection: duckdb.DuckDBPyConnection, shape: WarehouseShape, database: str, user: str) -> None:
        rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for schema, made in (
            ("pgc", pg_rows(shape, database, user)),
            ("pgi", information_rows(shape, database, user)),
        ):
            for table, row in made:
                rows.setdefault((schema, table), []).append(row)
        for schema, name in [(SCHEMAS[schema], name) for schema, name in catalogs()]:
            if name != "pg_settings":
                _fill(connection, schema, name, rows.get((schema, name), ()))
        for variable, found in _maps(shape, {name: given for (schema, name), given in rows.items() if schema == "pgc"}):
            _set_map(connection, variable, found)


def _maps(shape: WarehouseShape, rows: Mapping[str, list[dict[str, Any]]]) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Tables that macros look up."""
    numbers, classes = shape.oids(), rows["pg_class"]
    by_name = {row["relname"]: row["oid"] for row in classes}
    yield "relation_oids", by_name
    yield "relations", {row["oid"]: _quoted(row["relname"]) for row in classes}
    yield "namespace_oids", {row["nspname"]: row["oid"] for row in rows["pg_namespace"]}
    yield "namespaces", {row["oid"]: _quoted(row["nspname"]) for row in rows["pg_namespace"]}
    yield "types", {row["oid"]: row["typname"] for row in rows["pg_type"]}
    yield "views", {numbers[one.name]: one.definition for one in shape.relations if one.kind != "r"}
    yield "constraints", {row["oid"]: row["_definition"] for row in rows.get("pg_constraint", ())}
    yield "indexes", {by_name[row["indexname"]]: row["indexdef"] for row in rows.get("pg_indexes", ())}
    columns = {(row["attrelid"], row["attnum"]): row["attname"] for row in rows.get("pg_attribute", ())}
    parts = [(row, place, key) for row in rows.get("pg_index", ()) for place, key in enumerate(row["indkey"], start=1)]
    yield "index_columns", {f"{row['indexrelid']}/{place}": columns[row["indrelid"], key] for row, place, key in parts}


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _set_map(connection: duckdb.DuckDBPyConnection, variable: str, found: Mapping[Any, Any]) -> None:
    keys, values = list(found), [str(one) if isinstance(one, str) else one for one in found.values()]
    of = pa.string() if not keys or isinstance(keys[0], str) else pa.int64()
    to = pa.int64() if values and isinstance(values[0], int) else pa.string()
    given = pa.table({"k": pa.array(keys, of), "v": pa.array(values, to)})
    connection.register("given", given)
    connection.execute(f"SET VARIABLE {variable} = (SELECT map(list(k), list(v)) FROM given)")
    connection.unregister("given")


def _rows(found: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """The rows of an answer, unless there are too many for the memory."""
    rows: list[tuple[Any, ...]] = []
    left = MOST_BYTES
    while piece := found.fetchmany(PIECE):
        left -= sum(len(row) * 32 + sum(len(cell) for cell in row if isinstance(cell, str | list)) for row in piece)
        if left < 0:
            what = "the answer of this query of the catalog is too long"
            raise PgError("54000", what, detail=f"It has more than {MOST_BYTES >> 20} MB.")
        rows += piece
    return rows


def _setting(name: str, value: str) -> dict[str, Any]:
    fixed = {"context": "user", "vartype": "string", "source": "default", "category": "", "pending_restart": False}
    return fixed | {"name": name, "setting": value, "boot_val": value, "reset_val": value}


def _fill(connection: duckdb.DuckDBPyConnection, schema: str, table: str, rows: Iterable[dict[str, Any]]) -> None:
    """Replace the rows of a table; columns that a row leaves out are NULL."""
    rows = list(rows)
    connection.execute(f"DELETE FROM {schema}.{table}")
    if not rows:
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    arrow = pa.table({name: [row.get(name) for row in rows] for name in names})
    connection.register("given", arrow)
    listed = ", ".join(f'"{name}"' for name in names)
    connection.execute(f"INSERT INTO {schema}.{table} ({listed}) SELECT {listed} FROM given")
    connection.unregister("given")


def _told(error: duckdb.Error) -> PgError:
    """An error of DuckDB as one of ours: its first line, with PostgreSQL's names."""
    first = str(error).split("\n", 1)[0].replace("pgc.", "pg_catalog.").replace("pgf_", "")
    kind, _, what = first.partition(": ")
    states = {
        "Catalog Error": "42883", "Binder Error": "42703", "Parser Error": "42601", "Conversion Error": "22P02",
        "Out of Memory Error": "53200",
    }  # fmt: skip
    return PgError(
        states.get(kind, "0A000"),
        f"this query of the catalog cannot be answered: {what or first}",
        hint="pg_catalog and information_schema are answered as far as tools are known to ask for them.",
    )
