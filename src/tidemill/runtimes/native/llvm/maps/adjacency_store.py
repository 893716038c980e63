"""The store of a join graph member's records: in a pool, with arrays of items for each way into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue
from tidemill.runtimes.native.llvm.codegen.layout import MapRecord, StructLayout
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.containers.adjacency_lists import AdjacencyListCode
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCode
from tidemill.runtimes.native.llvm.maps.record_store import KeyPositions, PooledStore


class AdjacencyStore(PooledStore):
    """Records in a pool, found through a table of their ids, with lists of items for each index."""

    def __init__(
        self,
        map_: Map,
        record: MapRecord,
        handle: StructLayout,
        keys: KeyCode,
        indexes: Sequence[KeyPositions],
    ) -> None:
        self._map = map_
        super().__init__(record, handle, keys, indexes)

    def _declare(self, record: MapRecord, handle: StructLayout) -> None:
        self.lists = [
            AdjacencyListCode(self._map, record, handle, f"lists{i}", places) for i, places in enumerate(self.indexes)
        ]

    def list_of(self, places: KeyPositions) -> AdjacencyListCode:
        """The lists of an index."""
        return self.lists[self.indexes.index(places)]

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().create(builder, handle)
        for lists in self.lists:
            lists.create(builder, handle, self._account(builder, handle))

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().destroy(builder, handle)
        for lists in self.lists:
            lists.destroy(builder, handle, self._account(builder, handle))

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().clear(builder, handle)
        for lists in self.lists:
            lists.clear(builder, handle, self._account(builder, handle))

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        total = super().bytes(builder, handle)
        for lists in self.lists:
            total = builder.add(total, lists.bytes(builder, handle))
        return total

    def reserve_items(self, builder: ir.IRBuilder, handle: IRValue, record: IRValue) -> None:
        """See to it that a record can be in its lists, or return the status of the failure."""
        for i, lists in enumerate(self.lists):
            with self._unless_null(builder, record, i):
                lists.reserve(builder, handle, self._account(builder, handle), record)

    def set_weight(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue, weight: IRValue) -> None:
        """Tell the items of a record its weight."""
        for i, lists in enumerate(self.lists):
            with self._unless_null(builder, entry, i):
                lists.set_weight(builder, handle, entry, weight)

    def prefetch_slice(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        places: KeyPositions,
        cells: Sequence[IRValue],
        prefetcher: Prefetcher,
    ) -> None:
        """Ask for the slot of a list, and for its first items."""
        self.list_of(places).prefetch(builder, handle, cells, prefetcher)

    @contextmanager
    def each_in_slice(
        self, builder: ir.IRBuilder, handle: IRValue, places: KeyPositions, cells: Sequence[IRValue]
    ) -> Iterator[IRValue]:
        """Run what is emitted within for the record of every item of a list."""
        with self.list_of(places).each_id(builder, handle, cells) as id_:
            yield self.at(builder, handle, id_)

    def _link(self, builder: ir.IRBuilder, handle: IRValue, i: int, entry: IRValue, id_: IRValue) -> None:
        with self._unless_null(builder, entry, i):
            self.lists[i].append(builder, handle, entry, id_)

    def _unlink(self, builder: ir.IRBuilder, handle: IRValue, i: int, entry: IRValue, id_: IRValue) -> None:
        with self._unless_null(builder, entry, i):
            self.lists[i].remove(builder, handle, entry, lambda other: self.at(builder, handle, other))

    def _tables(self, builder: ir.IRBuilder, handle: IRValue) -> list[IRValue]:
        return [self._table(builder, handle)]
