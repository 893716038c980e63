"""Marks of views in quarantine: how many of their errors are stored, among the positions, with the same commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.changes.changeset import Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.views.view import View
from tidemill.storage.store import Store

__all__ = ["ErrorMark", "ErrorMarks", "error_marks", "is_error_mark", "mark_of_errors"]

PREFIX = "errors:"
"""Prefix of the position that stores the mark of a view, followed by the name of the view."""

NOT_STOPPED = -1


@dataclass(frozen=True)
class ErrorMark:
    """The number of ``rows`` that a view does not show ``since`` an epoch; ``changed`` is when it last changed.

    A view that stopped as a whole shows the epoch ``shown``. Without rows the view has ``changed`` to show everything.

    >>> ErrorMark.read(str(ErrorMark(3, 7, 2)))
    ErrorMark(since=3, changed=7, rows=2, shown=-1)
    """

    since: int
    changed: int
    rows: int
    shown: int = NOT_STOPPED

    def __str__(self) -> str:
        return f"{self.since} {self.changed} {self.rows} {self.shown}"

    @property
    def stopped(self) -> bool:
        """True if the view shows an earlier epoch."""
        return self.shown != NOT_STOPPED

    @classmethod
    def read(cls, text: str) -> ErrorMark | None:
        """Parse a mark; None if ``text`` is empty."""
        return cls(*map(int, text.split())) if text else None


class ErrorMarks:
    """The marks of a store, now and as of earlier epochs: the store remembers the positions of these."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._past: tuple[int, Mapping[str, str]] = -1, {}
        """The positions of the earlier epoch that was asked for last."""

    def of(self, view: str, until: int | None = None) -> ErrorMark | None:
        """The mark of a view, now or as of an epoch; None if it shows everything."""
        last = ErrorMark.read(self._store.positions.get(PREFIX + view, ""))
        if last is None or until is None or until >= last.changed:
            return last if last is not None and last.rows else None
        return mark_of_errors(self._positions(until), view)

    def _positions(self, epoch: int) -> Mapping[str, str]:
        known, positions = self._past
        if known != epoch:
            reached = [(number, moved) for number, moved in self._store.history().items() if number <= epoch]
            positions = reached[-1][1] if reached else {}
            self._past = epoch, positions
        return positions


def is_error_mark(position: str) -> bool:
    """True if a position is such a mark rather than the position of a source."""
    return position.startswith(PREFIX)


def mark_of_errors(positions: Mapping[str, str], view: str) -> ErrorMark | None:
    """The mark of a view; None if it is not in quarantine."""
    found = ErrorMark.read(positions.get(PREFIX + view, ""))
    return found if found is not None and found.rows else None


def error_marks(catalog: Catalog, positions: Mapping[str, str], epoch: Epoch) -> dict[str, str]:
    """The marks that an epoch changes: of views whose table of errors changes, and of those that are gone."""
    found = {} if epoch.catalog is None else _ended(catalog, positions, epoch.number)
    for name, view in catalog.guarded.items():
        change, dropped = epoch.changes.get(name + ERRORS), name + ERRORS in epoch.dropped
        before = None if dropped else mark_of_errors(positions, name)
        if dropped and mark_of_errors(positions, name) is not None:
            found[PREFIX + name] = _nothing(epoch.number)
        if change is not None and change.rows:
            found[PREFIX + name] = str(_moved(view, before, epoch.number, sum(change.zset().values())))
    return found


def _moved(view: View, before: ErrorMark | None, epoch: int, rows: int) -> ErrorMark:
    """The mark of a view after its table of errors got so many rows more."""
    shown = view.fresh if view.stopped else NOT_STOPPED
    if before is None:
        return ErrorMark(epoch, epoch, rows, shown)
    return ErrorMark(before.since, epoch, before.rows + rows, shown)


def _nothing(epoch: int) -> str:
    return str(ErrorMark(epoch, epoch, 0))


def _ended(catalog: Catalog, positions: Mapping[str, str], epoch: int) -> dict[str, str]:
    """Cleared marks of views that are dropped, or guarded no more."""
    marks: Iterable[str] = filter(is_error_mark, positions)
    views = {name.removeprefix(PREFIX): name for name in marks}
    gone = {view: name for view, name in views.items() if view not in catalog.guarded}
    return {name: _nothing(epoch) for view, name in gone.items() if mark_of_errors(positions, view) is not None}
