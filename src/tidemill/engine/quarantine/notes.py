"""Notes for readers: a view that is in quarantine, or reads one that is, says so whenever it is read.

Whatever reads rows for somebody goes through ``engine.access.allowed_reads``, or tells by itself with ``tell_reader``:
a warning, or for those who listen (``hearing``) notes that go with the rows, as in a ``Result`` or over the network.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.views.view import View
from tidemill.engine.quarantine.marks import ErrorMark, ErrorMarks

__all__ = ["QuarantineWarning", "hearing", "noted", "quarantine_note", "quarantine_notes", "tell_reader"]


class QuarantineWarning(UserWarning):
    """A view was read that does not show all changes of its tables, because some rows cannot be computed."""


# -- what there is to say ---------------------------------------------------------------------------------------------


def quarantine_note(catalog: Catalog, marks: ErrorMarks, view: View, until: int | None = None) -> str:
    """The rows that a view leaves out, now or as of an epoch, in words; empty if it shows everything that others show.

    This is where it is decided; ``view`` need not be in the catalog yet.
    """
    own = marks.of(view.name, until)
    stale = sorted(set(_in_quarantine_below(catalog, marks, view, until)))
    notes = [] if own is None else [_own_note(view, own, until)]
    if stale:
        listed = _listed(stale[0], _epoch_seen(view, until))
        notes.append(f'view "{view.name}" reads {", ".join(stale)}, in quarantine{_at(until)}{listed}')
    return "; ".join(notes)


def _in_quarantine_below(catalog: Catalog, marks: ErrorMarks, view: View, until: int | None) -> Iterator[str]:
    """The views in quarantine that a view reads, directly or not, as of the epoch of them that it shows."""
    seen = _epoch_seen(view, until)
    for name in view.inputs:
        below = catalog.views.get(name)
        if below is not None:
            yield from [name] if marks.of(name, seen) is not None else ()
            yield from _in_quarantine_below(catalog, marks, below, seen)


def _epoch_seen(view: View, until: int | None) -> int | None:
    """The epoch of its inputs that a view shows; None is the present."""
    return view.fresh if view.refresh.deferred and (until is None or view.fresh < until) else until


def _own_note(view: View, mark: ErrorMark, until: int | None) -> str:
    rows = f"{mark.rows} row{'s' if mark.rows != 1 else ''}"
    what = f"it shows epoch {mark.shown}, for {rows}" if mark.stopped else f"it is without {rows}"
    why = "cannot be computed" if mark.stopped else "that cannot be computed, or wait for such rows"
    since = f'view "{view.name}" is in quarantine since epoch {mark.since}{_at(until)}'
    return f"{since}: {what} {why}{_listed(view.name, until)}"


def _at(until: int | None) -> str:
    return "" if until is None else f", as of epoch {until}"


def _listed(view: str, until: int | None) -> str:
    """The query for the rows."""
    version = "" if until is None else f" VERSION AS OF {until}"
    return f": SELECT * FROM {view}{ERRORS}{version}"


def quarantine_notes(
    catalog: Catalog, marks: ErrorMarks, names: Iterable[str], until: int | None = None
) -> tuple[str, ...]:
    """The notes of those of ``names`` that are views with something to say."""
    if until is None and not catalog.guarded:
        return ()
    views = (catalog.views[name] for name in names if name in catalog.views)
    return tuple(note for view in views if (note := quarantine_note(catalog, marks, view, until)))


# -- saying it --------------------------------------------------------------------------------------------------------

Notes = dict[str, None]
"""Notes in the order in which they came, each once."""

_LISTENING: ContextVar[Notes | None] = ContextVar("listening", default=None)


@contextmanager
def hearing() -> Iterator[Notes]:
    """Context in which what this thread reads gives notes instead of warnings."""
    notes: Notes = {}
    before = _LISTENING.set(notes)
    try:
        yield notes
    finally:
        _LISTENING.reset(before)


class HasNotes(Protocol):
    """A result that has notes."""

    notes: tuple[str, ...]


R = TypeVar("R", bound=HasNotes)


def noted(run: Callable[[], R]) -> R:
    """The result of ``run``, with the notes of all that it has read."""
    with hearing() as notes:
        result = run()
    result.notes += tuple(notes)
    tell_reader(notes)
    return result


def tell_reader(notes: Iterable[str]) -> None:
    """Tell whoever reads views with these notes: who listens, or else by warnings where Tidemill was called."""
    listening = _LISTENING.get()
    for note in notes:
        if listening is not None:
            listening[note] = None
        else:
            warnings.warn(note, QuarantineWarning, stacklevel=_depth_of_caller())


OURS = {"tidemill", "contextlib"}
"""The packages through which a call of Tidemill goes."""


def _depth_of_caller() -> int:
    """The number of frames from ``tell_reader`` to the code that has called Tidemill."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame, depth = frame.f_back, depth + 1
    return depth
