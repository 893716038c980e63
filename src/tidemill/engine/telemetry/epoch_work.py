"""The work of one epoch as it is measured: a few numbers for it, and for each view that it reaches.

An epoch of one row takes some sixty microseconds. So these classes have plain attributes with defaults, which are set
where the work is done: no call is made to measure, but for the clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidemill.changes.changeset import ChangeSet
    from tidemill.runtimes.runtime import Runtime

__all__ = ["EpochWork", "MeasuredView", "PendingRefresh", "ViewWork"]

NO_REASONS: Mapping[str, str] = MappingProxyType({})


class PendingRefresh:
    """The sum of small refreshes that the log does not have yet: of one view, or of whole epochs.

    Times are in seconds. ``check``, ``store`` and ``sync`` are those of epochs, ``triggers`` and ``output`` of a view.
    """

    view: str | None = None
    epochs = 0
    last = 0
    rows_in = 0
    rows_out = 0
    bytes = 0
    lookups = 0
    slowest = 0.0
    check = 0.0
    triggers = 0.0
    output = 0.0
    store = 0.0
    sync = 0.0
    strategy = ""
    runtime = ""


class MeasuredView(Protocol):
    """A view as it is placed on a runtime, with what the log does not have yet of its refreshes."""

    runtime: Runtime
    unlogged: PendingRefresh

    @property
    def strategies(self) -> str:
        """The strategies of its stages."""


class ViewWork:
    """The work of an epoch for one view: the seconds of its triggers and of the output of its changed rows.

    ``recomputed`` is the reason if it was computed again, ``filled`` if it was computed for the first time.
    """

    placed: MeasuredView
    rows_in = 0
    rows_out = 0
    rows_stored = 0
    lookups = 0
    triggers = 0.0
    output = 0.0
    recomputed = ""
    filled = ""


class EpochWork:
    """The work of an epoch; ``started`` to ``stored`` are readings of the clock.

    ``rows`` are those that came, ``bytes`` what the store wrote for it. ``owners`` are the views of stages and maps,
    ``ways`` the reasons for runtimes that were chosen for this epoch, and ``refreshed`` deferred views that caught up.
    """

    views: dict[str, ViewWork]
    owners: Mapping[str, str]
    changes: Mapping[str, ChangeSet]
    ways = NO_REASONS
    refreshed: Collection[str] = ()
    is_epoch = True
    """False if a view was filled, which has no epoch of its own."""
    number = 0
    rows = 0
    bytes = 0
    started = 0.0
    checked = 0.0
    propagated = 0.0
    stored = 0.0
