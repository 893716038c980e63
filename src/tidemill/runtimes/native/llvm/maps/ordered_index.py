"""Orders of a map: which trees or groups keep its sums, and how cells become keys and come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, escape, forever, loop_while, number
from tidemill.runtimes.native.llvm.codegen.layout import I1, I32, I64, INTERNED, NULL_POINTER, StructLayout, cell_type
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome
from tidemill.runtimes.native.llvm.containers.btree import POOL, BTreeCode
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells
from tidemill.runtimes.native.llvm.containers.ordered_groups import OrderedGroupCode
from tidemill.runtimes.native.llvm.containers.sort_keys import from_sort_key, key_bits, to_sort_key
from tidemill.runtimes.native.llvm.containers.sum_groups import SumGroups, SumItems
from tidemill.runtimes.native.llvm.maps.record_items import RecordItems
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers

SeekCondition = Callable[[NodeSums], IRValue]

SeekResult = tuple[Local, Local]
"""An i1: whether a key was found; and the key."""

TREE = StructLayout()
"""A tree of its own: the pool of its nodes, and its root."""
TREE.part("pool", POOL)
TREE.field("root", I32)

UNORDERED = INTERNED
"""Ids of interned values say nothing about the order of the values."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The last key at or before one, and the first key after it, as cells; an i1 beside each says if there is one."""

    has_before: IRValue
    before: IRValue
    has_after: IRValue
    after: IRValue


