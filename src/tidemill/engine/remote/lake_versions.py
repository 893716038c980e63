"""Versions of lake tables and the epochs that show them.

The version of a lake table is committed with the epoch that took it, so the store remembers which epochs show which
version for as long as time travel reaches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from tidemill.engine.catalog.entries.lake_entry import LakeEntry
from tidemill.model.errors import EpochGone
from tidemill.sources.lake.lake_table import version_shown
from tidemill.storage.store import Store

__all__ = ["VersionSpan", "epoch_of_versions", "version_spans"]

NEAREST = 3
"""Number of versions that the error for one that was never taken names."""


@dataclass(frozen=True)
class VersionSpan:
    """The epochs from ``first`` to ``last``, which show ``version`` of a lake table."""

    version: str
    first: int
    last: int


def version_spans(store: Store, lake: LakeEntry) -> list[VersionSpan]:
    """The versions of a lake table that epochs show as far as time travel reaches, the oldest first."""
    steps = [(epoch, positions.get(lake.position, "")) for epoch, positions in store.history().items()]
    # An empty position is that of a table that was just created: what is before it belongs to another of its name.
    created = max((number for number, (_, position) in enumerate(steps) if not position), default=-1)
    taken = [(epoch, version_shown(position)) for epoch, position in steps[created + 1 :]]
    moved = [one for number, one in enumerate(taken) if number == 0 or one[1] != taken[number - 1][1]]
    spans = [
        VersionSpan(str(version), max(first, store.oldest), after - 1)
        for (first, version), (after, _) in pairwise([*moved, (store.epoch + 1, None)])
    ]
    return [span for span in spans if span.first <= span.last]


def epoch_of_versions(store: Store, wanted: Sequence[tuple[LakeEntry, str]]) -> int:
    """The first epoch that shows these versions together; if that came about several times, the last time."""
    choices = [_spans_of(store, lake, version) for lake, version in wanted]
    shared = [(max(one.first for one in spans), min(one.last for one in spans)) for spans in product(*choices)]
    epochs = [first for first, last in shared if first <= last]
    if epochs:
        return max(epochs)
    shown = [f"{lake.name} {_said(spans)}" for (lake, _), spans in zip(wanted, choices, strict=True)]
    raise EpochGone(
        "no epoch shows these versions together",
        detail=f"They are shown by {'; '.join(shown)}.",
        hint="DESCRIBE HISTORY name lists the versions of a lake table with their epochs.",
    )


def _spans_of(store: Store, lake: LakeEntry, version: str) -> list[VersionSpan]:
    spans = version_spans(store, lake)
    found = [span for span in spans if span.version == version]
    if not found:
        raise EpochGone(
            f'version {version} of lake table "{lake.name}" was never taken, or its epochs are gone',
            detail=f"The nearest are {_nearest(spans, version)}." if spans else "None was taken.",
            hint=f"DESCRIBE HISTORY {lake.name} lists them all.",
        )
    return found


def _nearest(spans: Sequence[VersionSpan], version: str) -> str:
    """The versions of the nearest numbers; the last ones where versions have no order."""
    numbered = version.isdecimal() and all(span.version.isdecimal() for span in spans)
    near = sorted(spans, key=lambda span: abs(int(span.version) - int(version))) if numbered else spans[::-1]
    shown = sorted(near[:NEAREST], key=lambda span: span.first)
    return ", ".join(f"{span.version} {_said([span])}" for span in shown)


def _said(spans: Sequence[VersionSpan]) -> str:
    return "at " + ", ".join(
        f"epoch {span.first}" if span.first == span.last else f"epochs {span.first} to {span.last}" for span in spans
    )
