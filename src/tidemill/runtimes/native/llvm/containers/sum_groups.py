"""Sums for each prefix of a map whose records lie elsewhere: items of a key and the sums under it."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, all_zero, number
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, PTR, StructLayout
from tidemill.runtimes.native.llvm.containers.btree import BTreeCode
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.ordered_groups import OrderedGroupCode


class SumItems:
    """A key and its sums."""

    name = "sums"

    def __init__(self, trees: BTreeCode) -> None:
        self._sums = [f"sum{i}" for i in range(len(trees.types))]
        self._struct = StructLayout()
        self._struct.field("key", trees.key)
        for name, type_ in zip(self._sums, trees.types, strict=True):
            self._struct.field(name, type_)
        self.size = self._struct.size

    def key(self, builder: ir.IRBuilder, item: IRValue) -> IRValue:
        """The key of an item."""
        return self._struct.load(builder, item, "key")

    def sums(self, builder: ir.IRBuilder, item: IRValue) -> NodeSums:
        """The sums of an item."""
        weight, *values = (self._struct.load(builder, item, name) for name in self._sums)
        return NodeSums(weight, tuple(values))

    def store(self, builder: ir.IRBuilder, item: IRValue, key: IRValue, sums: Sequence[IRValue]) -> None:
        """Store an item."""
        self._struct.store(builder, item, "key", key)
        for name, value in zip(self._sums, sums, strict=True):
            self._struct.store(builder, item, name, value)


class SumGroups:
    """Adds to the items of groups."""

    def __init__(self, groups: OrderedGroupCode, items: SumItems) -> None:
        self._groups, self._items = groups, items

    def add(
        self, builder: ir.IRBuilder, groups: IRValue, prefix: Sequence[IRValue], key: IRValue, sums: NodeSums
    ) -> IRValue:
        """Add to the sums of a key; gives a status. A sum that does not fit is kept modulo its width, to be undone."""
        types = [PTR, *self._groups.prefix, self._groups.trees.key, *self._groups.trees.types]
        code, name = self._groups.code, f"{self._groups.name}.add"
        function = code.function(builder.module, name, I32, types, self._emit_add, "noinline")
        return builder.call(function, [groups, *prefix, key, *sums.numbers()])

    def _emit_add(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        code, (groups, *rest) = self._groups, arguments
        prefix, (key, *numbers) = rest[: len(code.prefix)], rest[len(code.prefix) :]
        with builder.if_then(all_zero(builder, numbers)):
            builder.ret(number(0, I32))
        group = code.find_or_create(builder, groups, prefix)
        with builder.if_then(code.is_tree(builder, group), likely=False):
            builder.ret(code.add_to_tree(builder, groups, group, key, NodeSums(numbers[0], tuple(numbers[1:]))))
        place, here = code.position(builder, groups, group, key)
        with builder.if_then(here):
            item, status = code.item(builder, groups, group, place), Local(builder, number(0, I32))
            held = self._items.sums(builder, item).numbers()
            sums = [builder.add(a, b) for a, b in zip(held, numbers, strict=True)]
            self._items.store(builder, item, key, sums)
            code.trees.check_sums(builder, sums, status)
            with builder.if_then(all_zero(builder, sums), likely=False):
                code.drop(builder, groups, group, place)
            builder.ret(status.get())
        builder.ret(builder.call(self._insert(builder.module), [groups, group, place, key, *numbers]))

    def _insert(self, module: ir.Module) -> ir.Function:
        """``insert(groups, group, place, key, sums...)``: an item that is not there yet; gives a status."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            groups, group, place, key, *numbers = arguments
            status = Local(builder, number(0, I32))
            with builder.if_then(code.is_full_array(builder, group), likely=False):
                planted = code.promote_to_tree(builder, groups, group, lambda item: None)
                added = code.add_to_tree(builder, groups, group, key, NodeSums(numbers[0], tuple(numbers[1:])))
                fine = builder.icmp_unsigned("==", added, number(0, I32))
                builder.ret(builder.select(fine, planted, added))
            self._items.store(builder, code.open(builder, groups, group, place), key, numbers)
            code.trees.check_sums(builder, numbers, status)
            builder.ret(status.get())

        code = self._groups
        types = [PTR, PTR, I64, code.trees.key, *code.trees.types]
        return code.code.function(module, f"{code.name}.insert", I32, types, body, "noinline")