class OrderedIndexCode:
    """One order of a map: entries with equal ``prefix``, by ``column``. A NULL in either keeps an entry out.

    With a prefix there is a group for each, else one tree. An order of those that are ``present`` has the entries of
    positive weight alone, and NULLs in the prefix are equal.
    """

    def __init__(
        self,
        code: CodeHome,
        map_: Map,
        handle: StructLayout,
        name: str,
        places: Sequence[int],
        records: RecordItems | None = None,
        present: bool = False,
    ) -> None:
        """``places`` are those of the prefix and then of the column; with ``records`` groups hold these themselves.

        ``code`` has the functions of the map.
        """
        *prefix, column = places
        if isinstance(map_.keys[column].type, UNORDERED):
            raise ValueError(f"{map_.name} has no order on {map_.keys[column]}")
        self._handle, self._name = handle, name
        self.present = present
        self._masked = present and any(map_.keys[place].nullable for place in prefix)
        self.places = tuple(places)
        self._column = cell_type(map_.keys[column].type)
        integers = sum(not isinstance(value.type, t.Double) for value in map_.values)
        self.trees = BTreeCode(key_bits(self._column), integers)
        self.groups: OrderedGroupCode | None = None
        self._summed: SumGroups | None = None
        if prefix:
            items = SumItems(self.trees)
            cells = [*([I64] if self._masked else []), *(cell_type(map_.keys[place].type) for place in prefix)]
            self.groups = OrderedGroupCode(code, cells, self.trees, records or items)
            self._summed = None if records else SumGroups(self.groups, items)
        handle.part(name, TREE if self.groups is None else self.groups.struct)

    # ------------------------------------------------------------------------------------------------ as a whole

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Create it empty, or return the status of the failure."""
        if self.groups is not None:
            self.groups.create(builder, self._account(builder, handle), self.own(builder, handle))

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Give its memory back."""
        own = self._account(builder, handle), self.own(builder, handle)
        if self.groups is not None:
            self.groups.destroy(builder, *own)
        else:
            self.trees.destroy(builder, *own)

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Forget all entries, or return the status of the failure."""
        own = self.own(builder, handle)
        if self.groups is not None:
            self.groups.clear(builder, self._account(builder, handle), own)
        else:
            self.trees.clear(builder, own)
            TREE.store(builder, own, "root", number(0, I32))

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Its memory."""
        return (self.groups or self.trees).bytes(builder, self.own(builder, handle))

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """See to it that ``add`` has the memory it needs, or return the status of the failure."""
        account, own = self._account(builder, handle), self.own(builder, handle)
        if self.groups is None:
            self.trees.reserve(builder, account, own)
        elif self._summed is None:
            # The memory of arrays must stay where it is: an entry of one may be under way.
            self.groups.reserve_nodes(builder, account, own)
        else:
            self.groups.reserve(builder, account, own)

    # ------------------------------------------------------------------------------------------- adding and summing

    def add(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, numbers: EntryNumbers) -> IRValue:
        """Add to the sums of an entry that is in the order; gives a status."""
        prefix, key = self.split(builder, keys)
        sums, own = NodeSums(numbers.weight, numbers.integers()), self.own(builder, handle)
        if self._summed is not None:
            return self._summed.add(builder, own, prefix, key, sums)
        if self.groups is not None:
            return self._add_to_tree(builder, own, prefix, key, sums)
        return self.trees.add(builder, own, TREE.address(builder, own, "root"), key, sums)

    def _add_to_tree(
        self, builder: ir.IRBuilder, own: IRValue, prefix: Sequence[IRValue], key: IRValue, sums: NodeSums
    ) -> IRValue:
        """Add to the sums of a tree, where groups hold the records themselves; gives a status."""
        assert self.groups is not None
        status = Local(builder, number(0, I32))
        used = POOL.load(builder, self.groups.pool(builder, own), "used")
        with builder.if_then(builder.icmp_unsigned("!=", used, number(0, I32))):
            group = self.groups.find(builder, own, prefix)
            exists = builder.icmp_unsigned("!=", group, NULL_POINTER)
            with builder.if_then(exists), builder.if_then(self.groups.is_tree(builder, group)):
                status.set(self.groups.add_to_tree(builder, own, group, key, sums))
        return status.get()

    def split(self, builder: ir.IRBuilder, keys: KeyCells) -> tuple[list[IRValue], IRValue]:
        """The prefix of an entry, and its key among those with that prefix."""
        *prefix, column = (keys.cells[place] for place in self.places)
        if self._masked:
            assert keys.nulls is not None
            prefix = [keys.nulls, *prefix]  # no other column of the map can be NULL
        return prefix, to_sort_key(builder, column)

    def find(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue]) -> IRValue:
        """The entries with a prefix: a group or null, or the id of a root where there is no prefix."""
        own = self.own(builder, handle)
        return TREE.load(builder, own, "root") if self.groups is None else self.groups.find(builder, own, prefix)

    def sum_until(
        self, builder: ir.IRBuilder, handle: IRValue, among: IRValue, key: IRValue, inclusive: IRValue
    ) -> NodeSums:
        """The sums over the entries ``among``, as ``find`` gives them, before a key (or with it)."""
        return (self.groups or self.trees).sum_until(builder, self.own(builder, handle), among, key, inclusive)

    def prefetch(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], prefetcher: Prefetcher
    ) -> None:
        """Ask for the memory of the entries with a prefix; of a tree without one the upper nodes are there anyway."""
        if self.groups is not None:
            self.groups.prefetch(builder, self.own(builder, handle), prefix, prefetcher)

    def last(self) -> IRValue:
        """No key is greater."""
        return number(-1, self.trees.key)

    # -------------------------------------------------------------------------------------------------- neighbours

    def neighbours(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells) -> Neighbours:
        """The entries of an order of present ones next to a key, which need not be there; in O(log n)."""
        assert self.present, "weights are positive, so that the number of rows before an entry tells where it is"
        prefix, key = self.split(builder, keys)
        flags = [Local(builder, number(0, I1)) for _ in range(2)]
        found = [Local(builder, number(0, self.trees.key)) for _ in range(2)]
        results = [(flags[0], found[0]), (flags[1], found[1])]
        among, own = self.find(builder, handle, prefix), self.own(builder, handle)
        if self.groups is None:
            self._neighbours_in_tree(builder, own, among, key, results)
        else:
            exists = builder.icmp_unsigned("!=", among, NULL_POINTER)
            with builder.if_then(exists), builder.if_else(self.groups.is_tree(builder, among)) as (long, short):
                with long:
                    root, pool = self.groups.root(builder, among), self.groups.pool(builder, own)
                    self._neighbours_in_tree(builder, pool, root, key, results)
                with short:
                    self._neighbours_in_array(builder, own, among, key, results)
        before, after = (from_sort_key(builder, one.get(), self._column) for one in found)
        return Neighbours(flags[0].get(), before, flags[1].get(), after)

    def _neighbours_in_array(
        self, builder: ir.IRBuilder, groups: IRValue, group: IRValue, key: IRValue, results: Sequence[SeekResult]
    ) -> None:
        assert self.groups is not None
        code, (before, after) = self.groups, results
        below, here = code.position(builder, groups, group, key)
        through = builder.add(below, builder.zext(here, I64))
        with builder.if_then(builder.icmp_unsigned("!=", through, number(0))):
            before[0].set(number(1, I1))
            item = code.item(builder, groups, group, builder.sub(through, number(1)))
            before[1].set(code.items.key(builder, item))
        with builder.if_then(builder.icmp_unsigned("<", through, code.count(builder, group))):
            after[0].set(number(1, I1))
            after[1].set(code.items.key(builder, code.item(builder, groups, group, through)))

    def _neighbours_in_tree(
        self, builder: ir.IRBuilder, pool: IRValue, root: IRValue, key: IRValue, results: Sequence[SeekResult]
    ) -> None:
        """The entries with the last row before ``key``, and with the first row after it, found by their numbers."""
        trees, (before, after) = self.trees, results
        rows = trees.sum_until(builder, pool, root, key, number(1, I1)).weight
        total = trees.sum_until(builder, pool, root, self.last(), number(1, I1)).weight
        with builder.if_then(builder.icmp_unsigned("!=", rows, number(0))):
            self._seek_before(builder, pool, root, lambda sums: builder.icmp_signed("<", sums.weight, rows), before)
        with builder.if_then(builder.icmp_unsigned("!=", rows, total)):
            self._seek_before(builder, pool, root, lambda sums: builder.icmp_signed("<=", sums.weight, rows), after)

    # ----------------------------------------------------------------------------------------------------- seeking

    def seek(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], after: bool, holds: SeekCondition
    ) -> tuple[IRValue, IRValue]:
        """An i1 and the cell of the entry at which ``holds`` turns, if there is one: see ``MapCode.seek``."""
        found, sought = Local(builder, number(0, I1)), Local(builder, number(0, self.trees.key))
        seek = self._seek_after if after else self._seek_before
        among, own = self.find(builder, handle, prefix), self.own(builder, handle)
        if self.groups is None:
            seek(builder, own, among, holds, (found, sought))
            return found.get(), from_sort_key(builder, sought.get(), self._column)
        exists = builder.icmp_unsigned("!=", among, NULL_POINTER)
        with builder.if_then(exists), builder.if_else(self.groups.is_tree(builder, among)) as (long, short):
            with long:
                root = self.groups.root(builder, among)
                seek(builder, self.groups.pool(builder, own), root, holds, (found, sought))
            with short:
                self._seek_in_array(builder, own, among, after, holds, (found, sought))
        return found.get(), from_sort_key(builder, sought.get(), self._column)

    def _seek_in_array(
        self,
        builder: ir.IRBuilder,
        groups: IRValue,
        group: IRValue,
        after: bool,
        holds: SeekCondition,
        result: SeekResult,
    ) -> None:
        """Go from the end at which the condition holds to the last item for which it still does."""
        assert self.groups is not None
        count = self.groups.count(builder, group)
        passed = Local(builder, number(0))
        running = [Local(builder, number(0, type_)) for type_ in self.trees.types]
        with loop_while(builder, lambda: builder.icmp_unsigned("<", passed.get(), count)) as ended:
            weight, *values = (total.get() for total in running)
            escape(builder, builder.not_(holds(NodeSums(weight, tuple(values)))), ended)
            place = builder.sub(builder.sub(count, passed.get()), number(1)) if after else passed.get()
            item, items = self.groups.item(builder, groups, group, place), self.groups.items
            for total, part in zip(running, items.sums(builder, item).numbers(), strict=True):
                total.set(builder.add(total.get(), part))
            result[0].set(number(1, I1))
            result[1].set(items.key(builder, item))
            passed.set(builder.add(passed.get(), number(1)))

    def _seek_before(
        self, builder: ir.IRBuilder, pool: IRValue, root: IRValue, holds: SeekCondition, result: SeekResult
    ) -> None:
        """The last item for which ``holds`` is true of the sums before it.

        The descent goes to the last child whose first item passes. In that child the first item may be the only one
        that does; but the one before it does too, and it is the greatest of the child before, which stands in the node.
        """
        trees = self.trees

        def goes_on(node: IRValue, place: IRValue, running: NodeSums) -> IRValue:
            # What is asked for is the sum before an item of this leaf, or before the first item of the next child.
            last = builder.sub(place, builder.zext(trees.is_leaf(builder, node), I64))
            return holds(_plus(builder, running, trees.through(builder, node, last)))

        def passed(node: IRValue, place: IRValue) -> None:
            with builder.if_then(builder.icmp_unsigned("!=", place, number(0))):
                result[1].set(trees.key_at(builder, node, builder.sub(place, number(1))))
                result[0].set(number(1, I1))

        self._descend(builder, pool, root, goes_on, passed, all_children=False)

    def _seek_after(
        self, builder: ir.IRBuilder, pool: IRValue, root: IRValue, holds: SeekCondition, result: SeekResult
    ) -> None:
        """The first item for which ``holds`` is true of the sums after it.

        The descent goes to the first child whose last item passes: its key and the sums up to it stand in the node.
        """
        trees = self.trees
        total = trees.sum_until(builder, pool, root, self.last(), number(1, I1))

        def goes_on(node: IRValue, place: IRValue, running: NodeSums) -> IRValue:
            after = minus(builder, total, _plus(builder, running, trees.through(builder, node, place)))
            return builder.not_(holds(after))

        def passed(node: IRValue, place: IRValue) -> None:
            here = builder.icmp_unsigned("<", place, trees.count(builder, node))
            with builder.if_then(builder.and_(here, trees.is_leaf(builder, node))):
                result[1].set(trees.key_at(builder, node, place))
                result[0].set(number(1, I1))

        self._descend(builder, pool, root, goes_on, passed, all_children=True)

    def _descend(
        self,
        builder: ir.IRBuilder,
        pool: IRValue,
        root: IRValue,
        goes_on: Callable[[IRValue, IRValue, NodeSums], IRValue],
        passed: Callable[[IRValue, IRValue], None],
        all_children: bool,
    ) -> None:
        """From the root to a leaf: at each node pass places while ``goes_on`` holds, and tell ``passed`` which is next.

        ``goes_on`` gets the sums over everything before the node. Without ``all_children`` the last child is not asked:
        it is where the descent goes if all others were passed.
        """
        trees = self.trees
        id_ = Local(builder, root)
        running = [Local(builder, number(0, type_)) for type_ in trees.types]
        with forever(builder) as ended:
            escape(builder, builder.icmp_unsigned("==", id_.get(), number(0, I32)), ended)
            node = trees.at_node(builder, pool, id_.get())
            leaf, count = trees.is_leaf(builder, node), trees.count(builder, node)
            stop = count if all_children else builder.sub(count, builder.zext(builder.not_(leaf), I64))
            weight, *values = (total.get() for total in running)
            place = Local(builder, number(0))
            with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), stop)) as arrived:
                escape(builder, builder.not_(goes_on(node, place.get(), NodeSums(weight, tuple(values)))), arrived)
                place.set(builder.add(place.get(), number(1)))
            passed(node, place.get())
            beyond = builder.icmp_unsigned(">=", place.get(), count)
            escape(builder, builder.or_(leaf, beyond), ended)
            for total, passed_by in zip(running, trees.before(builder, node, place.get()).numbers(), strict=True):
                total.set(builder.add(total.get(), passed_by))
            id_.set(trees.child_at(builder, node, place.get()))

    def own(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The memory of this order."""
        return self._handle.address(builder, handle, self._name)

    def _account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self._handle.load(builder, handle, "account")


def _plus(builder: ir.IRBuilder, one: NodeSums, other: NodeSums) -> NodeSums:
    weight, *values = (builder.add(a, b) for a, b in zip(one.numbers(), other.numbers(), strict=True))
    return NodeSums(weight, tuple(values))


def minus(builder: ir.IRBuilder, one: NodeSums, other: NodeSums) -> NodeSums:
    """The difference of sums."""
    weight, *values = (builder.sub(a, b) for a, b in zip(one.numbers(), other.numbers(), strict=True))
    return NodeSums(weight, tuple(values))
