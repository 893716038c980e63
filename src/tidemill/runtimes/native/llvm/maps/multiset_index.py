"""The values of each group of a multiset, in order, and the groups that an epoch has touched.

A multiset is a map whose first keys are those of a group and whose last one is a value: the least and the greatest
value of positive weight are the MIN and MAX of the group. A value is in the order while its weight is positive, so the
order changes only where a weight passes zero, and copies of a value cost nothing here. NULLs among the first keys are
equal, as in a GROUP BY.

Rows of a view need both ends as they were before the epoch, too. They can have changed only in groups whose order has,
so when that first happens in an epoch both ends are noted, and they are exact because nothing has moved yet. An epoch
that begins, or is undone, forgets these notes; while a state is restored or undone none are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, define, loop_while, number
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import (
    I8,
    I32,
    I64,
    NULL_POINTER,
    PTR,
    NullableValue,
    StructLayout,
    cell_type,
)
from tidemill.runtimes.native.llvm.codegen.memory import copy, fill, refused
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.btree import BTreeCode
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, find_cells
from tidemill.runtimes.native.llvm.containers.ordered_groups import OrderedGroupCode
from tidemill.runtimes.native.llvm.containers.sort_keys import from_sort_key, key_bits, to_sort_key
from tidemill.runtimes.native.llvm.containers.sum_groups import SumGroups, SumItems
from tidemill.runtimes.native.llvm.maps.ordered_index import UNORDERED

ENDS = ("least", "greatest")

SMALL_TABLE, IDLE = 64, 8
"""A table of more slots is given back after an epoch that has used less than one in so many of them."""


class MultisetIndexCode:
    """The ordered values of a map whose first ``width`` keys are those of a group."""

    def __init__(self, module: ir.Module, symbol: str, map_: Map, handle: StructLayout, width: int) -> None:
        """The names of its functions begin with ``symbol``, as those of the map do."""
        if len(map_.keys) != width + 1 or map_.values:
            raise NotCompiled("aggregates over several columns that are no sums")
        if isinstance(map_.keys[width].type, UNORDERED):
            raise NotCompiled(f"the order of a {map_.keys[width].type}")
        self._module, self._symbol, self._handle, self._width = module, symbol, handle, width
        self._column = cell_type(map_.keys[width].type)
        self._trees = BTreeCode(module, key_bits(self._column), 0)
        items = SumItems(self._trees)
        # The mask of NULLs stands in front: so there is a prefix even where there is but one group.
        self._prefix = [I64, *(cell_type(key.type) for key in map_.keys[:width])]
        self._groups = OrderedGroupCode(module, self._prefix, self._trees, items)
        self._values = SumGroups(self._groups, items)
        self.ends = StructLayout()
        self.ends.field("there", I8)
        for end in ENDS:
            self.ends.field(end, self._column)
        self._note = StructLayout()
        for name in ("tag", "told"):
            self._note.field(name, I32)
        for i, type_ in enumerate(self._prefix):
            self._note.field(f"cell{i}", type_)
        self._note.part("ends", self.ends)
        handle.part("multisets", self._groups.struct)
        handle.part("notes", TABLE)
        handle.field("emission", I32)

    # ------------------------------------------------------------------------------------------------ as a whole

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Make it empty, or return the status that says why not."""
        self._groups.create(builder, self._account(builder, handle), self._own(builder, handle))

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Give its memory back."""
        account = self._account(builder, handle)
        self._groups.destroy(builder, account, self._own(builder, handle))
        hash_table.destroy(builder, account, self._notes(builder, handle), self._note.size)

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Its memory."""
        notes = hash_table.bytes_of(builder, self._notes(builder, handle), self._note.size)
        return builder.add(self._groups.bytes(builder, self._own(builder, handle)), notes)

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """See to it that ``move`` has the memory it needs, or return the status that says why not."""
        account, notes = self._account(builder, handle), self._notes(builder, handle)
        self._groups.reserve(builder, account, self._own(builder, handle))
        with builder.if_then(refused(builder, TABLE.load(builder, notes, "slots")), likely=False):
            hash_table.create(builder, account, notes, self._note.size)
        hash_table.reserve(builder, account, notes, self._note.size)

    def settle(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Forget which groups were touched, at a cost of so many."""
        notes = self._notes(builder, handle)
        count, mask = (TABLE.load(builder, notes, name) for name in ("count", "mask"))
        with builder.if_then(self._any_notes(builder, handle)):
            large = builder.icmp_unsigned(">=", mask, number(SMALL_TABLE))
            idle = builder.icmp_unsigned("<", builder.mul(count, number(IDLE)), mask)
            with builder.if_else(builder.and_(large, idle)) as (oversized, fitting):
                with oversized:
                    hash_table.destroy(builder, self._account(builder, handle), notes, self._note.size)
                with fitting:
                    slots = TABLE.load(builder, notes, "slots")
                    fill(builder, slots, 0, hash_table.bytes_of(builder, notes, self._note.size))
            TABLE.store(builder, notes, "count", number(0))

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, prefetcher: Prefetcher) -> None:
        """Ask for the memory of the group of an entry."""
        self._groups.prefetch(builder, self._own(builder, handle), self.prefix(builder, keys), prefetcher)

    # --------------------------------------------------------------------------------------------------- changing

    def move(
        self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, old: IRValue | None, new: IRValue | None
    ) -> None:
        """The weight of an entry changes; None stands for no entry."""
        was, is_ = (number(0) if w is None else builder.zext(_positive(builder, w), I64) for w in (old, new))
        with builder.if_then(builder.icmp_unsigned("!=", was, is_)):
            key = to_sort_key(builder, keys.cells[self._width])
            builder.call(self._move(), [handle, *self.prefix(builder, keys), key, builder.sub(is_, was)])

    def _move(self) -> ir.Function:
        """``move(handle, prefix..., key, change)``: a value comes into the order, or leaves it."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, *prefix, key, change = arguments
            recording = builder.icmp_unsigned("!=", self._handle.load(builder, handle, "recording"), number(0, I32))
            with builder.if_then(recording, likely=True):
                self._remember(builder, handle, prefix)
            self._values.add(builder, self._own(builder, handle), prefix, key, NodeSums(change, ()))
            builder.ret_void()

        types = [PTR, *self._prefix, self._trees.key, I64]
        return define(self._module, f"{self._symbol}.move", ir.VoidType(), types, body, "noinline")

    def _remember(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue]) -> None:
        """Note the ends of a group before the epoch first changes its order."""
        notes = self._notes(builder, handle)
        found = find_cells(builder, notes, self._note, prefix)
        with builder.if_then(builder.icmp_unsigned("==", found, NULL_POINTER)):
            note = hash_table.claim(builder, notes, hash_table.hash_of(builder, prefix), self._note.size)
            for i, cell in enumerate(prefix):
                self._note.store(builder, note, f"cell{i}", cell)
            self._note.store(builder, note, "told", number(0, I32))
            self._write_ends(builder, handle, prefix, self._note.address(builder, note, "ends"))

    # ---------------------------------------------------------------------------------------------------- reading

    def prefix(self, builder: ir.IRBuilder, keys: KeyCells) -> list[IRValue]:
        """The group of a key: of this map, or of one that has a key for each group."""
        own = (1 << self._width) - 1
        mask = number(0) if keys.nulls is None else builder.and_(keys.nulls, number(own))
        return [mask, *keys.cells[: self._width]]

    def begin_emission(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """From now on no touched group counts as told of."""
        following = builder.add(self._handle.load(builder, handle, "emission"), number(1, I32))
        self._handle.store(builder, handle, "emission", following)

    def read(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], before: IRValue, after: IRValue
    ) -> None:
        """Write the ends of a group as they were and as they are, each in the form of ``ends``; it is told of."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, *prefix, before, after = arguments
            self._write_ends(builder, handle, prefix, after)
            with builder.if_then(self._any_notes(builder, handle)):
                note = find_cells(builder, self._notes(builder, handle), self._note, prefix)
                with builder.if_then(builder.icmp_unsigned("!=", note, NULL_POINTER)):
                    self._note.store(builder, note, "told", self._handle.load(builder, handle, "emission"))
                    copy(builder, before, self._note.address(builder, note, "ends"), self.ends.size)
                    builder.ret_void()
            copy(builder, before, after, self.ends.size)
            builder.ret_void()

        types = [PTR, *self._prefix, PTR, PTR]
        function = define(self._module, f"{self._symbol}.read_ends", ir.VoidType(), types, body, "noinline")
        builder.call(function, [handle, *prefix, before, after])

    @contextmanager
    def each_untold(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[list[IRValue]]:
        """Run what is emitted within for each touched group that was not told of yet, given its prefix."""
        with (
            builder.if_then(self._any_notes(builder, handle)),
            hash_table.each_slot(builder, self._notes(builder, handle), self._note.size) as note,
        ):
            told, emission = self._note.load(builder, note, "told"), self._handle.load(builder, handle, "emission")
            with builder.if_then(builder.icmp_unsigned("!=", told, emission)):
                yield [self._note.load(builder, note, f"cell{i}") for i in range(len(self._prefix))]

    def cell(self, builder: ir.IRBuilder, ends: IRValue, end: str) -> NullableValue:
        """The value at one end, NULL where the multiset is empty."""
        there = self.ends.load(builder, ends, "there")
        return NullableValue(self.ends.load(builder, ends, end), builder.icmp_unsigned("==", there, number(0, I8)))

    def _write_ends(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], target: IRValue) -> None:
        own = self._own(builder, handle)
        fill(builder, target, 0, self.ends.size)
        group = self._groups.find(builder, own, prefix)
        with builder.if_then(builder.icmp_unsigned("!=", group, NULL_POINTER)):
            self.ends.store(builder, target, "there", number(1, I8))
            for end, key in zip(ENDS, self._ends_of(builder, own, group), strict=True):
                self.ends.store(builder, target, end, from_sort_key(builder, key, self._column))

    def _ends_of(self, builder: ir.IRBuilder, own: IRValue, group: IRValue) -> tuple[IRValue, IRValue]:
        """The sort keys at both ends of a group."""
        groups, trees = self._groups, self._trees
        least, greatest = (Local(builder, number(0, trees.key)) for _ in ENDS)
        with builder.if_else(groups.is_tree(builder, group), likely=False) as (tree, array):
            with tree:
                pool, id_ = groups.pool(builder, own), Local(builder, groups.root(builder, group))

                def node() -> IRValue:
                    return trees.at_node(builder, pool, id_.get())

                last = builder.sub(trees.count(builder, node()), number(1))
                greatest.set(trees.key_at(builder, node(), last))  # an inner node has the greatest keys of its children
                with loop_while(builder, lambda: builder.not_(trees.is_leaf(builder, node()))):
                    id_.set(trees.child_at(builder, node(), number(0)))
                least.set(trees.key_at(builder, node(), number(0)))
            with array:
                last = builder.sub(groups.count(builder, group), number(1))
                for end, place in ((least, number(0)), (greatest, last)):
                    end.set(groups.items.key(builder, groups.item(builder, own, group, place)))
        return least.get(), greatest.get()

    # ----------------------------------------------------------------------------------------------------- memory

    def _any_notes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """An i1: whether the epoch has touched a group; only then is there sure to be a table."""
        return builder.icmp_unsigned("!=", TABLE.load(builder, self._notes(builder, handle), "count"), number(0))

    def _own(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.address(builder, handle, "multisets")

    def _notes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.address(builder, handle, "notes")

    def _account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.load(builder, handle, "account")


def _positive(builder: ir.IRBuilder, weight: IRValue) -> IRValue:
    return builder.icmp_signed(">", weight, number(0))
