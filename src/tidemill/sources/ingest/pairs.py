"""Weighted rows as JSON lines: ``{"table": "orders", "weight": -1, "row": {"id": 1, ...}}``.

The simplest change record. ``weight`` defaults to 1, and ``row`` may be a list in the order of the columns.
``tidemill watch --json`` writes the same shape, so one warehouse's feed is another's input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue, TidemillError, UnknownName
from tidemill.model.schema import Table
from tidemill.sources.ingest.frames import weight_of
from tidemill.sources.ingest.text_records import parse_json

__all__ = ["read_pairs"]


def read_pairs(lines: Iterable[str], tables: Mapping[str, Table], *, name: str = "pairs") -> dict[str, ChangeSet]:
    """The changes of all ``lines``, by table; ``name`` is what errors call the input.

    >>> from tidemill.model.types import INT, Field
    >>> read_pairs(['{"table": "t", "row": [7]}'], {"t": Table("t", (Field("a", INT),))})["t"].zset()
    ZSet({(7,): 1})
    """
    pairs: dict[str, list[tuple[Row, int]]] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                table, row, weight = _read(parse_json(line), tables)
            except TidemillError as error:
                error.where = f"{name}:{number}" + (f", {error.where}" if error.where else "")
                raise
            pairs.setdefault(table, []).append((row, weight))
    return {table: ChangeSet.of(rows, tables[table].fields) for table, rows in pairs.items()}


def _read(record: Any, tables: Mapping[str, Table]) -> tuple[str, Row, int]:
    if not isinstance(record, Mapping) or "table" not in record or "row" not in record:
        raise BadValue("the line is not a weighted row", hint='It is {"table": ..., "weight": ..., "row": ...}.')
    name = str(record["table"]).lower()
    if name not in tables:
        raise UnknownName(f'there is no table "{name}"', hint=f"Tables: {', '.join(tables) or 'none yet'}.")
    table = tables[name]
    row = row_coercer(table.fields, table.name)(record["row"])
    return name, row, weight_of(record.get("weight", 1), f"{name}._weight")
