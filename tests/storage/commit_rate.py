"""How many epochs a second a store takes: ``python -m tests.storage.commit_rate [FOLDER]``.

Every epoch changes three maps by one row each. ``together`` lets eight threads wait for one sync.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.storage.samples import change, totals
from tidemill.changes.changeset import Epoch
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore

EPOCHS = 5000


def epoch(number: int) -> Epoch:
    """A single-row change of a table, its view and the view's sums."""
    rows = [((number, "ann"), 1)]
    return Epoch(number, {"t": change(rows), "v": change(rows), "v/1": totals(("ann", 1, 1, 0.5))})


def alone(store: FolderStore | MemoryStore) -> None:
    """One caller after the other."""
    for number in range(1, EPOCHS + 1):
        store.commit(epoch(number))


def together(store: FolderStore) -> None:
    """Eight callers at once."""
    turn = threading.Lock()

    def work() -> None:
        for _ in range(EPOCHS // 8):
            with turn:
                durable = store.append(epoch(store.epoch + 1))
            durable()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def rate(work: Callable[[], None]) -> float:
    """Epochs a second."""
    begin = time.perf_counter()
    work()
    return EPOCHS / (time.perf_counter() - begin)


def main(root: Path) -> None:
    """Measure and print."""
    print(f"memory                  {rate(lambda: alone(MemoryStore())):10,.0f} epochs/s")
    for durability in ("epoch", "checkpoint"):
        with FolderStore.open(root / durability, durability=durability) as store:
            print(f"durability {durability:12} {rate(lambda: alone(store)):10,.0f} epochs/s")
    with FolderStore.open(root / "together") as store:
        print(f"eight callers together  {rate(lambda: together(store)):10,.0f} epochs/s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        main(Path(folder))
