"""Random lives of a store, checked against a dictionary: commits, compactions, vacuums, pins, crashes, reopenings."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.storage.samples import PEOPLE, change, contents, feed
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import ZSet
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.snapshot import StoreSnapshot

NAMES = ("people", "../people", "v/1")
ROWS = st.tuples(st.integers(0, 4), st.sampled_from(["x", None]))
PAIRS = st.lists(st.tuples(ROWS, st.sampled_from([-1, 1])), max_size=4)
Changes = dict[str, list[tuple[tuple[object, ...], int]]]
CHANGES = st.dictionaries(st.sampled_from(NAMES), PAIRS)


class Life(RuleBasedStateMachine):
    """The model keeps the contents of every map at every epoch, as last committed for it."""

    store: FolderStore | MemoryStore

    @initialize(on_disk=st.booleans())
    def begin(self, on_disk: bool) -> None:
        self.folder = Path(tempfile.mkdtemp()) if on_disk else None
        self.store = FolderStore.open(self.folder) if self.folder else MemoryStore()
        self.past: dict[int, dict[str, ZSet]] = {0: {}}
        self.oldest = 0
        self.pinned: list[tuple[StoreSnapshot, dict[int, dict[str, ZSet]], int]] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            if self.folder:
                shutil.rmtree(self.folder)

    @property
    def epoch(self) -> int:
        return max(self.past)

    def take(self, number: int, changes: Changes, emptied: set[str]) -> None:
        maps = {name: rows for name, rows in self.past[self.epoch].items() if name not in emptied}
        for name, pairs in changes.items():
            maps[name] = maps.get(name, ZSet()) + ZSet.summed(pairs)
        self.past[number] = maps

    @rule(changes=CHANGES, skipped=st.integers(0, 1))
    def commit(self, changes: Changes, skipped: int) -> None:
        number = self.epoch + 1 + skipped
        self.store.commit(Epoch(number, {name: change(pairs) for name, pairs in changes.items()}))
        if skipped:
            self.past[number - 1] = dict(self.past[self.epoch])
        self.take(number, changes, set())

    @rule(changes=CHANGES, replaced=st.sets(st.sampled_from(NAMES)), advance=st.booleans())
    def replace(self, changes: Changes, replaced: set[str], advance: bool) -> None:
        number = self.epoch + advance
        epoch = Epoch(number, {n: change(p) for n, p in changes.items()}, catalog={}, replaced=tuple(replaced))
        self.store.commit(epoch)
        self.take(number, changes, replaced)

    @rule(name=st.sampled_from(NAMES))
    def drop(self, name: str) -> None:
        self.store.commit(Epoch(self.epoch, dropped=(name,)))
        for maps in self.past.values():
            maps.pop(name, None)

    @rule()
    def compact(self) -> None:
        self.store.compact(dict.fromkeys(NAMES, PEOPLE))

    @rule(keep=st.integers(1, 4))
    def vacuum(self, keep: int) -> None:
        self.store.vacuum(keep)
        self.oldest = max(self.oldest, self.epoch - keep + 1)

    @precondition(lambda self: self.folder is not None)
    @rule()
    def checkpoint(self) -> None:
        assert isinstance(self.store, FolderStore)
        self.store.checkpoint()

    @precondition(lambda self: self.folder is not None)
    @rule(crash=st.booleans())
    def reopen(self, crash: bool) -> None:
        """A process that ends without closing leaves its log; the lock goes with its file handle."""
        assert isinstance(self.store, FolderStore)
        assert self.folder is not None
        self.pinned.clear()
        if crash:
            self.store._commits.require_writer().close()
        else:
            self.store.close()
        self.store = FolderStore.open(self.folder)

    @rule()
    def pin(self) -> None:
        past = {epoch: {name: ZSet(rows) for name, rows in maps.items()} for epoch, maps in self.past.items()}
        self.pinned.append((self.store.pin(), past, self.oldest))

    @rule()
    def unpin(self) -> None:
        if self.pinned:
            self.pinned.pop(0)[0].close()

    @invariant()
    def every_epoch_reads_as_it_was(self) -> None:
        if not hasattr(self, "store"):
            return
        assert (self.store.epoch, self.store.oldest) == (self.epoch, self.oldest)
        for epoch in range(self.oldest, self.epoch + 1):
            for name in NAMES:
                assert contents(self.store, name, until=epoch) == self.past[epoch].get(name, ZSet())

    @invariant()
    def the_feed_leads_to_the_present(self) -> None:
        if not hasattr(self, "store"):
            return
        for name in NAMES:
            rows = contents(self.store, name, until=self.oldest)
            for step in feed(self.store, self.oldest, name).values():
                rows = rows + step
            assert rows == contents(self.store, name)

    @invariant()
    def snapshots_stay(self) -> None:
        for snapshot, past, oldest in getattr(self, "pinned", ()):
            for epoch in (oldest, snapshot.epoch):
                for name in NAMES:
                    assert contents(snapshot, name, until=epoch) == past[epoch].get(name, ZSet())


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=30)
