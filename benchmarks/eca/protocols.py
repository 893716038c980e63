"""Each protocol on PostgreSQL: bytes and queries for an update, and how long the view takes to show it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.eca.example6 import product
from benchmarks.eca.outcomes import APART, BURST, Kept
from benchmarks.eca.postgres import KEYS, OUTPUTS, Database
from benchmarks.eca.warehouse import Warehouse
from tidemill.changes.zset import ZSet
from tidemill.protocols.algorithms.copies import Copies
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.eca_key import EcaKey
from tidemill.protocols.algorithms.eca_local import EcaLocal
from tidemill.protocols.algorithms.recompute import Recompute
from tidemill.protocols.batched_source import BatchedSource
from tidemill.protocols.protocol import InitialView, ViewMaintainer

Make = Callable[[InitialView, int], ViewMaintainer]

MAINTAINERS: dict[str, Make] = {
    "recompute": Recompute,
    "copies": lambda start, burst: Copies(start),
    "eca": lambda start, burst: Eca(start),
    "eca_local": lambda start, burst: EcaLocal(start),
    "eca_key": lambda start, burst: EcaKey(start),
    "eca_key_batched": lambda start, burst: EcaKey(start),
}
"""The protocols; ``burst`` is how many updates come at once, after which recomputing may wait for the last."""

BATCHED = "eca_key_batched"
"""The one that is told in batches, as a warehouse does with all that need not show every state."""

SPREAD = {APART: 100, BURST: 4}
"""Among how many groups updates are spread: those of a burst join each other."""

WARM_UP = 9
"""So many updates come before the clock starts: copies make their indexes then."""


@dataclass(frozen=True)
class Extent:
    """How much is done: updates of each timing, and how many of them the whole view is fetched for."""

    size: int
    updates: int
    recomputed: int


def keep_all(database: Database, extent: Extent, say: Callable[[str], None]) -> Iterator[Kept]:
    """Every protocol after the other; each starts from the view that the server had for the one before."""
    rows = database.answer()
    say(f"{extent.size:,} rows a relation, {len(rows):,} in the view")
    for protocol in MAINTAINERS:
        for timing in (APART, BURST):
            found, rows = _keep(database, extent, protocol, timing, rows)
            say(f"{protocol}, {timing}: {found.each:,.0f} bytes an update, shown after {found.seconds * 1e3:,.1f} ms")
            yield found


def _keep(database: Database, extent: Extent, protocol: str, timing: str, rows: ZSet) -> tuple[Kept, ZSet]:
    updates = extent.recomputed if protocol == "recompute" and timing == APART else extent.updates
    contents = database.contents() if protocol == "copies" else {}
    database.move(SPREAD[timing])
    source = database.source(f"bench_{protocol}_{timing}")
    try:
        position = source.start(None)
        start = InitialView(product(source.tables, OUTPUTS), rows, {"": position}, KEYS, {}, contents)
        heard = BatchedSource(source, position) if protocol == BATCHED else source
        warehouse = Warehouse(heard, start, MAINTAINERS[protocol](start, updates if timing == BURST else 1))
        if protocol != "recompute":
            _apart(database, warehouse, WARM_UP)
        asked, received = warehouse.asked, source.traffic.bytes
        seconds = (_apart if timing == APART else _burst)(database, warehouse, updates)
        queries, transferred = warehouse.asked - asked, source.traffic.bytes - received
    finally:
        source.remove()
    expected = database.answer()
    if warehouse.rows != expected:
        raise WrongAnswer(f"{protocol}: the view is not what the server answers")
    kept = Kept(protocol, timing, len(expected), updates, queries, transferred, seconds)
    return kept, expected


def _apart(database: Database, warehouse: Warehouse, updates: int) -> float:
    """The median time from a commit to the view that shows it; the next update comes after that."""
    taken = []
    for _ in range(updates):
        database.update()
        begun = time.perf_counter()
        warehouse.settle()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _burst(database: Database, warehouse: Warehouse, updates: int) -> float:
    """The time from the last of many commits, which all came before the source was first asked."""
    for _ in range(updates):
        database.update()
    begun = time.perf_counter()
    warehouse.settle()
    return time.perf_counter() - begun
