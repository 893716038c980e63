"""A writer that works through a fixed life of a warehouse, for the crash tests to cut short.

Run as ``python -m tests.storage.crashing FOLDER LAST``: continues from where the folder stands up to epoch LAST, and
prints each epoch once its commit has returned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.storage.samples import PEOPLE, TOTALS, change, totals
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import ZSet
from tidemill.storage.folder_store import FolderStore

LAST = 24
CHECKPOINT, REPLACE, COMPACT, VACUUM = 4, 10, 6, 9
"""Each comes in epochs that are a multiple of these."""


def epoch_of(number: int) -> Epoch:
    """Epoch ``number``: a row comes, an older one goes, a sum moves; some epochs replace the map or the catalog."""
    pairs = [((number, "x"), 1), *([((number - 3, "x"), -1)] if number > 3 else [])]
    if number % REPLACE == 0:
        pairs = list(people_at(number).items())
    return Epoch(
        number,
        {"people": change(pairs), "totals": totals(("all", 1, number, 0.5))},
        positions={"source": str(number)},
        catalog={"epoch": number} if number % CHECKPOINT == 0 else None,
        replaced=("people",) if number % REPLACE == 0 else (),
    )


def people_at(number: int) -> ZSet:
    """The rows of ``people`` at an epoch."""
    return ZSet({(n, "x"): 1 for n in range(max(1, number - 2), number + 1)})


def say(number: int) -> None:
    print(number, flush=True)


def live(store: FolderStore, last: int, acknowledge: Callable[[int], None] = say) -> None:
    """Go on with the life up to epoch ``last``; ``acknowledge`` is told each epoch whose commit has returned."""
    for number in range(store.epoch + 1, last + 1):
        store.commit(epoch_of(number))
        acknowledge(number)
        if number % COMPACT == 0:
            store.checkpoint()
            store.compact({"people": PEOPLE, "totals": TOTALS})
        if number % VACUUM == 0:
            store.vacuum(keep=2)


if __name__ == "__main__":
    with FolderStore.open(sys.argv[1]) as opened:
        live(opened, int(sys.argv[2]))
