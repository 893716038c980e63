"""Ordered items, an array or a tree for each prefix: sorted arrays that are scanned, trees where one would be long.

The items with equal leading columns are found by one probe of a hash table, and lie behind each other in memory. Up to
``ARRAY_LIMIT`` of them that is all: a sum is a scan, which touches a few cache lines, and taking an item in moves those
behind it. A longer array becomes a tree, and stays one until it is empty. Arrays have room for a power of two of items
and lie in one piece of memory, where they leave gaps to be used again.

What an item is depends: a key and its sums (``summed``), or a whole record of the map (``clusters``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    INLINE,
    IRValue,
    Local,
    count_up,
    define,
    escape,
    forever,
    number,
)
from tidemill.runtimes.native.llvm.codegen.layout import I1, I32, I64, NULL_POINTER, PTR, StructLayout, at
from tidemill.runtimes.native.llvm.codegen.memory import check_granted, copy, fill, move, release, resize
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.btree import POOL, BTreeCode, as_struct
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import find_cells

ARRAY_LIMIT_BITS = 6
ARRAY_LIMIT = 1 << ARRAY_LIMIT_BITS
"""No array has more items."""

PREFETCHED_ITEMS = 8
"""Items of an array that are prefetched: on average half of it is read."""

TREE = -1
"""The count of a group that is a tree; its ``place`` is the id of a root then."""

NODES = 16
"""A tree that an array has become has fewer nodes."""


class GroupItems(Protocol):
    """The items of arrays. ``name`` distinguishes their code from that of others."""

    name: str
    size: int

    def key(self, builder: ir.IRBuilder, item: IRValue) -> IRValue:
        """The key of an item, as trees have it."""

    def sums(self, builder: ir.IRBuilder, item: IRValue) -> NodeSums:
        """The sums of an item."""


class OrderedGroupCode:
    """The functions of groups with such prefixes and items. ``groups`` is the memory of all groups of an order."""

    def __init__(
        self, code: CodeHome, prefix: Sequence[ir.Type], trees: BTreeCode, items: GroupItems, beside: int = 0
    ) -> None:
        """``code`` has the functions of the map that the groups belong to.

        Each group has so many bytes ``beside`` it, all zeros in a new one.
        """
        self.code, self.trees, self.items = code, trees, items
        self.prefix = tuple(prefix)
        self.name = f"groups.{items.name}.{'.'.join(map(str, prefix))}.{trees.key}.{len(trees.types)}"
        if beside:
            self.name += f".{beside}"
        self.group = _group_of(prefix, beside)
        self._beside = beside
        self.struct = _groups()

    # ------------------------------------------------------------------------------------------------ as a whole

    def create(self, builder: ir.IRBuilder, account: IRValue, groups: IRValue) -> None:
        """Create it empty, or return the status of the failure; its memory is all zeros."""
        self.struct.store(builder, groups, "high", number(1))  # the place 0 is none
        hash_table.create(builder, account, self.table(builder, groups), self.group.size)

    def destroy(self, builder: ir.IRBuilder, account: IRValue, groups: IRValue) -> None:
        """Give the memory back."""
        hash_table.destroy(builder, account, self.table(builder, groups), self.group.size)
        release(builder, account, self.struct.load(builder, groups, "items"), self._array_bytes(builder, groups))
        self.struct.store(builder, groups, "items", NULL_POINTER)
        self.struct.store(builder, groups, "capacity", number(0))
        self.trees.destroy(builder, account, self.pool(builder, groups))

    def clear(self, builder: ir.IRBuilder, account: IRValue, groups: IRValue) -> None:
        """Forget all groups, or return the status of the failure."""
        hash_table.clear(builder, account, self.table(builder, groups), self.group.size)
        self.trees.clear(builder, self.pool(builder, groups))
        self.struct.store(builder, groups, "high", number(1))
        for bits in range(ARRAY_LIMIT_BITS + 1):
            self.struct.store(builder, groups, f"free{bits}", number(0, I32))

    def bytes(self, builder: ir.IRBuilder, groups: IRValue) -> IRValue:
        """The memory of all groups."""
        table = hash_table.bytes_of(builder, self.table(builder, groups), self.group.size)
        trees = self.trees.bytes(builder, self.pool(builder, groups))
        return builder.add(self._array_bytes(builder, groups), builder.add(table, trees))

    def reserve(self, builder: ir.IRBuilder, account: IRValue, groups: IRValue) -> None:
        """See to it that one more item can be taken in, or return the status of the failure."""
        hash_table.reserve(builder, account, self.table(builder, groups), self.group.size)
        self.reserve_nodes(builder, account, groups)
        high, capacity = (self.struct.load(builder, groups, name) for name in ("high", "capacity"))
        needed = builder.add(high, number(ARRAY_LIMIT))
        with builder.if_then(builder.icmp_unsigned(">", needed, capacity), likely=False):
            more = builder.mul(needed, number(2))
            old, new = (builder.mul(items, number(self.items.size)) for items in (capacity, more))
            items = resize(builder, account, self.struct.load(builder, groups, "items"), old, new)
            check_granted(builder, account, items)
            self.struct.store(builder, groups, "items", items)
            self.struct.store(builder, groups, "capacity", more)

    def reserve_nodes(self, builder: ir.IRBuilder, account: IRValue, groups: IRValue) -> None:
        """See to it that trees can take one more item in, and an array become one."""
        self.trees.reserve(builder, account, self.pool(builder, groups), NODES)

    def prefetch(
        self, builder: ir.IRBuilder, groups: IRValue, prefix: Sequence[IRValue], prefetcher: Prefetcher
    ) -> None:
        """Ask for the memory of the group of a prefix, and of the first items of its array."""
        group = hash_table.home(
            builder, self.table(builder, groups), hash_table.hash_of(builder, prefix), self.group.size
        )
        prefetcher.request(group, self.group.size - self._beside)
        items = self.struct.load(builder, groups, "items")
        prefetcher.request_later(self.group.address(builder, group, "place"), items, self.items.size, PREFETCHED_ITEMS)

    # ------------------------------------------------------------------------------------------------- one group

    def find(self, builder: ir.IRBuilder, groups: IRValue, prefix: Sequence[IRValue]) -> IRValue:
        """The group of a prefix, or null."""
        return find_cells(builder, self.table(builder, groups), self.group, prefix)

    def find_or_create(self, builder: ir.IRBuilder, groups: IRValue, prefix: Sequence[IRValue]) -> IRValue:
        """The group of a prefix, an empty array where there was none."""
        group = Local(builder, self.find(builder, groups, prefix))
        with builder.if_then(builder.icmp_unsigned("==", group.get(), NULL_POINTER), likely=False):
            table, hash_ = self.table(builder, groups), hash_table.hash_of(builder, prefix)
            new = hash_table.claim(builder, table, hash_, self.group.size)
            for i, cell in enumerate(prefix):
                self.group.store(builder, new, f"cell{i}", cell)
            if self._beside:
                fill(builder, self.beside(builder, new), 0, self._beside)
            self.group.store(builder, new, "count", number(0, I32))
            self.group.store(builder, new, "bits", number(0, I32))
            self.group.store(builder, new, "place", self._take(builder, groups, number(0, I32)))
            group.set(new)
        return group.get()

    def beside(self, builder: ir.IRBuilder, group: IRValue) -> IRValue:
        """The bytes beside a group."""
        return self.group.address(builder, group, "beside")

    def is_tree(self, builder: ir.IRBuilder, group: IRValue) -> IRValue:
        """An i1: whether a group is a tree."""
        return builder.icmp_unsigned("==", self.group.load(builder, group, "count"), number(TREE, I32))

    def is_full_array(self, builder: ir.IRBuilder, group: IRValue) -> IRValue:
        """An i1: whether a group is an array that must become a tree before it takes in one more."""
        return builder.icmp_unsigned("==", self.group.load(builder, group, "count"), number(ARRAY_LIMIT, I32))

    def root(self, builder: ir.IRBuilder, group: IRValue) -> IRValue:
        """The id of the root of a group that is a tree."""
        return self.group.load(builder, group, "place")

    def count(self, builder: ir.IRBuilder, group: IRValue) -> IRValue:
        """The number of items in the array of a group, an i64."""
        return builder.zext(self.group.load(builder, group, "count"), I64)

    def item(self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, place: IRValue) -> IRValue:
        """An item of an array."""
        first = self._item_at(builder, groups, self.group.load(builder, group, "place"))
        return self._at(builder, first, place)

    def sum_until(
        self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, key: IRValue, inclusive: IRValue
    ) -> NodeSums:
        """The sums over the items of a group, or null, before ``key``, its own included where ``inclusive`` holds."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            groups, group, key, inclusive = arguments
            totals = [Local(builder, number(0, type_)) for type_ in self.trees.types]
            with builder.if_then(builder.icmp_unsigned("==", group, NULL_POINTER)):
                builder.ret(as_struct(builder, [total.get() for total in totals]))
            with builder.if_then(self.is_tree(builder, group), likely=False):
                root, pool = self.root(builder, group), self.pool(builder, groups)
                summed = self.trees.sum_until(builder, pool, root, key, inclusive)
                builder.ret(as_struct(builder, summed.numbers()))
            item = Local(builder, self.item(builder, groups, group, number(0)))
            end = self._at(builder, item.get(), self.count(builder, group))
            with forever(builder) as ended:
                now = item.get()
                escape(builder, builder.icmp_unsigned("==", now, end), ended)
                held = self.items.key(builder, now)
                above, not_below = (builder.icmp_unsigned(sign, held, key) for sign in (">", ">="))
                escape(builder, builder.select(inclusive, above, not_below), ended)
                for total, part in zip(totals, self.items.sums(builder, now).numbers(), strict=True):
                    total.set(builder.add(total.get(), part))
                item.set(self._at(builder, now, number(1)))
            builder.ret(as_struct(builder, [total.get() for total in totals]))

        result, arguments = ir.LiteralStructType(self.trees.types), [PTR, PTR, self.trees.key, I1]
        function = define(builder.module, f"{self.name}.sum_until", result, arguments, body, INLINE)
        found = builder.call(function, [groups, group, key, inclusive])
        weight, *values = (builder.extract_value(found, i) for i in range(len(self.trees.types)))
        return NodeSums(weight, tuple(values))

    # ----------------------------------------------------------------------------------------- changing an array

    def position(self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, key: IRValue) -> tuple[IRValue, IRValue]:
        """The number of items of an array with a key below ``key``, an i64; and an i1: whether the next one has it."""
        first, count = self.item(builder, groups, group, number(0)), self.count(builder, group)
        place, here = Local(builder, number(0)), Local(builder, number(0, I1))
        with forever(builder) as ended:
            escape(builder, builder.icmp_unsigned("==", place.get(), count), ended)
            held = self.items.key(builder, self._at(builder, first, place.get()))
            with builder.if_then(builder.icmp_unsigned(">=", held, key)):
                here.set(builder.icmp_unsigned("==", held, key))
                builder.branch(ended)
            place.set(builder.add(place.get(), number(1)))
        return place.get(), here.get()

    def open(self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, place: IRValue) -> IRValue:
        """Room for a new item at ``place`` of an array that is not the longest."""
        count, bits = (self.group.load(builder, group, name) for name in ("count", "bits"))
        with builder.if_then(builder.icmp_unsigned("==", count, builder.shl(number(1, I32), bits)), likely=False):
            self._enlarge(builder, groups, group)
        item = self.item(builder, groups, group, place)
        behind = builder.sub(builder.zext(count, I64), place)
        move(builder, self._at(builder, item, number(1)), item, builder.mul(behind, number(self.items.size)))
        self.group.store(builder, group, "count", builder.add(count, number(1, I32)))
        return item

    def drop(self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, place: IRValue) -> None:
        """Take an item out of an array, and the group away where it was the last."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            groups, group, place = arguments
            left = builder.sub(self.group.load(builder, group, "count"), number(1, I32))
            with builder.if_then(builder.icmp_unsigned("==", left, number(0, I32)), likely=False):
                self._release(builder, groups, *(self.group.load(builder, group, name) for name in ("place", "bits")))
                self._vacate(builder, groups, group)
                builder.ret_void()
            item = self.item(builder, groups, group, place)
            behind = builder.sub(builder.zext(left, I64), place)
            move(builder, item, self._at(builder, item, number(1)), builder.mul(behind, number(self.items.size)))
            self.group.store(builder, group, "count", left)
            builder.ret_void()

        function = self.code.function(
            builder.module, f"{self.name}.drop", ir.VoidType(), [PTR, PTR, I64], body, "noinline"
        )
        builder.call(function, [groups, group, place])

    # ----------------------------------------------------------------------------------------------------- trees

    def promote_to_tree(
        self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, each: Callable[[IRValue], None]
    ) -> IRValue:
        """Turn a full array into a tree; ``each`` is emitted for every item, before its memory is used again.

        Gives a status.
        """
        old, bits = (self.group.load(builder, group, name) for name in ("place", "bits"))
        status, pool = Local(builder, number(0, I32)), self.pool(builder, groups)
        root = self.group.address(builder, group, "place")
        builder.store(number(0, I32), root, align=4)
        first = self._item_at(builder, groups, old)
        with count_up(builder, number(0), number(ARRAY_LIMIT)) as place:
            item = self._at(builder, first, place)
            each(item)
            key, sums = self.items.key(builder, item), self.items.sums(builder, item)
            found = self.trees.add(builder, pool, root, key, sums)
            fine = builder.icmp_unsigned("==", found, number(0, I32))
            status.set(builder.select(fine, status.get(), found))
        self._release(builder, groups, old, bits)
        self.group.store(builder, group, "count", number(TREE, I32))
        return status.get()

    def add_to_tree(
        self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, key: IRValue, sums: NodeSums
    ) -> IRValue:
        """Add to a group that is a tree; it goes where nothing is left of it. Gives a status."""
        root = self.group.address(builder, group, "place")
        status = self.trees.add(builder, self.pool(builder, groups), root, key, sums)
        with builder.if_then(builder.icmp_unsigned("==", self.root(builder, group), number(0, I32)), likely=False):
            self._vacate(builder, groups, group)
        return status

    # ----------------------------------------------------------------------------------------------------- memory

    def table(self, builder: ir.IRBuilder, groups: IRValue) -> IRValue:
        """The table of all groups."""
        return self.struct.address(builder, groups, "table")

    def pool(self, builder: ir.IRBuilder, groups: IRValue) -> IRValue:
        """The pool of the nodes of all trees."""
        return self.struct.address(builder, groups, "pool")

    def _vacate(self, builder: ir.IRBuilder, groups: IRValue, group: IRValue) -> None:
        hash_table.vacate(builder, self.table(builder, groups), group, self.group.size)

    def _enlarge(self, builder: ir.IRBuilder, groups: IRValue, group: IRValue) -> None:
        """Double the capacity of an array."""
        old, bits = (self.group.load(builder, group, name) for name in ("place", "bits"))
        larger = builder.add(bits, number(1, I32))
        new = self._take(builder, groups, larger)
        source, target = (self._item_at(builder, groups, place) for place in (old, new))
        copy(builder, target, source, builder.mul(self.count(builder, group), number(self.items.size)))
        self._release(builder, groups, old, bits)
        self.group.store(builder, group, "place", new)
        self.group.store(builder, group, "bits", larger)

    def _take(self, builder: ir.IRBuilder, groups: IRValue, bits: IRValue) -> IRValue:
        """The place of an array with room for ``2 ** bits`` items; ``reserve`` has seen to it that there is one."""
        head = self._free(builder, groups, bits)
        free = builder.load(head, typ=I32, align=4)
        found = Local(builder, free)
        with builder.if_else(builder.icmp_unsigned("!=", free, number(0, I32))) as (reused, fresh):
            with reused:
                following = builder.load(self._item_at(builder, groups, free), typ=I32, align=4)
                builder.store(following, head, align=4)
            with fresh:
                high = self.struct.load(builder, groups, "high")
                found.set(builder.trunc(high, I32))
                room = builder.shl(number(1), builder.zext(bits, I64))
                self.struct.store(builder, groups, "high", builder.add(high, room))
        return found.get()

    def _release(self, builder: ir.IRBuilder, groups: IRValue, place: IRValue, bits: IRValue) -> None:
        """Put the memory of an array on the free list of its size, linked through its first bytes."""
        head = self._free(builder, groups, bits)
        builder.store(builder.load(head, typ=I32, align=4), self._item_at(builder, groups, place), align=4)
        builder.store(place, head, align=4)

    def _free(self, builder: ir.IRBuilder, groups: IRValue, bits: IRValue) -> IRValue:
        first = self.struct.address(builder, groups, "free0")
        return at(builder, first, builder.mul(builder.zext(bits, I64), number(4)))

    def _item_at(self, builder: ir.IRBuilder, groups: IRValue, place: IRValue) -> IRValue:
        return self._at(builder, self.struct.load(builder, groups, "items"), builder.zext(place, I64))

    def _at(self, builder: ir.IRBuilder, first: IRValue, place: IRValue) -> IRValue:
        return at(builder, first, builder.mul(place, number(self.items.size)))

    def _array_bytes(self, builder: ir.IRBuilder, groups: IRValue) -> IRValue:
        return builder.mul(self.struct.load(builder, groups, "capacity"), number(self.items.size))


def _group_of(prefix: Sequence[ir.Type], beside: int) -> StructLayout:
    """A slot of the table: an array of ``count`` items at ``place``, with room for ``2 ** bits``; or a tree."""
    group = StructLayout()
    for name in ("tag", "count", "place", "bits"):
        group.field(name, I32)
    for i, type_ in enumerate(prefix):
        group.field(f"cell{i}", type_)
    if beside:
        group.bytes("beside", beside)
    return group


def _groups() -> StructLayout:
    """All groups of an order: ``high`` is where new arrays begin, ``free...`` where old ones of each size are."""
    groups = StructLayout()
    groups.part("table", TABLE)
    groups.part("pool", POOL)
    groups.field("items", PTR)
    groups.field("capacity", I64)
    groups.field("high", I64)
    for bits in range(ARRAY_LIMIT_BITS + 1):
        groups.field(f"free{bits}", I32)
    return groups
