"""Rows of Arrow as Python users see them: the schema has the types of SQL that they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import from_arrow
from tidemill.compiler.frontends.sql.registered_functions import read_type
from tidemill.engine.results import present_rows
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field

__all__ = ["decoded", "facts_of", "fields_of", "rows_of"]


def decoded(body: bytes) -> pa.Table:
    """The table of an answer."""
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


def facts_of(table: pa.Table) -> Mapping[str, str]:
    """Metadata that the server sends with a table."""
    return {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}


def fields_of(table: pa.Table) -> tuple[Field, ...]:
    """The columns of a table with their types in SQL."""
    types = json.loads(facts_of(table)["types"])
    return tuple(Field(name, _type_of(of)) for name, of in zip(table.column_names, types, strict=True))


_type_of = lru_cache(read_type)


def rows_of(table: pa.Table, fields: Sequence[Field]) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    weighted = table.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))
    return present_rows((row for row, _ in from_arrow(weighted, fields)), fields)
