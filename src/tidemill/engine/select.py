"""Queries asked once: the bag comes from a runtime, order and limit are put on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.walk import scans
from tidemill.changes.zset import Row
from tidemill.compiler.frontends.sql import Translated, translate
from tidemill.compiler.frontends.statements import Tree
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result, present_rows


def select(engine: Engine, query: str | Tree, *, until: int | None = None) -> Result:
    """The rows of a SELECT over the present contents, or over those of epoch ``until``."""
    translated = translate(query, engine.catalog.relations, functions=engine.registry.keys)
    if until is None:
        rows = list(engine.answer(translated.relation).zset().expand())
    else:
        tables = {name: engine.contents(name, until).zset() for name in scans(translated.relation)}
        rows = list(evaluate(translated.relation, tables).expand())
    fields = translated.relation.fields[: translated.visible]
    shown = [row[: translated.visible] for row in arrange(rows, translated)]
    return Result(present_rows(shown, fields), fields, frame=engine.placement.frame)


def arrange(rows: Sequence[Row], query: Translated) -> Sequence[Row]:
    """The rows in the order that the query asks for, cut to its limit."""
    ordered = list(rows)
    for position, descending, nulls_first in reversed(query.order):
        ordered.sort(key=lambda row, i=position: _rank(row[i]), reverse=descending)  # type: ignore[misc]
        ordered.sort(key=lambda row, i=position: (row[i] is None) != nulls_first)  # type: ignore[misc]
    start = query.offset or 0
    return ordered[start:] if query.limit is None else ordered[start : start + query.limit]


def _rank(value: Any) -> tuple[Any, ...]:
    """A key that compares any two values of one column: NULL anywhere (it is sorted apart), NaN above all numbers."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2, 0.0) if value != value else (1, value)
    if isinstance(value, tuple):
        return (1, tuple(map(_rank, value)))
    return (1, value)
