"""Orders of a map: which tree keeps its sums, and how cells become the keys of that tree and come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.blocks import Local, Value, escape, forever, loop_while, number
from tidemill.runtimes.native.llvm.keys import Keys
from tidemill.runtimes.native.llvm.layout import F64, I1, I32, I64, Struct, cell_type
from tidemill.runtimes.native.llvm.nodes import Sums
from tidemill.runtimes.native.llvm.rings import Numbers
from tidemill.runtimes.native.llvm.trees import TREE, TreeCode

Condition = Callable[[Sums], Value]

UNORDERED = (t.String, t.Array, t.Struct)
"""Ids of interned values say nothing about the order of the values."""


class OrderCode:
    """One order of a map: entries with equal ``prefix``, by ``column``. A NULL in either keeps an entry out."""

    def __init__(self, module: ir.Module, map_: Map, handle: Struct, name: str, prefix: Sequence[int], column: int):
        if isinstance(map_.keys[column].type, UNORDERED):
            raise ValueError(f"{map_.name} has no order on {map_.keys[column]}")
        self._handle, self._name = handle, name
        self.places = (*prefix, column)
        self._column = cell_type(map_.keys[column].type)
        bits = sum(_width(cell_type(map_.keys[place].type)) for place in self.places)
        integers = sum(not isinstance(value.type, t.Double) for value in map_.values)
        self.trees = TreeCode(module, -(-bits // 64) * 64, integers)
        handle.part(name, TREE)

    def tree(self, builder: ir.IRBuilder, handle: Value) -> Value:
        """The tree of a map."""
        return self._handle.address(builder, handle, self._name)

    def reserve(self, builder: ir.IRBuilder, handle: Value) -> None:
        """See to it that ``add`` has the memory it needs, or return the status that says why not."""
        self.trees.reserve(builder, self._handle.load(builder, handle, "account"), self.tree(builder, handle))

    def add(self, builder: ir.IRBuilder, handle: Value, keys: Keys, numbers: Numbers) -> Value:
        """Add to the sums of an entry that is in the order; gives a status."""
        *prefix, column = (keys.cells[place] for place in self.places)
        key = self.encode(builder, prefix, column)
        return self.trees.add(builder, self.tree(builder, handle), key, Sums(numbers.weight, numbers.integers()))

    def clear(self, builder: ir.IRBuilder, handle: Value) -> None:
        """Forget all entries."""
        self.trees.clear(builder, self.tree(builder, handle))

    def encode(self, builder: ir.IRBuilder, prefix: Sequence[Value], column: Value) -> Value:
        """The key of a tree: the cells as one number, which grows with ``column`` where the prefix is the same."""
        return self._joined(builder, prefix, _ordered(builder, column))

    def first(self, builder: ir.IRBuilder, prefix: Sequence[Value]) -> Value:
        """The least key with this prefix."""
        return self._joined(builder, prefix, number(0, ir.IntType(_width(self._column))))

    def last(self, builder: ir.IRBuilder, prefix: Sequence[Value]) -> Value:
        """The greatest key with this prefix."""
        return self._joined(builder, prefix, number(-1, ir.IntType(_width(self._column))))

    def decode(self, builder: ir.IRBuilder, key: Value) -> Value:
        """The cell of the ordered column."""
        bits = ir.IntType(_width(self._column))
        part = key if key.type.width == bits.width else builder.trunc(key, bits)
        return _unordered(builder, part, self._column)

    def seek_before(
        self, builder: ir.IRBuilder, handle: Value, prefix: Sequence[Value], holds: Condition
    ) -> tuple[Value, Value]:
        """The last entry for which ``holds`` is true of the sums before it; whether there is one, and its cell.

        The descent goes to the last child whose first item passes. That item may lie beyond the prefix; then the one
        before it is what is sought, and it is the greatest of the child before, which stands in the node.
        """
        trees, tree = self.trees, self.tree(builder, handle)
        low, high = self.first(builder, prefix), self.last(builder, prefix)
        base = trees.sum_until(builder, tree, low, number(0, I1)) if prefix else _nothing(trees)
        found, sought = Local(builder, number(0, I1)), Local(builder, low)

        def goes_on(node: Value, place: Value, running: Sums) -> Value:
            key, leaf = trees.key_at(builder, node, place), trees.is_leaf(builder, node)
            inside = builder.select(leaf, _not_above(builder, key, high), builder.icmp_unsigned("<", key, high))
            # What is asked for is the sum before an item of this leaf, or before the first item of the next child.
            last = builder.sub(place, builder.zext(leaf, I64))
            before = minus(builder, _plus(builder, running, trees.through(builder, node, last)), base)
            return _either(builder, builder.icmp_unsigned("<", key, low), inside, lambda: holds(before))

        def passed(node: Value, place: Value) -> None:
            with builder.if_then(builder.icmp_unsigned("!=", place, number(0))):
                sought.set(trees.key_at(builder, node, builder.sub(place, number(1))))
                found.set(number(1, I1))

        self._descend(builder, tree, goes_on, passed, all_children=False)
        reached = builder.and_(found.get(), builder.icmp_unsigned(">=", sought.get(), low))
        return reached, self.decode(builder, sought.get())

    def seek_after(
        self, builder: ir.IRBuilder, handle: Value, prefix: Sequence[Value], holds: Condition
    ) -> tuple[Value, Value]:
        """The first entry for which ``holds`` is true of the sums after it; whether there is one, and its cell.

        The descent goes to the first child whose last item passes: its key and the sums up to it stand in the node.
        """
        trees, tree = self.trees, self.tree(builder, handle)
        low, high = self.first(builder, prefix), self.last(builder, prefix)
        total = trees.sum_until(builder, tree, high, number(1, I1))
        found, sought = Local(builder, number(0, I1)), Local(builder, low)

        def goes_on(node: Value, place: Value, running: Sums) -> Value:
            key = trees.key_at(builder, node, place)
            after = minus(builder, total, _plus(builder, running, trees.through(builder, node, place)))
            beyond, inside = builder.icmp_unsigned(">", key, high), builder.icmp_unsigned(">=", key, low)
            return builder.not_(_either(builder, beyond, inside, lambda: holds(after)))

        def passed(node: Value, place: Value) -> None:
            here = builder.icmp_unsigned("<", place, trees.count(builder, node))
            with builder.if_then(builder.and_(here, trees.is_leaf(builder, node))):
                sought.set(trees.key_at(builder, node, place))
                found.set(_not_above(builder, sought.get(), high))

        self._descend(builder, tree, goes_on, passed, all_children=True)
        return found.get(), self.decode(builder, sought.get())

    def _descend(
        self,
        builder: ir.IRBuilder,
        tree: Value,
        goes_on: Callable[[Value, Value, Sums], Value],
        passed: Callable[[Value, Value], None],
        all_children: bool,
    ) -> None:
        """From the root to a leaf: at each node pass places while ``goes_on`` holds, and tell ``passed`` which is next.

        ``goes_on`` gets the sums over everything before the node. Without ``all_children`` the last child is not asked:
        it is where the descent goes if all others were passed.
        """
        trees = self.trees
        id_ = Local(builder, TREE.load(builder, tree, "root"))
        running = [Local(builder, number(0, type_)) for type_ in trees.types]
        with forever(builder) as ended:
            escape(builder, builder.icmp_unsigned("==", id_.get(), number(0, I32)), ended)
            node = trees.at_node(builder, tree, id_.get())
            leaf, count = trees.is_leaf(builder, node), trees.count(builder, node)
            stop = count if all_children else builder.sub(count, builder.zext(builder.not_(leaf), I64))
            weight, *values = (total.get() for total in running)
            place = Local(builder, number(0))
            with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), stop)) as arrived:
                escape(builder, builder.not_(goes_on(node, place.get(), Sums(weight, tuple(values)))), arrived)
                place.set(builder.add(place.get(), number(1)))
            passed(node, place.get())
            beyond = builder.icmp_unsigned(">=", place.get(), count)
            escape(builder, builder.or_(leaf, beyond), ended)
            for total, passed_by in zip(running, trees.before(builder, node, place.get()).numbers(), strict=True):
                total.set(builder.add(total.get(), passed_by))
            id_.set(trees.child_at(builder, node, place.get()))

    def _joined(self, builder: ir.IRBuilder, prefix: Sequence[Value], last: Value) -> Value:
        whole: Value = number(0, self.trees.key)
        for cell in prefix:
            whole = _appended(builder, whole, _bits(builder, cell))
        return _appended(builder, whole, last)


def _appended(builder: ir.IRBuilder, whole: Value, part: Value) -> Value:
    if part.type.width == whole.type.width:
        return part
    shifted = builder.shl(whole, number(part.type.width, whole.type))
    return builder.or_(shifted, builder.zext(part, whole.type))


def _width(type_: ir.Type) -> int:
    return 64 if type_ == F64 else int(type_.width)


def _bits(builder: ir.IRBuilder, cell: Value) -> Value:
    return builder.bitcast(cell, I64) if cell.type == F64 else cell


def _ordered(builder: ir.IRBuilder, cell: Value) -> Value:
    """A number without sign that grows with ``cell``. NaN is the greatest DOUBLE, as in Spark."""
    if cell.type == F64:
        bits = builder.bitcast(cell, I64)
        flipped = builder.or_(builder.ashr(bits, number(63)), number(1 << 63))
        return builder.xor(bits, flipped)
    return builder.xor(cell, number(1 << (cell.type.width - 1), cell.type))


def _unordered(builder: ir.IRBuilder, part: Value, type_: ir.Type) -> Value:
    if type_ == F64:
        flipped = builder.or_(builder.not_(builder.ashr(part, number(63))), number(1 << 63))
        return builder.bitcast(builder.xor(part, flipped), F64)
    return builder.xor(part, number(1 << (type_.width - 1), type_))


def _either(builder: ir.IRBuilder, certain: Value, possible: Value, condition: Callable[[], Value]) -> Value:
    """``certain or (possible and condition)``; the condition is computed only where it decides."""
    result = Local(builder, certain)
    with builder.if_then(builder.and_(builder.not_(certain), possible)):
        result.set(condition())
    return result.get()


def _not_above(builder: ir.IRBuilder, key: Value, high: Value) -> Value:
    return builder.icmp_unsigned("<=", key, high)


def _nothing(trees: TreeCode) -> Sums:
    weight, *values = (number(0, type_) for type_ in trees.types)
    return Sums(weight, tuple(values))


def _plus(builder: ir.IRBuilder, one: Sums, other: Sums) -> Sums:
    weight, *values = (builder.add(a, b) for a, b in zip(one.numbers(), other.numbers(), strict=True))
    return Sums(weight, tuple(values))


def minus(builder: ir.IRBuilder, one: Sums, other: Sums) -> Sums:
    """The difference of sums."""
    weight, *values = (builder.sub(a, b) for a, b in zip(one.numbers(), other.numbers(), strict=True))
    return Sums(weight, tuple(values))
