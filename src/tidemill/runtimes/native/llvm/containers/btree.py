"""Ordered maps of sums: B+trees whose nodes hold running sums of their items or subtrees.

A key is one unsigned integer. Items with equal keys are one item. A range sum is the difference of two descents, which
read one sum a node. Adding is one descent, which adds to all running sums behind a place at once, by vector
instructions. A node is split on the way down when it is full, and leaves when it is empty: nothing is merged, so the
height is logarithmic in the number of items that were ever there. In inner nodes keys are the greatest keys of the
children, exactly.

Many trees may take their nodes from one pool. A tree is then no more than the id of its root, and 0 where it is empty:
functions that change it are told where that id is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    COLD,
    INLINE,
    IRValue,
    Local,
    all_zero,
    define,
    escape,
    forever,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I1, I32, I64, PTR, Status, StructLayout, at, size_of
from tidemill.runtimes.native.llvm.codegen.memory import check_granted, copy, fill, release, resize
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode
from tidemill.runtimes.native.llvm.containers.btree_nodes import LEAF, WIDTH, NodeCode, NodeSums

MAX_HEIGHT = 48
"""No tree is higher: a level more takes several times as many insertions."""

WEIGHT_BITS, VALUE_BITS = 53, 117
"""Sums within a tree have no more bits than this. Then no sum over parts of nodes can overflow, and none is checked."""

POOL = StructLayout()
"""Nodes have ids from 1 on; ``free`` begins the list of those to be used again. No tree was ever above ``height``."""
POOL.field("nodes", PTR)
for _name in ("capacity", "high", "used", "free", "height"):
    POOL.field(_name, I32)


class BTreeCode(NodeCode):
    """The functions of trees with keys of ``bits`` bits and that number of values, shared by all such trees."""

    def __init__(self, bits: int, values: int) -> None:
        super().__init__(bits, values)
        self._name = f"tree.{bits}.{values}"
        self._code = SharedCode(self._name, self._emit)

    def _emit(self, module: ir.Module) -> None:
        self._add(module)

    # ------------------------------------------------------------------------------------------- what others call

    def reserve(self, builder: ir.IRBuilder, account: IRValue, pool: IRValue, more: int = 0) -> None:
        """See to it that ``add`` finds the nodes it may need and ``more``, or return the status of the failure."""
        capacity, used, height = (POOL.load(builder, pool, name) for name in ("capacity", "used", "height"))
        # One node for each level that may split, one for a new root, and the id 0, which is none.
        needed = builder.add(builder.add(used, height), number(3 + more, I32))
        with builder.if_then(builder.icmp_unsigned(">", needed, capacity), likely=False):
            doubled = builder.add(builder.mul(capacity, number(2, I32)), number(4 + more, I32))
            nodes = POOL.load(builder, pool, "nodes")
            old, new = (builder.mul(builder.zext(n, I64), number(self.node.size)) for n in (capacity, doubled))
            found = resize(builder, account, nodes, old, new)
            check_granted(builder, account, found)
            POOL.store(builder, pool, "nodes", found)
            POOL.store(builder, pool, "capacity", doubled)

    def destroy(self, builder: ir.IRBuilder, account: IRValue, pool: IRValue) -> None:
        """Give the memory of a pool back and leave it empty."""
        release(builder, account, POOL.load(builder, pool, "nodes"), self.bytes(builder, pool))
        fill(builder, pool, 0, POOL.size)

    def clear(self, builder: ir.IRBuilder, pool: IRValue) -> None:
        """Forget all nodes and keep the memory."""
        for name in ("high", "used", "free", "height"):
            POOL.store(builder, pool, name, number(0, I32))

    def bytes(self, builder: ir.IRBuilder, pool: IRValue) -> IRValue:
        """The memory of a pool."""
        return builder.mul(builder.zext(POOL.load(builder, pool, "capacity"), I64), number(self.node.size))

    def add(self, builder: ir.IRBuilder, pool: IRValue, root: IRValue, key: IRValue, sums: NodeSums) -> IRValue:
        """Add to the sums of a key in the tree whose root's id lies at ``root``; gives a status.

        A sum that does not fit is kept modulo its width, to be undone.
        """
        return builder.call(self._add(builder.module), [pool, root, key, *sums.numbers()])

    def sum_until(
        self, builder: ir.IRBuilder, pool: IRValue, root: IRValue, key: IRValue, inclusive: IRValue
    ) -> NodeSums:
        """The sums over all items before ``key``, its own included where ``inclusive`` holds; ``root`` is an id."""
        found = builder.call(self._sum_until(builder.module), [pool, root, key, inclusive])
        weight, *values = (builder.extract_value(found, i) for i in range(len(self.types)))
        return NodeSums(weight, tuple(values))

    def at_node(self, builder: ir.IRBuilder, pool: IRValue, id_: IRValue) -> IRValue:
        """A node."""
        offset = builder.mul(builder.zext(id_, I64), number(self.node.size))
        return at(builder, POOL.load(builder, pool, "nodes"), offset)

    # ------------------------------------------------------------------------------------------------- descending

    def _sum_until(self, module: ir.Module) -> ir.Function:
        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            pool, root, key, inclusive = arguments
            totals = [Local(builder, number(0, type_)) for type_ in self.types]
            id_ = Local(builder, root)
            with loop_while(builder, lambda: builder.icmp_unsigned("!=", id_.get(), number(0, I32))):
                node = self.at_node(builder, pool, id_.get())
                leaf = self.is_leaf(builder, node)
                last = builder.sub(self.count(builder, node), builder.zext(builder.not_(leaf), I64))
                place = Local(builder, _least(builder, self.position(builder, node, key), last))
                with builder.if_then(builder.and_(leaf, inclusive)), self.if_here(builder, node, place.get(), key):
                    place.set(builder.add(place.get(), number(1)))
                for total, found in zip(totals, self.before(builder, node, place.get()).numbers(), strict=True):
                    total.set(builder.add(total.get(), found))
                child = self.child_at(builder, node, builder.and_(place.get(), number(WIDTH - 1)))
                id_.set(builder.select(leaf, number(0, I32), child))
            builder.ret(as_struct(builder, [total.get() for total in totals]))

        result = ir.LiteralStructType(self.types)
        return define(module, f"{self._name}.sum_until", result, [PTR, I32, self.key, I1], body, INLINE)

    # ----------------------------------------------------------------------------------------------------- adding

    def _add(self, module: ir.Module) -> ir.Function:
        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            pool, root, key, *numbers = arguments
            path = on_stack(builder, 4 * MAX_HEIGHT), on_stack(builder, 8 * MAX_HEIGHT)
            with builder.if_then(all_zero(builder, numbers)):
                builder.ret(number(0, I32))
            self._heighten(builder, pool, root)
            depth, id_ = Local(builder, number(0)), Local(builder, _root(builder, root))
            status = Local(builder, number(0, I32))

            def node() -> IRValue:
                return self.at_node(builder, pool, id_.get())

            with loop_while(builder, lambda: builder.not_(self.is_leaf(builder, node()))):
                place = self._choose(builder, pool, node(), key, status)
                self._sum_into(builder, node(), place, numbers, status)
                greatest = self.key_at(builder, node(), place)
                with builder.if_then(builder.icmp_unsigned(">", key, greatest)):
                    self.store_element(builder, node(), self.keys, place, key)
                _put(builder, path[0], I32, depth.get(), id_.get())
                _put(builder, path[1], I64, depth.get(), place)
                depth.set(builder.add(depth.get(), number(1)))
                id_.set(self.child_at(builder, node(), place))
            place = _least(builder, self.position(builder, node(), key), self.count(builder, node()))
            with self.if_here(builder, node(), place, key):
                own = self._sum_into(builder, node(), place, numbers, status)
                with builder.if_then(all_zero(builder, own), likely=False):
                    builder.call(
                        self._remove(builder.module), [pool, root, id_.get(), place, path[0], path[1], depth.get()]
                    )
                builder.ret(status.get())
            self.open(builder, node(), place)
            self.store_element(builder, node(), self.keys, place, key)
            self._sum_into(builder, node(), place, numbers, status)
            builder.ret(status.get())

        types = [PTR, PTR, self.key, *self.types]
        return self._code.function(module, f"{self._name}.add", I32, types, body, "noinline")

    def _heighten(self, builder: ir.IRBuilder, pool: IRValue, root: IRValue) -> None:
        """Give an empty tree a leaf, and a full root a parent."""
        with builder.if_then(builder.icmp_unsigned("==", _root(builder, root), number(0, I32)), likely=False):
            builder.store(self._take(builder, pool, number(LEAF, I32)), root, align=4)
        id_ = _root(builder, root)
        child = self.at_node(builder, pool, id_)
        with builder.if_then(self.is_full(builder, child), likely=False):
            level = builder.add(self.node.load(builder, child, "level"), number(1, I32))
            above = self._take(builder, pool, level)
            node = self.at_node(builder, pool, above)
            self.node.store(builder, node, "count", number(1, I32))
            self.store_element(builder, node, self.children, number(0), id_)
            self.store_element(builder, node, self.keys, number(0), self.key_at(builder, child, number(WIDTH - 1)))
            self.store_sums(builder, node, number(0), self.through(builder, child, number(WIDTH - 1)).numbers())
            builder.store(above, root, align=4)

    def _choose(self, builder: ir.IRBuilder, pool: IRValue, node: IRValue, key: IRValue, status: Local) -> IRValue:
        """The child of ``node`` that ``key`` belongs to, split before if it was full."""
        last = builder.sub(self.count(builder, node), number(1))
        place = Local(builder, _least(builder, self.position(builder, node, key), last))
        child = self.at_node(builder, pool, self.child_at(builder, node, place.get()))
        with builder.if_then(self.is_full(builder, child), likely=False):
            found = builder.call(self._split(builder.module), [pool, node, place.get()])
            fine = builder.icmp_unsigned("==", found, number(0, I32))
            status.set(builder.select(fine, status.get(), found))
            beyond = builder.icmp_unsigned(">", key, self.key_at(builder, node, place.get()))
            place.set(builder.add(place.get(), builder.zext(beyond, I64)))
        return place.get()

    def _split(self, module: ir.Module) -> ir.Function:
        """``split(pool, parent, place)``: two children in the place of a full one; gives a status."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            pool, parent, place = arguments
            left = self.at_node(builder, pool, self.child_at(builder, parent, place))
            id_ = self._take(builder, pool, self.node.load(builder, left, "level"))
            right = self.at_node(builder, pool, id_)
            # Keys that only grow, like those of time, would leave half of each node empty for ever.
            is_last = builder.icmp_unsigned("==", place, builder.sub(self.count(builder, parent), number(1)))
            cut = builder.select(is_last, number(WIDTH - 2), number(WIDTH // 2))
            rest = builder.sub(number(WIDTH), cut)
            before = builder.sub(cut, number(1))
            self._move_upper_part(builder, left, right, cut, rest)
            kept = self.through(builder, left, before).numbers()
            self.add_from(builder, right, number(0), [builder.neg(part) for part in kept])
            following = builder.add(place, number(1))
            greatest = self.key_at(builder, parent, place)
            self.open(builder, parent, following)
            self.store_element(builder, parent, self.keys, following, greatest)
            self.store_element(builder, parent, self.keys, place, self.key_at(builder, left, before))
            self.store_element(builder, parent, self.children, following, id_)
            # The sums through both children are those that were through the one; those through the left one are new.
            start = self.before(builder, parent, place).numbers()
            self.store_sums(builder, parent, place, [builder.add(a, b) for a, b in zip(start, kept, strict=True)])
            status = Local(builder, number(0, I32))
            for side in (left, right):
                whole = self.before(builder, side, self.count(builder, side)).numbers()
                self.check_sums(builder, whole, status)
            builder.ret(status.get())

        return self._code.function(module, f"{self._name}.split", I32, [PTR, PTR, I64], body, *COLD)

    def _move_upper_part(
        self, builder: ir.IRBuilder, left: IRValue, right: IRValue, cut: IRValue, rest: IRValue
    ) -> None:
        """Move what stands in ``left`` from ``cut`` on, ``rest`` items or children, to the empty node ``right``."""
        for array in (self.keys, *self.words, self.children):
            source, target = self.place(builder, left, array, cut), self.place(builder, right, array, number(0))
            copy(builder, target, source, builder.mul(rest, number(size_of(array.type))))
        unused = builder.mul(rest, number(size_of(self.key)))
        fill(builder, self.place(builder, left, self.keys, cut), 255, unused)
        self.node.store(builder, left, "count", builder.trunc(cut, I32))
        self.node.store(builder, right, "count", builder.trunc(rest, I32))

    def _sum_into(
        self, builder: ir.IRBuilder, node: IRValue, place: IRValue, numbers: Sequence[IRValue], status: Local
    ) -> list[IRValue]:
        """Add to the sums at ``place``, and give what they are then."""
        self.add_from(builder, node, place, numbers)
        ends, starts = (side(builder, node, place).numbers() for side in (self.through, self.before))
        found = [builder.sub(end, start) for end, start in zip(ends, starts, strict=True)]
        self.check_sums(builder, found, status)
        return found

    def check_sums(self, builder: ir.IRBuilder, numbers: Sequence[IRValue], status: Local) -> None:
        """Note in ``status`` where a sum has too many bits."""
        for i, own in enumerate(numbers):
            bound, fault = (VALUE_BITS, Status.VALUE_OVERFLOW) if i else (WEIGHT_BITS, Status.WEIGHT_OVERFLOW)
            shifted = builder.add(own, number(1 << bound, own.type))
            beyond = builder.icmp_unsigned(">=", shifted, number(2 << bound, own.type))
            status.set(builder.select(beyond, number(fault, I32), status.get()))

    # --------------------------------------------------------------------------------------------------- removing

    def _remove(self, module: ir.Module) -> ir.Function:
        """``remove(pool, root, leaf, place, nodes, places, depth)``: an item, and nodes that are empty without it."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            pool, root, leaf, first, ids, places, height = arguments
            id_, place, depth = (Local(builder, initial) for initial in (leaf, first, height))

            def up() -> None:
                depth.set(builder.sub(depth.get(), number(1)))
                id_.set(_get(builder, ids, I32, depth.get()))
                place.set(_get(builder, places, I64, depth.get()))

            def node() -> IRValue:
                return self.at_node(builder, pool, id_.get())

            with forever(builder) as shrunk:
                self.close(builder, node(), place.get())
                escape(builder, builder.icmp_unsigned("!=", self.count(builder, node()), number(0)), shrunk)
                self._release(builder, pool, id_.get())
                with builder.if_then(builder.icmp_unsigned("==", depth.get(), number(0))):
                    builder.store(number(0, I32), root, align=4)
                    builder.ret_void()
                up()
            count = self.count(builder, node())
            with builder.if_then(builder.icmp_unsigned("==", place.get(), count)):
                greatest = self.key_at(builder, node(), builder.sub(count, number(1)))
                with loop_while(builder, lambda: builder.icmp_unsigned("!=", depth.get(), number(0))) as ended:
                    up()
                    self.store_element(builder, node(), self.keys, place.get(), greatest)
                    last = builder.sub(self.count(builder, node()), number(1))
                    escape(builder, builder.icmp_unsigned("!=", place.get(), last), ended)
            self._lower(builder, pool, root)
            builder.ret_void()

        arguments = [PTR, PTR, I32, I64, PTR, PTR, I64]
        return self._code.function(module, f"{self._name}.remove", ir.VoidType(), arguments, body, "noinline")

    def _lower(self, builder: ir.IRBuilder, pool: IRValue, root: IRValue) -> None:
        """Replace the root by its only child."""

        def has_one_child() -> IRValue:
            node = self.at_node(builder, pool, _root(builder, root))
            one = builder.icmp_unsigned("==", self.count(builder, node), number(1))
            return builder.and_(one, builder.not_(self.is_leaf(builder, node)))

        with loop_while(builder, has_one_child):
            id_ = _root(builder, root)
            child = self.child_at(builder, self.at_node(builder, pool, id_), number(0))
            self._release(builder, pool, id_)
            builder.store(child, root, align=4)

    # ------------------------------------------------------------------------------------------------------ nodes

    def _take(self, builder: ir.IRBuilder, pool: IRValue, level: IRValue) -> IRValue:
        """A new node without items or children; ``reserve`` has seen to it that there is one."""
        free = POOL.load(builder, pool, "free")
        found = Local(builder, free)
        with builder.if_else(builder.icmp_unsigned("!=", free, number(0, I32))) as (reused, fresh):
            with reused:
                following = self.node.load(builder, self.at_node(builder, pool, free), "count")
                POOL.store(builder, pool, "free", following)
            with fresh:
                high = builder.add(POOL.load(builder, pool, "high"), number(1, I32))
                POOL.store(builder, pool, "high", high)
                found.set(high)
        node = self.at_node(builder, pool, found.get())
        self.node.store(builder, node, "count", number(0, I32))
        self.node.store(builder, node, "level", level)
        fill(builder, at(builder, node, self.keys.offset), 255, WIDTH * size_of(self.key))
        for array in self.words:
            builder.store(number(0), at(builder, node, array.offset - 8), align=8)
        POOL.store(builder, pool, "used", builder.add(POOL.load(builder, pool, "used"), number(1, I32)))
        height, known = builder.add(level, number(1, I32)), POOL.load(builder, pool, "height")
        higher = builder.icmp_unsigned(">", height, known)
        POOL.store(builder, pool, "height", builder.select(higher, height, known))
        return found.get()

    def _release(self, builder: ir.IRBuilder, pool: IRValue, id_: IRValue) -> None:
        node = self.at_node(builder, pool, id_)
        self.node.store(builder, node, "count", POOL.load(builder, pool, "free"))
        POOL.store(builder, pool, "free", id_)
        POOL.store(builder, pool, "used", builder.sub(POOL.load(builder, pool, "used"), number(1, I32)))


def _root(builder: ir.IRBuilder, place: IRValue) -> IRValue:
    return builder.load(place, typ=I32, align=4)


def _least(builder: ir.IRBuilder, one: IRValue, other: IRValue) -> IRValue:
    return builder.select(builder.icmp_unsigned("<", one, other), one, other)


def _put(builder: ir.IRBuilder, array: IRValue, type_: ir.Type, place: IRValue, value: IRValue) -> None:
    builder.store(value, builder.gep(array, [place], source_etype=type_))


def _get(builder: ir.IRBuilder, array: IRValue, type_: ir.Type, place: IRValue) -> IRValue:
    return builder.load(builder.gep(array, [place], source_etype=type_), typ=type_)


def as_struct(builder: ir.IRBuilder, values: Sequence[IRValue]) -> IRValue:
    """Numbers as one value, for a function to return."""
    found: IRValue = ir.Constant(ir.LiteralStructType([value.type for value in values]), ir.Undefined)
    for i, value in enumerate(values):
        found = builder.insert_value(found, value, i)
    return found
