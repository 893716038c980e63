"""The first rows of each group of a map, as a top-k needs them."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    count_up,
    escape,
    forever,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, NULL_POINTER, PTR, StructLayout, at
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode
from tidemill.runtimes.native.llvm.maps.group_order import DisplacedEntry, is_positive
from tidemill.runtimes.native.llvm.maps.noted_groups import NotedGroupOrderCode


class TopRowsCode(NotedGroupOrderCode):
    """The ordered rows of a map; a version of a group are the first entries of it, with their weights.

    An entry of weight n is n rows; the weight of the last is cut where there would be more than ``first`` in all.
    """

    def _make_version(self, map_: Map) -> StructLayout:
        self._row, rows = StructLayout(), StructLayout()
        self._row.field("key", self.trees.key)
        self._row.field("weight", I64)
        rows.field("count", I64)
        for place in range(self._order.first or 0):
            rows.part(f"row{place}", self._row)
        return rows

    def count(self, builder: ir.IRBuilder, rows: IRValue) -> IRValue:
        """The number of entries of a version, an i64."""
        return self.version.load(builder, rows, "count")

    def key(self, builder: ir.IRBuilder, rows: IRValue, place: IRValue) -> IRValue:
        """The sort key of an entry of a version."""
        return self._row.load(builder, self._at(builder, rows, place), "key")

    def weight(self, builder: ir.IRBuilder, rows: IRValue, place: IRValue) -> IRValue:
        """The number of rows that an entry of a version stands for."""
        return self._row.load(builder, self._at(builder, rows, place), "weight")

    def _at(self, builder: ir.IRBuilder, rows: IRValue, place: IRValue) -> IRValue:
        return at(builder, self.version.address(builder, rows, "row0"), builder.mul(place, number(self._row.size)))

    def displaced(
        self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, weight: IRValue, code: KeyCode
    ) -> DisplacedEntry:
        """A row behind as many as are read is not needed; one before them may push the last of these out."""
        rows, prefix = on_stack(builder, self.version.size), self.prefix(builder, keys)
        self.write(builder, handle, prefix, rows)
        count, total = self.count(builder, rows), Local(builder, number(0))
        with count_up(builder, number(0), count) as place:
            total.set(builder.add(total.get(), self.weight(builder, rows, place)))
        full = builder.icmp_signed(">=", total.get(), number(self._order.first or 0))
        at_last = builder.select(full, builder.sub(count, number(1)), number(0))
        last = self.key(builder, rows, at_last)
        behind = builder.icmp_unsigned(">=", self._sort_key(builder, keys), last)
        pushed = builder.icmp_signed("<=", self.weight(builder, rows, at_last), weight)
        cells = self.cells(builder, prefix, last)
        held = code.of_cells(builder, [cells[key] for key in range(len(cells))])
        goes = builder.and_(builder.and_(full, builder.not_(behind)), pushed)
        return DisplacedEntry(builder.and_(full, behind), goes, held)

    def _presence(self, builder: ir.IRBuilder, weight: IRValue) -> IRValue:
        return builder.select(is_positive(builder, weight), weight, number(0))

    def emit(self, module: ir.Module) -> None:
        self._first(module)

    def _first(self, module: ir.Module) -> ir.Function:
        name, types = f"{self.symbol}.first", [PTR, PTR, PTR]
        return self.code.function(module, name, ir.VoidType(), types, self._emit_first, "noinline")

    def _write_version(self, builder: ir.IRBuilder, handle: IRValue, group: IRValue, target: IRValue) -> None:
        with builder.if_then(builder.icmp_unsigned("!=", group, NULL_POINTER)):
            builder.call(self._first(builder.module), [self.own(builder, handle), group, target])

    def _emit_first(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``first(groups, group, target)``: write the first entries of a group."""
        own, group, target = arguments
        count, left = Local(builder, number(0)), Local(builder, number(self._order.first or 0))

        def take(key: IRValue, weight: IRValue) -> IRValue:
            """Write an entry; gives an i1: whether there are enough."""
            fits = builder.icmp_signed("<", weight, left.get())
            taken = builder.select(fits, weight, left.get())
            row = self._at(builder, target, count.get())
            self._row.store(builder, row, "key", key)
            self._row.store(builder, row, "weight", taken)
            left.set(builder.sub(left.get(), taken))
            count.set(builder.add(count.get(), number(1)))
            return builder.icmp_unsigned("==", left.get(), number(0))

        with builder.if_else(self.groups.is_tree(builder, group), likely=False) as (tree, array):
            with tree:
                self._walk_tree(builder, own, group, take)
            with array:
                place = Local(builder, number(0))
                with forever(builder) as ended:
                    now = place.get()
                    escape(builder, builder.icmp_unsigned("==", now, self.groups.count(builder, group)), ended)
                    item, items = self.groups.item(builder, own, group, now), self.groups.items
                    enough = take(items.key(builder, item), items.sums(builder, item).weight)
                    escape(builder, enough, ended)
                    place.set(builder.add(now, number(1)))
        self.version.store(builder, target, "count", count.get())
        builder.ret_void()

    def _walk_tree(
        self, builder: ir.IRBuilder, own: IRValue, group: IRValue, take: Callable[[IRValue, IRValue], IRValue]
    ) -> None:
        """Take the items of a tree, each found by a descent, until there are enough."""
        trees, pool = self.trees, self.groups.pool(builder, own)
        sought, id_ = Local(builder, number(0, trees.key)), Local(builder, number(0, I32))
        with forever(builder) as ended:
            id_.set(self.groups.root(builder, group))
            with forever(builder) as arrived:
                node = trees.at_node(builder, pool, id_.get())
                place = trees.position(builder, node, sought.get())
                escape(builder, builder.icmp_unsigned(">=", place, trees.count(builder, node)), ended)
                escape(builder, trees.is_leaf(builder, node), arrived)
                id_.set(trees.child_at(builder, node, place))
            node = trees.at_node(builder, pool, id_.get())
            place = trees.position(builder, node, sought.get())
            key = trees.key_at(builder, node, place)
            sums = (side(builder, node, place).weight for side in (trees.through, trees.before))
            enough = take(key, builder.sub(*sums))
            last = builder.icmp_unsigned("==", key, number(-1, trees.key))
            escape(builder, builder.or_(enough, last), ended)
            sought.set(builder.add(key, number(1, trees.key)))
