"""A small auction house: people, auctions and bids that come, change and go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

Row = tuple[Any, ...]
Changes = dict[str, list[tuple[int, Row]]]

START = datetime(2026, 5, 1, 23, 30)
STATES = ("OR", "ID", "CA", "WA", None)
CHANNELS = ("Apple", "google", "radio", None)


class House:
    """The rows of all tables. Each epoch some come, some go and some change, late ones among them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.rows: dict[str, list[Row]] = {"person": [], "auction": [], "bid": []}
        self._next = 0

    def epochs(self, count: int) -> Iterator[Changes]:
        """Changes of several tables at once, the first one of many rows."""
        for number in range(count):
            yield {table: list(self._changes(table, 12 if number == 0 else 3)) for table in self.rows}

    def _changes(self, table: str, most: int) -> Iterator[tuple[int, Row]]:
        rows = self.rows[table]
        for _ in range(self._random.randint(1, most)):
            if rows and self._random.random() < 0.4:
                old = rows.pop(self._random.randrange(len(rows)))
                yield -1, old
                if self._random.random() < 0.5:
                    continue
            new = self._row(table)
            rows.append(new)
            yield 1, new

    def _row(self, table: str) -> Row:
        draw = self._random
        self._next += 1
        at = START + timedelta(seconds=draw.randrange(5400))
        match table:
            case "person":
                return (self._next, f"name {self._next % 4}", None, None, "Boise", draw.choice(STATES), at, None)
            case "auction":
                expires = at + timedelta(minutes=draw.randrange(90))
                seller, category = self._some("person"), draw.randrange(3)
                return (self._next, "lamp", None, 4, 5, at, expires, seller, category, None)
        url = f"https://house.example/{draw.choice('ab')}/{draw.choice('cd')}/item?channel={draw.randrange(3)}"
        return (self._some("auction"), draw.randrange(4), draw.randrange(30), draw.choice(CHANNELS), url, at, None)

    def _some(self, table: str) -> int | None:
        """The key of a row that is there, or most likely no longer."""
        rows = self.rows[table]
        return self._random.choice(rows)[0] if rows else None
