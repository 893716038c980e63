"""The reading of state from the store: whole, into columns, or not until it is looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.changes.arrow import from_arrow
from tidemill.changes.zset import Row
from tidemill.model.schema import EPOCH
from tidemill.model.types import DOUBLE, Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import looked_up, read_at_ends, read_maps, read_together
from tidemill.program.stages import Stage
from tidemill.program.statements import Replace
from tidemill.runtimes.native.state.group_ends import have_ends
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.snapshot import ColumnSnapshot, RelationSnapshot
from tidemill.runtimes.native.state.stored_lookups import StoredLookups
from tidemill.runtimes.native.state_room import StateRoom, column_bytes, dictionary_bytes
from tidemill.storage.store import ReadableStore

LOOKUP_FACTOR = 10
"""Factor to the limit of rows in memory for a map that triggers look up: each lookup in a remote snapshot is a job."""

SnapshotOf = Callable[[str, tuple[Field, ...], bool], RelationSnapshot]
"""Takes the snapshot of a large relation or map; in order of epochs if requested."""


def column_snapshots(store: ReadableStore) -> SnapshotOf:
    """Snapshots that hold the columns of a relation in this process."""

    def snapshot_of(name: str, fields: tuple[Field, ...], in_order: bool) -> RelationSnapshot:
        table = store.read(name, fields)
        return ColumnSnapshot(table.sort_by(EPOCH) if in_order else table, fields)

    return snapshot_of


class StateReader:
    """Reads relations and maps from the store, and decides in which form.

    Those of more than ``resident`` rows stay in snapshots; while there have been few lookups, all stay in the store,
    and so does what there is no ``room`` for. If snapshots are ``elsewhere``, lookups go there.
    """

    def __init__(
        self, store: ReadableStore, snapshot_of: SnapshotOf, resident: int, room: StateRoom, *, elsewhere: bool
    ) -> None:
        self._store = store
        self._snapshot_of = snapshot_of
        self._resident = resident
        self._room = room
        self._elsewhere = elsewhere
        self._lookups = StoredLookups(store, room)

    def relation(self, name: str, fields: tuple[Field, ...], *, whole: bool) -> RowMap | OverlaidRelation:
        """The stored rows of a relation; ``whole`` says that most of them will be looked up."""
        looks_up = not whole and self._lookups.are_cheaper(name)
        if not self._elsewhere and (looks_up or self._lookups.are_needed(name, len(fields))):
            return OverlaidRelation(self._lookups.snapshot(name, fields, until=self._store.epoch), len(fields))
        if not self.fits_dictionaries(name, len(fields)):
            return OverlaidRelation(self._snapshot_of(name, fields, False), len(fields))
        contents = RowMap()
        contents.restore(self.stored(name, fields))
        return contents

    def restore(self, held: RowMap | RingMap, map_: Map, stage: Stage) -> None:
        """Fill an empty map of ``stage``, or attach the snapshot that it is filled from as entries are needed."""
        fields = map_fields(map_)
        in_order = any(value.type == DOUBLE for value in map_.values)
        looks_up = self._is_looked_up(map_, stage)
        width = self._width(map_, stage, looks_up=looks_up)
        if width is None:
            held.restore(self.stored(map_.name, fields, in_order))
            return
        snapshot = (
            self._lookups.snapshot(map_.name, fields, in_order=in_order)
            if looks_up
            else self._snapshot_of(map_.name, fields, in_order)
        )
        held.attach_snapshot(snapshot, width, fields, ends=self._reads_ends(map_, stage))

    def stored(self, name: str, fields: Sequence[Field], in_order: bool = False) -> list[tuple[Row, int]]:
        """All stored rows of a relation or map."""
        table = self._store.read(name, fields)
        # Sums of DOUBLE are exact to the bit only if their changes are added in order of epochs.
        return from_arrow(table.sort_by(EPOCH) if in_order else table, fields)

    def snapshot_width(self, map_: Map, stage: Stage) -> int | None:
        """Number of leading keys by which entries of a map are fetched from a snapshot; None if all are in memory."""
        return self._width(map_, stage, looks_up=self._is_looked_up(map_, stage))

    def fits_dictionaries(self, name: str, columns: int, factor: int = 1) -> bool:
        """True if dictionaries are to hold a relation or map of so many columns, and there is room for them."""
        rows = self._store.rows(name)
        return rows <= self._resident * factor and self._room.fits(dictionary_bytes(rows, columns))

    def _width(self, map_: Map, stage: Stage, *, looks_up: bool) -> int | None:
        left = (self._elsewhere or looks_up) and map_.name in looked_up(stage)
        factor = LOOKUP_FACTOR if left else 1
        held = not looks_up and self.fits_dictionaries(map_.name, len(map_fields(map_)), factor)
        if held or _replaces(stage) or (map_.name in read_maps(stage) and not left):
            return None
        # With no keys, because the map has none or is read as a whole, nothing can be looked up.
        width = read_together(stage).get(map_.name, len(map_.keys))
        return width if width or self._reads_ends(map_, stage) else None

    def _is_looked_up(self, map_: Map, stage: Stage) -> bool:
        """True if entries of a map had better be looked up in the store than all of them be read.

        Maps that triggers read by keys are looked up there or held in dictionaries, all others in columns as well.
        """
        if self._elsewhere:
            return False
        bytes_of = dictionary_bytes if map_.name in looked_up(stage) else column_bytes
        return self._lookups.are_cheaper(map_.name) or self._lookups.are_needed(
            map_.name, len(map_fields(map_)), bytes_of=bytes_of
        )

    def _reads_ends(self, map_: Map, stage: Stage) -> bool:
        """True if only the ends of groups of a map are read, and can be told before all entries are loaded."""
        return not self._elsewhere and map_.name in read_at_ends(stage) and have_ends(map_.keys)


def _replaces(stage: Stage) -> bool:
    """True if some trigger recomputes a map of ``stage``, and so needs all of it."""
    return any(isinstance(statement, Replace) for trigger in stage.triggers for statement in trigger.statements)
