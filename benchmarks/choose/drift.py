"""Tables that change their shape after a view was planned: how far ``auto`` is from the best after ten epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, takewhile
from math import inf
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import tidemill
from benchmarks.choose.measure import BENCH, OVER_BEST, PARTS, STRATEGIES, WARM_SECONDS, _timed
from benchmarks.choose.workloads import Epoch, weighted
from tidemill.serving.cli.bench_runner import Figure

EPOCHS = 10
"""Epochs in which the shape changes; then it stays."""

FIXED = ("delta", "viewlet", "joingraph")


@dataclass(frozen=True)
class Drift:
    """A view over tables of one shape, the epochs that give them another, and changes of about ten rows after that."""

    declarations: str
    query: str
    base: Epoch
    shifts: Callable[[], Iterator[Epoch]]
    after: Callable[[], Iterator[Epoch]]


def _bids(first: int, count: int) -> Epoch:
    random = np.random.default_rng(first)
    columns = {
        "id": np.arange(first, first + count),
        "price": random.integers(1, 10_000, count),
        "volume": random.integers(1, 100, count),
    }
    return {"bids": weighted(pa.table(columns), 1)}


def growing() -> Drift:
    """An order book of 50 bids that grows to 12,000: by deltas a change visits all of them."""
    return Drift(
        "CREATE TABLE bids (id BIGINT PRIMARY KEY, price BIGINT, volume BIGINT)",
        "SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1 WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3)"
        " > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)",
        _bids(0, 50),
        lambda: (_bids(first, 1_200) for first in range(50, 50 + EPOCHS * 1_200, 1_200)),
        lambda: (_bids(first, 10) for first in range(100_000, 200_000, 10)),
    )


def _grouped(first: int, count: int, groups: int, weight: int) -> Epoch:
    ids = np.arange(first, first + count)
    table = weighted(pa.table({"id": ids, "g": ids * 7 % groups, "v": ids % 100}), weight)
    return {"t": table, "u": table}


def skewing(rows: int = 20_000) -> Drift:
    """A join whose keys are unique at first, and then have a thousand rows each: as many rows, of another shape."""
    step = rows // EPOCHS

    def shifts() -> Iterator[Epoch]:
        for first in range(0, rows, step):
            gone, come = _grouped(first, step, rows, -1), _grouped(rows + first, step, 20, 1)
            yield {name: pa.concat_tables([gone[name], come[name]]) for name in gone}

    columns = "(id BIGINT PRIMARY KEY, g BIGINT, v BIGINT)"
    return Drift(
        f"CREATE TABLE t {columns}; CREATE TABLE u {columns}",
        "SELECT t.g, SUM(t.v * u.v) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g",
        _grouped(0, rows, rows, 1),
        shifts,
        lambda: (_grouped(first, 5, 20, 1) for first in range(1_000_000, 2_000_000, 5)),
    )


DRIFTS = {"growing": growing, "skewing": skewing}


def drift_figures(names: Sequence[str], limit: float, say: Callable[[str], None]) -> Iterator[Figure]:
    """Microseconds a row by each strategy, before and after the tables have changed their shape.

    And after how many epochs ``auto`` had the plan that it ended with, and how far that one is from the best.
    """
    for name in names:
        found = _measure(DRIFTS[name], limit)
        for strategy, one in found.items():
            say(f"drift/{name}: {strategy} {1e6 * one.before:.3g} us, then {1e6 * one.after:.3g} us ({one.chosen})")
            for when, seconds in (("before", one.before), ("after", one.after)):
                yield Figure(BENCH, f"drift/{name}/{when}/{strategy}", "us/row", 1e6 * seconds, "us", one.chosen)
        auto, best = found["auto"], min(found[strategy].after for strategy in FIXED)
        yield Figure(BENCH, f"drift/{name}", "epochs_to_recover", auto.epochs, "epochs", f"of {EPOCHS} that drift")
        yield Figure(BENCH, f"drift/{name}", "regret_max", auto.after / best, "times", OVER_BEST)


class Drifted(NamedTuple):
    """Seconds a row before and after tables have drifted, and the epochs until the plan at the end was there."""

    before: float
    after: float
    epochs: int
    chosen: str


def _measure(make: Callable[[], Drift], limit: float) -> dict[str, Drifted]:
    """The outcomes of all strategies, which take turns once the tables have drifted; the fastest turn counts."""
    with ExitStack() as stack:
        started = {strategy: _drifted(stack, make(), strategy, limit) for strategy in ("auto", *FIXED)}
        after = dict.fromkeys(started, inf)
        for _ in range(PARTS):
            for strategy, (warehouse, changes, _) in started.items():
                spent, changed = _timed(warehouse, changes, limit / PARTS)
                after[strategy] = min(after[strategy], spent / changed)
        for warehouse, _, _ in started.values():
            warehouse.view("answer").verify()
    return {strategy: one._replace(after=after[strategy]) for strategy, (_, _, one) in started.items()}


def _drifted(
    stack: ExitStack, drift: Drift, strategy: str, limit: float
) -> tuple[tidemill.Warehouse, Iterator[Epoch], Drifted]:
    """A warehouse whose tables have drifted, the changes that are to come, and what is known by then."""
    warehouse = stack.enter_context(tidemill.open(":memory:", runtime="native"))
    warehouse.sql(drift.declarations)
    warehouse.apply(drift.base)
    warehouse.sql(f"CREATE MATERIALIZED VIEW answer {STRATEGIES[strategy]} AS {drift.query}")
    changes = drift.after()
    spent, changed = _timed(warehouse, islice(changes, 50), limit)
    start = warehouse.epoch
    for epoch in drift.shifts():
        warehouse.apply(epoch)
    _timed(warehouse, changes, max(limit / 3, WARM_SECONDS))
    stages = warehouse._engine.catalog.view("answer").program.stages
    chosen = " and ".join(dict.fromkeys(stage.strategy for stage in stages))
    decisions = warehouse.plans("answer")["answer"]
    *_, planned = takewhile(lambda one: one.chosen == decisions[-1].chosen, reversed(decisions))
    return warehouse, changes, Drifted(spent / changed, inf, max(planned.epoch - start, 0), chosen)
