"""Files that a vacuum of another process has deleted, told from files that are lost.

A merge leaves the runs that it replaces where they are; only ``vacuum`` deletes files. It keeps what the last ``keep``
epochs need as they are stored now, and what snapshots of its own process read. Readers in other processes hold nothing:
one that stays at an old commit while somebody merges and vacuums has to advance to the newest one.
"""

from __future__ import annotations

from contextlib import suppress

from tidemill.model.errors import Corrupt, EpochGone
from tidemill.storage.commits.layout import CommittedState, Layout, recover

__all__ = ["find_vacuumed"]


def find_vacuumed(layout: Layout, now: CommittedState) -> EpochGone | None:
    """The error for a reader at the commit ``now`` whose files were vacuumed; None if nothing explains their absence.

    A file that the newest commit names must be there: without it the warehouse is damaged.
    """
    newest = None
    with suppress(Corrupt, OSError):
        newest = recover(layout)
    if newest is None or newest.state.sequence == now.state.sequence:
        return None
    unnamed = now.state.files() - newest.state.files()
    absent = [file for file in unnamed if not (layout.maps / file).exists()]
    return _epoch_gone(layout, now, newest) if absent else None


def _epoch_gone(layout: Layout, now: CommittedState, newest: CommittedState) -> EpochGone:
    """The error, which says how the reader goes on."""
    stored = newest.state.oldest <= now.epoch
    kept = "is still kept, in other files" if stored else "is no longer kept"
    return EpochGone(
        f"the files of epoch {now.epoch} were vacuumed by another process while this one was reading it",
        where=str(layout.root),
        detail=f"Epoch {now.epoch} {kept}: the warehouse has epochs {newest.state.oldest} to {newest.epoch}. "
        "A vacuum keeps what the last epochs need, by its number, and waits for no reader of another process.",
        hint="Call wh.advance(), which moves to the newest epoch, or open with read_only=True, follow=True. "
        "Let the writer vacuum seldom, and with a keep that covers its readers.",
    )
