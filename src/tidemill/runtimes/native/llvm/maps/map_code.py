"""Maps as code: for one map, the functions that find, add and sum, emitted into the module of its stage.

What is emitted here works on a *handle*, the memory of one map (``io.native_map.NativeMap`` makes it). An *entry* is a
pointer to a record; it is good until something is added to its map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.layout import (
    I1,
    I128,
    NULL_POINTER,
    DoubleSum,
    NullableValue,
    RingValue,
)
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode
from tidemill.runtimes.native.llvm.containers.adjacency_lists import AdjacencyListCode
from tidemill.runtimes.native.llvm.containers.key_cells import any_null
from tidemill.runtimes.native.llvm.containers.slices import ListSlice
from tidemill.runtimes.native.llvm.containers.sort_keys import to_sort_key
from tidemill.runtimes.native.llvm.maps.adjacency_store import AdjacencyStore
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder
from tidemill.runtimes.native.llvm.maps.journal import JournalCode
from tidemill.runtimes.native.llvm.maps.ordered_index import minus
from tidemill.runtimes.native.llvm.maps.record_store import PooledStore
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers
from tidemill.runtimes.native.llvm.maps.updates import UpdateCode
from tidemill.runtimes.native.llvm.scalars import double_sums

IndexColumns = tuple[str, ...]
"""A secondary index: the key columns that loops look entries up by."""

OrderColumns = tuple[tuple[str, ...], str]
"""An order: the key columns that are equal, and the one whose ranges are summed."""


@dataclass(frozen=True, slots=True)
class RangeLimit:
    """One end of a range; only a closed one includes its key. NULL lets nothing in."""

    cell: NullableValue
    closed: bool


@dataclass(frozen=True, slots=True)
class RangeSums:
    """Sums over a range of entries. ``values`` stand beside those of the map; a DOUBLE is not summed and is None."""

    weight: IRValue
    values: tuple[IRValue | None, ...]


class MapCode:
    """The code of one map in one module."""

    def __init__(
        self,
        module: ir.Module,
        map_: Map,
        indexes: Sequence[IndexColumns] = (),
        orders: Sequence[OrderColumns] = (),
        guarded: Sequence[str] = (),
        journaled: bool = True,
        entered: ir.Function | None = None,
        group_order: GroupOrder | None = None,
        present: OrderColumns | None = None,
        assigned: bool = False,
        addends: ir.Function | None = None,
    ) -> None:
        """``guarded`` names the values (or ``_weight``) whose negative entries are counted.

        With ``entered`` the entries of a slice lie behind each other, and that function is called with each new entry.
        With ``group_order`` the entries of each group, which the first keys name, are in that order. Of those that are
        ``present``, which have a positive weight, there is another order: NULLs in its prefix are equal. A map that is
        ``assigned`` to in the course of an epoch has faster functions for that; it can be assigned to in any case.
        ``addends`` writes what a row adds to the sums of a group.
        """
        self.map = map_
        self.orders = tuple(orders)
        self.changing = UpdateCode(
            map_, indexes, orders, guarded, journaled, entered, group_order, present, assigned, addends, self._emit
        )
        self.epochs = JournalCode(self.changing)
        if isinstance(self.changing.code, SharedCode):
            self.changing.code.link_to(module)
        else:
            self._emit(module)
        self._record, self._handle = self.changing.record, self.changing.handle
        self._keys, self._rings, self._store = self.changing.keys, self.changing.rings, self.changing.store

    def _emit(self, module: ir.Module) -> None:
        """Define the functions of the map in a module."""
        self.epochs.emit(module)
        self.changing.emit(module)

    # ------------------------------------------------------------------------------------------ entries and parts

    def find(self, builder: ir.IRBuilder, handle: IRValue, keys: Sequence[NullableValue]) -> IRValue:
        """The entry of a key, or a null pointer. A NULL among ``keys`` finds nothing."""
        found = self.changing.find(builder, handle, self._keys.of_cells(builder, keys))
        null = any_null(builder, keys)
        return found if null is None else builder.select(null, NULL_POINTER, found)

    def key(self, builder: ir.IRBuilder, entry: IRValue, place: int) -> NullableValue:
        """A key column of an entry."""
        value = self._record.load(builder, entry, f"key{place}")
        null = self._keys.has_null(builder, self._keys.of_record(builder, entry), [place])
        return NullableValue(value, null)

    def weight(self, builder: ir.IRBuilder, entry: IRValue) -> IRValue:
        """The weight of an entry, an i64."""
        return self._record.load(builder, entry, "weight")

    def value(self, builder: ir.IRBuilder, entry: IRValue, place: int) -> IRValue:
        """A ring value of an entry: an i128, or for DOUBLE the f64 that expressions see."""
        value = self._rings.load_value(builder, entry, place)
        return double_sums.seen(builder, value) if isinstance(value, DoubleSum) else value

    def loop(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        index: IndexColumns | None,
        keys: Sequence[NullableValue],
        body: Callable[[ir.IRBuilder, IRValue], None],
    ) -> None:
        """Run ``body`` for every entry that has ``keys`` in the columns of ``index``, or for all entries.

        A NULL among ``keys`` finds nothing. The body adds nothing to this map; it may return from the function.
        """
        with self.each(builder, handle, index, keys) as entry:
            body(builder, entry)

    def lists(self, index: IndexColumns) -> AdjacencyListCode | None:
        """The arrays of an index, where its slices are some."""
        places = self._keys.places(index)
        if isinstance(self._store, AdjacencyStore) and places in self._store.indexes:
            return self._store.list_of(places)
        return None

    def slice(
        self, builder: ir.IRBuilder, handle: IRValue, lists: AdjacencyListCode, keys: Sequence[NullableValue]
    ) -> ListSlice:
        """The entries with ``keys`` in the columns of an index, none where one of them is NULL."""
        null = any_null(builder, keys)
        possible = number(1, I1) if null is None else builder.not_(null)
        return lists.slice(builder, handle, [cell.value for cell in keys], possible)

    def record(self, builder: ir.IRBuilder, handle: IRValue, id_: IRValue) -> IRValue:
        """The entry with that id, in a map whose slices are arrays."""
        assert isinstance(self._store, AdjacencyStore)
        return self._store.at(builder, handle, id_)

    def first_in_slice(
        self, builder: ir.IRBuilder, handle: IRValue, index: IndexColumns, keys: Sequence[NullableValue]
    ) -> IRValue:
        """An entry that has ``keys``, none of them NULL, in the columns of an index, or a null pointer."""
        assert isinstance(self._store, PooledStore)
        return self._store.first_in_slice(builder, handle, self._keys.places(index), [cell.value for cell in keys])

    @contextmanager
    def each(
        self, builder: ir.IRBuilder, handle: IRValue, index: IndexColumns | None, keys: Sequence[NullableValue]
    ) -> Iterator[IRValue]:
        """Run what is emitted within for every entry that has ``keys`` in the columns of ``index``, or for all."""
        if index is None:
            with self._store.each(builder, handle) as entry:
                yield entry
            return
        places = self._keys.places(index)
        null = any_null(builder, keys)
        with builder.if_then(number(1, I1) if null is None else builder.not_(null)):
            if len(places) == len(self.map.keys):
                by_place = dict(zip(places, keys, strict=True))
                entry = self.find(builder, handle, [NullableValue(by_place[i].value) for i in range(len(places))])
                with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
                    yield entry
            else:
                assert isinstance(self._store, PooledStore)
                with self._store.each_in_slice(builder, handle, places, [cell.value for cell in keys]) as entry:
                    yield entry

    # ------------------------------------------------------------------------------------------------ looking ahead

    @property
    def pointers(self) -> int:
        """The greatest number of pointers that ``prefetch`` follows."""
        slices = 1 + len(self._store.indexes) if isinstance(self._store, PooledStore) else 0
        return slices + len(self.changing.orders) + (self.changing.ordered is not None)

    def prefetch(
        self, builder: ir.IRBuilder, handle: IRValue, cells: Mapping[str, NullableValue], prefetcher: Prefetcher
    ) -> None:
        """Ask for the memory that finding or adding entries with these key columns will touch."""
        places = dict(zip(self._keys.places(list(cells)), cells.values(), strict=True))
        if len(places) == len(self.map.keys):
            keys = self._keys.of_cells(builder, [places[i] for i in range(len(places))])
            self._store.prefetch(builder, handle, keys.hash(builder), prefetcher)
            if self.changing.ordered is not None:
                self.changing.ordered.prefetch(builder, handle, keys, prefetcher)
        if isinstance(self._store, PooledStore):
            for index in self._store.indexes:
                if places.keys() >= set(index):
                    found = [places[place].value for place in index]
                    self._store.prefetch_slice(builder, handle, index, found, prefetcher)
        for order in self.changing.orders:
            *prefix, _ = order.places
            if order.present:
                if len(places) == len(self.map.keys):
                    keys = self._keys.of_cells(builder, [places[i] for i in range(len(places))])
                    order.prefetch(builder, handle, order.split(builder, keys)[0], prefetcher)
            elif places.keys() >= set(prefix):
                order.prefetch(builder, handle, [places[place].value for place in prefix], prefetcher)

    # ---------------------------------------------------------------------------------------------------- changing

    def add(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        keys: Sequence[NullableValue],
        weight: IRValue,
        values: Sequence[RingValue],
    ) -> IRValue:
        """Add to a key's weight (i64) and values (i128, or ``double_sums.term``); gives a status. NULL keys are equal.

        An entry whose weight and values are all 0 is gone at once. Where only the weight is 0 the entry stays until
        ``sweep``: its weight may rise again before the change is complete, and then its values still count.
        """
        numbers = EntryNumbers(weight, tuple(values))
        return self.changing.add(builder, handle, self._keys.of_cells(builder, keys), numbers)

    def sweep(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Drop the entries that were left with weight 0: at the end of each change after which the maps are valid.

        Cheap where there are none. Gives a status.
        """
        return self.changing.sweep(builder, handle)

    def assign(self, builder: ir.IRBuilder, handle: IRValue, other: MapCode, scratch: IRValue) -> IRValue:
        """Hold exactly what ``scratch`` holds from now on, the handle of a map ``other`` with the same keys and values.

        Entries that stay the same are not touched, and ``scratch`` is empty afterwards. Gives a status.
        """
        return self.changing.assign(builder, handle, other.changing, scratch)

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Forget all entries, and write nothing down: for maps that are not journaled. Gives a status."""
        return self.changing.clear(builder, handle)

    def negatives(self, builder: ir.IRBuilder, handle: IRValue, value: str) -> IRValue:
        """The number of entries with a negative ``value`` (or ``_weight``), an i64; ``value`` must be guarded."""
        return self.changing.negatives(builder, handle, value)

    # ------------------------------------------------------------------------------------------------------ orders

    def sum_range(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        order: OrderColumns,
        prefix: Sequence[NullableValue],
        lower: RangeLimit | None,
        upper: RangeLimit | None,
    ) -> RangeSums:
        """The sums over the entries of a range, in O(log n) of those with its prefix. A NULL anywhere sums nothing."""
        code = self.changing.orders[self.orders.index(order)]
        totals = [Local(builder, number(0, type_)) for type_ in code.trees.types]
        low = None if lower is None else to_sort_key(builder, lower.cell.value)
        high = code.last() if upper is None else to_sort_key(builder, upper.cell.value)
        both_open = lower is not None and upper is not None and not (lower.closed or upper.closed)
        possible = number(1, I1) if low is None else builder.icmp_unsigned("<" if both_open else "<=", low, high)
        null = any_null(builder, [*prefix, *(limit.cell for limit in (lower, upper) if limit is not None)])
        with builder.if_then(possible if null is None else builder.and_(possible, builder.not_(null))):
            among = code.find(builder, handle, [cell.value for cell in prefix])
            until = number(upper is None or upper.closed, I1)
            found = code.sum_until(builder, handle, among, high, until)
            if low is not None and lower is not None:
                skip = number(not lower.closed, I1)
                found = minus(builder, found, code.sum_until(builder, handle, among, low, skip))
            for total, sum_ in zip(totals, found.numbers(), strict=True):
                total.set(sum_)
        weight, *values = (total.get() for total in totals)
        return RangeSums(weight, self._beside(values))

    def seek(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        order: OrderColumns,
        prefix: Sequence[NullableValue],
        after: bool,
        condition: Callable[[ir.IRBuilder, IRValue, Sequence[IRValue | None]], IRValue],
    ) -> tuple[IRValue, NullableValue]:
        """An i1 and the key at which ``condition`` over running sums turns, if there is one: see ``MapSeek``.

        ``condition`` gets the builder, the weight and the values summed over the entries strictly after (or before) an
        entry, gives an i1, and is emitted once or twice, within loops. Returns an i1 and the key, never NULL.
        """
        code = self.changing.orders[self.orders.index(order)]
        found, cell = code.seek(
            builder,
            handle,
            [part.value for part in prefix],
            after,
            lambda running: condition(builder, running.weight, self._beside(running.values)),
        )
        null = any_null(builder, prefix)
        return found if null is None else builder.and_(found, builder.not_(null)), NullableValue(cell)

    def _beside(self, summed: Sequence[IRValue]) -> tuple[IRValue | None, ...]:
        """The sums of a tree beside the values of the map, None where the value is a DOUBLE."""
        rest = iter(summed)
        return tuple(next(rest) if type_ == I128 else None for type_ in self._rings.value_types())
