"""Notes for readers: a view that is in quarantine, or reads one that is, says so whenever it is read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.view import View
from tidemill.engine.quarantine.marks import mark_of_errors

__all__ = ["QuarantineWarning", "quarantine_note", "quarantine_notes", "warn_readers"]


class QuarantineWarning(UserWarning):
    """A view was read that does not show all changes of its tables, because some rows cannot be computed."""


def quarantine_note(catalog: Catalog, positions: Mapping[str, str], view: View) -> str:
    """The rows that a view leaves out, and why, in words; empty if it shows everything that others show."""
    if not catalog.guarded:
        return ""
    own = _own_note(positions, view)
    above = [name for name in catalog.ancestors(view) if name in catalog.guarded]
    stale = [name for name in sorted(above) if mark_of_errors(positions, name) is not None]
    read = f'view "{view.name}" reads {", ".join(stale)}, in quarantine: SELECT * FROM {"".join(stale[:1])}{ERRORS}'
    return "; ".join(note for note in (own, read if stale else "") if note)


def _own_note(positions: Mapping[str, str], view: View) -> str:
    mark = mark_of_errors(positions, view.name)
    if mark is None:
        return ""
    rows = f"{mark.rows} row{'s' if mark.rows != 1 else ''}"
    what = f"it shows epoch {view.fresh}, for {rows}" if view.stopped else f"it is without {rows}"
    why = "cannot be computed" if view.stopped else "that cannot be computed, or wait for such rows"
    since = f'view "{view.name}" is in quarantine since epoch {mark.since}'
    return f"{since}: {what} {why}: SELECT * FROM {view.name}{ERRORS}"


def quarantine_notes(catalog: Catalog, positions: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """The notes of those of ``names`` that are views with something to say."""
    if not catalog.guarded:
        return ()
    views = (catalog.views[name] for name in names if name in catalog.views)
    return tuple(note for view in views if (note := quarantine_note(catalog, positions, view)))


def warn_readers(notes: Iterable[str]) -> None:
    """Warn whoever reads views with these notes."""
    for note in notes:
        warnings.warn(note, QuarantineWarning, stacklevel=4)
