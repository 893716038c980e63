"""Rows of tables and views for requests: at one epoch, which is told, and without waiting for a view that is filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.engine.quarantine.notes import hearing
from tidemill.engine.results import LazyRows
from tidemill.engine.sessions.session import Session
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import EpochGone
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.serving.http.conditions import filtered, ordered, wanted_values

__all__ = ["RowsAsked", "RowsFound", "read_changes", "read_rows"]

ATTEMPTS = 3
"""Times that present rows are read while epochs are committed, or forgotten, in between."""


@dataclass(frozen=True)
class RowsAsked:
    """The rows that a request asks for: of a table or view, now or at an epoch."""

    name: str
    epoch: int | None = None
    where: Sequence[str] = ()
    order: str | None = None
    limit: int | None = None
    of_table: bool = False


class RowsFound(NamedTuple):
    """Rows as Arrow with their columns, the epoch that they are of, and notes about what they do not show."""

    table: pa.Table
    fields: Sequence[Field]
    epoch: int
    notes: Sequence[str] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that are sent beside the rows."""
        return {"epoch": self.epoch, "notes": list(self.notes)}


def read_rows(warehouse: Warehouse | Session, asked: RowsAsked) -> RowsFound:
    """The rows that were asked for. Few of a present view are looked up; all others are read as they are stored."""
    with hearing() as notes:
        found = _looked_up(warehouse, asked) if asked.where and asked.epoch is None else None
        found = found or _stored(warehouse, asked)
    table = ordered(found.table, asked.order, found.fields, asked.name)
    return found._replace(table=table if asked.limit is None else table.slice(0, asked.limit), notes=tuple(notes))


def _looked_up(warehouse: Warehouse | Session, asked: RowsAsked) -> RowsFound | None:
    """The rows of now by a query, which finds those of a key at once; None if epochs were committed all the while."""
    handle = _handle(warehouse, asked)
    wanted = wanted_values(asked.where, handle.fields, asked.name)
    text, parameters = _query(handle, asked, wanted)
    for _ in range(ATTEMPTS):
        before = warehouse.epoch
        result = warehouse.sql(text, parameters)
        if warehouse.epoch == before:
            return RowsFound(result.arrow(), result.fields, before)
    return None


def _query(handle: LazyRows, asked: RowsAsked, wanted: dict[str, list[Any]]) -> tuple[str, list[Any]]:
    """A query for the rows with these values; they and the names of columns are never part of it as they are."""
    conditions, parameters = [], list[Any]()
    for column, values in wanted.items():
        known = [value for value in values if value is not None]
        tests = [f"{_quoted(column)} IN ({', '.join('?' for _ in known)})"] if known else []
        tests += [f"{_quoted(column)} IS NULL"] if len(known) < len(values) else []
        conditions.append(f"({' OR '.join(tests)})")
        parameters += known
    columns = ", ".join(_quoted(field.name) for field in handle.fields)
    return f"SELECT {columns} FROM {_quoted(asked.name)} WHERE {' AND '.join(conditions)}", parameters


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _handle(source: Any, asked: RowsAsked) -> LazyRows:
    handle: LazyRows = source.table(asked.name) if asked.of_table else source.view(asked.name)
    return handle


def _stored(warehouse: Warehouse | Session, asked: RowsAsked) -> RowsFound:
    """The rows as of an epoch, read without the lock of the warehouse."""
    for attempt in range(ATTEMPTS):
        epoch = warehouse.epoch if asked.epoch is None else asked.epoch
        try:
            handle = _handle(warehouse.at(epoch), asked)
            table = handle.arrow()
            return RowsFound(filtered(table, asked.where, handle.fields, asked.name), handle.fields, epoch)
        except EpochGone:  # forgotten since it was the last one
            if asked.epoch is not None or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def read_changes(warehouse: Warehouse | Session, name: str, since: int, where: Sequence[str]) -> RowsFound:
    """The changes of a view after an epoch, with their weights and epochs; the epoch found is where to resume."""
    now, handle = warehouse.epoch, warehouse.view(name)
    fields = (*handle.fields, Field(WEIGHT, BIGINT), Field(EPOCH, BIGINT))
    with hearing() as notes:
        batches = handle.batches(since, where=wanted_values(where, handle.fields, name) or None)
    tables = [
        batch.arrow().append_column(EPOCH, pa.repeat(pa.scalar(batch.epoch, pa.int64()), batch.rows))
        for batch in batches
    ]
    empty = arrow_schema(handle.fields).empty_table().append_column(EPOCH, pa.array([], pa.int64()))
    last = max([now, *(batch.epoch for batch in batches)])
    return RowsFound(pa.concat_tables([empty, *tables]), fields, last, tuple(notes))
