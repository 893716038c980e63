"""How many pages a source reads to answer, by the assumptions of section 6.3 of the ECA paper.

Terms are answered one by one and nothing is cached, so that each term's pages add up. ``Indexed`` is the paper's
Scenario 1 and ``NestedLoops`` its Scenario 2; both count what a term really found, where the paper's formulas take the
join factor J for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Protocol

from tidemill.sources.remote_queries.local_evaluation import IndexProbe


class PageModel(Protocol):
    """A way to answer, and what it reads."""

    def read(self, probes: Sequence[IndexProbe]) -> int:
        """The pages that one term reads, given what it looked up in each relation that is not bound."""


@dataclass(frozen=True)
class Indexed:
    """Scenario 1: ample memory, and indexes in it on every join column.

    ``clustered`` is the column that a relation is sorted by: rows of equal value in it stand together, others cost a
    page each. A relation that would cost more this way is read whole.

    >>> Indexed(20, {"r2": "x"}).read([Probe("r2", ("x",), (4,), 100), Probe("r3", ("y",), (1, 1, 1, 1), 100)])
    5
    """

    block: int
    clustered: Mapping[str, str] = field(default_factory=dict)

    def read(self, probes: Sequence[IndexProbe]) -> int:
        return sum(self._relation(probe) for probe in probes)

    def _relation(self, probe: IndexProbe) -> int:
        whole = ceil(probe.size / self.block)
        if not probe.columns:
            return whole
        together = self.clustered.get(probe.relation) in probe.columns
        return min(whole, sum(ceil(rows / self.block) if together else rows for rows in probe.found))


@dataclass(frozen=True)
class NestedLoops:
    """Scenario 2: no index and three blocks of memory. Of two relations, one is held by two blocks, the other passes.

    >>> NestedLoops(20).read([Probe("r2", (), (), 100), Probe("r3", (), (), 100)])
    15
    """

    block: int

    def read(self, probes: Sequence[IndexProbe]) -> int:
        sizes = [probe.size for probe in probes]
        if len(sizes) == 2:
            return ceil(sizes[0] / (2 * self.block)) * ceil(sizes[1] / self.block)
        return prod(ceil(size / self.block) for size in sizes) if sizes else 0
