"""Totals of refreshes since the warehouse was opened: what they took in and gave out, and how long they took."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.engine.telemetry.epoch_work import PendingRefresh
from tidemill.engine.telemetry.refresh import Refresh

__all__ = ["RefreshTotals", "totals_with"]


@dataclass(slots=True)
class RefreshTotals:
    """Sums over the refreshes of a view, or over whole epochs, the last of which is ``epoch``; times in seconds."""

    epochs: int = 0
    epoch: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    check: float = 0.0
    triggers: float = 0.0
    output: float = 0.0
    store: float = 0.0
    sync: float = 0.0

    @property
    def seconds(self) -> float:
        """The time of all phases."""
        return self.check + self.triggers + self.output + self.store + self.sync


_SUMMED = ("epochs", "rows_in", "rows_out", "bytes", "check", "triggers", "output", "store", "sync")


def totals_with(
    totals: dict[str | None, RefreshTotals], view: str | None, one: Refresh | PendingRefresh, epoch: int
) -> None:
    """Add an entry, whose last epoch is ``epoch``, to the totals of its view.

    >>> totals: dict[str | None, RefreshTotals] = {}
    >>> some = PendingRefresh()
    >>> some.epochs, some.rows_in = 2, 5
    >>> totals_with(totals, "v", some, 7), totals_with(totals, "v", some, 9)
    (None, None)
    >>> totals["v"].epochs, totals["v"].rows_in, totals["v"].epoch
    (4, 10, 9)
    """
    found = totals.setdefault(view, RefreshTotals())
    for name in _SUMMED:
        setattr(found, name, getattr(found, name) + getattr(one, name))
    found.epoch = max(found.epoch, epoch)
