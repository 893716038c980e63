"""Records that lie by their prefix: those with equal leading columns behind each other, in the order of the last one.

Where all keys of a map are the columns of one order, its groups can hold the records themselves. Then to read a
range and change an entry of it touches one piece of memory. The records of a group that has become a tree lie in a
hash table, as those of other maps do, and the tree has their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    COLD,
    IRValue,
    Local,
    check,
    escape,
    forever,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, NULL_POINTER, PTR, MapRecord, StructLayout
from tidemill.runtimes.native.llvm.codegen.memory import copy, fill
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode
from tidemill.runtimes.native.llvm.containers.ordered_groups import ARRAY_LIMIT
from tidemill.runtimes.native.llvm.maps.ordered_index import OrderedIndexCode
from tidemill.runtimes.native.llvm.maps.record_store import InlineStore

CURSOR = StructLayout()
"""A cursor over all records: slots of the table, then groups, then items of one."""
for _name in ("slot", "group", "item"):
    CURSOR.field(_name, I64)


class ClusteredStore:
    """The records of a map in the groups of ``order``, or where these are trees, in a table."""

    def __init__(self, record: MapRecord, handle: StructLayout, keys: KeyCode, order: OrderedIndexCode) -> None:
        assert order.groups is not None
        self._table = InlineStore(record, handle, keys)
        self._record, self._handle, self._keys = record, handle, keys
        self._order, self._groups = order, order.groups
        handle.field("clustered", I64)

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        self._table.create(builder, handle)

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        self._table.destroy(builder, handle)

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        self._table.clear(builder, handle)
        self._handle.store(builder, handle, "clustered", number(0))

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._table.bytes(builder, handle)

    def count(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return builder.add(self._table.count(builder, handle), self._handle.load(builder, handle, "clustered"))

    def locate(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, keys: KeyCells) -> IRValue:
        code, found = self._groups, Local(builder, NULL_POINTER)
        groups = self._order.own(builder, handle)
        prefix, key = self._order.split(builder, keys)
        group = code.find(builder, groups, prefix)
        exists = builder.icmp_unsigned("!=", group, NULL_POINTER)
        with builder.if_then(exists), builder.if_else(code.is_tree(builder, group), likely=False) as (tree, array):
            with tree:
                found.set(self._table.locate(builder, handle, hash_, keys))
            with array:
                place, here = code.position(builder, groups, group, key)
                with builder.if_then(here):
                    found.set(code.item(builder, groups, group, place))
        return found.get()

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        # The records of an array that becomes a tree all move to the table.
        self._table.reserve(builder, handle, ARRAY_LIMIT + 1)
        account = self._handle.load(builder, handle, "account")
        self._groups.reserve(builder, account, self._order.own(builder, handle))

    def insert(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, record: IRValue) -> IRValue:
        code, found = self._groups, Local(builder, NULL_POINTER)
        groups = self._order.own(builder, handle)
        prefix, key = self._order.split(builder, self._keys.of_record(builder, record))
        group = code.find_or_create(builder, groups, prefix)
        with builder.if_then(code.is_full_array(builder, group), likely=False):
            check(builder, builder.call(self._promote_to_tree(builder.module), [handle, group]))
        with builder.if_else(code.is_tree(builder, group), likely=False) as (tree, array):
            with tree:
                found.set(self._table.insert(builder, handle, hash_, record))
            with array:
                place, _ = code.position(builder, groups, group, key)
                found.set(code.open(builder, groups, group, place))
                copy(builder, found.get(), record, self._record.payload)
                self._grow(builder, handle, 1)
        return found.get()

    def _promote_to_tree(self, module: ir.Module) -> ir.Function:
        """``promote_to_tree(handle, group)``: move the records of an array to the table, and their sums to a tree."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, group = arguments

            def move(record: IRValue) -> None:
                hash_ = self._keys.of_record(builder, record).hash(builder)
                self._table.insert(builder, handle, hash_, record)

            status = self._groups.promote_to_tree(builder, self._order.own(builder, handle), group, move)
            self._grow(builder, handle, -ARRAY_LIMIT)
            builder.ret(status)

        name = f"{self._groups.name}.promote_to_tree"
        return self._groups.code.function(module, name, I32, [PTR, PTR], body, *COLD)

    def erase(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> None:
        code = self._groups
        with builder.if_else(self._table.holds(builder, handle, entry), likely=False) as (tree, array):
            with tree:
                self._table.erase(builder, handle, entry)
            with array:
                groups = self._order.own(builder, handle)
                prefix, _ = self._order.split(builder, self._keys.of_record(builder, entry))
                group = code.find(builder, groups, prefix)
                first = code.item(builder, groups, group, number(0))
                distance = builder.sub(builder.ptrtoint(entry, I64), builder.ptrtoint(first, I64))
                code.drop(builder, groups, group, builder.udiv(distance, number(self._record.size)))
                self._grow(builder, handle, -1)

    def _grow(self, builder: ir.IRBuilder, handle: IRValue, step: int) -> None:
        count = self._handle.load(builder, handle, "clustered")
        self._handle.store(builder, handle, "clustered", builder.add(count, number(step)))

    @contextmanager
    def each(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[IRValue]:
        cursor = on_stack(builder, CURSOR.size)
        fill(builder, cursor, 0, CURSOR.size)
        with forever(builder) as ended:
            entry = builder.call(self._next(builder.module), [handle, cursor])
            escape(builder, builder.icmp_unsigned("==", entry, NULL_POINTER), ended)
            yield entry

    def _next(self, module: ir.Module) -> ir.Function:
        """``next(handle, cursor)``: the next record of all, or null."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, cursor = arguments
            code, groups = self._groups, self._order.own(builder, handle)

            def unfinished(name: str, table: IRValue) -> Callable[[], IRValue]:
                last = TABLE.load(builder, table, "mask")
                return lambda: builder.icmp_unsigned("<=", CURSOR.load(builder, cursor, name), last)

            def advance(name: str) -> IRValue:
                place = CURSOR.load(builder, cursor, name)
                CURSOR.store(builder, cursor, name, builder.add(place, number(1)))
                return place

            table = self._table.table(builder, handle)
            with loop_while(builder, unfinished("slot", table)):
                slot = hash_table.slot_at(builder, table, advance("slot"), self._record.size)
                with builder.if_then(hash_table.is_taken(builder, slot)):
                    builder.ret(slot)
            table = code.table(builder, groups)
            with loop_while(builder, unfinished("group", table)):
                group = hash_table.slot_at(builder, table, CURSOR.load(builder, cursor, "group"), code.group.size)
                array = builder.and_(hash_table.is_taken(builder, group), builder.not_(code.is_tree(builder, group)))
                place = advance("item")
                more = builder.icmp_unsigned("<", place, code.count(builder, group))
                with builder.if_then(builder.and_(array, more)):
                    builder.ret(code.item(builder, groups, group, place))
                advance("group")
                CURSOR.store(builder, cursor, "item", number(0))
            builder.ret(NULL_POINTER)

        return self._groups.code.function(module, f"{self._groups.name}.next", PTR, [PTR, PTR], body, "noinline")

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, hash_: IRValue, prefetcher: Prefetcher) -> None:
        """The order asks for its groups; the table is small as long as these are."""
