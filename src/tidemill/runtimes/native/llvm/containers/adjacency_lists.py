"""Adjacency: from the values of some key columns to an array of what is in the others, one item behind the other.

An item has the key columns that are not looked up, the weight, the id of its record in the pool, and flags. So a walk
that follows an index reads memory in order, and comes to a record only for what items do not have. Items lie column by
column (see ``column_buffer.ColumnLayout``), so that many are copied at once. A list has room for a power of two of
items, in one piece of memory with all others of its index; a slot of a hash table says where.

A record knows its place in the list, so that its weight is changed, and itself taken out, without a search: the last
item of the list takes its place. Weights are bytes here; one that does not fit is ``LARGE_WEIGHT`` and is read in the
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    check,
    count_up,
    define,
    number,
)
from tidemill.runtimes.native.llvm.codegen.layout import (
    I1,
    I8,
    I32,
    I64,
    NULL_POINTER,
    PTR,
    MapRecord,
    Status,
    StructLayout,
    at,
    cell_type,
    size_of,
)
from tidemill.runtimes.native.llvm.codegen.memory import check_granted, copy, enlarged, refused, release, resize
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher, prefetch, prefetch_lines
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.column_buffer import (
    LANES,
    LARGE_WEIGHT,
    ColumnLayout,
    aligned_columns,
    null_column,
)
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import find_cells
from tidemill.runtimes.native.llvm.containers.slices import ListLayout, ListSlice

UNIT = 8
"""Alignment of lists in bytes, and the unit of places in their memory."""

MAX_SIZE_BITS = 32
"""A list has room for ``2 ** bits`` items, with fewer ``bits`` than this."""

PADDING_UNITS = 16 * LANES // UNIT
"""Memory after the last list: items are read some at a time, the last of which may not be there."""

LARGE_UNITS = 1 << 14
"""Units from which memory grows by little at a time."""

MOST_FREED = 3
"""Lists are moved together, rather than given more memory, when the free ones are one part in so many."""

PREFETCHED_UNITS = 16
"""The units of a list that are prefetched."""

PREFETCHED_BYTES = 1024
"""And so many bytes of it where it is known to be long: the machine itself sees that memory is read in order late."""

LISTS = StructLayout()
"""All lists of an index: ``high`` is where new ones begin, ``free...`` where old ones of each size are.

