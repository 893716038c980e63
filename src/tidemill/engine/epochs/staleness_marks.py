"""Staleness marks: the oldest change that a deferred view does not show.

A deferred view has a *mark* while it is behind: the epoch of that change, and its time. Marks are stored among the
positions and committed with the epochs that set them, so they outlive the process and other readers see them. A view
over a stale view is at least as stale as that one; when the stale one is refreshed, its mark is passed on to the
deferred views that read it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidemill.changes.changeset import Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View

__all__ = ["StalenessMark", "is_caught_up", "is_mark", "late_since", "mark_of", "marks_of"]

MARK_PREFIX = "late:"
"""Prefix of the position that stores the mark of a view, followed by the name of the view."""


@dataclass(frozen=True, order=True)
class StalenessMark:
    """The oldest change that a view does not show: its epoch, and its time in seconds since 1970.

    >>> StalenessMark.read(str(StalenessMark(7, 1.5)))
    StalenessMark(epoch=7, time=1.5)
    """

    epoch: int
    time: float

    def __str__(self) -> str:
        return f"{self.epoch} {self.time:.3f}"

    @classmethod
    def read(cls, text: str) -> StalenessMark | None:
        """Parse a mark; None if ``text`` is empty."""
        epoch, _, moment = text.partition(" ")
        return cls(int(epoch), float(moment)) if epoch else None


def is_mark(position: str) -> bool:
    """True if a position is a mark rather than the position of a source."""
    return position.startswith(MARK_PREFIX)


def mark_of(positions: Mapping[str, str], view: str) -> StalenessMark | None:
    """The mark of a view for unseen changes of its own inputs."""
    return StalenessMark.read(positions.get(MARK_PREFIX + view, ""))


def is_caught_up(positions: Mapping[str, str], view: str) -> bool:
    """True if a deferred view is recorded to have seen all changes of its inputs."""
    return positions.get(MARK_PREFIX + view) == ""


def late_since(catalog: Catalog, positions: Mapping[str, str], view: View) -> StalenessMark | None:
    """The oldest change that a view does not show, because it or a view that it reads is stale."""
    views = catalog.views
    above = (late_since(catalog, positions, views[name]) for name in view.inputs if name in views)
    return _earliest(mark for mark in (mark_of(positions, view.name), *above) if mark)


def marks_of(
    catalog: Catalog, positions: Mapping[str, str], epoch: Epoch, refreshed: Collection[str] = ()
) -> dict[str, str]:
    """The marks that an epoch changes; the views ``refreshed`` catch up in it."""
    found = _ended(catalog, positions) if epoch.catalog is not None else {}
    if not catalog.view_index.deferred:
        return found
    now = StalenessMark(epoch.number, time.time())
    changed = {name for name, change in epoch.changes.items() if name in catalog and len(change)}
    waited = dict.fromkeys(changed, now)  # for each changed relation, the mark of its oldest change
    for view in catalog.view_index.reached([*changed, *refreshed]):
        before = mark_of(positions, view.name)
        brought = _earliest(waited[name] for name in view.inputs if name in waited)
        if view.name in changed:
            waited[view.name] = (before if view.name in refreshed else brought) or now
        if not view.refresh.deferred:
            continue
        behind = view.fresh < epoch.number and view.name not in refreshed
        after = _earliest(mark for mark in (before, brought) if mark) if behind else None
        if after != before or (view.name in refreshed and MARK_PREFIX + view.name not in positions):
            found[MARK_PREFIX + view.name] = str(after or "")
    return found


def _ended(catalog: Catalog, positions: Mapping[str, str]) -> dict[str, str]:
    """Cleared marks of dropped views."""
    gone = (name for name in filter(is_mark, positions) if name.removeprefix(MARK_PREFIX) not in catalog.views)
    return {name: "" for name in gone if positions[name]}


def _earliest(marks: Iterable[StalenessMark]) -> StalenessMark | None:
    return min(marks, default=None)
