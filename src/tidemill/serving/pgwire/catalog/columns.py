"""The columns of PostgreSQL's catalogs, of version 15: facts, listed in ``columns.txt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tidemill.serving.pgwire.types import oids

__all__ = ["Catalog", "catalogs", "column_types", "duckdb_type"]


@dataclass(frozen=True)
class Catalog:
    """A table of the catalog: its schema, name, number (0: none that anybody asks for) and columns with their types."""

    schema: str
    name: str
    oid: int
    columns: Mapping[str, str]


@cache
def catalogs() -> Mapping[tuple[str, str], Catalog]:
    """All catalogs, by schema and name.

    >>> catalogs()["pg_catalog", "pg_namespace"].columns["nspname"]
    'name'
    """
    found = {}
    for line in (files(__package__) / "columns.txt").read_text().splitlines():
        full, oid, *columns = line.split()
        schema, _, name = full.partition(".")
        typed = dict(column.split(":") for column in columns)
        found[schema, name] = Catalog(schema, name, int(oid), typed)
    return found


@cache
def column_types() -> Mapping[str, int]:
    """The type of each column of ``pg_catalog`` by its name: names begin with that of their table, so they differ."""
    found: dict[str, int] = {}
    for catalog in catalogs().values():
        for column, of in catalog.columns.items():
            known = oids.BY_NAME.get(of.removeprefix("_"))
            if known is not None:
                found.setdefault(column, known.array if of.startswith("_") else known.oid)
    return found


_TYPES = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "oid": "BIGINT",
    "xid": "BIGINT",
    "regtype": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DOUBLE",
    "timestamptz": "TIMESTAMP",
    "int2vector": "SMALLINT[]",
    "oidvector": "BIGINT[]",
}


def duckdb_type(of: str) -> str:
    """The type of DuckDB for one of PostgreSQL; texts for those that have no other.

    >>> duckdb_type("oid"), duckdb_type("_text"), duckdb_type("pg_node_tree")
    ('BIGINT', 'VARCHAR[]', 'VARCHAR')
    """
    return f"{duckdb_type(of[1:])}[]" if of.startswith("_") else _TYPES.get(of, "VARCHAR")
