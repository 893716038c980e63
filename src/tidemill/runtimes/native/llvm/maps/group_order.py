"""The entries of each group of a map, in order, and the groups that an epoch has touched.

The first keys of the map are those of a group, and NULLs among them are equal, as in a GROUP BY. The others make a sort
key, one number for each entry. An entry of negative weight has left before it came, and is in no group.

What is made of a group (an aggregate, its first rows) is needed as it was before the epoch, too. It can have changed
only where the order has; so when that first happens to a group in an epoch, what it gives is noted. That is exact
because nothing has moved yet. An epoch that begins, or is undone, forgets these notes; while a state is restored or
undone none are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import (
    I32,
    I64,
    NULL_POINTER,
    PTR,
    NullableValue,
    StructLayout,
    cell_type,
)
from tidemill.runtimes.native.llvm.codegen.memory import fill, refused
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.btree import BTreeCode
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, find_cells
from tidemill.runtimes.native.llvm.containers.ordered_groups import OrderedGroupCode
from tidemill.runtimes.native.llvm.containers.sort_keys import SortTerm, from_composite_key, to_composite_key
from tidemill.runtimes.native.llvm.containers.sum_groups import SumGroups, SumItems
from tidemill.runtimes.native.llvm.maps.ordered_index import UNORDERED

SMALL_TABLE, IDLE = 64, 8
"""A table of more than SMALL_TABLE slots is given back after an epoch that used less than one in IDLE of them."""


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

    ``first`` is how many rows of a group are read; None where its least and its greatest value are.
    """

    width: int
    terms: tuple[KeyOrder, ...]
    first: int | None = None


