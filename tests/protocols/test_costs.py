"""Example 6 of the ECA paper: messages, bytes and pages are those of section 6, where its assumptions hold exactly."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import pytest

from benchmarks.eca.page_model import Indexed, NestedLoops, PageModel
from benchmarks.eca.recorded_source import RecordedSource
from tests.protocols.harness import MakeMaintainer, Run, Scenario, greater, insert, scan, view
from tests.protocols.harness import equal as join
from tidemill.changes.zset import ZSet
from tidemill.model.schema import Table
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.recompute import Recompute
from tidemill.protocols.protocol import InitialView
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations

S, J, K, GROUPS = 4, 4, 20, 24
C = J * GROUPS
PAGES, HALF = ceil((C + 1) / K), ceil((C + 1) / (2 * K))

# A row of r2 has an identity, so that J of them may join the same groups of r1 and r3. All rows meet W > Z: sigma is 1.
VIEW = view(
    [scan("r1", "wx"), scan("r2", "ixy"), scan("r3", "yz")],
    [join("r1.x", "r2.x"), join("r2.y", "r3.y"), greater("r1.w", "r3.z")],
    "r1.w r3.z",
)
CLUSTERED = {"r1": "x", "r2": "x", "r3": "y"}
BETWEEN, AT_ONCE = "u a u a u a", "u u u a a a"


def scenario(events: str) -> Scenario:
    """Relations in which every value joins J rows whenever a query is evaluated.

    Updates that come apart meet groups of their own. Updates that come at once complete one group that all of them
    join.
    """
    rows = {
        "r1": [(1000 + n, n % GROUPS) for n in range(C)],
        "r2": [(n, n % GROUPS, n % GROUPS) for n in range(C)],
        "r3": [(n % GROUPS, n) for n in range(C)],
    }
    one, two, three = (0, 0, 0) if events == AT_ONCE else (0, 1, 2)
    if events == AT_ONCE:
        rows = {name: some[1:] for name, some in rows.items()}
    script = [insert("r1", 2000, one), insert("r2", 2000, two, two), insert("r3", three, 999)]
    return Scenario(VIEW, {name: ZSet.of(some) for name, some in rows.items()}, {"": script})


def source_after(make: MakeMaintainer, events: str, pages: PageModel) -> RecordedSource:
    """The source, which counts what the three updates cost when they and the answers arrive in this order."""

    class Counted(Scenario):
        def sources(self) -> dict[str, RecordedSource]:
            tables: Mapping[str, Table] = super().sources()[""].tables
            return {"": RecordedSource("", tables, self.rows, row_bytes=S, pages=pages)}

        def seen(self, rows: Mapping[str, ZSet]) -> ZSet:
            return IndexedRelations(rows).answer(self.view.query)  # the oracle would form a product of a million rows

    made = scenario(events)
    run = Run(Counted(made.view, made.rows, made.script), make)
    for event in events.split():
        if event == "u":
            run.update()
        else:
            run.reply()
    assert run.rows == run.there[-1]
    return run.sources[""]


def every(period: int) -> MakeMaintainer:
    def make(start: InitialView) -> Recompute:
        return Recompute(start, period)

    return make


ONE_VIEW = S * C * J**2
COSTS = {
    # name: maintainer, order of events, M, B, pages with indexes, pages with nested loops
    "ECA best": (Eca, BETWEEN, 6, 3 * S * J**2, 3 * min(PAGES, J) + 3, 3 * PAGES * HALF),
    "ECA worst": (Eca, AT_ONCE, 6, 3 * S * J * (J + 1), 3 * min(PAGES, J) + 6, 3 * PAGES * (HALF + 1)),
    "RV best": (every(3), "u u u a", 2, ONE_VIEW, 3 * PAGES, PAGES**3),
    "RV worst": (every(1), BETWEEN, 6, 3 * ONE_VIEW, 9 * PAGES, 3 * PAGES**3),
}


@pytest.mark.parametrize("name", COSTS)
def test_costs_are_those_of_the_formulas(name: str) -> None:
    make, events, messages, size, indexed, looped = COSTS[name]
    source = source_after(make, events, Indexed(K, CLUSTERED))
    second = source_after(make, events, NestedLoops(K))
    first = source.traffic
    assert first.queries + first.answers == messages
    if name.startswith("ECA"):
        assert (first.bytes, source.pages_read, second.pages_read) == (size, indexed, looped)
    else:
        # The view has grown by what three rows join, which the formulas leave out.
        assert first.bytes == pytest.approx(size, rel=0.1)
        assert (source.pages_read, second.pages_read) == (indexed, looped)
