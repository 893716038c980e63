"""Initial load: views computed from the full contents of their inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet, Epoch, merge_changes
from tidemill.compiler.choose import filling_work
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.shared_stages import with_shared_stages
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.isolation import isolating
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import ArithmeticFault, Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.reads import compared_relations
from tidemill.program.renaming import renamed
from tidemill.program.stages import Stage
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.runtime import FilledStage, Runtime
from tidemill.storage.compaction.consolidate import consolidate

__all__ = ["ViewFiller", "cannot_replace", "errors_that_end"]

NO_CHANGES: Mapping[str, ChangeSet] = MappingProxyType({})


class ViewFiller:
    """Fills views of a warehouse; ``contents`` reads a table or view."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, contents: Callable[[str], ChangeSet]) -> None:
        self._state = state
        self._epochs = epochs
        self._contents = contents

    def retained_rows(self, view: View) -> dict[str, ChangeSet]:
        """The rows of those inputs of a view that have retention, or are in the lake; empty if none has any rows."""
        catalog = self._state.catalog
        named = [*catalog.inputs_with_retention(view), *filter(catalog.is_in_lake, view.inputs)]
        rows = {name: self._contents(name) for name in named}
        return rows if any(map(len, rows.values())) else {}

    def fill(
        self,
        view: View,
        pending: Mapping[str, ChangeSet] = NO_CHANGES,
        *,
        rebuilt: bool = False,
        number: int | None = None,
        left: Mapping[str, ChangeSet] = NO_CHANGES,
        dropped: tuple[str, ...] = (),
        ends: bool = True,
    ) -> None:
        """Compute a view from its full inputs; ``pending`` are the retained rows of inputs with retention.

        Its rows belong to the current epoch unless a ``number`` is given. ``left``, the shared stages that the maps
        ``dropped`` hand over to other views, are committed with them. Without ``ends`` the transaction stays open.
        """
        state = self._state
        number = state.store.epoch if number is None else number
        work, started = sum(state.store.rows(name) for name in view.inputs), time.perf_counter()
        hidden = state.quarantine.hidden(view.name)
        try:
            stored = self._epochs.within_budget(lambda: self._load(view, number, work, bool(pending), hidden))
        except ArithmeticFault:
            # Everything that it reads comes as one change, of which faulty groups are held back.
            guards = {} if pending or hidden else state.quarantine.guards(view)
            if not guards:
                raise
            pending = {name: state.quarantine.since(name, None) for name in guards}
            stored = self._epochs.within_budget(lambda: self._load(view, number, work, True, pending))
        in_store = bool(pending) and self._is_read_back(view, stored)
        if in_store:
            _require_not_replacing(view, dropped)
        view = view if view.stopped else replace(view, fresh=number)
        replaced = view.map_names if rebuilt else ()
        if rebuilt and view.computed_on_read:
            # Its log ends here, and maps of another layout cannot be read as of an earlier epoch.
            view, replaced, dropped = replace(view, created=number), (), replaced
        if in_store:
            # The view is in the catalog only once all of it is there.
            self._epochs.commit(Epoch(number, stored, replaced=replaced, dropped=dropped), ends=False)()
            stored, replaced, dropped = {}, (), ()
        stored = {**left, **merge_changes(stored, self._replay(view, pending, number, work))}
        state.catalog.update_view(view)
        catalog = catalog_to_json(state.catalog)
        epoch = Epoch(number, stored, catalog=catalog, replaced=replaced, dropped=dropped)
        self._epochs.filled(view.name, started, work, stored, "rebuilt" if rebuilt else "created")
        self._epochs.commit(epoch, refreshed=(view.name,), ends=ends)()

    def rebuild(self, outdated: Sequence[View]) -> list[str]:
        """Compute views anew whose stored state belongs to another program; the transaction stays open."""
        for view in outdated:
            self.fill(view, self._stored_rows(view), rebuilt=True, ends=False)
        return [view.name for view in outdated]

    def _stored_rows(self, view: View) -> dict[str, ChangeSet]:
        """The rows of those inputs of a view that have retention, as they are stored; empty if none has any."""
        read = self._state.quarantine.since
        changes = {name: read(name, None) for name in self._state.catalog.inputs_with_retention(view)}
        rows = {name: ChangeSet.of(change.zset().items(), change.fields) for name, change in changes.items()}
        return rows if any(map(len, rows.values())) else {}

    def _is_read_back(self, view: View, stored: Mapping[str, ChangeSet]) -> bool:
        """True if the changes that follow read some of what was loaded from the store: all state of a view on Spark or
        with shared stages, for which it is placed again, and else the rows of stages before the last."""
        placed = self._state.pipeline[view.name]
        inner = stored if view.shares else [stage.name for stage in placed.program.stages[:-1]]
        return placed.runtime.loads_to_store or any(len(stored.get(name, ())) for name in inner)

    def fill_replanned(self, view: View, old: View) -> None:
        """Compute the maps of a view that has a new program for the same rows, and commit them with the catalog.

        The rows of the view stay as they are stored: readers, subscribers and the history notice nothing. The
        transaction stays open until the caller has loaded what is stored.
        """
        state = self._state
        state.catalog.update_view(view)
        work, started = sum(map(state.store.rows, view.inputs)), time.perf_counter()
        stored = self._load(view, state.store.epoch, work, False, state.quarantine.hidden(view.name))
        stored.pop(view.name, None)
        before, after = (set(one.map_names) - {view.name} for one in (old, view))
        epoch = Epoch(
            state.store.epoch,
            stored,
            catalog=catalog_to_json(state.catalog),
            dropped=(*sorted(before - after), *errors_that_end(old, view)),
            replaced=tuple(sorted(before & after)),
        )
        self._epochs.filled(view.name, started, work, stored, "planned anew: maps computed again")
        self._epochs.commit(epoch, refreshed=(view.name,), ends=False)()

    def load_beside(self, view: View, number: int) -> dict[str, ChangeSet]:
        """The contents that the maps of a view have to begin with, by name, while another one of its name is there.

        It is computed under a name of its own, of which nothing is left.
        """
        state = self._state
        beside = f"{view.name}_beside"
        while beside in state.catalog or beside in state.catalog.named.queries:
            beside += "_"
        program = renamed(view.full_program, {view.name: beside})
        alone = replace(view, name=beside, program=program, whole=None, shares={})
        state.catalog.add(alone)
        work = sum(map(state.store.rows, view.inputs))
        stored = self._epochs.within_budget(lambda: self._load(alone, number, work, continues=False))
        state.catalog.drop(beside)
        state.pipeline.remove(beside)
        for name in alone.map_names:
            state.placement.forget_relation(name)
        return {renamed(name, {beside: view.name}): change for name, change in stored.items()}

    def _load(
        self, view: View, number: int, work: int, continues: bool, hidden: Mapping[str, ChangeSet] = NO_CHANGES
    ) -> dict[str, ChangeSet]:
        """The contents of a view's maps, loaded from the full contents of its inputs without what is ``hidden``.

        If the epoch ``continues`` with changes, they need what the runtime has loaded.
        """
        if not view.shares:
            return self._load_placed(view.name, number, work, continues, hidden)
        if view.name in view.shares:
            loaded = self._copied(view)
        else:
            # The rows of shared stages may not be stored, so it is loaded with all stages of its own.
            self._state.catalog.update_view(with_shared_stages(view, {}))
            loaded = self._load_placed(view.name, number, work, continues)
        self._state.catalog.update_view(view)
        self._state.place(view)
        return {name: rows for name, rows in loaded.items() if name in view.map_names}

    def stored_rows(self, view: View, source: str = "") -> ChangeSet:
        """The rows of a view in columns, summed, as they are stored under its name or another."""
        store, name = self._state.store, source or view.name
        rows = store.read(name, view.fields)
        summed = consolidate(rows, Map(name, view.fields), store.epoch, whole=True) if rows.num_rows else ()
        names = [*(f.name for f in view.fields), WEIGHT]
        table = pa.concat_tables([rows.schema.empty_table(), *(part for part, *_ in summed)]).select(names)
        return ChangeSet.of_arrow(table, view.fields)

    def _copied(self, view: View) -> dict[str, ChangeSet]:
        """The rows of a view that has those of another, as that one stores them."""
        rows = self.stored_rows(view, view.shares[view.name])
        return {view.name: rows} if rows.rows else {}

    def _load_placed(
        self, view: str, number: int, work: int, continues: bool, hidden: Mapping[str, ChangeSet] = NO_CHANGES
    ) -> dict[str, ChangeSet]:
        """The contents of all maps of a view as it is placed."""
        stored: dict[str, ChangeSet] = {}
        with garbage_collection_paused(), self._epochs.running(number, work) as runtimes:
            pipeline = self._state.pipeline
            placed = pipeline[view]
            loaded: dict[str, ChangeSet] = {}
            _absorb(runtimes, {name: change.negated() for name, change in hidden.items()})
            for stage in placed.program.stages:
                filled = None if continues or hidden else self._fill_in_columns(placed, stage, work, loaded)
                rows = placed.runtime.load(stage) if filled is None else filled.rows
                stored.update({} if filled is None else filled.maps)
                if stage.reader is not None:
                    continue
                loaded[stage.name] = rows
                for runtime in runtimes:
                    runtime.absorb(stage.name, rows)
                # Other runtimes may hold rows of an older version of the view.
                for runtime in self._state.placement.started:
                    if runtime is not placed.runtime:
                        runtime.forget(stage.name)
                if pipeline.stored(stage.name):
                    stored[stage.name] = rows
            _absorb(runtimes, hidden)
            for runtime in runtimes:
                stored.update(runtime.commit())
        return stored

    def _fill_in_columns(
        self, placed: PlacedProgram, stage: Stage, work: int, loaded: Mapping[str, ChangeSet]
    ) -> FilledStage | None:
        """A stage filled in columns; ``loaded`` has the rows of earlier stages, which are not stored yet."""

        def read(name: str, fields: Sequence[Field]) -> pa.Table:
            if name in loaded:
                return loaded[name].arrow()
            return self._state.store.read(name, fields)

        def size(name: str) -> int:
            return loaded[name].rows if name in loaded else self._state.store.rows(name)

        pairs = max((prod(map(size, names)) for names in compared_relations(stage) if len(names) > 1), default=0)
        return self._state.placement.fill_in_columns(placed.runtime, stage, filling_work(work, pairs), read)

    def _replay(self, view: View, pending: Mapping[str, ChangeSet], number: int, work: int) -> dict[str, ChangeSet]:
        """The changes that a new view stores for ``pending``, the ``retained_rows``.

        It cannot load them, since it reads these inputs as streams. As for a deferred view, the inputs are rewound to
        before these rows, which are then propagated as changes.
        """
        if not pending:
            return {}
        ordered = self._state.catalog.in_order(pending)

        def run(in_turn: bool) -> dict[str, ChangeSet]:
            # What was loaded is not in the store yet.
            with garbage_collection_paused(), self._epochs.running(number, work, stored=False) as runtimes:
                _absorb(runtimes, {name: rows.negated() for name, rows in pending.items()})
                walk = self._state.pipeline.walk(ordered, runtimes, only=frozenset({view.name}), in_turn=in_turn)
                return self._epochs.collect(walk, runtimes)

        if not view.quarantines:
            return run(False)
        with isolating(self._state, self._epochs, number) as isolation:
            return isolation.run(run)


def errors_that_end(old: View, new: View) -> tuple[str, ...]:
    """The table of errors of a view that sets rows aside no more, if it did so."""
    return (old.name + ERRORS,) if old.quarantines and not new.quarantines else ()


def _absorb(runtimes: Sequence[Runtime], changes: Mapping[str, ChangeSet]) -> None:
    """Show changes of relations to runtimes, in an epoch that runs."""
    for name, change in changes.items():
        for runtime in runtimes:
            runtime.absorb(name, change)


def _require_not_replacing(view: View, replaced: Collection[str]) -> None:
    """Refuse to build a view in several commits if it must replace another in one."""
    if replaced:
        raise cannot_replace(view, "It reads tables whose rows are not all kept, and is built in several steps.")


def cannot_replace(view: View, why: str) -> Unsupported:
    """The error for a view that cannot replace another in one commit."""
    return Unsupported(
        f'"{view.name}" cannot be replaced in one step',
        detail=why,
        hint="Create it under another name, and drop the old one once the new one is there.",
    )
