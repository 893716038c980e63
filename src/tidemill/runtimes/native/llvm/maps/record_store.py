"""Stores of a map's records: within the slots of its hash table, or in a pool that several indexes point into.

A map of small records without secondary indexes takes one cache miss an access, because its slots are the records. In
a pool records never move, so an index holds ids of 4 bytes, and the entries of a *slice* (those with equal values in
the columns of an index) are a list through the records themselves: entering and leaving it is O(1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, count_up, loop_while, number
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, NULL_POINTER, PTR, MapRecord, StructLayout, at
from tidemill.runtimes.native.llvm.codegen.memory import check_granted, copy, enlarged, release, resize
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode

KeyPositions = tuple[int, ...]

SLOT = StructLayout()
"""The slot of an index: a record, or the first record of a slice."""
SLOT.field("tag", I32)
SLOT.field("id", I32)


LARGE_POOL = 1 << 13
"""Number of records from which a pool grows by little at a time."""


class RecordStore(Protocol):
    """Records by their hash. All methods emit code; ``handle`` is the memory of the map."""

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Make the empty store, or return the status of the failure."""

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Give its memory back."""

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Forget all records, or return the status of the failure."""

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The memory of the store."""

    def count(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The number of records."""

    def locate(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, keys: KeyCells) -> IRValue:
        """The record with this key, which has this hash, or null."""

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """See to it that one more record can be inserted, or return the status of the failure."""

    def insert(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, record: IRValue) -> IRValue:
        """Take in a copy of a record that is not there yet, and give its place."""

    def erase(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> None:
        """Remove a record."""

    def each(self, builder: ir.IRBuilder, handle: IRValue) -> AbstractContextManager[IRValue]:
        """Run what is emitted within for every record."""

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, prefetcher: Prefetcher) -> None:
        """Ask for the memory in which a record with this hash would be."""


