"""Warehouses of random epochs with rows of all types, and rows of Spark and of ours in one form."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import tidemill

COLUMNS = (
    "n INT, s STRING, d DECIMAL(12, 2), f DOUBLE, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, ok BOOLEAN, "
    "bytes BINARY, list ARRAY<INT>, pair STRUCT<x: INT, y: STRING>, map MAP<STRING, INT>"
)


def make_warehouse(folder: Path) -> str:
    """A warehouse of a table of all types, one with a key, and views that are stored and that are not."""
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql(f"CREATE TABLE t ({COLUMNS}); CREATE TABLE k (id INT PRIMARY KEY, v STRING, seq INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        wh.sql("CREATE MATERIALIZED VIEW g AS SELECT n, COUNT(*) AS c, SUM(d) AS d FROM t GROUP BY n")
        joined = "SELECT k.id, t.s FROM t JOIN k ON t.n = k.id"
        wh.sql(f"CREATE MATERIALIZED VIEW made WITH (strategy = 'joingraph', serve = 'read') AS {joined}")
        wh.apply({"k": [(1, (0, "k", 0))]})
    return str(folder)


def churn(wh: tidemill.Warehouse, draw: random.Random, epochs: int) -> None:
    """Random epochs that insert rows, some several times, and delete others."""
    for _ in range(epochs):
        gone = [(-1, row) for row in wh.table("t").rows() if draw.random() < 0.3]
        wh.apply({"t": [*gone, *((draw.randint(1, 2), _row(draw)) for _ in range(4))]})


def _row(draw: random.Random) -> tuple[Any, ...]:
    """A row of few distinct values, so that many repeat, in all types; sometimes of NULLs."""
    n = draw.choice([None, 0, 1])
    if n is None:
        return (None,) * 12
    at, text = dt.datetime(2024, 3, 31, 1, 30, 0, n), draw.choice(["", "ä", None])
    numbers = Decimal("9999999.99") * n, draw.choice([0.5, float("nan")])
    return (n, text, *numbers, at, at, at.date(), True, b"\0a", [n, None], {"x": n, "y": text}, {"k": n})


def plain(value: Any) -> str:
    """A value of Spark or of a warehouse in one form."""
    if hasattr(value, "asDict"):
        return repr(value.asDict())
    return repr(bytes(value) if isinstance(value, bytearray) else value)


def bag(rows: Iterable[Sequence[Any]]) -> Counter[tuple[str, ...]]:
    """Rows with how often they are there."""
    return Counter(tuple(map(plain, row)) for row in rows)
