"""Rows of a warehouse as a relation of a user's DuckDB connection."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from tidemill.model.errors import InvalidArgument

__all__ = ["relation_of"]


def relation_of(table: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """An Arrow table as a relation, which reads it in place; of DuckDB's default connection if none is given.

    >>> relation_of(pa.table({"n": [1, 2]}), None).aggregate("sum(n)").fetchall()
    [(3,)]
    """
    if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
        raise InvalidArgument(
            f"a {type(connection).__name__} is no connection of DuckDB", hint="Give duckdb.connect(), or nothing."
        )
    return (duckdb if connection is None else connection).from_arrow(table)
