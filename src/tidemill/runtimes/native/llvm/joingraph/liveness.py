"""Liveness of items in adjacency lists: look-ahead in join graphs.

A walk that has come to an item goes on with lists that the item's own columns lead to, and from their items further on.
That tree of lookups is the item's ``Continuation``, whichever row the walk began with. An item is *dead* where
at one of its branches there are no items, or only dead ones: then no walk that comes this way gets through it. Walks
find that out on their way and set a bit in the item; walks that come later pass it over.

Reviving: a record that enters a map may be what dead items waited for. They are found by the same columns from the
other side, which is why only branches count that have an index there; and a bit of that list says whether it is worth
while. Where an item comes alive so may those before it, outwards until one is met that is not dead. Nothing needs to be
done when a record leaves: an item that is not marked though it leads nowhere is followed in vain, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.program.statements import Query, RelationLoop, Version
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, count_up, number
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, NULL_POINTER, PTR
from tidemill.runtimes.native.llvm.containers.adjacency_lists import AdjacencyListCode
from tidemill.runtimes.native.llvm.containers.slices import ListSlice
from tidemill.runtimes.native.llvm.maps.map_code import IndexColumns
from tidemill.runtimes.native.llvm.queries import MapGlobal, index_of

LIVENESS_BITS = 8
"""Number of continuations for the items of one map that have a bit; for more nothing is known."""


@dataclass(frozen=True, slots=True)
class ContinuationBranch:
    """A lookup by columns of an item: ``pairs`` of a column that is looked up and the item's own."""

    pairs: tuple[tuple[str, str], ...]
    continuation: Continuation

    @property
    def back(self) -> IndexColumns:
        """The columns of the item."""
        return tuple(own for _, own in self.pairs)


@dataclass(frozen=True, slots=True)
class Continuation:
    """The continuation of walks after items of ``map`` that were entered by the columns of ``index``."""

    map: str
    index: IndexColumns
    branches: tuple[ContinuationBranch, ...]