class InlineStore:
    """Records in the slots of one hash table."""

    def __init__(self, record: MapRecord, handle: StructLayout, keys: KeyCode) -> None:
        self._record, self._handle, self._keys = record, handle, keys
        handle.part("table", TABLE)

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        hash_table.create(builder, self._account(builder, handle), self.table(builder, handle), self._record.size)

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        hash_table.destroy(builder, self._account(builder, handle), self.table(builder, handle), self._record.size)

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        hash_table.clear(builder, self._account(builder, handle), self.table(builder, handle), self._record.size)

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return hash_table.bytes_of(builder, self.table(builder, handle), self._record.size)

    def count(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return TABLE.load(builder, self.table(builder, handle), "count")

    def locate(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, keys: KeyCells) -> IRValue:
        size = self._record.size
        return hash_table.probe(
            builder, self.table(builder, handle), hash_, size, lambda entry: self._keys.matches(builder, entry, keys)
        )

    def holds(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> IRValue:
        """An i1: whether a record lies in this store."""
        slots = builder.ptrtoint(TABLE.load(builder, self.table(builder, handle), "slots"), I64)
        distance = builder.sub(builder.ptrtoint(entry, I64), slots)
        return builder.icmp_unsigned("<", distance, self.bytes(builder, handle))

    def reserve(self, builder: ir.IRBuilder, handle: IRValue, more: int = 1) -> None:
        account = self._account(builder, handle)
        hash_table.reserve(builder, account, self.table(builder, handle), self._record.size, more)

    def insert(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, record: IRValue) -> IRValue:
        slot = hash_table.claim(builder, self.table(builder, handle), hash_, self._record.size)
        self._record.store(builder, record, "tag", hash_table.tag_of(builder, hash_))
        copy(builder, slot, record, self._record.payload)
        return slot

    def erase(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> None:
        hash_table.vacate(builder, self.table(builder, handle), entry, self._record.size)

    @contextmanager
    def each(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[IRValue]:
        with hash_table.each_slot(builder, self.table(builder, handle), self._record.size) as slot:
            yield slot

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, prefetcher: Prefetcher) -> None:
        size = self._record.size
        prefetcher.request(hash_table.home(builder, self.table(builder, handle), hash_, size), size)

    def _account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.load(builder, handle, "account")

    def table(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The table."""
        return self._handle.address(builder, handle, "table")


class PooledStore:
    """Records in a pool, found through a table of their ids, with a table of first records for each slice index."""

    def __init__(self, record: MapRecord, handle: StructLayout, keys: KeyCode, indexes: Sequence[KeyPositions]) -> None:
        self._record, self._handle, self._keys = record, handle, keys
        self.indexes = tuple(indexes)
        handle.part("table", TABLE)
        self._declare(record, handle)
        handle.field("records", PTR)
        handle.field("capacity", I64)
        handle.field("high", I64)
        handle.field("free", I32)

    def _declare(self, record: MapRecord, handle: StructLayout) -> None:
        """Say what the indexes need in every record and in the handle."""
        for i in range(len(self.indexes)):
            record.field(f"next{i}", I32)
            record.field(f"previous{i}", I32)
            handle.part(f"slice{i}", TABLE)

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        self._handle.store(builder, handle, "high", number(1))  # the id 0 is no record
        for table in self._tables(builder, handle):
            hash_table.create(builder, self._account(builder, handle), table, SLOT.size)

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        account = self._account(builder, handle)
        for table in self._tables(builder, handle):
            hash_table.destroy(builder, account, table, SLOT.size)
        release(builder, account, self._handle.load(builder, handle, "records"), self._pool_bytes(builder, handle))
        self._handle.store(builder, handle, "records", NULL_POINTER)
        self._handle.store(builder, handle, "capacity", number(0))
        self._handle.store(builder, handle, "free", number(0, I32))

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        for table in self._tables(builder, handle):
            hash_table.clear(builder, self._account(builder, handle), table, SLOT.size)
        self._handle.store(builder, handle, "high", number(1))
        self._handle.store(builder, handle, "free", number(0, I32))

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        total = self._pool_bytes(builder, handle)
        for table in self._tables(builder, handle):
            total = builder.add(total, hash_table.bytes_of(builder, table, SLOT.size))
        return total

    def _pool_bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return builder.mul(self._handle.load(builder, handle, "capacity"), number(self._record.size))

    def count(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return TABLE.load(builder, self._table(builder, handle), "count")

    def locate(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, keys: KeyCells) -> IRValue:
        table = self._table(builder, handle)
        return self._first(builder, handle, table, hash_, lambda entry: self._keys.matches(builder, entry, keys))

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        account = self._account(builder, handle)
        for table in self._tables(builder, handle):
            hash_table.reserve(builder, account, table, SLOT.size)
        high, capacity, free = (self._handle.load(builder, handle, name) for name in ("high", "capacity", "free"))
        full = builder.icmp_unsigned(">=", high, capacity)
        none_free = builder.icmp_unsigned("==", free, number(0, I32))
        with builder.if_then(builder.and_(full, none_free), likely=False):
            more = builder.add(enlarged(builder, capacity, LARGE_POOL), number(8))
            old, new = (builder.mul(records, number(self._record.size)) for records in (capacity, more))
            records = resize(builder, account, self._handle.load(builder, handle, "records"), old, new)
            check_granted(builder, account, records)
            self._handle.store(builder, handle, "records", records)
            self._handle.store(builder, handle, "capacity", more)

    def insert(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, record: IRValue) -> IRValue:
        id_ = self._take_id(builder, handle)
        entry = self.at(builder, handle, id_)
        self._record.store(builder, record, "tag", hash_table.tag_of(builder, hash_))
        copy(builder, entry, record, self._record.payload)
        slot = hash_table.claim(builder, self._table(builder, handle), hash_, SLOT.size)
        SLOT.store(builder, slot, "id", id_)
        for i in range(len(self.indexes)):
            self._link(builder, handle, i, entry, id_)
        return entry

    def erase(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> None:
        id_ = self._id(builder, handle, entry)
        for i in range(len(self.indexes)):
            self._unlink(builder, handle, i, entry, id_)
        hash_ = builder.shl(builder.zext(hash_table.tag_at(builder, entry), I64), number(32))
        self._vacate(builder, self._table(builder, handle), hash_, id_)
        self._record.store(builder, entry, "tag", number(0, I32))
        self._record.store(builder, entry, "stamp", self._handle.load(builder, handle, "free"))
        self._handle.store(builder, handle, "free", id_)

    @contextmanager
    def each(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[IRValue]:
        with count_up(builder, number(1), self._handle.load(builder, handle, "high")) as place:
            entry = at(
                builder, self._handle.load(builder, handle, "records"), builder.mul(place, number(self._record.size))
            )
            with builder.if_then(builder.icmp_unsigned("!=", hash_table.tag_at(builder, entry), number(0, I32))):
                yield entry

    @contextmanager
    def each_in_slice(
        self, builder: ir.IRBuilder, handle: IRValue, places: KeyPositions, cells: Sequence[IRValue]
    ) -> Iterator[IRValue]:
        """Run what is emitted within for every record that has ``cells`` at ``places``, one of the indexes."""
        i = self.indexes.index(places)
        first = self.first_in_slice(builder, handle, places, cells)
        id_ = Local(builder, builder.select(_is_null(builder, first), number(0, I32), self._id(builder, handle, first)))
        with loop_while(builder, lambda: builder.icmp_unsigned("!=", id_.get(), number(0, I32))):
            entry = self.at(builder, handle, id_.get())
            id_.set(self._record.load(builder, entry, f"next{i}"))
            yield entry

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, prefetcher: Prefetcher) -> None:
        self._prefetch(builder, handle, self._table(builder, handle), hash_, prefetcher)

    def prefetch_slice(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        places: KeyPositions,
        cells: Sequence[IRValue],
        prefetcher: Prefetcher,
    ) -> None:
        """Ask for the first record of a slice."""
        table = self._slice(builder, handle, self.indexes.index(places))
        self._prefetch(builder, handle, table, hash_table.hash_of(builder, cells), prefetcher)

    def _prefetch(
        self, builder: ir.IRBuilder, handle: IRValue, table: IRValue, hash_: IRValue, prefetcher: Prefetcher
    ) -> None:
        slot = hash_table.home(builder, table, hash_, SLOT.size)
        prefetcher.request(slot, SLOT.size)
        records = self._handle.load(builder, handle, "records")
        prefetcher.request_later(SLOT.address(builder, slot, "id"), records, self._record.size)

    def _link(self, builder: ir.IRBuilder, handle: IRValue, i: int, entry: IRValue, id_: IRValue) -> None:
        """Put a new record at the front of its slice."""
        with self._unless_null(builder, entry, i) as cells:
            self._record.store(builder, entry, f"previous{i}", number(0, I32))
            table, hash_ = self._slice(builder, handle, i), hash_table.hash_of(builder, cells)
            slot = hash_table.probe(builder, table, hash_, SLOT.size, self._head_matches(builder, handle, i, cells))
            with builder.if_else(_is_null(builder, slot)) as (first, further):
                with first:
                    self._record.store(builder, entry, f"next{i}", number(0, I32))
                    SLOT.store(builder, hash_table.claim(builder, table, hash_, SLOT.size), "id", id_)
                with further:
                    head = SLOT.load(builder, slot, "id")
                    self._record.store(builder, entry, f"next{i}", head)
                    self._record.store(builder, self.at(builder, handle, head), f"previous{i}", id_)
                    SLOT.store(builder, slot, "id", id_)

    def _unlink(self, builder: ir.IRBuilder, handle: IRValue, i: int, entry: IRValue, id_: IRValue) -> None:
        with self._unless_null(builder, entry, i) as cells:
            following, previous = (self._record.load(builder, entry, f"{name}{i}") for name in ("next", "previous"))
            with builder.if_then(builder.icmp_unsigned("!=", following, number(0, I32))):
                self._record.store(builder, self.at(builder, handle, following), f"previous{i}", previous)
            with builder.if_else(builder.icmp_unsigned("!=", previous, number(0, I32))) as (inner, front):
                with inner:
                    self._record.store(builder, self.at(builder, handle, previous), f"next{i}", following)
                with front:
                    self._unlink_front(builder, handle, i, cells, id_, following)

    def _unlink_front(
        self, builder: ir.IRBuilder, handle: IRValue, i: int, cells: Sequence[IRValue], id_: IRValue, following: IRValue
    ) -> None:
        table, hash_ = self._slice(builder, handle, i), hash_table.hash_of(builder, cells)
        with builder.if_else(builder.icmp_unsigned("!=", following, number(0, I32))) as (others, alone):
            with others:
                slot = hash_table.probe(builder, table, hash_, SLOT.size, _has_id(builder, id_))
                SLOT.store(builder, slot, "id", following)
            with alone:
                self._vacate(builder, table, hash_, id_)

    @contextmanager
    def _unless_null(self, builder: ir.IRBuilder, entry: IRValue, i: int) -> Iterator[list[IRValue]]:
        """Records with NULL in a column of an index are in none of its slices: NULL equals nothing."""
        keys, places = self._keys.of_record(builder, entry), self.indexes[i]
        null = self._keys.has_null(builder, keys, places)
        with builder.if_then(builder.not_(null) if null is not None else number(1, ir.IntType(1))):
            yield [keys.cells[place] for place in places]

    def first_in_slice(
        self, builder: ir.IRBuilder, handle: IRValue, places: KeyPositions, cells: Sequence[IRValue]
    ) -> IRValue:
        """The first record that has ``cells`` at ``places``, one of the indexes, or null."""
        i = self.indexes.index(places)

        def matches(entry: IRValue) -> IRValue:
            return self._keys.matches_at(builder, entry, self.indexes[i], cells)

        hash_ = hash_table.hash_of(builder, cells)
        return self._first(builder, handle, self._slice(builder, handle, i), hash_, matches)

    def _first(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        table: IRValue,
        hash_: IRValue,
        matches: Callable[[IRValue], IRValue],
    ) -> IRValue:
        """The record behind the slot with this hash for which ``matches`` holds, or null."""
        found = Local(builder, NULL_POINTER)

        def held(slot: IRValue) -> IRValue:
            found.set(self.at(builder, handle, SLOT.load(builder, slot, "id")))
            return matches(found.get())

        slot = hash_table.probe(builder, table, hash_, SLOT.size, held)
        return builder.select(_is_null(builder, slot), NULL_POINTER, found.get())

    def _head_matches(
        self, builder: ir.IRBuilder, handle: IRValue, i: int, cells: Sequence[IRValue]
    ) -> Callable[[IRValue], IRValue]:
        def matches(slot: IRValue) -> IRValue:
            entry = self.at(builder, handle, SLOT.load(builder, slot, "id"))
            return self._keys.matches_at(builder, entry, self.indexes[i], cells)

        return matches

    def _vacate(self, builder: ir.IRBuilder, table: IRValue, hash_: IRValue, id_: IRValue) -> None:
        slot = hash_table.probe(builder, table, hash_, SLOT.size, _has_id(builder, id_))
        hash_table.vacate(builder, table, slot, SLOT.size)

    def _take_id(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        free = self._handle.load(builder, handle, "free")
        found = Local(builder, free)
        with builder.if_else(builder.icmp_unsigned("!=", free, number(0, I32))) as (reused, fresh):
            with reused:
                following = self._record.load(builder, self.at(builder, handle, free), "stamp")
                self._handle.store(builder, handle, "free", following)
            with fresh:
                high = self._handle.load(builder, handle, "high")
                found.set(builder.trunc(high, I32))
                self._handle.store(builder, handle, "high", builder.add(high, number(1)))
        return found.get()

    def at(self, builder: ir.IRBuilder, handle: IRValue, id_: IRValue) -> IRValue:
        """The record with that id."""
        offset = builder.mul(builder.zext(id_, I64), number(self._record.size))
        return at(builder, self._handle.load(builder, handle, "records"), offset)

    def _id(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> IRValue:
        records = self._handle.load(builder, handle, "records")
        distance = builder.sub(builder.ptrtoint(entry, I64), builder.ptrtoint(records, I64))
        return builder.trunc(builder.udiv(distance, number(self._record.size)), I32)

    def _account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.load(builder, handle, "account")

    def _table(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.address(builder, handle, "table")

    def _slice(self, builder: ir.IRBuilder, handle: IRValue, i: int) -> IRValue:
        return self._handle.address(builder, handle, f"slice{i}")

    def _tables(self, builder: ir.IRBuilder, handle: IRValue) -> list[IRValue]:
        return [self._table(builder, handle), *(self._slice(builder, handle, i) for i in range(len(self.indexes)))]


def _has_id(builder: ir.IRBuilder, id_: IRValue) -> Callable[[IRValue], IRValue]:
    return lambda slot: builder.icmp_unsigned("==", SLOT.load(builder, slot, "id"), id_)


def _is_null(builder: ir.IRBuilder, place: IRValue) -> IRValue:
    return builder.icmp_unsigned("==", place, NULL_POINTER)
