"""A chain of ten views over sales: one in the middle gets another filter or column, beside dropping and rebuilding."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from rich.table import Table

import tidemill
from benchmarks.choices import chosen
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

ROWS, QUICK_ROWS = 2_000_000, 200_000
PRODUCTS = 1_000

TABLES = """
CREATE TABLE sales (id BIGINT, shop INT, product INT, day INT, amount INT, qty INT);
CREATE TABLE products (product INT PRIMARY KEY, category INT);
"""
CHAIN = {
    "c1": "SELECT id, shop, product, day, amount, qty FROM sales WHERE qty > 0",
    "c2": "SELECT id, shop, product, day, amount * qty AS value FROM c1 WHERE amount < 9900",
    "c3": "SELECT s.id, s.shop, s.day, p.category, s.value FROM c2 AS s JOIN products AS p ON s.product = p.product",
    "c4": "SELECT id, shop, day, category, value FROM c3 WHERE value > 100",
    "c5": "SELECT shop, day, category, SUM(value) AS value, COUNT(*) AS n FROM c4 WHERE value > 150 "
    "GROUP BY shop, day, category",
    "c6": "SELECT day, category, SUM(value) AS value, SUM(n) AS n FROM c5 GROUP BY day, category",
    "c7": "SELECT day, SUM(value) AS value, MAX(n) AS most FROM c6 GROUP BY day",
    "c8": "SELECT day DIV 7 AS week, SUM(value) AS value FROM c7 GROUP BY day DIV 7",
    "c9": "SELECT week, value FROM c8 WHERE value > 0",
    "c10": "SELECT MAX(value) AS best FROM c9",
}
DOUBLES = CHAIN | {"c2": CHAIN["c2"].replace("amount * qty", "CAST(amount * qty AS DOUBLE)")}
"""The same over sums of DOUBLE, which DuckDB does not fill: their last digits depend on the order of addition."""


class Case(NamedTuple):
    """A view of a chain that gets another query: ``new`` in the place of ``old``."""

    view: str
    old: str
    new: str
    chain: Mapping[str, str] = CHAIN

    @property
    def query(self) -> str:
        """The other query."""
        return self.chain[self.view].replace(self.old, self.new)


CASES = {
    "filter of rows": Case("c4", "100", "120"),
    "filter before groups": Case("c5", "150", "170"),
    "filter before doubles": Case("c5", "150", "170", DOUBLES),
    "column of rows": Case("c4", "value FROM", "value, value DIV 100 AS whole FROM"),
    "column of sums": Case("c5", "COUNT(*) AS n", "COUNT(*) AS n, SUM(value) / COUNT(*) AS mean"),
    "column of groups": Case("c5", "COUNT(*) AS n", "COUNT(*) AS n, MAX(value) AS high"),
}


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """Each case in a warehouse of its own, over ``scale`` times the rows; ``queries`` choose some by their names."""
    rows = int((options.scale or 1) * (QUICK_ROWS if options.quick else ROWS))
    options.folder.mkdir(parents=True, exist_ok=True)
    names = chosen("case", options.queries, {name.replace(" ", "_"): name for name in CASES})
    for number, name in enumerate(names):
        options.progress(number / len(CASES), name)
        folder = Path(mkdtemp(prefix="evolve-", dir=options.folder))
        try:
            yield from measure(folder / "w", name.replace("_", " "), rows)
        finally:
            shutil.rmtree(folder)


def measure(folder: Path, name: str, rows: int) -> Iterator[Figure]:
    """One case, in a new warehouse over so many sales."""
    view, query, chain = CASES[name].view, CASES[name].query, CASES[name].chain
    with tidemill.open(folder, runtime="native") as wh:
        _build(wh, chain, rows)
        wh.sql(f"ALTER VIEW {view} AS {chain[view]}")  # imports and compilers are warm
        _sell(wh, 0)
        with _Seller(wh) as seller:
            started = time.perf_counter()
            wh.sql(f"ALTER VIEW {view} AS {query}")
            replacing = time.perf_counter() - started
        answers = _answers(wh)
        _sell(wh, 1)
        started = time.perf_counter()
        wh.sql(f"DROP VIEW {view} CASCADE")
        for one in list(chain)[list(chain).index(view) :]:
            wh.sql(f"CREATE MATERIALIZED VIEW {one} AS {query if one == view else chain[one]}")
        rebuilding = time.perf_counter() - started
        _sell(wh, -1)
        if _answers(wh) != answers:
            raise AssertionError(f"{name}: the replaced chain differs from the rebuilt one")
    yield Figure("evolve", name, "replace", replacing, "s", f"rebuilt in {rebuilding:.2f} s")
    yield Figure("evolve", name, "faster", rebuilding / replacing, "times")
    yield Figure(
        "evolve", name, "writer waits at most", 1000 * seller.longest, "ms", f"{seller.epochs} epochs meanwhile"
    )


def _build(wh: tidemill.Warehouse, chain: Mapping[str, str], rows: int) -> None:
    wh.sql(TABLES)
    chance = np.random.default_rng(1)
    columns = {
        "id": np.arange(rows, dtype=np.int64),
        "shop": chance.integers(0, 50, rows, dtype=np.int32),
        "product": chance.integers(0, PRODUCTS, rows, dtype=np.int32),
        "day": chance.integers(0, 365, rows, dtype=np.int32),
        "amount": chance.integers(1, 10_000, rows, dtype=np.int32),
        "qty": chance.integers(0, 5, rows, dtype=np.int32),
    }
    wh.apply({"products": [(1, (number, number % 20)) for number in range(PRODUCTS)]})
    wh.apply({"sales": pa.table(columns)})
    for name, query in chain.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def _sell(wh: tidemill.Warehouse, weight: int) -> None:
    """One epoch of one row that comes or goes; without a weight, one that comes and one that goes."""
    for sign in (weight,) if weight else (1, -1):
        wh.apply({"sales": [(sign, (-1, 1, 1, 1, 500, 1))]})


def _answers(wh: tidemill.Warehouse) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the grouped views of the chain."""
    return {name: sorted(wh.view(name).rows()) for name in list(CHAIN)[4:]}


class _Seller:
    """A thread that commits one row after the other, and takes it back in the end."""

    def __init__(self, wh: tidemill.Warehouse) -> None:
        self._wh = wh
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sell)
        self.longest, self.epochs = 0.0, 0

    def _sell(self) -> None:
        while not self._stop.is_set():
            started = time.perf_counter()
            self._wh.apply({"sales": [(1, (-2, 1, 1, 1, 500, 1))]})
            self.longest = max(self.longest, time.perf_counter() - started)
            self.epochs += 1
            time.sleep(0.002)

    def __enter__(self) -> _Seller:
        self._thread.start()
        time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.epochs:
            self._wh.apply({"sales": [(-1, (-2, 1, 1, 1, 500, 1))] * self.epochs})


def as_table(figures: list[Figure]) -> Table:
    """A line for each case."""
    table = Table(title="tidemill bench evolve: a view in the middle of ten")
    for heading in ("case", "replaced", "dropped and rebuilt", "times faster", "a writer waits at most"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for case in dict.fromkeys(figure.case for figure in figures):
        found = {figure.metric: figure for figure in figures if figure.case == case}
        replaced, waits = found["replace"], found["writer waits at most"]
        table.add_row(
            case,
            f"{replaced.value:.2f} s",
            replaced.baseline.removeprefix("rebuilt in "),
            f"{found['faster'].value:.1f}",
            f"{waits.value:.0f} ms",
        )
    return table
