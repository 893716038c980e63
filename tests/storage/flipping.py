"""A warehouse of every kind of file, and what is read of it once a byte has changed."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.storage.samples import FIELDS, PEOPLE, TOTAL_FIELDS, TOTALS, change, totals
from tidemill.changes.changeset import Epoch
from tidemill.model.errors import Corrupt
from tidemill.storage.folder_store import FolderStore

MAPS = {"people": FIELDS, "totals": TOTAL_FIELDS}
LAST, MERGED, TAKEN_IN = 9, 4, 6
"""The last epoch, the one after which runs are merged, and the last that is not in the log."""

Contents = dict[tuple[str, int], list[str]]


def build(folder: Path) -> None:
    """Make a warehouse in ``folder`` as a killed process leaves it: runs, manifests, a log, the mark and the lock."""
    with FolderStore.open(folder / "living") as store:
        for number in range(1, LAST + 1):
            rows = [((number * 100 + n, f"name {n * 7919 % 1000}"), 1) for n in range(40)]
            gone = [((number * 100 - 100 + n, f"name {n * 7919 % 1000}"), -1) for n in range(10) if number > 1]
            catalog = {"made": number} if number % 3 == 0 and number <= TAKEN_IN else None
            at = {"source": str(number)}
            sums = totals(("all", 1, number, 0.5), (f"of {number}", 1, number, 0.25))
            store.commit(Epoch(number, {"people": change([*rows, *gone]), "totals": sums}, at, catalog))
            if number <= TAKEN_IN:
                store.checkpoint()
            if number == MERGED:
                store.vacuum(keep=2)
                store.compact({"people": PEOPLE, "totals": TOTALS})
                store.vacuum(keep=2)
            if number == LAST - 1:  # as a merge does: a manifest that leaves the log as it is
                store._commits.publish(store._commits.require_writer().substitution(store._now, [], {}))
        shutil.copytree(folder / "living", folder / "left")


def read(folder: Path) -> Contents:
    """All that a reader can be told."""
    with FolderStore.open(folder, read_only=True) as store:
        found: Contents = {("", 0): [str(store.epoch), str(dict(store.positions)), str(store.catalog)]}
        for name, fields in MAPS.items():
            for until in (store.oldest, store.epoch):
                found[name, until] = sorted(map(str, store.read(name, fields, until=until).to_pylist()))
    return found


def go_on(folder: Path, copy: Path) -> Contents:
    """The same after a writer has opened a copy, merged all that it can and left."""
    shutil.copytree(folder, copy)
    try:
        with FolderStore.open(copy) as store:
            store.vacuum(keep=LAST + 1)
            store.compact({"people": PEOPLE, "totals": TOTALS})
        return read(copy)
    finally:
        shutil.rmtree(copy)


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a warehouse, with their kinds."""
    kinds = {".parquet": "run", ".log": "log", ".json": "manifest", "": "mark"}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            special = {"tidemill.json": "format", "lock": "lock"}
            yield special.get(file.name, kinds[file.suffix]), file


def require_all_fields(told: Corrupt, what: str) -> None:
    """The error says which file, what is wrong and what to do."""
    assert all((told.where, told.detail, told.hint)), what


class Campaign:
    """Changes bytes one at a time, and counts what came of it: told, or the same rows; nothing else is allowed."""

    def __init__(self, built: Path, root: Path, seed: int = 17) -> None:
        self.folder = root / "left"
        shutil.copytree(built / "left", self.folder)
        self.copy = root / "copy"
        self.random = random.Random(seed)
        self.expected = read(self.folder)
        self.continued = go_on(self.folder, self.copy)
        self.counts: Counter[tuple[str, str]] = Counter()

    def flip(self, kind: str, file: Path, at: int, *, writing: bool = False) -> None:
        """Change the byte at ``at`` and read everything, or also let a writer go on."""
        before = file.read_bytes()
        content = bytearray(before)
        content[at] ^= self.random.randrange(1, 256)
        self.put(kind, file, bytes(content), before, f"{file.name} at {at}", writing=writing)

    def put(self, kind: str, file: Path, content: bytes, before: bytes, what: str, *, writing: bool = False) -> None:
        """Give a file another content for a while."""
        file.write_bytes(content)
        try:
            found = go_on(self.folder, self.copy) if writing else read(self.folder)
            assert found == (self.continued if writing else self.expected), f"wrong rows: {what}"
            self.counts[kind, "harmless"] += 1
        except Corrupt as told:
            require_all_fields(told, what)
            self.counts[kind, "told"] += 1
        finally:
            file.write_bytes(before)

    def __str__(self) -> str:
        kinds = sorted({kind for kind, _ in self.counts})
        return "\n".join(
            f"{kind:10} {self.counts[kind, 'told']:7,} told {self.counts[kind, 'harmless']:7,} harmless"
            for kind in kinds
        )
