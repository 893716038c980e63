"""A small engine for tests: one view on the native runtime, epoch by epoch, over a store in memory."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

from tests.written_stages import compile_stage
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.stages import Program
from tidemill.runtimes.native import runtime
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.native.state.state_reader import column_snapshots
from tidemill.storage.memory_store import MemoryStore


class Harness:
    """Runs ``program`` over ``tables`` as the engine would: check, fire, absorb, emit, commit.

    With ``elsewhere`` all that is stored stays in a base, of maps as of relations, as on Spark what is large does.
    """

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, Table],
        store: MemoryStore | None = None,
        *,
        elsewhere: bool = False,
        backend: str | None = None,
    ) -> None:
        self.program = program
        self.tables = tables
        self.store = store or MemoryStore()
        snapshot_of, resident = (column_snapshots(self.store), 0) if elsewhere else (None, None)
        self.runtime = NativeRuntime(self.store, self.fields_of, snapshot_of, resident, backend)
        with patch.object(runtime, "compile_stage", compile_stage):
            for stage in program.stages:
                self.runtime.install(stage)

    def fields_of(self, name: str) -> tuple[Field, ...]:
        outputs = {stage.name: stage.output for stage in self.program.stages}
        return outputs[name] if name in outputs else self.tables[name].fields

    def seed(self, contents: Mapping[str, ZSet]) -> None:
        """Put rows into the store before the view is made."""
        changes = {name: ChangeSet.of(rows.items(), self.fields_of(name)) for name, rows in contents.items()}
        self.store.commit(Epoch(self.store.epoch + 1, changes))

    def load(self) -> ZSet:
        """Fill the view; returns its rows."""
        self.runtime.begin(self.store.epoch)
        stored: dict[str, ChangeSet] = {}
        for stage in self.program.stages:
            stored[stage.name] = self.runtime.load(stage)
            self.runtime.absorb(stage.name, stored[stage.name])
        self._commit(self.store.epoch, stored)
        return stored[self.program.view].zset()

    def apply(self, changes: Mapping[str, ZSet]) -> ZSet:
        """One epoch; returns the change of the view."""
        stored = self.run(changes)
        self._commit(self.store.epoch + 1, stored)
        return stored[self.program.view].zset() if self.program.view in stored else ZSet()

    def run(self, changes: Mapping[str, ZSet]) -> dict[str, ChangeSet]:
        """An epoch up to its commit; an error rolls it back."""
        self.runtime.begin(self.store.epoch + 1)
        try:
            return self._run({name: ChangeSet.of(c.items(), self.fields_of(name)) for name, c in changes.items()})
        except Exception:
            self.runtime.rollback()
            raise

    def _run(self, changes: dict[str, ChangeSet]) -> dict[str, ChangeSet]:
        done: dict[str, ChangeSet] = {}
        fired: set[str] = set()
        checked = {n: self.runtime.check(self.tables[n], c) if self.tables[n].kept else c for n, c in changes.items()}
        for name, change in checked.items():
            self._handle(name, change, fired, done)
        for stage in self.program.stages:
            if stage.name in fired:
                self._handle(stage.name, self.runtime.emit(stage), fired, done)
        return done

    def _handle(self, name: str, change: ChangeSet, fired: set[str], done: dict[str, ChangeSet]) -> None:
        done[name] = change
        for stage in self.program.stages:
            if name in stage.inputs:
                self.runtime.fire(stage, name, change)
                fired.add(stage.name)
        self.runtime.absorb(name, change)

    def _commit(self, epoch: int, stored: Mapping[str, ChangeSet]) -> None:
        maps = self.runtime.commit()
        kept = {name: c for name, c in stored.items() if name not in self.tables or self.tables[name].kept}
        self.store.commit(Epoch(epoch, {**kept, **maps}))
