"""The least and the greatest value of each group of a multiset.

A multiset is a map whose last key is a value: the ends of its order are the MIN and MAX of a group. Copies of a value
make no difference, so the order changes only where a weight passes zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, loop_while, number, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I8, I64, NULL_POINTER, PTR, NullableValue, StructLayout
from tidemill.runtimes.native.llvm.codegen.memory import copy
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode
from tidemill.runtimes.native.llvm.containers.sort_keys import from_composite_key
from tidemill.runtimes.native.llvm.maps.group_order import DisplacedEntry, is_positive
from tidemill.runtimes.native.llvm.maps.noted_groups import NotedGroupOrderCode

ENDS = ("least", "greatest")


class MultisetIndexCode(NotedGroupOrderCode):
    """The ordered values of a map; a version of a group are both ends of its multiset."""

    def _make_version(self, map_: Map) -> StructLayout:
        if len(map_.keys) != self._order.width + 1 or map_.values:
            raise NotCompiled("aggregates over several columns that are no sums")
        ends = StructLayout()
        ends.field("there", I8)
        for end in ENDS:
            ends.field(end, self.terms[0].type)
        return ends

    def read(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], before: IRValue, after: IRValue
    ) -> None:
        """Write the ends of a group as they were and as they are, and mark it as emitted."""
        builder.call(self._read(builder.module), [handle, *prefix, before, after])

    def emit(self, module: ir.Module) -> None:
        self._read(module)

    def _read(self, module: ir.Module) -> ir.Function:
        """``read_ends(handle, prefix..., before, after)``."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, *prefix, before, after = arguments
            self.write(builder, handle, prefix, after)
            noted = self.find_note(builder, handle, prefix)
            known = builder.select(builder.icmp_unsigned("==", noted, NULL_POINTER), after, noted)
            copy(builder, before, known, self.version.size)
            builder.ret_void()

        types = [PTR, *self.prefix_types(), PTR, PTR]
        return self.code.function(module, f"{self.symbol}.read_ends", ir.VoidType(), types, body, "noinline")

    def cell(self, builder: ir.IRBuilder, ends: IRValue, end: str) -> NullableValue:
        """The value at one end, NULL where the multiset is empty."""
        there = self.version.load(builder, ends, "there")
        return NullableValue(self.version.load(builder, ends, end), builder.icmp_unsigned("==", there, number(0, I8)))

    def displaced(
        self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, weight: IRValue, code: KeyCode
    ) -> DisplacedEntry:
        ends, end = on_stack(builder, self.version.size), self._order.end
        assert end is not None
        self.write(builder, handle, self.prefix(builder, keys), ends)
        there = builder.icmp_unsigned("!=", self.version.load(builder, ends, "there"), number(0, I8))
        held = KeyCells((*keys.cells[:-1], self.version.load(builder, ends, end.value)), keys.nulls)
        ours, theirs = (self._sort_key(builder, one) for one in (keys, held))
        beaten = builder.icmp_unsigned(">=" if end is MultisetEnd.LEAST else "<=", ours, theirs)
        return DisplacedEntry(builder.and_(there, beaten), builder.and_(there, builder.not_(beaten)), held)

    def _presence(self, builder: ir.IRBuilder, weight: IRValue) -> IRValue:
        return builder.zext(is_positive(builder, weight), I64)

    def _write_version(self, builder: ir.IRBuilder, handle: IRValue, group: IRValue, target: IRValue) -> None:
        with builder.if_then(builder.icmp_unsigned("!=", group, NULL_POINTER)):
            self.version.store(builder, target, "there", number(1, I8))
            for end, key in zip(ENDS, self._ends_of(builder, self.own(builder, handle), group), strict=True):
                (cell,) = from_composite_key(builder, key, self.terms)
                self.version.store(builder, target, end, cell.value)

    def _ends_of(self, builder: ir.IRBuilder, own: IRValue, group: IRValue) -> tuple[IRValue, IRValue]:
        """The sort keys at both ends of a group."""
        groups, trees = self.groups, self.trees
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
