"""The costs of each view over a period, summed from the refresh log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.engine.telemetry.refresh import Refresh

__all__ = ["ViewCosts", "chosen", "summed_costs"]

Since = int | datetime | timedelta
"""An epoch, after which; a time in UTC, from which; or a time back from now."""


@dataclass(slots=True)
class ViewCosts:
    """Costs of a view over a period: ``seconds`` of which ``slowest`` is the longest refresh, rows, bytes and lookups.

    ``refreshes`` counts epochs, ``recomputed`` those in which it was computed again or filled. ``share`` is its part of
    the time of all views. ``memory_bytes`` and ``disk_bytes`` are its state of now.
    """

    view: str
    refreshes: int = 0
    recomputed: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    share: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    lookups: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    last_reason: str = ""

    @property
    def state(self) -> int:
        """Bytes of its state, in memory and on disk."""
        return self.memory_bytes + self.disk_bytes


def chosen(entries: Iterable[Refresh], since: Since | None, limit: int | None = None) -> Iterator[Refresh]:
    """The entries since an epoch or time, of those from the newest on, and no more than ``limit`` of them."""
    if isinstance(since, timedelta):
        since = datetime.now(UTC).replace(tzinfo=None) - since
    elif isinstance(since, datetime) and since.tzinfo is not None:
        since = since.astimezone(UTC).replace(tzinfo=None)
    for number, entry in enumerate(entries):
        if number == limit or (since is not None and _is_before(entry, since)):
            return
        yield entry


def _is_before(entry: Refresh, since: int | datetime) -> bool:
    return entry.time < since if isinstance(since, datetime) else entry.epoch <= since


def summed_costs(entries: Iterable[Refresh]) -> dict[str, ViewCosts]:
    """The costs of each view that has entries."""
    found: dict[str, ViewCosts] = {}
    for entry in entries:
        if entry.view is None:
            continue
        one = found.setdefault(entry.view, ViewCosts(entry.view))
        one.refreshes += entry.epochs
        one.recomputed += entry.epochs * (entry.way in ("recomputed", "filled"))
        one.seconds += entry.seconds
        one.slowest = max(one.slowest, entry.slowest)
        one.rows_in += entry.rows_in
        one.rows_out += entry.rows_out
        one.bytes += entry.bytes
        one.lookups += entry.lookups
        one.last_reason = one.last_reason or entry.reason  # the newest entry comes first
    total = sum(one.seconds for one in found.values())
    for one in found.values():
        one.share = one.seconds / total if total else 0.0
    return found
