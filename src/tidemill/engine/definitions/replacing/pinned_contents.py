"""Contents of a view and its readers as of a pinned epoch, with changes that nobody else sees yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema, from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import WeightedRow
from tidemill.model.schema import EPOCH
from tidemill.model.types import DOUBLE, Date, Decimal, Field, Integral, String, Timestamp
from tidemill.program.maps import Map, map_fields
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.segments import TableSegment, stored_schema, with_epoch
from tidemill.storage.snapshot import StoreSnapshot
from tidemill.storage.store import ColumnValues, Store

__all__ = ["PinnedContents"]

INDEXED_ROWS = 10_000
"""Rows of a change from which it is indexed when it is first searched."""

ChangeBetween = Callable[[Sequence[WeightedRow], Sequence[WeightedRow]], ChangeSet]
"""Gives the change of a map from the sum of some stored changes to that of others, exact to the bit."""


class PinnedContents:
    """The store of a runtime that works on ``maps`` beside the warehouse.

    Relations that the maps are made of go on with the warehouse (``advance``). The maps stay those of the first epoch,
    with what is added here: what the warehouse makes of them meanwhile follows from another query. Of those that are
    ``anew`` there is nothing but what is added.
    """

    def __init__(self, store: Store, maps: Collection[Map], anew: Collection[str] = ()) -> None:
        self.first = self.shown = store.pin()
        self.anew = set(anew)
        self._store = store
        self._maps = {map_.name: map_ for map_ in maps}
        self._parts: dict[str, list[TableSegment]] = {name: [] for name in self._maps}
        self._turn = 0

    def close(self) -> None:
        """Release both epochs."""
        self.shown.close()
        self.first.close()

    @property
    def epoch(self) -> int:
        """A number that grows with every change: what was looked up before one is not valid after it."""
        return self.first.epoch + self._turn

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of a relation or map as they are here now, with their weights and epochs."""
        if name not in self._maps:
            return self.shown.read(name, fields, where=where)
        schema = stored_schema(fields)
        stored = () if name in self.anew else (self.first.read(name, fields, where=where),)
        return pa.concat_tables([schema.empty_table(), *stored, *(p.load(schema, where) for p in self._parts[name])])

    def rows(self, name: str) -> int:
        """The number of rows, those that were retracted included."""
        added: int = sum(part.table.num_rows for part in self._parts.get(name, ()))
        return added if name in self.anew else self._store.rows(name) + added

    def add(self, name: str, change: ChangeSet) -> None:
        """Add a change to a map; of others nothing is kept."""
        if name in self._maps and change.rows:
            rows = with_epoch(change.arrow(), self.shown.epoch).combine_chunks()
            part = TableSegment(rows, self.shown.epoch, self.shown.epoch)
            part.indexes.at_once = rows.num_rows >= INDEXED_ROWS
            self._parts[name].append(part)
            self._turn += 1

    def renew(self, name: str) -> None:
        """Begin a map anew."""
        self.anew.add(name)
        self._parts[name] = []
        self._turn += 1

    def advance(self, snapshot: StoreSnapshot) -> None:
        """Show the relations as of a later epoch."""
        before, self.shown = self.shown, snapshot
        self._turn += 1
        if before is not self.first:
            before.close()

    def parts(self, name: str) -> int:
        """Number of changes that were added to a map."""
        return len(self._parts[name])

    def added(self, name: str, first: int = 0) -> pa.Table:
        """The changes that were added to a map, or those after so many of them, with their weights."""
        empty = arrow_schema(map_fields(self._maps[name])).empty_table()
        parts = [part.table.drop_columns([EPOCH]).cast(empty.schema) for part in self._parts[name][first:]]
        return pa.concat_tables([empty, *parts])

    def change(self, name: str, between: ChangeBetween) -> ChangeSet:
        """The change of a map from what the warehouse has made of it meanwhile to what it is here."""
        map_ = self._maps[name]
        fields, added = map_fields(map_), self.added(name)
        later = self._store.read(name, fields, since=self.first.epoch)
        if not later.num_rows and self.parts(name) < 2:  # what one epoch has made is summed
            return ChangeSet.of_arrow(added, fields)
        if all(value.type != DOUBLE for value in map_.values):
            return ChangeSet.of_arrow(difference(later, added, map_), fields)
        if not later.num_rows:
            return ChangeSet.of_arrow(added, fields)
        # Sums of DOUBLE depend on the order of their terms: groups that both have changed are summed on either side.
        width = len(map_.keys)
        gone, come = from_arrow(later.sort_by(EPOCH), fields), from_arrow(added, fields)
        both = {row[:width] for row, _ in gone}
        near = self.first.read(name, fields, where=_keys(later, map_)).sort_by(EPOCH)
        base = [pair for pair in from_arrow(near, fields) if pair[0][:width] in both]
        moved = between([*base, *gone], [*base, *(pair for pair in come if pair[0][:width] in both)])
        return ChangeSet.of([*(pair for pair in come if pair[0][:width] not in both), *moved.pairs()], fields)


def _keys(rows: pa.Table, map_: Map) -> ColumnValues | None:
    """The keys of some rows by which those of a map can be looked up; None if there are none."""
    names = [f.name for f in map_.keys if isinstance(f.type, Integral | Decimal | String | Date | Timestamp)]
    return {name: pa.concat_arrays(rows.column(name).chunks) for name in names} or None
