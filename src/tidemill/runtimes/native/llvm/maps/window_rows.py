"""The rows of each partition of a map in the order of a window, with their sums, and what an epoch has changed of them.

The changes are ordered groups like the rows themselves: for each entry by how much its weight and its sums have moved.
So a partition as it was before the epoch is the rows less the changes, and sums up to a place in it are a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number, on_stack
from tidemill.runtimes.native.llvm.codegen.layout import I64, I128, PTR, StructLayout, at
from tidemill.runtimes.native.llvm.codegen.memory import VECTOR, fill, refused, release_vector
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.ordered_groups import OrderedGroupCode
from tidemill.runtimes.native.llvm.containers.sum_groups import SumGroups
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder, GroupOrderCode, is_positive

EXCERPTS = ("old rows", "new rows")
"""Vectors of a map in which a stage lays out the rows of a part of a partition, as they were and as they are."""


class WindowRowsCode(GroupOrderCode):
    """The ordered rows of a map. An entry of weight n is n rows.

    ``addends(prefix..., key, target)`` writes what a row adds to each sum; there is none where nothing is summed.
    """

    def __init__(
        self,
        code: CodeHome,
        symbol: str,
        map_: Map,
        handle: StructLayout,
        order: GroupOrder,
        addends: ir.Function | None,
    ) -> None:
        super().__init__(code, symbol, map_, handle, order)
        self._addends = addends
        self.sums = order.sums or 0
        self.changed_groups = self.groups
        if order.beside:
            self.changed_groups = OrderedGroupCode(code, self._prefix, self.trees, self.items)
        self._changes = SumGroups(self.changed_groups, self.items)
        handle.part("changes", self.changed_groups.struct)
        self.row = StructLayout()
        self.row.field("key", self.trees.key)
        for i in range(self.sums):
            self.row.field(f"sum{i}", I128)
        for i in range(order.words):
            self.row.field(f"word{i}", I64)
        for name in EXCERPTS:
            handle.part(name, VECTOR)

    def emit(self, module: ir.Module) -> None:
        pass  # stages define what they call in their own module

    # ------------------------------------------------------------------------------------------------ as a whole

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().destroy(builder, handle)
        account = self.account(builder, handle)
        self.changed_groups.destroy(builder, account, self.changes(builder, handle))
        for name in EXCERPTS:
            release_vector(builder, account, self.handle.address(builder, handle, name), self.row.size)

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        found = builder.add(
            super().bytes(builder, handle), self.changed_groups.bytes(builder, self.changes(builder, handle))
        )
        for name in EXCERPTS:
            capacity = VECTOR.load(builder, self.handle.address(builder, handle, name), "capacity")
            found = builder.add(found, builder.mul(capacity, number(self.row.size)))
        return found

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().reserve(builder, handle)
        account, changes = self.account(builder, handle), self.changes(builder, handle)
        with builder.if_then(builder.not_(self._any_changes(builder, handle)), likely=False):
            self.changed_groups.create(builder, account, changes)
        self.changed_groups.reserve(builder, account, changes)

    def settle(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        account, changes = self.account(builder, handle), self.changes(builder, handle)
        self.changed_groups.destroy(builder, account, changes)
        fill(builder, changes, 0, self.changed_groups.struct.size)
        for name in EXCERPTS:
            release_vector(builder, account, self.handle.address(builder, handle, name), self.row.size)

    # --------------------------------------------------------------------------------------------------- changing

    def _presence(self, builder: ir.IRBuilder, weight: IRValue) -> IRValue:
        return builder.select(is_positive(builder, weight), weight, number(0))

    def _sums_of(self, builder: ir.IRBuilder, prefix: Sequence[IRValue], key: IRValue, weight: IRValue) -> NodeSums:
        times = builder.sext(weight, I128)
        return NodeSums(weight, tuple(builder.mul(times, one) for one in self.addends(builder, prefix, key)))

    def addends(self, builder: ir.IRBuilder, prefix: Sequence[IRValue], key: IRValue) -> list[IRValue]:
        """The number that one row of an entry adds to each sum."""
        if self._addends is None:
            return []
        target = on_stack(builder, 16 * self.sums)
        builder.call(self._addends, [*prefix, key, target])
        return [builder.load(at(builder, target, 16 * i), typ=I128, align=8) for i in range(self.sums)]

    def _note(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], key: IRValue, change: NodeSums
    ) -> IRValue:
        return self._changes.add(builder, self.changes(builder, handle), prefix, key, change)

    # ---------------------------------------------------------------------------------------------------- reading

    @contextmanager
    def each_changed(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[tuple[list[IRValue], IRValue]]:
        """Run what is emitted within for each touched partition: its prefix, and the group of its changes."""
        table = self.changed_groups.table(builder, self.changes(builder, handle))
        with (
            builder.if_then(self._any_changes(builder, handle)),
            hash_table.each_slot(builder, table, self.changed_groups.group.size) as group,
        ):
            yield [self.changed_groups.group.load(builder, group, f"cell{i}") for i in range(len(self._prefix))], group

    def changes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The memory of the changes of all groups."""
        return self.handle.address(builder, handle, "changes")

    def _any_changes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """An i1: whether the epoch may have changed something; only then is there a table."""
        table = self.changed_groups.table(builder, self.changes(builder, handle))
        return builder.not_(refused(builder, TABLE.load(builder, table, "slots")))


def addend_types(map_: Map, order: GroupOrder) -> list[ir.Type]:
    """The types of the arguments of ``addends``."""
    return [*order.prefix_types(map_), order.key_type(map_), PTR]
