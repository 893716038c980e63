"""Where the records of a member of a join graph lie: in a pool, with arrays of items for each way into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.blocks import Value
from tidemill.runtimes.native.llvm.keys import KeyCode
from tidemill.runtimes.native.llvm.layout import Record, Struct
from tidemill.runtimes.native.llvm.lists import ListCode
from tidemill.runtimes.native.llvm.stores import Places, PooledStore

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.ahead import Lines


class AdjacentStore(PooledStore):
    """Records in a pool, found through a table of their ids, with lists of items for each index."""

    def __init__(
        self,
        module: ir.Module,
        map_: Map,
        record: Record,
        handle: Struct,
        keys: KeyCode,
        indexes: Sequence[Places],
    ) -> None:
        self._module, self._map = module, map_
        super().__init__(record, handle, keys, indexes)

    def _declare(self, record: Record, handle: Struct) -> None:
        self.lists = [
            ListCode(self._module, self._map, record, handle, f"lists{i}", places)
            for i, places in enumerate(self.indexes)
        ]

    def list_of(self, places: Places) -> ListCode:
        """The lists of an index."""
        return self.lists[self.indexes.index(places)]

    def create(self, builder: ir.IRBuilder, handle: Value) -> None:
        super().create(builder, handle)
        for lists in self.lists:
            lists.create(builder, handle, self._account(builder, handle))

    def destroy(self, builder: ir.IRBuilder, handle: Value) -> None:
        super().destroy(builder, handle)
        for lists in self.lists:
            lists.destroy(builder, handle, self._account(builder, handle))

    def clear(self, builder: ir.IRBuilder, handle: Value) -> None:
        super().clear(builder, handle)
        for lists in self.lists:
            lists.clear(builder, handle, self._account(builder, handle))

    def bytes(self, builder: ir.IRBuilder, handle: Value) -> Value:
        total = super().bytes(builder, handle)
        for lists in self.lists:
            total = builder.add(total, lists.bytes(builder, handle))
        return total

    def reserve_items(self, builder: ir.IRBuilder, handle: Value, record: Value) -> None:
        """See to it that a record can be in its lists, or return the status that says why not."""
        for i, lists in enumerate(self.lists):
            with self._unless_null(builder, record, i):
                lists.reserve(builder, handle, self._account(builder, handle), record)

    def reweigh(self, builder: ir.IRBuilder, handle: Value, entry: Value, weight: Value) -> None:
        """Tell the items of a record its weight."""
        for i, lists in enumerate(self.lists):
            with self._unless_null(builder, entry, i):
                lists.reweigh(builder, handle, entry, weight)

    def look_at_slice(
        self, builder: ir.IRBuilder, handle: Value, places: Places, cells: Sequence[Value], lines: Lines
    ) -> None:
        """Ask for the slot of a list, and for its first items."""
        self.list_of(places).look(builder, handle, cells, lines)

    @contextmanager
    def each_in_slice(
        self, builder: ir.IRBuilder, handle: Value, places: Places, cells: Sequence[Value]
    ) -> Iterator[Value]:
        """Run what is emitted within for the record of every item of a list."""
        with self.list_of(places).each_id(builder, handle, cells) as id_:
            yield self.at(builder, handle, id_)

    def _link(self, builder: ir.IRBuilder, handle: Value, i: int, entry: Value, id_: Value) -> None:
        with self._unless_null(builder, entry, i):
            self.lists[i].append(builder, handle, entry, id_)

    def _unlink(self, builder: ir.IRBuilder, handle: Value, i: int, entry: Value, id_: Value) -> None:
        with self._unless_null(builder, entry, i):
            self.lists[i].remove(builder, handle, entry, lambda other: self.at(builder, handle, other))

    def _tables(self, builder: ir.IRBuilder, handle: Value) -> list[Value]:
        return [self._table(builder, handle)]
