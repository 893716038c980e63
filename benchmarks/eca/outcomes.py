"""What was measured: a cost beside its formula, or a protocol on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

APART, BURST = "apart", "burst"
"""Each update waits until the view shows the one before, or all come before the source is first asked."""


@dataclass(frozen=True)
class Outcome:
    """What an algorithm cost where ``axis`` is ``at``, and what the formula says, if there is one."""

    what: str
    algorithm: str
    axis: str
    at: float
    measured: float
    formula: float | None

    @property
    def error(self) -> float:
        """How far the measured value is from the formula, relatively."""
        return 0.0 if not self.formula else abs(self.measured - self.formula) / self.formula


@dataclass(frozen=True)
class Kept:
    """What a protocol did: ``updates`` came ``apart`` or in a ``burst``, and the view showed them after ``seconds``.

    Apart, the seconds are the median for one update from its commit on; of a burst, from the last commit to the last
    row.
    """

    protocol: str
    timing: str
    rows: int
    updates: int
    queries: int
    transferred: int
    seconds: float

    @property
    def each(self) -> float:
        """Bytes for an update."""
        return self.transferred / self.updates
