"""Report of a run, by dataset: refreshed how, rows, time, and why not incrementally."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

__all__ = ["DatasetReport", "PipelineReport"]


@dataclass(frozen=True)
class DatasetReport:
    """One dataset. ``changed`` counts rows that came and rows that left, ``reason`` says why it was recomputed."""

    dataset: str
    kind: str
    how: str
    changed: int | None = None
    rows: int | None = None
    seconds: float = 0.0
    reason: str = ""
    location: str = ""
    reads: str = ""

    COLUMNS: ClassVar = ("dataset", "kind", "how", "changed", "rows", "seconds", "reason")

    def values(self) -> tuple[Any, ...]:
        """Its values in the columns of a table."""
        return (self.dataset, self.kind, self.how, self.changed, self.rows, round(self.seconds, 2), self.reason or None)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        return asdict(self)


@dataclass
class PipelineReport:
    """A run: its datasets in order, the epoch that they show, and the seconds that taking the changes took."""

    name: str
    warehouse: str
    datasets: list[DatasetReport] = field(default_factory=list)
    epoch: int = 0
    taken: int = 0
    seconds: float = 0.0

    def __getitem__(self, dataset: str) -> DatasetReport:
        return next(one for one in self.datasets if one.dataset == dataset)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        return asdict(self)
