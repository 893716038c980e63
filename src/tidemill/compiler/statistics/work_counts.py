"""Predicted work as counts of elementary operations, and what each of these costs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONSTANTS", "NOTHING", "CostConstants", "WorkCounts"]


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Elementary operations for a changed row.

    These are ``statements`` that run, entries that loops read (``visits``), entries that statements add to
    (``updates``), touched entries whose rows are made anew (``emissions``), and rows that a stage takes from another
    one (``passed``): they are made, summed and handed over. ``runs`` are calls of stages, one for all rows of an epoch:
    the part of them that falls to one row.

    >>> WorkCounts(visits=2.0) + 3 * WorkCounts(updates=1.0)
    WorkCounts(statements=0.0, visits=2.0, updates=3.0, emissions=0.0, passed=0.0, runs=0.0)
    """

    statements: float = 0.0
    visits: float = 0.0
    updates: float = 0.0
    emissions: float = 0.0
    passed: float = 0.0
    runs: float = 0.0

    def __add__(self, other: WorkCounts) -> WorkCounts:
        return WorkCounts(
            self.statements + other.statements,
            self.visits + other.visits,
            self.updates + other.updates,
            self.emissions + other.emissions,
            self.passed + other.passed,
            self.runs + other.runs,
        )

    def __rmul__(self, factor: float) -> WorkCounts:
        return WorkCounts(
            factor * self.statements,
            factor * self.visits,
            factor * self.updates,
            factor * self.emissions,
            factor * self.passed,
            factor * self.runs,
        )


NOTHING = WorkCounts()


@dataclass(frozen=True, slots=True)
class CostConstants:
    """The cost of each elementary operation, in visits."""

    statement: float
    visit: float
    update: float
    emission: float
    passed: float
    run: float

    def cost(self, counts: WorkCounts) -> float:
        """The cost of counted work."""
        entries = self.visit * counts.visits + self.update * counts.updates + self.emission * counts.emissions
        calls = self.statement * counts.statements + self.run * counts.runs
        return calls + entries + self.passed * counts.passed


CONSTANTS = CostConstants(statement=1.0, visit=1.0, update=2.0, emission=2.0, passed=8.0, run=500.0)
"""The constants that plans are made by, in epochs of some ten rows, which share the call of a statement.

In machine code a stage takes some 60 microseconds an epoch, whatever it does. Of 0 to 2,000 visits for that, 500 gave
the best plans for DBToaster's queries and for nested aggregates.

VWAP over 12,000 bids passed 7,000 rows from stage to stage for each row that came, and took 25 ms for 68,000 visits; as
one stage it took 3 ms for 101,000.

``benchmarks/cost_constants.py`` fits them to measured views; docs/design/choosing.md says what it finds."""
