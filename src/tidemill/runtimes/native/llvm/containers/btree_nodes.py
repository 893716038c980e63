"""Nodes of ordered maps: sorted keys beside running sums, all in arrays that are searched and changed as vectors.

The sums at a place are those of all items or children up to it. So a sum over a part of a node is one subtraction, and
adding to one item is adding to all places from it on, which vector instructions do at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, escape, loop_while, number
from tidemill.runtimes.native.llvm.codegen.layout import I16, I32, I64, I128, StructLayout, at, size_of
from tidemill.runtimes.native.llvm.codegen.memory import move

WIDTH = 16
"""Items or children of a node."""

LEAF = 0
"""The level of nodes with items; that of others is one above their children's."""


@dataclass(frozen=True, slots=True)
class NodeSums:
    """A weight and i128 values, as numbers in registers."""

    weight: IRValue
    values: tuple[IRValue, ...]

    def numbers(self) -> tuple[IRValue, ...]:
        """All of them, the weight first."""
        return self.weight, *self.values


@dataclass(frozen=True, slots=True)
class NodeArray:
    """An array within a node."""

    type: ir.Type
    offset: int


class NodeCode:
    """Nodes with keys of ``bits`` bits and that number of values of 128 bits.

    Slots that are not used have the greatest key there is, so that a node is searched without looking at its count.
    What other arrays hold there means nothing.
    """

    def __init__(self, bits: int, values: int) -> None:
        self.key = ir.IntType(bits)
        self.types: list[ir.Type] = [I64, *[I128] * values]
        self.node = StructLayout()
        self.node.field("count", I32)
        self.node.field("level", I32)
        self.keys = self._array(self.key)
        # Words of sums, low before high; before each array lies a 0, the sum before the first place.
        self.words = [self._array(I64, led=True) for type_ in self.types for _ in range(type_.width // 64)]
        self.children = self._array(I32)
        self.node.field("end", I64)  # arrays are read from one element before to one behind them

    def _array(self, type_: ir.Type, led: bool = False) -> NodeArray:
        array = StructLayout()
        for i in range(WIDTH + led):
            array.field(str(i), type_)
        offset = self.node.size + led * size_of(type_)
        self.node.part(f"array at {offset}", array)
        return NodeArray(type_, offset)

    def count(self, builder: ir.IRBuilder, node: IRValue) -> IRValue:
        """The number of items or children of a node, an i64."""
        return builder.zext(self.node.load(builder, node, "count"), I64)

    def is_leaf(self, builder: ir.IRBuilder, node: IRValue) -> IRValue:
        """An i1: whether a node has items."""
        return builder.icmp_unsigned("==", self.node.load(builder, node, "level"), number(LEAF, I32))

    def is_full(self, builder: ir.IRBuilder, node: IRValue) -> IRValue:
        """An i1: whether a node has no room."""
        return builder.icmp_unsigned("==", self.node.load(builder, node, "count"), number(WIDTH, I32))

    def key_at(self, builder: ir.IRBuilder, node: IRValue, place: IRValue) -> IRValue:
        """The key of an item, or the greatest of a child."""
        return self.load_element(builder, node, self.keys, place)

    def child_at(self, builder: ir.IRBuilder, node: IRValue, place: IRValue) -> IRValue:
        """The id of a child."""
        return self.load_element(builder, node, self.children, place)

    def through(self, builder: ir.IRBuilder, node: IRValue, place: IRValue) -> NodeSums:
        """The sums of all items or children of a node up to ``place``, its own included."""
        words = iter(self.words)
        numbers = []
        for type_ in self.types:
            found = self.load_element(builder, node, next(words), place)
            if type_ == I128:
                upper = builder.zext(self.load_element(builder, node, next(words), place), I128)
                found = builder.or_(builder.zext(found, I128), builder.shl(upper, number(64, I128)))
            numbers.append(found)
        return NodeSums(numbers[0], tuple(numbers[1:]))

    def before(self, builder: ir.IRBuilder, node: IRValue, place: IRValue) -> NodeSums:
        """The sums of all items or children of a node before ``place``."""
        return self.through(builder, node, builder.sub(place, number(1)))

    # -------------------------------------------------------------------------------------------------- searching

    def position(self, builder: ir.IRBuilder, node: IRValue, key: IRValue) -> IRValue:
        """The number of keys of a node that are less than ``key``, an i64."""
        if self.key.width == 64:
            vector = ir.VectorType(self.key, WIDTH)
            keys = builder.load(at(builder, node, self.keys.offset), typ=vector, align=8)
            less = builder.bitcast(builder.icmp_unsigned("<", keys, _spread(builder, key)), I16)
            return builder.zext(builder.ctpop(less), I64)
        place = Local(builder, number(0))
        with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), number(WIDTH))) as ended:
            found = builder.icmp_unsigned(">=", self.key_at(builder, node, place.get()), key)
            escape(builder, found, ended)
            place.set(builder.add(place.get(), number(1)))
        return place.get()

    @contextmanager
    def if_here(self, builder: ir.IRBuilder, node: IRValue, place: IRValue, key: IRValue) -> Iterator[None]:
        """Run what is emitted within where the item at ``place`` of a leaf has ``key``."""
        used = builder.icmp_unsigned("<", place, self.count(builder, node))
        same = builder.icmp_unsigned("==", self.key_at(builder, node, builder.and_(place, number(WIDTH - 1))), key)
        with builder.if_then(builder.and_(used, same)):
            yield

    # --------------------------------------------------------------------------------------------------- changing

    def add_from(self, builder: ir.IRBuilder, node: IRValue, place: IRValue, numbers: Sequence[IRValue]) -> None:
        """Add to all running sums from ``place`` on."""
        inside, words = _from(builder, place), iter(self.words)
        for addend in numbers:
            array = next(words)
            low = builder.trunc(addend, I64) if addend.type == I128 else addend
            added = builder.select(inside, _spread(builder, low), _SPREAD_ZERO)
            sums = builder.add(self._load_all(builder, node, array), added)
            self._store_all(builder, node, array, sums)
            if addend.type == I128:
                array = next(words)
                carries = builder.zext(builder.icmp_unsigned("<", sums, added), _LANES)
                high = _spread(builder, builder.trunc(builder.lshr(addend, number(64, I128)), I64))
                change = builder.add(builder.select(inside, high, _SPREAD_ZERO), carries)
                differs = builder.bitcast(builder.icmp_unsigned("!=", change, _SPREAD_ZERO), I16)
                # Sums of fewer than 64 bits, of either sign, leave all high words as they are.
                with builder.if_then(builder.icmp_unsigned("!=", differs, number(0, I16)), likely=False):
                    upper = builder.add(self._load_all(builder, node, array), change)
                    self._store_all(builder, node, array, upper)

    def store_sums(self, builder: ir.IRBuilder, node: IRValue, place: IRValue, numbers: Sequence[IRValue]) -> None:
        """Store the running sums at ``place``."""
        words = iter(self.words)
        for value in numbers:
            low = builder.trunc(value, I64) if value.type == I128 else value
            self.store_element(builder, node, next(words), place, low)
            if value.type == I128:
                high = builder.trunc(builder.lshr(value, number(64, I128)), I64)
                self.store_element(builder, node, next(words), place, high)

    def open(self, builder: ir.IRBuilder, node: IRValue, place: IRValue) -> None:
        """Make room at ``place``; its sums are 0."""
        for array in (self.keys, *self.words, self.children):
            self._shift(builder, node, array, place, -1)
        count = self.node.load(builder, node, "count")
        self.node.store(builder, node, "count", builder.add(count, number(1, I32)))

    def close(self, builder: ir.IRBuilder, node: IRValue, place: IRValue) -> None:
        """Take out what stands at ``place``, whose sums are 0."""
        for array in (self.keys, *self.words, self.children):
            self._shift(builder, node, array, place, 1)
        last = builder.sub(self.count(builder, node), number(1))
        self.store_element(builder, node, self.keys, number(WIDTH - 1), ir.Constant(self.key, -1))
        self.node.store(builder, node, "count", builder.trunc(last, I32))

    def _shift(self, builder: ir.IRBuilder, node: IRValue, array: NodeArray, place: IRValue, step: int) -> None:
        """From ``place`` on take each element from ``step`` places away.

        All are written, from the array as it lies and as it lies one element off, so nothing depends on how many move.
        """
        size = size_of(array.type)
        if size > 8:
            behind = builder.sub(number(WIDTH - 1), place)
            here = self.place(builder, node, array, place)
            following = at(builder, here, size)
            ends = (following, here) if step < 0 else (here, following)
            move(builder, *ends, builder.mul(behind, number(size)))
            return
        vector = ir.VectorType(array.type, WIDTH)
        start = at(builder, node, array.offset)
        resting = builder.load(start, typ=vector, align=size)
        moving = builder.load(at(builder, start, step * size), typ=vector, align=size)
        builder.store(builder.select(_from(builder, place), moving, resting), start, align=size)

    # ----------------------------------------------------------------------------------------------------- arrays

    def place(self, builder: ir.IRBuilder, node: IRValue, array: NodeArray, place: IRValue) -> IRValue:
        """The address of an element."""
        return at(builder, at(builder, node, array.offset), builder.mul(place, number(size_of(array.type))))

    def load_element(self, builder: ir.IRBuilder, node: IRValue, array: NodeArray, place: IRValue) -> IRValue:
        """Read an element."""
        align = min(size_of(array.type), 8)
        return builder.load(self.place(builder, node, array, place), typ=array.type, align=align)

    def store_element(
        self, builder: ir.IRBuilder, node: IRValue, array: NodeArray, place: IRValue, value: IRValue
    ) -> None:
        """Write an element."""
        builder.store(value, self.place(builder, node, array, place), align=min(size_of(value.type), 8))

    def _load_all(self, builder: ir.IRBuilder, node: IRValue, array: NodeArray) -> IRValue:
        return builder.load(at(builder, node, array.offset), typ=_LANES, align=8)

    def _store_all(self, builder: ir.IRBuilder, node: IRValue, array: NodeArray, values: IRValue) -> None:
        builder.store(values, at(builder, node, array.offset), align=8)


_LANES = ir.VectorType(I64, WIDTH)
_SPREAD_ZERO = ir.Constant(_LANES, [0] * WIDTH)


def _spread(builder: ir.IRBuilder, value: IRValue) -> IRValue:
    """A vector that holds ``value`` in every lane."""
    first = builder.insert_element(ir.Constant(_LANES, ir.Undefined), value, number(0, I32))
    zeros = ir.Constant(ir.VectorType(I32, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(_LANES, ir.Undefined), zeros)


def _from(builder: ir.IRBuilder, place: IRValue) -> IRValue:
    """A vector of i1: the lanes from ``place`` on."""
    return builder.icmp_unsigned(">=", ir.Constant(_LANES, list(range(WIDTH))), _spread(builder, place))
