"""The entries of each group of a map, in order.

The first keys of the map are those of a group, and NULLs among them are equal, as in a GROUP BY. The others make a sort
key, one number for each entry. An entry of negative weight has left before it came, and is in no group.

What is made of a group (an aggregate, its first rows, the values of window functions) is needed as it was before the
epoch, too. It can have changed only where the order has, so a subclass notes then what it needs to know (``_note``). An
epoch that begins, or is undone, forgets that; while a state is restored or undone nothing is noted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, PTR, NullableValue, StructLayout, cell_type
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome
from tidemill.runtimes.native.llvm.containers.btree import BTreeCode
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode
from tidemill.runtimes.native.llvm.containers.ordered_groups import OrderedGroupCode
from tidemill.runtimes.native.llvm.containers.sort_keys import SortTerm, from_composite_key, to_composite_key
from tidemill.runtimes.native.llvm.containers.sum_groups import SumGroups, SumItems
from tidemill.runtimes.native.llvm.maps.ordered_index import UNORDERED


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """One key column in the order of a group: its position among the keys of the map, and which way it goes."""

    place: int
    descending: bool = False
    nulls_first: bool = True
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """The order within the groups that the first ``width`` keys name.

    ``first`` is how many rows of a group are read, and kept if it ``grows``, and ``sums`` how many sums of its rows are
    kept for windows over them; with neither, the least and the greatest value of a group are read, and with ``end``
    nothing but one of them is kept. Windows may note so many ``words`` beside a row while they read it. A search for
    matches keeps so many bytes ``beside`` each group, and is told where rows change without being noted.
    """

    width: int
    terms: tuple[KeyOrder, ...]
    first: int | None = None
    sums: int | None = None
    words: int = 0
    end: MultisetEnd | None = None
    grows: bool = False
    beside: int = 0

    def prefix_types(self, map_: Map) -> list[ir.Type]:
        """The types that name a group: the mask of NULLs stands in front, so there are some even for a single group."""
        return [I64, *(cell_type(key.type) for key in map_.keys[: self.width])]

    def sort_terms(self, map_: Map) -> list[SortTerm]:
        """The parts of a sort key; raises ``NotCompiled`` where the cells of a column are in no order."""
        found = []
        for term in self.terms:
            type_ = map_.keys[term.place].type
            if isinstance(type_, UNORDERED):
                raise NotCompiled(f"the order of a {type_}")
            null = map_.keys[term.place].nullable and term.nullable
            found.append(SortTerm(cell_type(type_), term.descending, term.nulls_first if null else None))
        return found

    def key_type(self, map_: Map) -> ir.Type:
        """The type of a sort key."""
        return ir.IntType(max(64, sum(term.bits for term in self.sort_terms(map_)) + 63 & -64))


@dataclass(frozen=True, slots=True)
class DisplacedEntry:
    """How a new entry fares in a group of which only some entries are kept: i1s, whether it is not needed itself, and
    whether the entry with the key ``held`` is no longer needed."""

    refused: IRValue
    goes: IRValue
    held: KeyCells


class GroupOrderCode(ABC):
    """The ordered entries of a map, each with its number of rows and their sums."""

    def __init__(self, code: CodeHome, symbol: str, map_: Map, handle: StructLayout, order: GroupOrder) -> None:
        """``code`` has the functions of the map, whose names begin with ``symbol``."""
        self.code, self.handle, self.symbol, self._order = code, handle, symbol, order
        self.terms = order.sort_terms(map_)
        self.trees = BTreeCode(order.key_type(map_).width, order.sums or 0)
        self.items = SumItems(self.trees)
        self._prefix = order.prefix_types(map_)
        self.groups = OrderedGroupCode(code, self._prefix, self.trees, self.items, order.beside)
        self._entries = SumGroups(self.groups, self.items)
        handle.part("ordered groups", self.groups.struct)

    @abstractmethod
    def emit(self, module: ir.Module) -> None:
        """Define the functions that stages call in the module of the map's code."""

    @abstractmethod
    def settle(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Forget which groups were touched, in time proportional to their number."""

    @abstractmethod
    def _presence(self, builder: ir.IRBuilder, weight: IRValue) -> IRValue:
        """The number by which an entry of that weight is in the order, 0 where it is not."""

    @abstractmethod
    def _note(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], key: IRValue, change: NodeSums
    ) -> IRValue:
        """Note that the order of a group is about to change; gives a status."""

    @property
    def keeps_some(self) -> bool:
        """True if nothing leaves a group, so that only the entries are kept which are read."""
        return self._order.end is not None or self._order.grows

    def displaced(
        self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, weight: IRValue, code: KeyCode
    ) -> DisplacedEntry:
        """How a new entry of that weight fares, where only some entries are kept; ``code`` makes keys of the map."""
        raise AssertionError("all entries are kept")

    # ------------------------------------------------------------------------------------------------ as a whole

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Create it empty, or return the status of the failure."""
        self.groups.create(builder, self.account(builder, handle), self.own(builder, handle))

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Give its memory back."""
        self.groups.destroy(builder, self.account(builder, handle), self.own(builder, handle))

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Its memory."""
        return self.groups.bytes(builder, self.own(builder, handle))

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """See to it that ``move`` has the memory it needs, or return the status of the failure."""
        self.groups.reserve(builder, self.account(builder, handle), self.own(builder, handle))

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, prefetcher: Prefetcher) -> None:
        """Ask for the memory of the group of an entry."""
        self.groups.prefetch(builder, self.own(builder, handle), self.prefix(builder, keys), prefetcher)

    # --------------------------------------------------------------------------------------------------- changing

    def move(
        self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, old: IRValue | None, new: IRValue | None
    ) -> IRValue:
        """The weight of an entry changes; None stands for no entry. Gives a status."""
        was, is_ = (number(0) if weight is None else self._presence(builder, weight) for weight in (old, new))
        status = Local(builder, number(0, I32))
        with builder.if_then(builder.icmp_unsigned("!=", was, is_)):
            key = self._sort_key(builder, keys)
            arguments = [handle, *self.prefix(builder, keys), key, builder.sub(is_, was)]
            status.set(builder.call(self._move(builder.module), arguments))
        return status.get()

    def _move(self, module: ir.Module) -> ir.Function:
        """``move(handle, prefix..., key, change)``: an entry comes, leaves, or has another weight."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, *prefix, key, change = arguments
            moved = self._sums_of(builder, prefix, key, change)
            recording = builder.icmp_unsigned("!=", self.handle.load(builder, handle, "recording"), number(0, I32))
            status = Local(builder, number(0, I32))
            with builder.if_then(recording, likely=True):
                status.set(self._note(builder, handle, prefix, key, moved))
            # Whatever failed, the order has moved: a rollback moves it back.
            added = self._entries.add(builder, self.own(builder, handle), prefix, key, moved)
            with builder.if_then(builder.not_(recording), likely=False):
                self._moved_unnoted(builder, handle, prefix)
            builder.ret(builder.select(builder.icmp_unsigned("==", added, number(0, I32)), status.get(), added))

        types = [PTR, *self._prefix, self.trees.key, I64]
        return self.code.function(module, f"{self.symbol}.move", I32, types, body, "noinline")

    def _moved_unnoted(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue]) -> None:
        """The order of a group has moved while a state is restored or undone; by default that is nothing to note."""
        return

    def _sums_of(self, builder: ir.IRBuilder, prefix: Sequence[IRValue], key: IRValue, weight: IRValue) -> NodeSums:
        """The sums of that many rows of an entry."""
        return NodeSums(weight, ())

    def _sort_key(self, builder: ir.IRBuilder, keys: KeyCells) -> IRValue:
        cells = []
        for order, term in zip(self._order.terms, self.terms, strict=True):
            null = None
            if term.nulls_first is not None:
                assert keys.nulls is not None
                bit = builder.and_(builder.lshr(keys.nulls, number(order.place)), number(1))
                null = builder.icmp_unsigned("!=", bit, number(0))
            cells.append(NullableValue(keys.cells[order.place], null))
        return to_composite_key(builder, cells, self.terms, self.trees.key)

    # ---------------------------------------------------------------------------------------------------- reading

    def prefix_types(self) -> list[ir.Type]:
        """The types of a prefix."""
        return list(self._prefix)

    def prefix(self, builder: ir.IRBuilder, keys: KeyCells) -> list[IRValue]:
        """The group of a key: of this map, or of one that has a key for each group."""
        own = (1 << self._order.width) - 1
        mask = number(0) if keys.nulls is None else builder.and_(keys.nulls, number(own))
        return [mask, *keys.cells[: self._order.width]]

    def cells(self, builder: ir.IRBuilder, prefix: Sequence[IRValue], key: IRValue) -> dict[int, NullableValue]:
        """The key columns of an entry, by their places, from its group and its sort key."""
        mask, *cells = prefix
        found = {}
        for place, cell in enumerate(cells):
            bit = builder.and_(builder.lshr(mask, number(place)), number(1))
            found[place] = NullableValue(cell, builder.icmp_unsigned("!=", bit, number(0)))
        ordered = from_composite_key(builder, key, self.terms)
        return found | {order.place: cell for order, cell in zip(self._order.terms, ordered, strict=True)}

    # ----------------------------------------------------------------------------------------------------- memory

    def own(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The memory of all groups."""
        return self.handle.address(builder, handle, "ordered groups")

    def account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The account of the map's memory."""
        return self.handle.load(builder, handle, "account")


def is_positive(builder: ir.IRBuilder, weight: IRValue) -> IRValue:
    """An i1: whether an entry is in its group."""
    return builder.icmp_signed(">", weight, number(0))
