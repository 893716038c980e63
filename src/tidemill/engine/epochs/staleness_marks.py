"""Staleness marks: the oldest change that a deferred view does not show.

A view that may be late has a *mark* while it is: the epoch that brought that change, and when. Marks are committed
with the epochs that make them, among the positions, so they outlive the process and readers beside it see them. A view
over a late view is as late as that one, whatever it has seen of it, and when the late one is refreshed, the mark goes
on to those that have yet to follow.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidemill.changes.changeset import Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.view import View

__all__ = ["StalenessMark", "is_caught_up", "is_mark", "late_since", "mark_of", "marks_of"]

MARK_PREFIX = "late:"
"""Marks stand among the positions under this and the name of the view."""


@dataclass(frozen=True, order=True)
class StalenessMark:
    """The oldest change that a view does not show: the epoch that brought it, and when, in seconds since 1970.

    >>> StalenessMark.read(str(StalenessMark(7, 1.5)))
    StalenessMark(epoch=7, time=1.5)
    """

    epoch: int
    time: float

    def __str__(self) -> str:
        return f"{self.epoch} {self.time:.3f}"

    @classmethod
    def read(cls, text: str) -> StalenessMark | None:
        """The mark that ``text`` spells; none where it is empty."""
        epoch, _, moment = text.partition(" ")
        return cls(int(epoch), float(moment)) if epoch else None


def is_mark(position: str) -> bool:
    """Whether a position is a mark, and no source's."""
    return position.startswith(MARK_PREFIX)


def mark_of(positions: Mapping[str, str], view: str) -> StalenessMark | None:
    """The mark that a view has itself: there are changes for it to catch up with."""
    return StalenessMark.read(positions.get(MARK_PREFIX + view, ""))


def is_caught_up(positions: Mapping[str, str], view: str) -> bool:
    """Whether a late view has seen all changes of its inputs, and is known to have."""
    return positions.get(MARK_PREFIX + view) == ""


def late_since(catalog: Catalog, positions: Mapping[str, str], view: View) -> StalenessMark | None:
    """The oldest change that a view does not show, be it late itself or what it reads."""
    views = catalog.views
    above = (late_since(catalog, positions, views[name]) for name in view.inputs if name in views)
    return _earliest(mark for mark in (mark_of(positions, view.name), *above) if mark)


def marks_of(
    catalog: Catalog, positions: Mapping[str, str], epoch: Epoch, refreshed: Collection[str] = ()
) -> dict[str, str]:
    """The marks that an epoch changes, in which the views ``refreshed`` catch up."""
    found = _ended(catalog, positions) if epoch.catalog is not None else {}
    if not catalog.view_index.deferred:
        return found
    now = StalenessMark(epoch.number, time.time())
    changed = {name for name, change in epoch.changes.items() if name in catalog and len(change)}
    waited = dict.fromkeys(changed, now)  # since when it was there to be seen, what has changed in each relation
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
    """The marks of views that are gone, taken back."""
    gone = (name for name in filter(is_mark, positions) if name.removeprefix(MARK_PREFIX) not in catalog.views)
    return {name: "" for name in gone if positions[name]}


def _earliest(marks: Iterable[StalenessMark]) -> StalenessMark | None:
    return min(marks, default=None)
