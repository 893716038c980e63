"""The state of the native runtime: read from the store when it is first used, then maintained."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import pyarrow as pa

from tidemill.algebra.relational.match import Match
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import arrow_schema, from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import WeightedRow, ZSet
from tidemill.model.types import DOUBLE, Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.maps import map_fields
from tidemill.program.reads import looked_up, sources_of
from tidemill.program.stages import PartitionEmission, Stage
from tidemill.program.statements import RelationLoop, Version
from tidemill.runtimes.integrity import require_countable
from tidemill.runtimes.native.missed_epochs import COLUMN_ROWS, MissedEpochs, in_epoch_order, is_cheaper_to_add
from tidemill.runtimes.native.python.compile import CompiledStage
from tidemill.runtimes.native.state.journaled_map import JournaledMap
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.snapshot import ColumnPositions, ColumnSnapshot
from tidemill.runtimes.native.state.stage_maps import StageMaps
from tidemill.runtimes.native.state.state_reader import SnapshotOf, StateReader
from tidemill.runtimes.native.state_room import ReleasableState, StateRoom, column_bytes, dictionary_bytes
from tidemill.storage.store import ReadableStore

NO_MAPS = StageMaps({})
"""The maps of a stage that has none in memory."""

RESIDENT_ROWS = 200_000
"""Stored rows above which a relation or map stays in a ``RelationSnapshot``: only touched rows become tuples."""

OVERLAY_ROWS = 500_000
"""Rows in the overlay of a large relation at which it starts again from a new snapshot."""

MAX_SNAPSHOT_PARTS = 8
"""Number of extensions after which a snapshot is taken again: each fetch queries all of its parts."""


class RuntimeState:
    """Contents of relations and maps of stages. What is not in memory is in the store, as of the last epoch.

    Rows and entries are first looked up in the store, and read as a whole once there have been many lookups. If
    snapshots are ``elsewhere``, large maps stay there if triggers look entries up by keys. Otherwise the maps that
    triggers read are then entirely in memory.
    """

    def __init__(
        self,
        store: ReadableStore,
        fields_of: Callable[[str], tuple[Field, ...]],
        snapshot_of: SnapshotOf,
        resident: int,
        room: StateRoom,
        *,
        elsewhere: bool = False,
    ) -> None:
        self._store = store
        self._fields_of = fields_of
        self._room = room
        self._reader = StateReader(store, snapshot_of, resident, room, elsewhere=elsewhere)
        self._resident = resident
        self._elsewhere = elsewhere
        self._left: set[str] = set()
        self._used: dict[str, set[int]] = {}
        self._readers: dict[str, set[str]] = {}
        """The uncompiled stages that look up rows in a relation."""
        self._unread: set[str] = set()
        self._contents: dict[str, RowMap | OverlaidRelation] = {}
        self.held_maps: dict[str, StageMaps] = {}
        self._absorbed: dict[str, list[ChangeSet]] = {}
        self._behind = MissedEpochs(store)
        self._stages_behind = MissedEpochs(store)
        self._fresh: set[str] = set()
        self._used_relations: set[str] = set()
        self._used_stages: set[str] = set()
        """Relations changed and stages used since ``begin``: only these can have anything to commit or roll back."""
        self._epoch = 0
        self._last_used: dict[str, int] = {}
        """The number of the epoch here in which a relation or stage was last used."""

    def relation(self, name: str, *, whole: bool = False) -> RowMap | OverlaidRelation:
        """The contents of a relation, with the changes that it has absorbed in this epoch.

        ``whole`` says that most rows will be looked up, so that they are not looked up in the store one by one.
        """
        if name in self._behind.shown:
            self._catch_up_relation(name)
        self._last_used[name] = self._epoch
        held = self._contents.get(name)
        if held is None:
            held = self._contents[name] = self._read(name, whole=whole)
            for change in self._absorbed.get(name, ()):
                self._add_absorbed(held, change)
        if type(held) is not RowMap:  # reading fetches rows into it
            self._used_relations.add(name)
        return held

    def ready_relation(self, name: str) -> RowMap | None:
        """The contents of a relation, if all of them are in memory and nothing is missing."""
        held = self._contents.get(name)
        return held if type(held) is RowMap and name not in self._behind.shown else None

    def hold(self, name: str, positions: ColumnPositions) -> None:
        """Have all rows of a relation in memory, with an index, where there is room for them; between epochs."""
        if isinstance(self._contents.get(name), OverlaidRelation):
            self._release_relation(name)
        held = self.relation(name, whole=True)
        if isinstance(held, RowMap):
            held.index(positions)

    def _catch_up_relation(self, name: str) -> None:
        """Add the changes that a relation has missed, or release it if reading it again is cheaper."""
        held = self._contents.pop(name, None)  # an interrupt must not leave it half updated
        fields = self._fields_of(name)
        missed = self._behind.take(name, {name: fields})
        if held is None or missed is None:
            return
        table, stored = missed[name], self._store.rows(name)
        if isinstance(held, RowMap):
            if not is_cheaper_to_add(table.num_rows, stored / COLUMN_ROWS if stored > self._resident else stored):
                return
            held.catch_up(from_arrow(table, fields))
        elif table.num_rows:
            if held.parts == MAX_SNAPSHOT_PARTS:
                return
            held.extend(ColumnSnapshot(table, fields))
        self._contents[name] = held
        for change in self._absorbed.get(name, ()):
            self._add_absorbed(held, change)

    def _add_absorbed(self, held: RowMap | OverlaidRelation, change: ChangeSet) -> None:
        _changing(held).absorb(change.pairs())

    def miss_epoch(self) -> None:
        """Note that the next epoch is committed without this state: relations show the last one until they catch up."""
        # Listing files again is free, and Spark need not cache their columns meanwhile.
        for name in [name for name, held in self._contents.items() if self._is_left(held)]:
            del self._contents[name]
        self._behind.note(self._contents)

    def pause(self, stage: Stage) -> None:
        """Note that the next epochs run ``stage`` elsewhere: its maps show the last epoch until they are used again."""
        maps = self.held_maps.get(stage.name, NO_MAPS)
        if any(self._is_left(map_) for map_ in maps.values()):
            self.release(stage)
        elif maps:
            self._stages_behind.note([stage.name])

    def _is_left(self, held: RowMap | RingMap | OverlaidRelation) -> bool:
        """True if rows are left in the store: then nothing is lost with the few that were looked up."""
        stored = held.stored
        partial = isinstance(held, OverlaidRelation) or held.is_partial
        return (stored is not None and not stored.is_read) or (self._elsewhere and partial)

    def release_paused(self) -> None:
        """Release everything that has missed epochs."""
        for name in self._behind.names():
            self._contents.pop(name, None)
        for name in self._stages_behind.names():
            self.held_maps.pop(name, None)
        self._behind.clear()
        self._stages_behind.clear()

    def _read(self, name: str, *, whole: bool) -> RowMap | OverlaidRelation:
        return self._reader.relation(name, self._fields_of(name), whole=whole)

    def use(self, stage: Stage) -> None:
        """Note which columns the loops of ``stage`` read, so that nothing else is fetched from large relations."""
        own = {map_.name for map_ in stage.maps}  # these have only the columns that the stage reads
        loading = (step for add in stage.load for step in add.query.sources if isinstance(step, RelationLoop))
        for source in chain(sources_of(stage), loading):
            if source.version is Version.STATE and source.relation not in own:
                names = [f.name for f in self._fields_of(source.relation)]
                places = {names.index(f.name) for f in source.columns}
                self._used.setdefault(source.relation, set()).update(places)
                self._readers.setdefault(source.relation, set()).add(stage.name)

    def used(self, name: str) -> ColumnPositions:
        """The columns of a relation that loops read."""
        return tuple(sorted(self._used.get(name, ())))

    def scan(self, name: str) -> Iterable[WeightedRow]:
        """The weighted rows of a relation, without deleted ones; equal ones may come several times: loops are linear.

        A relation that is only ever scanned is not kept in memory.
        """
        held = self.relation(name) if name in self._contents else None
        if held is not None:
            return held.pairs() if isinstance(held, OverlaidRelation) else held.entries.items()
        absorbed = (change.pairs() for change in self._absorbed.get(name, ()))
        pairs = list(chain(self._reader.stored(name, self._fields_of(name)), *absorbed))
        # A row that was deleted may be one that cannot be computed.
        return ZSet.summed(pairs).items() if any(weight < 0 for _, weight in pairs) else pairs

    def whole(self, name: str) -> ChangeSet:
        """The rows of ``scan``, as columns if the store has them."""
        fields = self._fields_of(name)
        held = self._contents.get(name)
        if isinstance(held, OverlaidRelation) and held.stored is not None and not held.stored.is_read:
            since = ChangeSet.of(held.since.entries.items(), fields).arrow()
            return ChangeSet.of_arrow(pa.concat_tables([held.stored.whole(), since]), fields)
        if held is not None and name not in self._behind and not self._is_as_stored(name):
            return ChangeSet.of(self.scan(name), fields)
        stored = self._store.read(name, fields).select(arrow_schema(fields).names)
        absorbed = [change.arrow() for change in self._absorbed.get(name, ())]
        return ChangeSet.of_arrow(pa.concat_tables([stored, *absorbed]), fields)

    def _is_as_stored(self, name: str) -> bool:
        """True if a relation has not changed since the last epoch: then the store has its columns."""
        held = self._contents[name]
        remote = isinstance(held, OverlaidRelation) and held.remote
        return not remote and not _changing(held).changed

    def size(self, name: str) -> int:
        """An upper bound of the number of rows of a relation."""
        return self._store.rows(name) + sum(map(len, self._absorbed.get(name, ())))

    def release(self, stage: Stage) -> None:
        """Release the maps of a stage; the store has them."""
        self.held_maps.pop(stage.name, None)
        self._stages_behind.forget(stage.name)

    def hand_over(self, stage: Stage) -> None:
        """Note that another back end runs ``stage`` from now on, with the stored state.

        Relations in which no other stage looks up rows are released when the next epoch begins.
        """
        self.release(stage)
        for relation, readers in self._readers.items():
            if stage.name in readers:
                readers.discard(stage.name)
                self.release_rows(relation)

    def release_rows(self, name: str) -> None:
        """Release the rows of a relation when the next epoch begins, unless some stage looks them up."""
        if not self._readers.get(name):
            self._unread.add(name)

    def has_rows(self, name: str) -> bool:
        """True if all rows of a relation are Python rows in memory."""
        return isinstance(self._contents.get(name), RowMap)

    def absorbs(self, name: str) -> bool:
        """True if the current epoch has changed a relation."""
        return name in self._absorbed

    def absorb(self, name: str, change: ChangeSet, net: ZSet | None = None) -> None:
        """Add a change, whose sum is ``net`` if known, to a relation; if that is not in memory, keep it until it is."""
        self._used_relations.add(name)
        held = self._contents.get(name) if name not in self._behind.shown else None
        if held is not None and net is not None:
            _changing(held).add(net)
        elif held is not None:
            self._add_absorbed(held, change)
        else:
            self._absorbed.setdefault(name, []).append(change)

    def maps(self, compiled: CompiledStage) -> StageMaps:
        """The maps of a stage."""
        name = compiled.stage.name
        self._used_stages.add(name)
        self._last_used[name] = self._epoch
        if name in self._stages_behind.shown:
            self._catch_up(compiled.stage)
        if name not in self.held_maps:
            maps = compiled.empty_maps()
            for map_ in compiled.stage.maps:
                self._reader.restore(maps[map_.name], map_, compiled.stage)
            self.held_maps[name] = maps
            self._left.discard(name)
            if any(maps[map_].is_partial for map_ in looked_up(compiled.stage)):
                self._left.add(name)
        return self.held_maps[name]

    def left(self, stage: Stage) -> bool:
        """True if maps that triggers of ``stage`` read are left in the store: entries must be looked up there."""
        return stage.name in self._left and stage.name in self.held_maps

    def complete_maps(self, compiled: CompiledStage) -> StageMaps:
        """The maps of a stage between epochs, with all of their entries; those in a snapshot are read temporarily."""
        maps, whole = self.maps(compiled), compiled.empty_maps()
        for map_ in compiled.stage.maps:
            if maps[map_.name].is_partial:
                in_order = any(value.type == DOUBLE for value in map_.values)
                whole[map_.name].restore(self._reader.stored(map_.name, map_fields(map_), in_order))
            else:
                whole[map_.name] = maps[map_.name]
        return whole

    def _catch_up(self, stage: Stage) -> None:
        """Add the changes that the maps of a stage have missed, or release them if reading them again is cheaper."""
        maps = self.held_maps.pop(stage.name, None)  # an interrupt must not leave them half updated
        missed = self._stages_behind.take(stage.name, {map_.name: map_fields(map_) for map_ in stage.maps})
        if not maps or missed is None or max(held.parts for held in maps.values()) >= MAX_SNAPSHOT_PARTS:
            return
        changed = stored = 0.0
        for map_ in stage.maps:
            changed += missed[map_.name].num_rows / (COLUMN_ROWS if maps[map_.name].is_partial else 1)
            whole = self._reader.snapshot_width(map_, stage) is None
            stored += self._store.rows(map_.name) / (1 if whole else COLUMN_ROWS)
        if not is_cheaper_to_add(changed, stored):
            return
        with decimal.localcontext(EXACT):
            for map_ in stage.maps:
                held, fields, table = maps[map_.name], map_fields(map_), in_epoch_order(missed[map_.name], map_)
                if held.is_partial and table.num_rows:
                    held.extend_snapshot(ColumnSnapshot(table, fields))
                else:
                    held.catch_up(from_arrow(table, fields))
        self.held_maps[stage.name] = maps

    def empty_stage_maps(self, compiled: CompiledStage) -> StageMaps:
        """Empty maps for a stage that is about to be filled, whatever the store has under its names."""
        stage = compiled.stage
        self.forget(stage.name)
        maps = self.held_maps[stage.name] = compiled.empty_maps()
        self._left.discard(stage.name)
        self._fresh.add(stage.name)
        self._used_stages.add(stage.name)
        self._absorbed.pop(stage.name, None)
        if self._store.rows(stage.name):
            self._contents[stage.name] = RowMap()
        return maps

    def forget(self, name: str) -> None:
        """Release a relation, and the maps of the stage of that name."""
        self._contents.pop(name, None)
        self.held_maps.pop(name, None)
        self._behind.forget(name)
        self._stages_behind.forget(name)

    def forget_files(self, name: str) -> None:
        """Release a relation whose rows are looked up as of an epoch that the store may no longer tell."""
        if self._is_outdated(name):
            self._release_relation(name)

    def forget_entries(self, stage: Stage, forgotten: ExpiredEntries) -> None:
        """Release entries of a map of ``stage``, or its rows, that the store has removed.

        A map that has a snapshot, has missed epochs or is observed by pattern matching is read again when it is next
        needed.
        """
        maps = self.held_maps.get(stage.name, NO_MAPS)
        held = maps.get(forgotten.map)
        searched = isinstance(stage.finish, PartitionEmission) and isinstance(stage.finish.rows, Match)
        partial = any(map_.is_partial for map_ in maps.values())
        if held is not None and (searched or partial or stage.name in self._stages_behind):
            self.release(stage)
        elif held is not None:
            held.forget(forgotten)
        self.forget_rows(forgotten)

    def forget_rows(self, forgotten: ExpiredEntries) -> None:
        """Release rows of a relation that the store has removed."""
        rows = self._contents.get(forgotten.map)
        if isinstance(rows, RowMap) and forgotten.map not in self._behind:
            rows.forget(forgotten)
        else:
            self._contents.pop(forgotten.map, None)
            self._behind.forget(forgotten.map)

    def free(self) -> None:
        """Release everything that the store has."""
        for held in (
            self._contents,
            self.held_maps,
            self._absorbed,
            self._behind,
            self._stages_behind,
            self._fresh,
            self._used_relations,
            self._used_stages,
        ):
            held.clear()

    def settle(self) -> None:
        """Close the epoch, which is stored or about to be: it can still be rolled back until ``begin``."""
        self._absorbed.clear()

    def releasable(self) -> list[ReleasableState]:
        """All state in memory, which the store has too; at the beginning of an epoch, before anything has changed."""
        used = self._last_used
        relations = [
            ReleasableState(used.get(name, 0), self._bytes(name, held), partial(self._release_relation, name))
            for name, held in self._contents.items()
        ]
        stages = [
            ReleasableState(used.get(name, 0), self._bytes_of_maps(name), partial(self._release_maps, name))
            for name in self.held_maps
        ]
        return relations + stages

    def _bytes(self, name: str, held: RowMap | RingMap | OverlaidRelation) -> int:
        """The estimated bytes of a relation or map in memory."""
        in_store = held.stored is not None and not held.stored.is_read
        in_columns = (isinstance(held, OverlaidRelation) or held.is_partial) and not in_store
        stored = column_bytes(self._store.rows(name), held.columns) if in_columns else 0
        return stored + dictionary_bytes(held.size, held.columns)

    def _bytes_of_maps(self, stage: str) -> int:
        return sum(self._bytes(name, held) for name, held in self.held_maps[stage].items())

    def left_in_store(self, stage: Stage) -> list[str]:
        """The maps of ``stage``, and the relations that it looks up, whose rows are in the store and not in memory."""
        maps = self.held_maps.get(stage.name, NO_MAPS)
        own = [map_.name for map_ in stage.maps if map_.name not in maps or self._is_left(maps[map_.name])]
        read = [name for name, stages in self._readers.items() if stage.name in stages]
        relations = [name for name in read if name not in self._contents or self._is_left(self._contents[name])]
        return [name for name in own + relations if self._store.rows(name)]

    def begin(self) -> None:
        """Start an epoch from the current state."""
        self._epoch += 1
        for name in self._unread:
            self._contents.pop(name, None)
            self._behind.forget(name)
        for name in self._used_relations:
            held = self._contents.get(name)
            if held is None:
                continue
            if isinstance(held, RowMap):
                held.settle()
            elif held.size > OVERLAY_ROWS:
                self._release_relation(name)
            else:
                held.since.settle()
        self._release_looked_up()
        for name in self._used_stages:
            self._settle_maps(name)
        self._absorbed = {}
        self._fresh, self._unread, self._used_relations, self._used_stages = set(), set(), set(), set()

    def _release_looked_up(self) -> None:
        """Release relations that were looked up in the store, where these lookups are no longer valid or have become so
        many that all rows had better be read."""
        for name in [name for name, held in self._contents.items() if type(held) is OverlaidRelation]:
            if self._is_outdated(name) or self._belongs_in_memory(name, self._contents[name]):
                self._release_relation(name)

    def _settle_maps(self, stage: str) -> None:
        """Take the maps of a stage as they are for the state from which the next epoch starts; release them where so
        many entries were looked up in the store that all had better be read."""
        maps = self.held_maps.get(stage, NO_MAPS)
        for name in maps:
            if maps[name].is_partial and (
                self._belongs_in_memory(name, maps[name])
                or (stage in self._left and sum(len(m.entries) for m in maps.values() if m.is_partial) > OVERLAY_ROWS)
            ):
                self._release_maps(stage)
                return
        for name in maps:
            maps[name].settle()

    def _is_outdated(self, name: str) -> bool:
        """True if the rows of a relation are looked up in the store as of an epoch before the last."""
        held = self._contents.get(name)
        stored = held.stored if isinstance(held, OverlaidRelation) else None
        return stored is not None and not stored.is_read and stored.until != self._store.epoch

    def _belongs_in_memory(self, name: str, held: RowMap | RingMap | OverlaidRelation) -> bool:
        """True if so many rows were looked up in the store that all were read, and dictionaries would hold them."""
        stored = held.stored
        return stored is not None and stored.is_read and self._reader.fits_dictionaries(name, held.columns)

    def _release_relation(self, name: str) -> None:
        del self._contents[name]
        self._behind.forget(name)

    def _release_maps(self, name: str) -> None:
        del self.held_maps[name]
        self._stages_behind.forget(name)

    def rollback(self) -> None:
        """Undo everything since ``begin``."""
        self._absorbed.clear()
        for name in self._fresh:
            self.forget(name)
        self._fresh.clear()
        for journaled in self._journaled():
            journaled.rollback()

    def changes(self, stage: Stage) -> list[tuple[str, ChangeSet]]:
        """The change of each map of a stage, in the form in which it is stored."""
        found: list[tuple[str, ChangeSet]] = []
        maps = self.held_maps.get(stage.name, NO_MAPS)
        for map_ in stage.maps if maps else ():
            pairs = maps[map_.name].changes()
            if pairs:
                found.append((map_.name, ChangeSet(map_.stored_fields, pairs=pairs)))
        return found

    def check_weights(self) -> None:
        """Refuse an epoch after which a row or group occurs more often than 64 bits can count."""
        for journaled in self._journaled():
            for key, _, new in journaled.touched():
                weight = new[0] if isinstance(new, tuple) else new
                if isinstance(weight, int):
                    require_countable(weight, repr(key))

    def _journaled(self) -> Iterator[JournaledMap[object]]:
        """The relations and maps whose journals may have entries."""
        for name in self._used_relations & self._contents.keys():
            yield _changing(self._contents[name])  # type: ignore[misc]
        for name in self._used_stages & self.held_maps.keys():
            yield from self.held_maps[name].values()  # type: ignore[misc]


def _changing(held: RowMap | OverlaidRelation) -> RowMap:
    """The part of a relation that changes are added to."""
    return held.since if isinstance(held, OverlaidRelation) else held
