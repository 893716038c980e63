"""A small retailer: rows drawn at random, with NULLs and duplicates, and epochs that change the tables of facts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Epoch = dict[str, list[tuple[int, Row]]]

FOLDER = Path(__file__).parent
SCHEMA = (FOLDER / "schema.sql").read_text()
PIPELINES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.sql")) if path.stem != "schema"}

CATEGORIES = {"Books": ("novels", "cooking"), "Music": ("jazz", "rock"), "Home": ("lamps", "rugs"), "Toys": ("trains",)}
STATES = ("TN", "CA", "TX", None)
FIRST_DAY = date(2001, 1, 1)
SIZES = {"items": 14, "customers": 16, "store_sales": 160, "store_returns": 40, "web_sales": 90, "inventory": 80}
"""The tables that change, after those that their rows refer to."""


class Rows:
    """Draws rows, and remembers those that are there."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._drawn = 0
        self.present: dict[str, list[Row]] = {}

    def epochs(self, count: int) -> Iterator[Epoch]:
        """The first epoch fills the tables; each of the others takes rows away, corrects some and brings new ones."""
        yield {name: [(1, row) for row in rows] for name, rows in self._filled().items()}
        for _ in range(count):
            yield {name: list(self._changes(name)) for name in SIZES}

    def _filled(self) -> dict[str, list[Row]]:
        days = [FIRST_DAY + timedelta(days=17 * number) for number in range(42)]
        self.present["days"] = [
            (key, day, day.year, (day.month + 2) // 3, day.month, day.isocalendar().week)
            for key, day in enumerate(days)
        ]
        self.present["stores"] = [(key, f"store {key}", self._one(*STATES), key % 3) for key in range(5)]
        self.present["promotions"] = [(key, self._one("mail", "tv", None), Decimal("0.10")) for key in range(4)]
        for name, size in SIZES.items():
            self.present[name] = [self._draw(name) for _ in range(size)]
        return self.present

    def _changes(self, name: str) -> Iterator[tuple[int, Row]]:
        rows = self.present[name]
        self._random.shuffle(rows)
        some = max(1, len(rows) // 12)
        gone, corrected, kept = rows[:some], rows[some : 2 * some], rows[2 * some :]
        key = 2 if name == "store_sales" else 1
        updated = [row[:key] + self._draw(name)[key:] for row in corrected]
        fresh = [self._draw(name) for _ in range(some)]
        self.present[name] = [*kept, *updated, *fresh]
        yield from ((-1, row) for row in (*gone, *corrected))
        yield from ((1, row) for row in (*updated, *fresh))

    def _draw(self, name: str) -> Row:
        self._drawn += 1
        draw: Callable[[int], Row] = getattr(self, f"_{name}")
        return draw(self._drawn)

    def _items(self, number: int) -> Row:
        category = self._one(*CATEGORIES)
        brand, color = self._one("Acme", "Bolt", None), self._one("red", "blue", "plum", "gray")
        return (
            number % 1000,
            f"item {number}",
            category,
            self._one(*CATEGORIES[category]),
            brand,
            self._money(5, 99),
            color,
        )

    def _customers(self, number: int) -> Row:
        preferred = self._one(True, False, None)
        return number % 1000, f"customer {number}", self._random.randint(1950, 1999), self._one(*STATES), preferred

    def _store_sales(self, number: int) -> Row:
        # Several lines of one ticket: the number of the row keeps the pair with the item apart.
        price = self._money(1, 90)
        keys = (number // 3, self._key("items", number), self._day(), self._customer(), self._random.randrange(5))
        amounts = (self._random.randint(1, 12), price * 2, price, price - self._money(0, 60))
        return *keys, self._one(0, 1, 2, 3, None), *amounts

    def _store_returns(self, number: int) -> Row:
        sold = self._random.choice(self.present["store_sales"])
        return sold[0], sold[1], self._day(), sold[3], self._random.randint(1, 4), self._money(1, 90)

    def _web_sales(self, number: int) -> Row:
        shipped = self._one(None, FIRST_DAY + timedelta(days=self._random.randint(0, 700)))
        where, amount = self._one("north", "south", None), self._random.randint(1, 12)
        return number, self._key("items"), self._day(), self._customer(), where, amount, self._money(1, 90), shipped

    def _inventory(self, number: int) -> Row:
        return self._day(), self._key("items"), self._one(None, self._random.randint(0, 100))

    def _key(self, table: str, number: int = 0) -> int:
        """The key of a row that is there; without any, that of one that may come."""
        rows = self.present.get(table)
        if not rows:
            return number % 20
        key: int = (rows[number % len(rows)] if number else self._random.choice(rows))[0]
        return key

    def _customer(self) -> int | None:
        return self._key("customers", self._random.randint(1, 99)) if self._random.random() > 0.1 else None

    def _day(self) -> int:
        return self._random.randrange(42)

    def _one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(self._random.randint(low * 100, high * 100)) / 100