@dataclass
class Liveness:
    """The liveness code of a module: the bit of items for each continuation, and how they come alive again."""

    module: ir.Module
    maps: Mapping[str, MapGlobal]
    marked: dict[Continuation, tuple[int, ir.GlobalVariable]] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------------------- planning

    def plan(self, query: Query) -> None:
        """Give bits to all that lies beyond the sources of ``query``."""
        for place, step in enumerate(query.sources):
            if isinstance(step, RelationLoop) and step.version is Version.STATE and step.lookup:
                self._mark(self.continuation(query, place))

    def _mark(self, continuation: Continuation) -> None:
        lists = self._lists(continuation.map, continuation.index)
        if not continuation.branches or continuation in self.marked or lists is None:
            return
        bit = sum(other.map == continuation.map for other in self.marked)
        if bit < LIVENESS_BITS:
            flag = ir.GlobalVariable(self.module, I8, f"marked.{len(self.marked)}")
            flag.initializer = number(0, I8)
            flag.linkage = "internal"
            self.marked[continuation] = bit, flag

    def continuation(self, query: Query, place: int) -> Continuation:
        """The continuation after the source of ``query`` at that position."""
        source = query.sources[place]
        assert isinstance(source, RelationLoop)
        branches = []
        for further, step in enumerate(query.sources[place + 1 :], place + 1):
            pairs = self.pairs(source, step)
            if pairs is not None:
                branches.append(ContinuationBranch(pairs, self.continuation(query, further)))
        map_ = self.maps[source.relation].map
        return Continuation(source.relation, index_of(source, map_), tuple(branches))

    def pairs(self, source: RelationLoop, step: object) -> tuple[tuple[str, str], ...] | None:
        """The columns by which ``step`` is looked up from ``source`` alone, if the way back is known too."""
        if not isinstance(step, RelationLoop) or step.version is not Version.STATE or not step.lookup:
            return None
        columns = {f"{source.alias}.{f.name}": f for f in source.columns}
        types = {f.name: f.type for f in self.maps[step.relation].map.keys}
        found = []
        for name, scalar in step.lookup:
            if not isinstance(scalar, Column) or scalar.name not in columns or scalar.type != types[name]:
                return None
            found.append((name, columns[scalar.name].name))
        keys = [f.name for f in self.maps[source.relation].map.keys]
        found.sort(key=lambda pair: keys.index(pair[1]))
        back = tuple(own for _, own in found)
        there = len(set(back)) == len(back) and self._lists(source.relation, back) is not None
        return tuple(found) if there else None

    def _lists(self, name: str, index: IndexColumns) -> AdjacencyListCode | None:
        return self.maps[name].code.lists(index) if name in self.maps else None

    # ----------------------------------------------------------------------------------------------------- marking

    def is_dead(self, builder: ir.IRBuilder, slice_: ListSlice, place: IRValue, continuation: Continuation) -> IRValue:
        """An i1: whether an item is marked."""
        flags = slice_.load(builder, place, "flags")
        return builder.icmp_unsigned("!=", builder.and_(flags, self._bit(continuation)), number(0, I8))

    def mark(
        self,
        builder: ir.IRBuilder,
        slice_: ListSlice,
        place: IRValue,
        continuation: Continuation,
        causes: Sequence[tuple[ContinuationBranch, IRValue]],
    ) -> None:
        """Mark an item; ``causes`` has for each of its branches an i1: whether it is the reason."""
        flags = slice_.load(builder, place, "flags")
        slice_.store(builder, place, "flags", builder.or_(flags, self._bit(continuation)))
        builder.store(number(1, I8), self.marked[continuation][1])
        held = self.maps[continuation.map]
        entry = held.code.record(builder, held.handle(builder), slice_.load(builder, place, "id"))
        for branch, cause in causes:
            with builder.if_then(cause):
                builder.call(self._register_dead(continuation, branch), [entry])

    def _bit(self, continuation: Continuation) -> IRValue:
        return ir.Constant(I8, 1 << self.marked[continuation][0])

    def _register_dead(self, continuation: Continuation, branch: ContinuationBranch) -> ir.Function:
        """``await(entry)``: flag the list of the items that share its way to ``branch``: a dead one is among them."""

        def body(builder: ir.IRBuilder, entry: IRValue) -> None:
            held, lists = self._back(continuation, branch)
            slot = lists.find(builder, held.handle(builder), lists.cells_of(builder, entry))
            flags = lists.slot.load(builder, slot, "flags")
            lists.slot.store(builder, slot, "flags", builder.or_(flags, self._bit(continuation)))

        symbol = f"await.{self._number(continuation)}.{continuation.branches.index(branch)}"
        return self._of_entry(symbol, continuation.map, branch.back, body)

    # ---------------------------------------------------------------------------------------------------- reviving

    def mark_live(self, builder: ir.IRBuilder, name: str, entry: IRValue) -> None:
        """Mark items live again that waited for an entry of the map ``name``."""
        for continuation, branch in self.waiting_for(name):
            self._revive_waiting(builder, continuation, branch, name, entry)

    def waiting_for(self, name: str) -> Iterator[tuple[Continuation, ContinuationBranch]]:
        """The continuations whose items may wait for entries of the map ``name``."""
        return self._waiting(lambda branch: branch.continuation.map == name)

    def _waiting(
        self, condition: Callable[[ContinuationBranch], bool]
    ) -> Iterator[tuple[Continuation, ContinuationBranch]]:
        for continuation in self.marked:
            for branch in continuation.branches:
                if condition(branch):
                    yield continuation, branch

    def _revive_waiting(
        self, builder: ir.IRBuilder, continuation: Continuation, branch: ContinuationBranch, name: str, entry: IRValue
    ) -> None:
        """Revive those that may have waited for ``entry`` of the map ``name`` at a branch."""
        marked = builder.load(self.marked[continuation][1], typ=I8)
        with builder.if_then(builder.icmp_unsigned("!=", marked, number(0, I8)), likely=False):
            function = self._answer(continuation, branch, name)
            builder.call(function, [entry])

    def _answer(self, continuation: Continuation, branch: ContinuationBranch, name: str) -> ir.Function:
        """``answer(entry)``: revive the dead ones of the list from which one comes to ``entry``."""

        def body(builder: ir.IRBuilder, entry: IRValue) -> None:
            held, lists = self._back(continuation, branch)
            places = self._places(name, [looked_up for looked_up, _ in branch.pairs])
            record = self.maps[name].code.changing.record
            cells = [record.load(builder, entry, f"key{place}") for place in places]
            handle = held.handle(builder)
            slot = lists.find(builder, handle, cells)
            with builder.if_then(builder.icmp_unsigned("!=", slot, NULL_POINTER)):
                flags = lists.slot.load(builder, slot, "flags")
                waits = builder.icmp_unsigned("!=", builder.and_(flags, self._bit(continuation)), number(0, I8))
                with builder.if_then(waits, likely=False):
                    others = ir.Constant(I8, ~(1 << self.marked[continuation][0]))
                    lists.slot.store(builder, slot, "flags", builder.and_(flags, others))
                    found = lists.at(builder, handle, slot, cells)
                    with count_up(builder, number(0), found.rows) as place:
                        entry = held.code.record(builder, handle, found.load(builder, place, "id"))
                        builder.call(self._mark_item_live(continuation), [entry])

        columns = tuple(looked_up for looked_up, _ in branch.pairs)
        symbol = f"answer.{self._number(continuation)}.{continuation.branches.index(branch)}"
        return self._of_entry(symbol, name, columns, body)

    def _mark_item_live(self, continuation: Continuation) -> ir.Function:
        """``rise(entry)``: mark its item live, if it was dead, and then those before it."""

        def body(builder: ir.IRBuilder, entry: IRValue) -> None:
            held, lists = self.maps[continuation.map], self._lists(continuation.map, continuation.index)
            assert lists is not None
            found, place = lists.slice_of(builder, held.handle(builder), entry)
            with builder.if_then(self.is_dead(builder, found, place, continuation)):
                others = ir.Constant(I8, ~(1 << self.marked[continuation][0]))
                found.store(builder, place, "flags", builder.and_(found.load(builder, place, "flags"), others))
                for before, branch in self._waiting(lambda branch: branch.continuation == continuation):
                    self._revive_waiting(builder, before, branch, continuation.map, entry)

        return self._of_entry(f"rise.{self._number(continuation)}", continuation.map, continuation.index, body)

    def _of_entry(
        self, symbol: str, name: str, columns: IndexColumns, body: Callable[[ir.IRBuilder, IRValue], None]
    ) -> ir.Function:
        """A function of an entry of the map ``name``, which does nothing where one of the columns is NULL."""
        if symbol in self.module.globals:
            return self.module.globals[symbol]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [PTR]), symbol)
        function.linkage = "internal"
        for attribute in ("nounwind", "noinline"):
            function.attributes.add(attribute)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        keys = self.maps[name].code.changing.keys
        (entry,) = function.args
        null = keys.has_null(builder, keys.of_record(builder, entry), keys.places(columns))
        with builder.if_then(number(1, I1) if null is None else builder.not_(null)):
            body(builder, entry)
        builder.ret_void()
        return function

    def _back(self, continuation: Continuation, branch: ContinuationBranch) -> tuple[MapGlobal, AdjacencyListCode]:
        lists = self._lists(continuation.map, branch.back)
        assert lists is not None
        return self.maps[continuation.map], lists

    def _places(self, name: str, columns: Sequence[str]) -> tuple[int, ...]:
        return self.maps[name].code.changing.keys.places(columns)

    def _number(self, continuation: Continuation) -> int:
        return list(self.marked).index(continuation)
