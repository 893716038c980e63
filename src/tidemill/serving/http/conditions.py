"""``where``, ``order`` and epochs of a request, as texts: values of columns, columns to sort by, numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.engine.subscriptions.row_filter import parse_where
from tidemill.model.errors import BadValue, UnknownName
from tidemill.model.types import Field
from tidemill.sources.ingest.text_records import parser_of

__all__ = ["epoch_number", "filtered", "ordered", "wanted_values"]


def wanted_values(texts: Sequence[str], fields: Sequence[Field], name: str) -> dict[str, list[Any]]:
    """The values of each column that is named, from texts such as ``customer:ann``; ``customer`` alone is NULL.

    >>> from tidemill.model.types import BIGINT, STRING
    >>> wanted_values(["id:7", "id:8", "note"], [Field("id", BIGINT), Field("note", STRING)], "v")
    {'id': [7, 8], 'note': [None]}
    """
    types = {field.name.lower(): field.type for field in fields}
    found: dict[str, list[Any]] = {}
    for text in texts:
        column, colon, value = text.partition(":")
        if column.lower() not in types:
            known = ", ".join(field.name for field in fields)
            raise UnknownName(
                f'"{name}" has no column "{column[:100]}"', where="where", hint=f"Columns: {known}. Write column:value."
            )
        parse = parser_of(types[column.lower()])
        found.setdefault(column.lower(), []).append(parse(value) if colon else None)
    return found


def filtered(table: pa.Table, texts: Sequence[str], fields: Sequence[Field], name: str) -> pa.Table:
    """The rows of a table with the values that are asked for."""
    wanted = wanted_values(texts, fields, name)
    return parse_where(wanted, fields, name).matching(table) if wanted else table


def ordered(table: pa.Table, order: str | None, fields: Sequence[Field], name: str) -> pa.Table:
    """The rows sorted by columns such as ``total desc, customer``; NULL comes first, and last where it descends."""
    keys = [_key(part, fields, name) for part in (order or "").split(",") if part.strip()]
    if not keys:
        return table
    # Arrow puts NULL at one end for all columns, so each column is preceded by whether it is NULL.
    sorted_by: Mapping[str, pa.ChunkedArray] = {}
    directions = []
    for number, (column, direction) in enumerate(keys):
        values = table.column(column)
        sorted_by = {**sorted_by, f"null{number}": pc.is_valid(values), f"value{number}": values}
        directions += [(f"null{number}", direction), (f"value{number}", direction)]
    try:
        return table.take(pc.sort_indices(pa.table(dict(sorted_by)), sort_keys=directions))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise BadValue("rows cannot be sorted by a column of that type", where=f"order {order}") from None


def _key(part: str, fields: Sequence[Field], name: str) -> tuple[str, str]:
    column, _, direction = part.strip().partition(" ")
    known = {field.name.lower(): field.name for field in fields}
    if column.lower() not in known:
        raise UnknownName(
            f'"{name}" has no column "{column[:100]}"', where="order", hint=f"Columns: {', '.join(known)}."
        )
    directions = {"": "ascending", "asc": "ascending", "desc": "descending"}
    if direction.strip().lower() not in directions:
        raise BadValue(f'"{direction[:40]}" is no direction', where="order", hint="Write column, or column desc.")
    return known[column.lower()], directions[direction.strip().lower()]


def epoch_number(text: str, where: str) -> int:
    """An epoch that a request names."""
    if re.fullmatch("[0-9]{1,18}", text) is None:
        raise BadValue(f"{text[:60]!r} is not an epoch", where=where)
    return int(text)
