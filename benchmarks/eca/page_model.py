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

from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations, JoinStep


@dataclass(frozen=True)
class IndexProbe:
    """What one step read of a relation of ``size`` rows: how many rows were ``found`` at each probe by ``columns``.

    Without columns the relation was read from end to end.
    """

    relation: str
    columns: tuple[str, ...]
    found: tuple[int, ...]
    size: int


class ProbedRelations(IndexedRelations):
    """Relations that note in ``probes`` what was read of them."""

    def __init__(self, relations: Mapping[str, ZSet]) -> None:
        super().__init__(relations)
        self.probes: list[IndexProbe] = []

    def look_up(self, leaf: Scan, step: JoinStep, found: Sequence[Mapping[int, Row]], bound: ZSet | None) -> list[ZSet]:
        """Rows before it that differ elsewhere only, and so ask for the same, make one probe."""
        groups = super().look_up(leaf, step, found, bound)
        if bound is None:
            asking = sorted({one for one, _ in step.others})
            rows = {tuple([one[at] for at in asking]): group for one, group in zip(found, groups, strict=True)}
            columns = tuple(leaf.columns[column].name for column in step.columns)
            sizes = tuple(sum(group.values()) for group in rows.values())
            self.probes.append(IndexProbe(leaf.relation, columns, sizes, sum(self.relations[leaf.relation].values())))
        return groups


class PageModel(Protocol):
    """A way to answer, and what it reads."""

    def read(self, probes: Sequence[IndexProbe]) -> int:
        """The pages that one term reads, given what it looked up in each relation that is not bound."""


@dataclass(frozen=True)
class Indexed:
    """Scenario 1: ample memory, and indexes in it on every join column.

    ``clustered`` is the column that a relation is sorted by: rows of equal value in it stand together, others cost a
    page each. A relation that would cost more this way is read whole.

    >>> Indexed(20, {"r2": "x"}).read([IndexProbe("r2", ("x",), (4,), 100), IndexProbe("r3", ("y",), (1,) * 4, 100)])
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

    >>> NestedLoops(20).read([IndexProbe("r2", (), (), 100), IndexProbe("r3", (), (), 100)])
    15
    """

    block: int

    def read(self, probes: Sequence[IndexProbe]) -> int:
        sizes = [probe.size for probe in probes]
        if len(sizes) == 2:
            return ceil(sizes[0] / (2 * self.block)) * ceil(sizes[1] / self.block)
        return prod(ceil(size / self.block) for size in sizes) if sizes else 0
