"""Queries to DuckDB through the translation, over Z-sets; one connection for many queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import duckdb
import pyarrow as pa

from tidemill.algebra.node import Relation
from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.duckdb.answer import ask, connected
from tidemill.runtimes.duckdb.relations import lower_query
from tidemill.runtimes.runtime import NotAnswered

_OPEN = connected()


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """The connection of this process."""
    return _OPEN.__enter__()


def asked(relation: Relation, tables: Mapping[str, ZSet], fields: Mapping[str, Sequence[Field]]) -> ChangeSet:
    """The answer of DuckDB; raises ``NotAnswered`` as ``answer`` does."""

    def read(name: str, columns: Sequence[Field]) -> pa.Table:
        table = to_arrow(tables[name].items(), fields[name])
        return table.select([*(column.name for column in columns), WEIGHT])

    try:
        return ask(connection(), lower_query(relation), read)
    except duckdb.Error as error:
        raise NotAnswered from error
