"""What an algorithm costs on Example 6: every message counted, and the history audited before a cost is believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.eca.example6 import CLUSTERED, TABLES, VIEW, Example, Update
from benchmarks.eca.formulas import Parameters
from benchmarks.eca.page_model import Indexed, IndexProbe, NestedLoops, PageModel
from benchmarks.eca.recorded_source import RecordedSource
from benchmarks.eca.warehouse import Warehouse
from tidemill.changes.zset import ZSet
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.recompute import Recompute
from tidemill.protocols.audit import audit
from tidemill.protocols.protocol import InitialView, ViewMaintainer
from tidemill.sources.remote_queries.signed_query import SignedQuery

SIDES = 2


class TermByTerm(Eca):
    """ECA that asks for every compensation by a term of its own, as the paper does and counts.

    Tidemill's own sums terms that differ in the tuples of one relation.
    """

    def _query(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        return (self._view - self._under_way()).after_all(changes)


@dataclass
class Scenarios:
    """Counts the pages of both scenarios of section 6.3 at once."""

    ways: Sequence[PageModel]
    read_by: list[int] = field(default_factory=list)

    def read(self, probes: Sequence[IndexProbe]) -> int:
        """Pages by the first of the ways."""
        read = [way.read(probes) for way in self.ways]
        self.read_by = [sum(pair) for pair in zip(self.read_by or [0] * len(read), read, strict=True)]
        return read[0]


@dataclass(frozen=True)
class Algorithm:
    """Which maintainer, given its start and k, and whether its queries are answered only after all updates."""

    maintainer: Callable[[InitialView, int], ViewMaintainer]
    together: bool


MEASURED = {
    "rv-best": Algorithm(Recompute, together=True),
    "rv-worst": Algorithm(lambda start, k: Recompute(start), together=False),
    "eca-best": Algorithm(lambda start, k: TermByTerm(start), together=False),
    "eca-worst": Algorithm(lambda start, k: TermByTerm(start), together=True),
    "eca-worst/packed": Algorithm(lambda start, k: Eca(start), together=True),
}
"""The algorithms that have formulas, and what Tidemill's ECA makes of the worst case."""


@cache
def measure(name: str, p: Parameters) -> Mapping[str, float]:
    """The mean costs of an algorithm over both sides of the example, by the names that formulas have."""
    found = [_run(MEASURED[name], p, side) for side in range(SIDES)]
    return {what: sum(costs[what] for costs in found) / SIDES for what in found[0]}


def _run(algorithm: Algorithm, p: Parameters, side: int) -> dict[str, int]:
    example = Example(int(p.c), int(p.j), int(p.k), algorithm.together, side)
    pages = Scenarios((Indexed(p.block, CLUSTERED), NestedLoops(p.block)))
    source = RecordedSource("", TABLES, example.rows(), row_bytes=p.size, pages=pages)
    rows = source.contents.answer(VIEW.query)
    start = InitialView(VIEW, rows, {"": source.position})
    warehouse = Warehouse(source, start, algorithm.maintainer(start, example.k))
    history = _History(source, warehouse)
    for update in example.updates():
        history.commit(update)
        if not algorithm.together:
            history.answer_all()
    history.answer_all()
    history.check()
    asked = source.traffic
    counted = {"messages": asked.queries + asked.answers, "bytes": asked.bytes}
    return counted | dict(zip(("pages-indexed", "pages-looped"), pages.read_by, strict=True))


class _History:
    """The states that the view should go through and those that it does."""

    def __init__(self, source: RecordedSource, warehouse: Warehouse) -> None:
        self._source = source
        self._warehouse = warehouse
        self._there = [ZSet(warehouse.rows)]
        self._here = [ZSet(warehouse.rows)]

    def commit(self, update: Update) -> None:
        """An update that the warehouse is told of at once."""
        self._source.commit(update)
        self._there.append(self._there[-1] + self._source.contents.answer(VIEW.query.after_all(update)))
        self._take()

    def answer_all(self) -> None:
        """The source answers until nothing is asked."""
        while self._source.unanswered:
            self._source.answer()
            self._take()

    def _take(self) -> None:
        self._warehouse.take()
        self._here.append(ZSet(self._warehouse.rows))

    def check(self) -> None:
        """The history must keep what the maintainer promises, and end with the view of the relations as they are."""
        verdict = audit(self._there, self._here)
        promised = self._warehouse.maintainer.level
        if promised not in verdict.kept or self._here[-1] != self._source.contents.answer(VIEW.query):
            raise WrongAnswer(f"{promised.name.lower()} consistency is broken\n{verdict}")
