"""Reading a group of ordered items: from a key on, and by the number of a row.

An item of weight n is n rows; where rows are numbered all weights are positive.
"""

from __future__ import annotations

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    count_up,
    define,
    escape,
    forever,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I64, NULL_POINTER, PTR, at
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.ordered_groups import ARRAY_LIMIT, OrderedGroupCode
from tidemill.runtimes.native.llvm.containers.sum_groups import SumItems


class GroupReader:
    """Emits functions that read groups of ``items`` into the module that calls them."""

    def __init__(self, groups: OrderedGroupCode, items: SumItems) -> None:
        self.groups, self.items, self.trees = groups, items, groups.trees

    def sum_until(self, builder: ir.IRBuilder, own: IRValue, group: IRValue, key: IRValue, inclusive: bool) -> NodeSums:
        """The sums over the items of a group, or null, before ``key`` (or with it)."""
        name = f"{self.groups.name}.read.{'through' if inclusive else 'before'}"

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            own, group, key, target = arguments
            found = self.groups.sum_until(builder, own, group, key, number(inclusive, ir.IntType(1)))
            self.items.store(builder, target, key, found.numbers())
            builder.ret_void()

        function = define(builder.module, name, ir.VoidType(), [PTR, PTR, self.trees.key, PTR], body, "noinline")
        target = on_stack(builder, self.items.size)
        builder.call(function, [own, group, key, target])
        return self.items.sums(builder, target)

    def total(self, builder: ir.IRBuilder, own: IRValue, group: IRValue) -> NodeSums:
        """The sums over a whole group, or null."""
        return self.sum_until(builder, own, group, number(-1, self.trees.key), True)

    # ----------------------------------------------------------------------------------------------- by their number

    def select(self, builder: ir.IRBuilder, own: IRValue, group: IRValue, row: IRValue) -> tuple[IRValue, NodeSums]:
        """The key of the item that has a row, by its number, which must be there; and the sums before that item."""
        function = define(
            builder.module,
            f"{self.groups.name}.read.select",
            ir.VoidType(),
            [PTR, PTR, I64, PTR],
            self._emit_select,
            "noinline",
        )
        target = on_stack(builder, self.items.size)
        builder.call(function, [own, group, row, target])
        return self.items.key(builder, target), self.items.sums(builder, target)

    def _emit_select(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        own, group, row, target = arguments
        with builder.if_else(self.groups.is_tree(builder, group)) as (tree, array):
            with tree:
                self._select_in_tree(builder, own, group, row, target)
            with array:
                self._select_in_array(builder, own, group, row, target)
        builder.ret_void()

    def _select_in_tree(
        self, builder: ir.IRBuilder, own: IRValue, group: IRValue, row: IRValue, target: IRValue
    ) -> None:
        trees, pool = self.trees, self.groups.pool(builder, own)
        id_, place = Local(builder, self.groups.root(builder, group)), Local(builder, number(0))
        passed = [Local(builder, number(0, type_)) for type_ in trees.types]
        with forever(builder) as ended:
            node = trees.at_node(builder, pool, id_.get())
            last = builder.sub(trees.count(builder, node), number(1))
            left = builder.sub(row, passed[0].get())
            place.set(number(0))

            def goes_on() -> IRValue:
                through = trees.through(builder, node, place.get()).weight
                more = builder.icmp_unsigned("<", place.get(), last)
                return builder.and_(more, builder.icmp_signed("<=", through, left))

            with loop_while(builder, goes_on):
                place.set(builder.add(place.get(), number(1)))
            for total, before in zip(passed, trees.before(builder, node, place.get()).numbers(), strict=True):
                total.set(builder.add(total.get(), before))
            escape(builder, trees.is_leaf(builder, node), ended)
            id_.set(trees.child_at(builder, node, place.get()))
        node = trees.at_node(builder, pool, id_.get())
        key = trees.key_at(builder, node, place.get())
        self.items.store(builder, target, key, [total.get() for total in passed])

    def _select_in_array(
        self, builder: ir.IRBuilder, own: IRValue, group: IRValue, row: IRValue, target: IRValue
    ) -> None:
        place = Local(builder, number(0))
        passed = [Local(builder, number(0, type_)) for type_ in self.trees.types]
        with forever(builder) as ended:
            item = self.groups.item(builder, own, group, place.get())
            sums = self.items.sums(builder, item).numbers()
            reached = builder.add(passed[0].get(), sums[0])
            escape(builder, builder.icmp_signed(">", reached, row), ended)
            for total, part in zip(passed, sums, strict=True):
                total.set(builder.add(total.get(), part))
            place.set(builder.add(place.get(), number(1)))
        item = self.groups.item(builder, own, group, place.get())
        self.items.store(builder, target, self.items.key(builder, item), [total.get() for total in passed])

    # ------------------------------------------------------------------------------------------------------ in order

    def read(self, builder: ir.IRBuilder, own: IRValue, group: IRValue, key: IRValue, target: IRValue) -> IRValue:
        """Copy some items from ``key`` on, ``ARRAY_LIMIT`` at most; gives how many, 0 only where there are no more."""
        function = define(
            builder.module,
            f"{self.groups.name}.read.from",
            I64,
            [PTR, PTR, self.trees.key, PTR],
            self._emit_read,
            "noinline",
        )
        return builder.call(function, [own, group, key, target])

    def _emit_read(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        own, group, key, target = arguments
        count = Local(builder, number(0))

        def take(held: IRValue, sums: NodeSums) -> None:
            place = at(builder, target, builder.mul(count.get(), number(self.items.size)))
            self.items.store(builder, place, held, sums.numbers())
            count.set(builder.add(count.get(), number(1)))

        with builder.if_then(builder.icmp_unsigned("==", group, NULL_POINTER)):
            builder.ret(number(0))
        with builder.if_then(self.groups.is_tree(builder, group)):
            trees, pool = self.trees, self.groups.pool(builder, own)
            id_ = Local(builder, self.groups.root(builder, group))
            with forever(builder) as arrived:
                node = trees.at_node(builder, pool, id_.get())
                place = trees.position(builder, node, key)
                with builder.if_then(builder.icmp_unsigned(">=", place, trees.count(builder, node))):
                    builder.ret(number(0))
                escape(builder, trees.is_leaf(builder, node), arrived)
                id_.set(trees.child_at(builder, node, place))
            leaf = trees.at_node(builder, pool, id_.get())
            with count_up(builder, trees.position(builder, leaf, key), trees.count(builder, leaf)) as place:
                ends, starts = (side(builder, leaf, place).numbers() for side in (trees.through, trees.before))
                weight, *values = (builder.sub(a, b) for a, b in zip(ends, starts, strict=True))
                take(trees.key_at(builder, leaf, place), NodeSums(weight, tuple(values)))
            builder.ret(count.get())
        first, _ = self.groups.position(builder, own, group, key)
        with count_up(builder, first, self.groups.count(builder, group)) as place:
            item = self.groups.item(builder, own, group, place)
            take(self.items.key(builder, item), self.items.sums(builder, item))
        builder.ret(count.get())


class GroupCursor:
    """A place among the items of a group, in the function under way: ``open`` it, and go on while there is ``more``."""

    def __init__(self, builder: ir.IRBuilder, reader: GroupReader, own: IRValue, group: IRValue) -> None:
        self._builder, self._reader, self._own, self._group = builder, reader, own, group
        self._buffer = on_stack(builder, ARRAY_LIMIT * reader.items.size)
        self._count, self._place = Local(builder, number(0)), Local(builder, number(0))

    def open(self, key: IRValue) -> None:
        """Go to the first item from ``key`` on."""
        found = self._reader.read(self._builder, self._own, self._group, key, self._buffer)
        self._count.set(found)
        self._place.set(number(0))

    def more(self) -> IRValue:
        """An i1: whether there is an item."""
        return self._builder.icmp_unsigned("<", self._place.get(), self._count.get())

    def item(self) -> tuple[IRValue, NodeSums]:
        """The key of the item, and its sums."""
        builder, items = self._builder, self._reader.items
        place = at(builder, self._buffer, builder.mul(self._place.get(), number(items.size)))
        return items.key(builder, place), items.sums(builder, place)

    def advance(self) -> None:
        """Go on to the next item."""
        builder = self._builder
        key, _ = self.item()
        self._place.set(builder.add(self._place.get(), number(1)))
        with builder.if_then(builder.not_(self.more())):
            self._count.set(number(0))
            self._place.set(number(0))
            greatest = number(-1, key.type)
            with builder.if_then(builder.icmp_unsigned("!=", key, greatest)):
                self.open(builder.add(key, number(1, key.type)))