class GroupOrderCode(ABC):
    """The ordered entries of a map. What a touched group gave lies in the form of ``version``."""

    def __init__(self, code: CodeHome, symbol: str, map_: Map, handle: StructLayout, order: GroupOrder) -> None:
        """``code`` has the functions of the map, whose names begin with ``symbol``."""
        self.code, self.handle, self.symbol, self._order = code, handle, symbol, order
        self.terms = []
        for term in order.terms:
            type_ = map_.keys[term.place].type
            if isinstance(type_, UNORDERED):
                raise NotCompiled(f"the order of a {type_}")
            null = map_.keys[term.place].nullable and term.nullable
            self.terms.append(SortTerm(cell_type(type_), term.descending, term.nulls_first if null else None))
        self.trees = BTreeCode(sum(term.bits for term in self.terms) + 63 & -64, 0)
        self._items = SumItems(self.trees)
        # The mask of NULLs stands in front: so there is a prefix even where there is but one group.
        self._prefix = [I64, *(cell_type(key.type) for key in map_.keys[: order.width])]
        self.groups = OrderedGroupCode(code, self._prefix, self.trees, self._items)
        self._entries = SumGroups(self.groups, self._items)
        self.version = self._make_version(map_)
        self._note = StructLayout()
        for name in ("tag", "told"):
            self._note.field(name, I32)
        for i, type_ in enumerate(self._prefix):
            self._note.field(f"cell{i}", type_)
        self._note.part("version", self.version)
        handle.part("ordered groups", self.groups.struct)
        handle.part("notes", TABLE)
        handle.field("emission", I32)

    @abstractmethod
    def emit(self, module: ir.Module) -> None:
        """Define the functions that stages call in the module of the map's code."""

    @abstractmethod
    def _make_version(self, map_: Map) -> StructLayout:
        """The layout of what a group gives."""

    @abstractmethod
    def _presence(self, builder: ir.IRBuilder, weight: IRValue) -> IRValue:
        """The number by which an entry of that weight is in the order, 0 where it is not."""

    @abstractmethod
    def _write_version(self, builder: ir.IRBuilder, handle: IRValue, group: IRValue, target: IRValue) -> None:
        """Write what a group gives, or null; ``target`` is all zeros."""

    # ------------------------------------------------------------------------------------------------ as a whole

    def create(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Create it empty, or return the status of the failure."""
        self.groups.create(builder, self._account(builder, handle), self.own(builder, handle))

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Give its memory back."""
        account = self._account(builder, handle)
        self.groups.destroy(builder, account, self.own(builder, handle))
        hash_table.destroy(builder, account, self._notes(builder, handle), self._note.size)

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Its memory."""
        notes = hash_table.bytes_of(builder, self._notes(builder, handle), self._note.size)
        return builder.add(self.groups.bytes(builder, self.own(builder, handle)), notes)

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """See to it that ``move`` has the memory it needs, or return the status of the failure."""
        account, notes = self._account(builder, handle), self._notes(builder, handle)
        self.groups.reserve(builder, account, self.own(builder, handle))
        with builder.if_then(refused(builder, TABLE.load(builder, notes, "slots")), likely=False):
            hash_table.create(builder, account, notes, self._note.size)
        hash_table.reserve(builder, account, notes, self._note.size)

    def settle(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Forget which groups were touched, in time proportional to their number."""
        notes = self._notes(builder, handle)
        count, mask = (TABLE.load(builder, notes, name) for name in ("count", "mask"))
        with builder.if_then(self._any_notes(builder, handle)):
            large = builder.icmp_unsigned(">=", mask, number(SMALL_TABLE))
            idle = builder.icmp_unsigned("<", builder.mul(count, number(IDLE)), mask)
            with builder.if_else(builder.and_(large, idle)) as (oversized, fitting):
                with oversized:
                    hash_table.destroy(builder, self._account(builder, handle), notes, self._note.size)
                with fitting:
                    slots = TABLE.load(builder, notes, "slots")
                    fill(builder, slots, 0, hash_table.bytes_of(builder, notes, self._note.size))
            TABLE.store(builder, notes, "count", number(0))

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
            recording = builder.icmp_unsigned("!=", self.handle.load(builder, handle, "recording"), number(0, I32))
            with builder.if_then(recording, likely=True):
                self._remember(builder, handle, prefix)
            builder.ret(self._entries.add(builder, self.own(builder, handle), prefix, key, NodeSums(change, ())))

        types = [PTR, *self._prefix, self.trees.key, I64]
        return self.code.function(module, f"{self.symbol}.move", I32, types, body, "noinline")

    def _remember(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue]) -> None:
        """Note what a group gives before the epoch first changes its order."""
        notes = self._notes(builder, handle)
        found = find_cells(builder, notes, self._note, prefix)
        with builder.if_then(builder.icmp_unsigned("==", found, NULL_POINTER)):
            note = hash_table.claim(builder, notes, hash_table.hash_of(builder, prefix), self._note.size)
            for i, cell in enumerate(prefix):
                self._note.store(builder, note, f"cell{i}", cell)
            self._note.store(builder, note, "told", number(0, I32))
            self.write(builder, handle, prefix, self._note.address(builder, note, "version"))

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

    def write(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], target: IRValue) -> None:
        """Write what a group gives now, in the form of ``version``."""
        fill(builder, target, 0, self.version.size)
        self._write_version(builder, handle, self.groups.find(builder, self.own(builder, handle), prefix), target)

    def begin_emission(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """From now on no touched group counts as emitted."""
        following = builder.add(self.handle.load(builder, handle, "emission"), number(1, I32))
        self.handle.store(builder, handle, "emission", following)

    def find_note(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue]) -> IRValue:
        """The version of a group before the epoch, or null if the epoch has not touched it; marks it as emitted."""
        found = Local(builder, NULL_POINTER)
        with builder.if_then(self._any_notes(builder, handle)):
            note = find_cells(builder, self._notes(builder, handle), self._note, prefix)
            with builder.if_then(builder.icmp_unsigned("!=", note, NULL_POINTER)):
                self._note.store(builder, note, "told", self.handle.load(builder, handle, "emission"))
                found.set(self._note.address(builder, note, "version"))
        return found.get()

    @contextmanager
    def each_untold(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[tuple[list[IRValue], IRValue]]:
        """Run what is emitted within for each touched group that was not emitted yet: its prefix, and what it gave."""
        with (
            builder.if_then(self._any_notes(builder, handle)),
            hash_table.each_slot(builder, self._notes(builder, handle), self._note.size) as note,
        ):
            told, emission = self._note.load(builder, note, "told"), self.handle.load(builder, handle, "emission")
            with builder.if_then(builder.icmp_unsigned("!=", told, emission)):
                prefix = [self._note.load(builder, note, f"cell{i}") for i in range(len(self._prefix))]
                yield prefix, self._note.address(builder, note, "version")

    # ----------------------------------------------------------------------------------------------------- memory

    def _any_notes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """An i1: whether the epoch has touched a group; only then is there sure to be a table."""
        return builder.icmp_unsigned("!=", TABLE.load(builder, self._notes(builder, handle), "count"), number(0))

    def own(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The memory of all groups."""
        return self.handle.address(builder, handle, "ordered groups")

    def _notes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self.handle.address(builder, handle, "notes")

    def _account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self.handle.load(builder, handle, "account")


def is_positive(builder: ir.IRBuilder, weight: IRValue) -> IRValue:
    """An i1: whether an entry is in its group."""
    return builder.icmp_signed(">", weight, number(0))
