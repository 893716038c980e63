"""Marks of views in quarantine: how many of their errors are stored, among the positions, with the same commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.changes.changeset import Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.errors_table import ERRORS

__all__ = ["ErrorMark", "error_marks", "is_error_mark", "mark_of_errors"]

PREFIX = "errors:"
"""Prefix of the position that stores the mark of a view, followed by the name of the view."""


@dataclass(frozen=True)
class ErrorMark:
    """The number of ``rows`` that a view does not show ``since`` an epoch; ``changed`` is when it last changed.

    >>> ErrorMark.read(str(ErrorMark(3, 7, 2)))
    ErrorMark(since=3, changed=7, rows=2)
    """

    since: int
    changed: int
    rows: int

    def __str__(self) -> str:
        return f"{self.since} {self.changed} {self.rows}"

    @classmethod
    def read(cls, text: str) -> ErrorMark | None:
        """Parse a mark; None if ``text`` is empty."""
        return cls(*map(int, text.split())) if text else None


def is_error_mark(position: str) -> bool:
    """True if a position is such a mark rather than the position of a source."""
    return position.startswith(PREFIX)


def mark_of_errors(positions: Mapping[str, str], view: str) -> ErrorMark | None:
    """The mark of a view; None if it is not in quarantine."""
    return ErrorMark.read(positions.get(PREFIX + view, ""))


def error_marks(catalog: Catalog, positions: Mapping[str, str], epoch: Epoch) -> dict[str, str]:
    """The marks that an epoch changes: of views whose table of errors changes, and of those that are gone."""
    found = {} if epoch.catalog is None else _ended(catalog, positions)
    for view in catalog.guarded:
        change, dropped = epoch.changes.get(view + ERRORS), view + ERRORS in epoch.dropped
        before = None if dropped else mark_of_errors(positions, view)
        if dropped and positions.get(PREFIX + view):
            found[PREFIX + view] = ""
        if change is None or not change.rows:
            continue
        rows = (0 if before is None else before.rows) + sum(change.zset().values())
        since = epoch.number if before is None else before.since
        found[PREFIX + view] = str(ErrorMark(since, epoch.number, rows)) if rows else ""
    return found


def _ended(catalog: Catalog, positions: Mapping[str, str]) -> dict[str, str]:
    """Cleared marks of views that are dropped, or guarded no more."""
    marks: Iterable[str] = filter(is_error_mark, positions)
    return {name: "" for name in marks if name.removeprefix(PREFIX) not in catalog.guarded and positions[name]}
