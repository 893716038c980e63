"""Tables of any size for the examples of ``benchmarks.sql.capabilities``, and changes of single rows.

Customers are always a hundred: so groups, partitions and matches grow with the tables, and a cost that follows them can
be told from one that does not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
Changes = dict[str, list[tuple[int, Row]]]

CUSTOMERS = 100
RETURNS = 1_000
CHAIN = 5
"""Parts are chains of so many pieces: a change of one reaches a handful of others, however many chains there are."""

START = datetime(2026, 1, 1)
YEAR = 365 * 24 * 3600
TAGS = ("acorn", "birch", "cedar", "alder", "elm")


class Shop:
    """The rows of all tables; a change replaces one row of a table by another one."""

    def __init__(self, rows: int, seed: int = 7) -> None:
        self._random = random.Random(seed)
        regions = ("north", "south", None)
        self.tables: dict[str, list[Row]] = {
            "customers": [(i, f"customer {i % 90}", regions[i % 3]) for i in range(CUSTOMERS)],
            "orders": [self._order(i) for i in range(rows)],
            "returns": [(i, self._customer()) for i in range(RETURNS)],
            "parts": [(piece, piece + 1) for piece in range(rows // 10) if piece % CHAIN != CHAIN - 1],
        }

    def load(self) -> Changes:
        """All rows."""
        return {name: [(1, row) for row in rows] for name, rows in self.tables.items()}

    def replacements(self, table: str) -> Iterator[Changes]:
        """Changes without end: a row of ``table`` leaves, and another one takes its place."""
        rows = self.tables[table]
        while True:
            place = self._random.randrange(len(rows))
            old, new = rows[place], self._other(table, rows[place])
            rows[place] = new
            yield {table: [(-1, old), (1, new)]}

    def _other(self, table: str, row: Row) -> Row:
        match table:
            case "orders":
                return self._order(row[0])
            case "customers":
                return (row[0], f"customer {self._random.randrange(90)}", row[2])
            case "returns":
                return (row[0], self._customer())
        return (row[0], row[1] + CHAIN if row[1] == row[0] + 1 else row[0] + 1)

    def _order(self, number: int) -> Row:
        draw = self._random
        placed = START + timedelta(seconds=draw.randrange(YEAR))
        tags = [draw.choice(TAGS) for _ in range(draw.randrange(4))]
        amount = Decimal(draw.randrange(100, 10_000_000)) / 100
        return (number, self._customer(), amount, round(draw.uniform(0, 20), 3), placed, tags)

    def _customer(self) -> int | None:
        return None if self._random.random() < 0.001 else self._random.randrange(CUSTOMERS)