``freed`` is how much these are together. Lists that grow alike leave sizes that none of them needs again, in all as
much as they have.
"""
LISTS.part("table", TABLE)
LISTS.field("memory", PTR)
LISTS.field("capacity", I64)
LISTS.field("high", I64)
LISTS.field("freed", I64)
for _bits in range(MAX_SIZE_BITS):
    LISTS.field(f"free{_bits}", I32)


class AdjacencyListCode:
    """The lists of one index of a map, within its handle at ``part``."""

    def __init__(self, map_: Map, record: MapRecord, handle: StructLayout, part: str, places: Sequence[int]) -> None:
        self.record, self._handle, self._part = record, handle, part
        self.places = tuple(places)
        self._place = f"place in {part}"
        handle.part(part, LISTS)
        record.field(self._place, I32)
        cells: dict[str, ir.Type] = {"id": I32, "weight": I8, "flags": I8}
        self._own = [i for i in range(len(map_.keys)) if i not in self.places]
        self._nullable = [i for i in self._own if map_.keys[i].nullable]
        cells |= {f"key{i}": cell_type(map_.keys[i].type) for i in self._own}
        cells |= {null_column(f"key{i}"): I8 for i in self._nullable}
        self.columns: ColumnLayout = aligned_columns(cells)
        self.layout = ListLayout(self.places, self.columns, record)
        self.slot = StructLayout()
        for name, type_ in (("tag", I32), ("count", I32), ("place", I32), ("bits", I8), ("flags", I8)):
            self.slot.field(name, type_)
        self._cells = [cell_type(map_.keys[i].type) for i in self.places]
        for i, type_ in enumerate(self._cells):
            self.slot.field(f"cell{i}", type_)

    # ------------------------------------------------------------------------------------------------- as a whole

    def create(self, builder: ir.IRBuilder, handle: IRValue, account: IRValue) -> None:
        """Create it empty, or return the status of the failure."""
        LISTS.store(builder, self._lists(builder, handle), "high", number(1))  # the place 0 is none
        hash_table.create(builder, account, self._table(builder, handle), self.slot.size)

    def destroy(self, builder: ir.IRBuilder, handle: IRValue, account: IRValue) -> None:
        """Give the memory back."""
        lists = self._lists(builder, handle)
        hash_table.destroy(builder, account, self._table(builder, handle), self.slot.size)
        bytes_ = builder.mul(LISTS.load(builder, lists, "capacity"), number(UNIT))
        release(builder, account, LISTS.load(builder, lists, "memory"), bytes_)
        LISTS.store(builder, lists, "memory", NULL_POINTER)
        LISTS.store(builder, lists, "capacity", number(0))

    def clear(self, builder: ir.IRBuilder, handle: IRValue, account: IRValue) -> None:
        """Forget all lists, or return the status of the failure."""
        hash_table.clear(builder, account, self._table(builder, handle), self.slot.size)
        LISTS.store(builder, self._lists(builder, handle), "high", number(1))
        _forget_free(builder, self._lists(builder, handle))

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The memory of all lists."""
        capacity = LISTS.load(builder, self._lists(builder, handle), "capacity")
        table = hash_table.bytes_of(builder, self._table(builder, handle), self.slot.size)
        return builder.add(table, builder.mul(capacity, number(UNIT)))

    # ----------------------------------------------------------------------------------------------------- finding

    def find(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> IRValue:
        """The slot of the list of these values, or null."""
        return find_cells(builder, self._table(builder, handle), self.slot, cells)

    def slice(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue], possible: IRValue) -> ListSlice:
        """The list of these values, empty where there is none or where it is not ``possible``."""
        slot = Local(builder, NULL_POINTER)
        with builder.if_then(possible):
            slot.set(self.find(builder, handle, cells))
        return self.at(builder, handle, slot.get(), cells)

    def at(self, builder: ir.IRBuilder, handle: IRValue, slot: IRValue, cells: Sequence[IRValue]) -> ListSlice:
        """The list of a slot, empty where it is null."""
        rows, data, capacity = Local(builder, number(0)), Local(builder, NULL_POINTER), Local(builder, number(0))
        with builder.if_then(builder.icmp_unsigned("!=", slot, NULL_POINTER)):
            rows.set(builder.zext(self.slot.load(builder, slot, "count"), I64))
            data.set(self._data(builder, handle, self.slot.load(builder, slot, "place")))
            capacity.set(self._room(builder, self.slot.load(builder, slot, "bits")))
        return ListSlice(self.layout, slot, data.get(), capacity.get(), rows.get(), tuple(cells))

    def slice_of(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> tuple[ListSlice, IRValue]:
        """The list that a record is in, whose columns of the index are not NULL, and its place there."""
        cells = self.cells_of(builder, entry)
        found = self.at(builder, handle, self.find(builder, handle, cells), cells)
        return found, builder.zext(self.record.load(builder, entry, self._place), I64)

    def cells_of(self, builder: ir.IRBuilder, entry: IRValue) -> list[IRValue]:
        """The values of a record in the columns of the index."""
        return [self.record.load(builder, entry, f"key{place}") for place in self.places]

    @contextmanager
    def each_id(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> Iterator[IRValue]:
        """Run what is emitted within for the id of every item of a list."""
        found = self.slice(builder, handle, cells, number(1, I1))
        with count_up(builder, number(0), found.rows) as place:
            yield found.load(builder, place, "id")

    def prefetch(
        self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue], prefetcher: Prefetcher
    ) -> None:
        """Ask for the slot of a list, and then for its first items."""
        slot = self._home(builder, handle, cells)
        prefetcher.request(slot, self.slot.size)
        first = LISTS.load(builder, self._lists(builder, handle), "memory")
        prefetcher.request_later(self.slot.address(builder, slot, "place"), first, UNIT, PREFETCHED_UNITS)

    def prefetch_slot(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> None:
        """Ask for the memory in which the slot of a list would be."""
        prefetch(builder, self._home(builder, handle, cells))

    def prefetch_items(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> None:
        """Ask for the items of a list whose slot is there by now; the guess may be wrong, and costs little."""
        slot = self._home(builder, handle, cells)
        place, count, bits = (self.slot.load(builder, slot, name) for name in ("place", "count", "bits"))
        first = self._data(builder, handle, place)
        prefetch(builder, self.columns.first(builder, first, self._room(builder, bits), "weight"))
        widest = size_of(next(iter(self.columns.types.values())))
        bytes_ = builder.mul(builder.zext(count, I64), number(widest))
        wanted = builder.select(
            builder.icmp_unsigned("<", bytes_, number(PREFETCHED_BYTES)), bytes_, number(PREFETCHED_BYTES)
        )
        prefetch_lines(builder, first, wanted)

    @contextmanager
    def probable_list(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> Iterator[ListSlice]:
        """Run what is emitted within for the list that is most likely that of ``cells``, if there is one at all."""
        slot = self._home(builder, handle, cells)
        tag = hash_table.tag_of(builder, hash_table.hash_of(builder, cells))
        with builder.if_then(builder.icmp_unsigned("==", hash_table.tag_at(builder, slot), tag)):
            yield self.at(builder, handle, slot, cells)

    def _home(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> IRValue:
        return hash_table.home(
            builder, self._table(builder, handle), hash_table.hash_of(builder, cells), self.slot.size
        )

    # ---------------------------------------------------------------------------------------------------- changing

    def reserve(self, builder: ir.IRBuilder, handle: IRValue, account: IRValue, record: IRValue) -> None:
        """See to it that a record can be appended, or return the status of the failure."""
        hash_table.reserve(builder, account, self._table(builder, handle), self.slot.size)
        slot = self.find(builder, handle, self.cells_of(builder, record))
        bits = Local(builder, number(0, I8))
        full = Local(builder, builder.icmp_unsigned("==", slot, NULL_POINTER))
        with builder.if_then(builder.not_(full.get())):
            now = self.slot.load(builder, slot, "bits")
            count = builder.zext(self.slot.load(builder, slot, "count"), I64)
            full.set(builder.icmp_unsigned("==", count, self._room(builder, now)))
            bits.set(builder.add(now, number(1, I8)))
        with builder.if_then(full.get()):
            check(
                builder, builder.call(self._extend(builder.module), [account, self._lists(builder, handle), bits.get()])
            )

    def append(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue, id_: IRValue) -> None:
        """Put a record at the end of its list; ``reserve`` has seen to it that there is room."""
        cells = self.cells_of(builder, entry)
        slot = Local(builder, self.find(builder, handle, cells))
        with builder.if_then(builder.icmp_unsigned("==", slot.get(), NULL_POINTER)):
            slot.set(self._begin(builder, handle, cells))
        count = self.slot.load(builder, slot.get(), "count")
        room = self._room(builder, self.slot.load(builder, slot.get(), "bits"))
        with builder.if_then(builder.icmp_unsigned("==", builder.zext(count, I64), room), likely=False):
            self._enlarge(builder, handle, slot.get())
        self.slot.store(builder, slot.get(), "count", builder.add(count, number(1, I32)))
        self.record.store(builder, entry, self._place, count)
        place, found = builder.zext(count, I64), self.at(builder, handle, slot.get(), cells)
        found.store(builder, place, "id", id_)
        found.store(builder, place, "weight", _small(builder, self.record.load(builder, entry, "weight")))
        found.store(builder, place, "flags", number(0, I8))
        for i in self._own:
            found.store(builder, place, f"key{i}", self.record.load(builder, entry, f"key{i}"))
        for i in self._nullable:
            bit = builder.lshr(self.record.load(builder, entry, "nulls"), number(i))
            found.store(builder, place, null_column(f"key{i}"), builder.and_(builder.trunc(bit, I8), number(1, I8)))

    def remove(
        self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue, record: Callable[[IRValue], IRValue]
    ) -> None:
        """Take a record out of its list; ``record`` gives the record of an id."""
        found, place = self.slice_of(builder, handle, entry)
        last = builder.sub(found.rows, number(1))
        with builder.if_then(builder.icmp_unsigned("!=", place, last)):
            for name in self.columns.types:
                found.store(builder, place, name, found.load(builder, last, name))
            moved = record(found.load(builder, place, "id"))
            self.record.store(builder, moved, self._place, builder.trunc(place, I32))
        self.slot.store(builder, found.slot, "count", builder.trunc(last, I32))
        with builder.if_then(builder.icmp_unsigned("==", last, number(0))):
            self._release(builder, handle, *(self.slot.load(builder, found.slot, name) for name in ("place", "bits")))
            hash_table.vacate(builder, self._table(builder, handle), found.slot, self.slot.size)

    def set_weight(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue, weight: IRValue) -> None:
        """Set the weight of the item of a record."""
        found, place = self.slice_of(builder, handle, entry)
        found.store(builder, place, "weight", _small(builder, weight))

    # ------------------------------------------------------------------------------------------------------ memory

    def _begin(self, builder: ir.IRBuilder, handle: IRValue, cells: Sequence[IRValue]) -> IRValue:
        """A new list without items."""
        slot = hash_table.claim(
            builder, self._table(builder, handle), hash_table.hash_of(builder, cells), self.slot.size
        )
        for i, cell in enumerate(cells):
            self.slot.store(builder, slot, f"cell{i}", cell)
        self.slot.store(builder, slot, "count", number(0, I32))
        self.slot.store(builder, slot, "place", self._take(builder, handle, number(0, I8)))
        for name in ("bits", "flags"):
            self.slot.store(builder, slot, name, number(0, I8))
        return slot

    def _enlarge(self, builder: ir.IRBuilder, handle: IRValue, slot: IRValue) -> None:
        """Double the capacity of a list."""
        place, bits = (self.slot.load(builder, slot, name) for name in ("place", "bits"))
        larger = builder.add(bits, number(1, I8))
        new = self._take(builder, handle, larger)
        rows = builder.zext(self.slot.load(builder, slot, "count"), I64)
        for name, type_ in self.columns.types.items():
            source, target = (
                self.columns.first(builder, self._data(builder, handle, of), self._room(builder, room), name)
                for of, room in ((place, bits), (new, larger))
            )
            copy(builder, target, source, builder.mul(rows, number(size_of(type_))))
        self._release(builder, handle, place, bits)
        self.slot.store(builder, slot, "place", new)
        self.slot.store(builder, slot, "bits", larger)

    def _extend(self, module: ir.Module) -> ir.Function:
        """``extend(account, lists, bits)``: have memory for one more list of that size."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            account, lists, bits = arguments
            free = builder.load(_free(builder, lists, bits), typ=I32, align=4)
            high, freed, capacity = (LISTS.load(builder, lists, name) for name in ("high", "freed", "capacity"))
            more = builder.add(self._units(builder, bits), number(PADDING_UNITS))
            needed = builder.add(high, more)
            there = builder.icmp_unsigned("<=", needed, capacity)
            with builder.if_then(builder.or_(builder.icmp_unsigned("!=", free, number(0, I32)), there)):
                builder.ret(number(0, I32))
            with builder.if_then(builder.icmp_unsigned(">=", builder.mul(freed, number(MOST_FREED)), high)):
                self._compact(builder, account, lists, builder.add(builder.sub(high, freed), more))
            with builder.if_then(builder.icmp_unsigned(">=", needed, number(1 << 32)), likely=False):
                builder.ret(number(Status.MEMORY, I32))  # a place is a number of 32 bits
            units = enlarged(builder, needed, LARGE_UNITS)
            old, new = (builder.mul(each, number(UNIT)) for each in (capacity, units))
            data = resize(builder, account, LISTS.load(builder, lists, "memory"), old, new)
            check_granted(builder, account, data)
            LISTS.store(builder, lists, "memory", data)
            LISTS.store(builder, lists, "capacity", units)
            builder.ret(number(0, I32))

        name = f"lists.extend.{self.columns.width}.{self.slot.size}"
        return define(module, name, I32, [PTR, PTR, I8], body, "noinline")

    def _compact(self, builder: ir.IRBuilder, account: IRValue, lists: IRValue, needed: IRValue) -> None:
        """Move all lists to new memory without gaps, and return; go on where that memory is refused."""
        units = enlarged(builder, needed, LARGE_UNITS)
        data = resize(builder, account, NULL_POINTER, number(0), builder.mul(units, number(UNIT)))
        with builder.if_then(builder.not_(refused(builder, data)), likely=True):
            old, capacity = (LISTS.load(builder, lists, name) for name in ("memory", "capacity"))
            end = Local(builder, number(1))
            with hash_table.each_slot(builder, LISTS.address(builder, lists, "table"), self.slot.size) as slot:
                place = builder.zext(self.slot.load(builder, slot, "place"), I64)
                own = self._units(builder, self.slot.load(builder, slot, "bits"))
                source, target = (
                    at(builder, first, builder.mul(of, number(UNIT))) for first, of in ((old, place), (data, end.get()))
                )
                copy(builder, target, source, builder.mul(own, number(UNIT)))
                self.slot.store(builder, slot, "place", builder.trunc(end.get(), I32))
                end.set(builder.add(end.get(), own))
            release(builder, account, old, builder.mul(capacity, number(UNIT)))
            for name, value in (("memory", data), ("capacity", units), ("high", end.get())):
                LISTS.store(builder, lists, name, value)
            _forget_free(builder, lists)
            builder.ret(number(0, I32))

    def _take(self, builder: ir.IRBuilder, handle: IRValue, bits: IRValue) -> IRValue:
        """The place of a list of that size; ``reserve`` has seen to it that there is one."""
        lists = self._lists(builder, handle)
        head = _free(builder, lists, bits)
        free = builder.load(head, typ=I32, align=4)
        found = Local(builder, free)
        with builder.if_else(builder.icmp_unsigned("!=", free, number(0, I32))) as (reused, fresh):
            with reused:
                following = builder.load(self._data(builder, handle, free), typ=I32, align=4)
                builder.store(following, head, align=4)
                freed = builder.sub(LISTS.load(builder, lists, "freed"), self._units(builder, bits))
                LISTS.store(builder, lists, "freed", freed)
            with fresh:
                high = LISTS.load(builder, lists, "high")
                found.set(builder.trunc(high, I32))
                LISTS.store(builder, lists, "high", builder.add(high, self._units(builder, bits)))
        return found.get()

    def _release(self, builder: ir.IRBuilder, handle: IRValue, place: IRValue, bits: IRValue) -> None:
        """Put the memory of a list on the free list of its size, linked through its first bytes."""
        lists = self._lists(builder, handle)
        head = _free(builder, lists, bits)
        builder.store(builder.load(head, typ=I32, align=4), self._data(builder, handle, place), align=4)
        builder.store(place, head, align=4)
        freed = builder.add(LISTS.load(builder, lists, "freed"), self._units(builder, bits))
        LISTS.store(builder, lists, "freed", freed)

    def _units(self, builder: ir.IRBuilder, bits: IRValue) -> IRValue:
        """The memory of a list of that size, in units."""
        bytes_ = builder.mul(self._room(builder, bits), number(self.columns.width))
        return builder.udiv(builder.add(bytes_, number(UNIT - 1)), number(UNIT))

    def _room(self, builder: ir.IRBuilder, bits: IRValue) -> IRValue:
        return builder.shl(number(1), builder.zext(bits, I64))

    def _data(self, builder: ir.IRBuilder, handle: IRValue, place: IRValue) -> IRValue:
        first = LISTS.load(builder, self._lists(builder, handle), "memory")
        return at(builder, first, builder.mul(builder.zext(place, I64), number(UNIT)))

    def _lists(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.address(builder, handle, self._part)

    def _table(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return LISTS.address(builder, self._lists(builder, handle), "table")


def _free(builder: ir.IRBuilder, lists: IRValue, bits: IRValue) -> IRValue:
    first = LISTS.address(builder, lists, "free0")
    return at(builder, first, builder.mul(builder.zext(bits, I64), number(4)))


def _forget_free(builder: ir.IRBuilder, lists: IRValue) -> None:
    """There are no free lists."""
    LISTS.store(builder, lists, "freed", number(0))
    for bits in range(MAX_SIZE_BITS):
        LISTS.store(builder, lists, f"free{bits}", number(0, I32))


def _small(builder: ir.IRBuilder, weight: IRValue) -> IRValue:
    """A weight as a byte."""
    small = builder.trunc(weight, I8)
    fits = builder.icmp_signed("==", builder.sext(small, I64), weight)
    return builder.select(fits, small, number(LARGE_WEIGHT, I8))
