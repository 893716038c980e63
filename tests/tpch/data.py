"""A small TPC-H: rows drawn from the words that the queries ask for, and epochs that change all tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Epoch = dict[str, list[tuple[int, Row]]]

FOLDER = Path(__file__).parent
SCHEMA = (FOLDER / "schema.sql").read_text()
QUERIES = {f"q{number}": (FOLDER / f"q{number}.sql").read_text() for number in range(1, 23)}

REGIONS = ("EUROPE", "ASIA", "AMERICA", "MIDDLE EAST")
NATIONS = (
    *(("FRANCE", 0), ("GERMANY", 0), ("CHINA", 1), ("INDIA", 1)),
    *(("BRAZIL", 2), ("CANADA", 2), ("SAUDI ARABIA", 3)),
)
KEYS = {"supplier": 1, "part": 1, "partsupp": 2, "customer": 1, "orders": 1, "lineitem": 4}
"""The tables that change, and how many of the first columns hold their keys: a correction leaves these as they are."""


class Rows:
    """Draws rows for each table, and remembers those that are there."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.present: dict[str, list[Row]] = {}

    def epochs(self, count: int) -> Iterator[Epoch]:
        """The first epoch fills the tables, each of the others takes rows away, corrects some and brings new ones."""
        yield {name: [(1, row) for row in rows] for name, rows in self._filled().items()}
        for _ in range(count):
            yield {name: list(self._changes(name)) for name in KEYS}

    def _filled(self) -> dict[str, list[Row]]:
        self.present["region"] = list(enumerate(REGIONS))
        self.present["nation"] = [(key, name, region) for key, (name, region) in enumerate(NATIONS)]
        for name, size in (("supplier", 9), ("part", 10), ("partsupp", 30), ("customer", 14), ("orders", 45)):
            self.present[name] = [self.draw(name, key) for key in range(size)]
        self.present["lineitem"] = [self.draw("lineitem", key) for key in range(150)]
        return self.present

    def _changes(self, name: str) -> Iterator[tuple[int, Row]]:
        rows = self.present[name]
        self._random.shuffle(rows)
        some = max(1, len(rows) // 12)
        gone, corrected, kept = rows[:some], rows[some : 2 * some], rows[2 * some :]
        highest = max(row[0] if name != "lineitem" else row[3] for row in rows)
        fresh = [self.draw(name, highest + number) for number in range(1, some + 1)]
        keys = KEYS[name]
        updated = [row[:keys] + self.draw(name, 0)[keys:] for row in corrected]
        known = {row[:keys] for row in (*kept, *updated)}
        # A pair of part and supplier may have been drawn that is there already.
        fresh = [row for row in fresh if row[:keys] not in known]
        self.present[name] = [*kept, *updated, *fresh]
        yield from ((-1, row) for row in (*gone, *corrected))
        yield from ((1, row) for row in (*updated, *fresh))

    def draw(self, name: str, key: int) -> Row:
        """A row of ``name``. Parts and suppliers are paired by ``key``, lines are numbered by it."""
        row: Row = getattr(self, f"_{name}")(key)
        return row

    def _supplier(self, key: int) -> Row:
        comment = self._one("quick", "Customer told Complaints", "slow")
        nation = self._nation(key)
        return key, f"Supplier#{key}", f"street {key}", nation, f"{nation + 10}-555", self._money(-999, 9999), comment

    def _part(self, key: int) -> Row:
        name = self._one("forest green", "green lace", "forest blue", "plain red")
        kind = self._one("ECONOMY ANODIZED STEEL", "PROMO PLATED BRASS", "SMALL BRASS", "MEDIUM POLISHED TIN")
        brand = self._one("Brand#23", "Brand#12", "Brand#45")
        return key, name, "Maker", brand, kind, self._one(15, 3, 9), self._one("MED BOX", "SM CASE")

    def _partsupp(self, key: int) -> Row:
        return key % 10, (key // 10 + key) % 9, self._random.randint(1, 60), self._money(1, 100)

    def _customer(self, key: int) -> Row:
        phone = self._one("13-111", "31-222", "23-333", "99-444")
        balance = self._money(-500, 9999)
        segment = self._one("BUILDING", "MACHINERY")
        return key, f"Customer#{key}", f"road {key}", self._nation(key), phone, balance, segment, "none"

    def _orders(self, key: int) -> Row:
        comment = self._one("plain", "special kinds of requests", "urgent")
        status, priority = self._one("F", "O"), self._one("1-URGENT", "2-HIGH", "5-LOW")
        day = self._one(date(1993, 7, 1), date(1993, 10, 1), date(1994, 2, 1), date(1995, 2, 1)) + self._days(70)
        return key, self._random.randint(0, 10), status, self._money(100, 9999), day, priority, 0, comment

    def _lineitem(self, key: int) -> Row:
        order, part, supplier = self._random.randint(0, 50), self._random.randint(0, 9), self._random.randint(0, 8)
        shipped = self._one(date(1994, 3, 1), date(1995, 3, 1), date(1995, 9, 1), date(1996, 1, 5)) + self._days(60)
        committed, received = shipped + self._days(30), shipped + self._days(30)
        price, discount, tax = self._money(10, 1000), Decimal(self._random.randint(4, 8)) / 100, Decimal("0.02")
        amount = Decimal(self._random.randint(1, 45))
        flag, mode = self._one("R", "A"), self._one("AIR", "MAIL", "SHIP")
        days = (shipped, committed, received)
        keys, prices = (order, part, supplier, key), (amount, price, discount, tax)
        return (*keys, *prices, flag, "O", *days, self._one("DELIVER IN PERSON", "NONE"), mode)

    def _nation(self, key: int) -> int:
        # Going round the nations, so that none is left without suppliers and customers.
        return key % len(NATIONS)

    def _one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _days(self, most: int) -> timedelta:
        return timedelta(days=self._random.randint(0, most))

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(self._random.randint(low * 100, high * 100)) / 100
