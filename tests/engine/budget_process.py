"""A process with a memory budget: it opens a warehouse, applies changes, and prints what it held and what it took.

Usage: python -m tests.engine.budget_process FOLDER ROWS BYTES EPOCHS

``BYTES`` is the budget beside what the process takes before it opens the warehouse. 0 is none, and then all state is
read into memory at once.
"""

from __future__ import annotations

import json
import random
import sys
import time
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidemill
from tidemill.engine.epochs.memory_budget import resident_bytes, return_free_memory
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.state import stored_lookups

TABLES = """
    CREATE TABLE item (id BIGINT PRIMARY KEY, kind STRING, price DECIMAL(10, 2), day DATE, owner BIGINT);
    CREATE TABLE owner (id BIGINT PRIMARY KEY, name STRING);
"""

VIEWS = {
    "per_owner": "SELECT owner, COUNT(*) AS n, SUM(price) AS price, MAX(day) AS latest FROM item GROUP BY owner",
    "joined": """SELECT o.name, COUNT(*) AS n, SUM(i.price) AS price FROM item i JOIN owner o ON i.owner = o.id
        GROUP BY o.name""",
    "dear": "SELECT id, owner, price FROM item WHERE price > 900",
    "days": "SELECT DISTINCT owner, day FROM item",
    "cheapest": """SELECT owner, id, price FROM (SELECT owner, id, price, ROW_NUMBER() OVER (PARTITION BY owner
        ORDER BY price, id) AS place FROM item) AS ranked WHERE place <= 2""",
    "kinds": "SELECT owner, kind, COUNT(*) AS n, MIN(price) AS least, MAX(id) AS last FROM item GROUP BY owner, kind",
    "twins": """SELECT a.id, b.id AS other FROM item a JOIN item b
        ON a.owner = b.owner AND a.price = b.price AND a.id < b.id""",
}


def item(number: int, rows: int) -> tuple[Any, ...]:
    """A row of the table of items."""
    price = Decimal(number * 7919 % 100_000).scaleb(-2)
    return (
        number,
        f"kind {number % 1000}",
        price,
        date(2026, 1, 1) + timedelta(number % 365),
        number * 31 % (rows // 10),
    )


def fill(folder: Path, rows: int) -> None:
    """Make a warehouse with so many items."""
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql(TABLES)
        columns = zip(*(item(number, rows) for number in range(rows)), strict=True)
        names = ("id", "kind", "price", "day", "owner")
        table = pa.table(dict(zip(names, map(list, columns), strict=True)))
        wh.apply({"item": table.set_column(2, "price", pc.cast(table.column("price"), pa.decimal128(10, 2)))})
        wh.apply({"owner": [(+1, (number, f"owner {number % 5000}")) for number in range(rows // 10)]})
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def change(
    draw: random.Random, rows: int, there: dict[int, tuple[Any, ...] | None]
) -> list[tuple[int, tuple[Any, ...]]]:
    """A few items that change; ``there`` are those that are not as they were at first."""
    found: list[tuple[int, tuple[Any, ...]]] = []
    for number in draw.sample(range(rows + 1000), draw.choice([1, 3, 200])):
        old = there[number] if number in there else (item(number, rows) if number < rows else None)
        if old is not None:
            found.append((-1, old))
        new = (
            None
            if draw.random() < 0.2
            else (
                number,
                "new",
                Decimal(draw.randrange(100_000)).scaleb(-2),
                date(2027, 1, 1),
                draw.randrange(rows // 10),
            )
        )
        there[number] = new
        if new is not None:
            found.append((+1, new))
    return found


def main(folder: str, rows: int, budget: int, epochs: int) -> dict[str, Any]:
    """Apply changes within a budget; returns base and peak of the memory, CPU seconds, and EXPLAIN of a view."""
    with TemporaryDirectory() as small:  # imports all that is needed, and reads files
        fill(Path(small), 5_000)
        apply(small, 5_000, None, 20)
        return_free_memory()
    base = resident_bytes()
    if not budget:
        runtime_state.RESIDENT_ROWS = stored_lookups.LOOKUP_ROWS = 1 << 60
    return {"base": base, **apply(folder, rows, base + budget if budget else None, epochs)}


def peak_bytes() -> int:
    """The most memory that this process has had since the peak was reset, also within an epoch."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def apply(folder: str, rows: int, memory: int | None, epochs: int) -> dict[str, Any]:
    """Apply so many random changes to a warehouse."""
    draw, there = random.Random(7), dict[int, tuple[Any, ...] | None]()
    begun = time.process_time()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    with tidemill.open(folder, runtime="native", memory=memory) as wh:
        for _ in range(epochs):
            if part := change(draw, rows, there):
                wh.apply({"item": part})
        cpu = time.process_time() - begun
        return {"peak": peak_bytes(), "cpu": cpu, "explained": wh.view("per_owner").explain()}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))))
