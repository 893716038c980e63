"""Rows that each group of a map gave before the epoch first changed its order.

That is exact because nothing has moved yet when it is noted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.layout import I32, NULL_POINTER, StructLayout
from tidemill.runtimes.native.llvm.codegen.memory import fill, refused
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.hash_table import TABLE
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, find_cells
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder, GroupOrderCode

SMALL_TABLE, IDLE = 64, 8
"""A table of more than SMALL_TABLE slots is given back after an epoch that used less than one in IDLE of them."""


class NotedGroupOrderCode(GroupOrderCode):
    """The ordered entries of a map. What a touched group gave lies in the form of ``version``."""

    def __init__(self, code: CodeHome, symbol: str, map_: Map, handle: StructLayout, order: GroupOrder) -> None:
        super().__init__(code, symbol, map_, handle, order)
        self.version = self._make_version(map_)
        self._noted = StructLayout()
        for name in ("tag", "told"):
            self._noted.field(name, I32)
        for i, type_ in enumerate(self._prefix):
            self._noted.field(f"cell{i}", type_)
        self._noted.part("version", self.version)
        handle.part("notes", TABLE)
        handle.field("emission", I32)

    @abstractmethod
    def _make_version(self, map_: Map) -> StructLayout:
        """The layout of what a group gives."""

    @abstractmethod
    def _write_version(self, builder: ir.IRBuilder, handle: IRValue, group: IRValue, target: IRValue) -> None:
        """Write what a group gives, or null; ``target`` is all zeros."""

    def destroy(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().destroy(builder, handle)
        hash_table.destroy(builder, self.account(builder, handle), self._notes(builder, handle), self._noted.size)

    def bytes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        notes = hash_table.bytes_of(builder, self._notes(builder, handle), self._noted.size)
        return builder.add(super().bytes(builder, handle), notes)

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        super().reserve(builder, handle)
        account, notes = self.account(builder, handle), self._notes(builder, handle)
        with builder.if_then(refused(builder, TABLE.load(builder, notes, "slots")), likely=False):
            hash_table.create(builder, account, notes, self._noted.size)
        hash_table.reserve(builder, account, notes, self._noted.size)

    def prefetch(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, prefetcher: Prefetcher) -> None:
        super().prefetch(builder, handle, keys, prefetcher)
        with builder.if_then(self._any_notes(builder, handle)):
            hash_ = hash_table.hash_of(builder, self.prefix(builder, keys))
            size = self._noted.size
            prefetcher.request(hash_table.home(builder, self._notes(builder, handle), hash_, size), size)

    def settle(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        notes = self._notes(builder, handle)
        count, mask = (TABLE.load(builder, notes, name) for name in ("count", "mask"))
        with builder.if_then(self._any_notes(builder, handle)):
            large = builder.icmp_unsigned(">=", mask, number(SMALL_TABLE))
            idle = builder.icmp_unsigned("<", builder.mul(count, number(IDLE)), mask)
            with builder.if_else(builder.and_(large, idle)) as (oversized, fitting):
                with oversized:
                    hash_table.destroy(builder, self.account(builder, handle), notes, self._noted.size)
                with fitting:
                    slots = TABLE.load(builder, notes, "slots")
                    fill(builder, slots, 0, hash_table.bytes_of(builder, notes, self._noted.size))
            TABLE.store(builder, notes, "count", number(0))

    def _note(
        self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue], key: IRValue, change: NodeSums
    ) -> IRValue:
        """Note what a group gives before the epoch first changes its order."""
        notes = self._notes(builder, handle)
        found = find_cells(builder, notes, self._noted, prefix)
        with builder.if_then(builder.icmp_unsigned("==", found, NULL_POINTER)):
            note = hash_table.claim(builder, notes, hash_table.hash_of(builder, prefix), self._noted.size)
            for i, cell in enumerate(prefix):
                self._noted.store(builder, note, f"cell{i}", cell)
            self._noted.store(builder, note, "told", number(0, I32))
            self.write(builder, handle, prefix, self._noted.address(builder, note, "version"))
        return number(0, I32)

    # ---------------------------------------------------------------------------------------------------- reading

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
            note = find_cells(builder, self._notes(builder, handle), self._noted, prefix)
            with builder.if_then(builder.icmp_unsigned("!=", note, NULL_POINTER)):
                self._noted.store(builder, note, "told", self.handle.load(builder, handle, "emission"))
                found.set(self._noted.address(builder, note, "version"))
        return found.get()

    @contextmanager
    def each_untold(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[tuple[list[IRValue], IRValue]]:
        """Run what is emitted within for each touched group that was not emitted yet: its prefix, and what it gave."""
        with (
            builder.if_then(self._any_notes(builder, handle)),
            hash_table.each_slot(builder, self._notes(builder, handle), self._noted.size) as note,
        ):
            told, emission = self._noted.load(builder, note, "told"), self.handle.load(builder, handle, "emission")
            with builder.if_then(builder.icmp_unsigned("!=", told, emission)):
                prefix = [self._noted.load(builder, note, f"cell{i}") for i in range(len(self._prefix))]
                yield prefix, self._noted.address(builder, note, "version")

    def _any_notes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """An i1: whether the epoch has touched a group; only then is there sure to be a table."""
        return builder.icmp_unsigned("!=", TABLE.load(builder, self._notes(builder, handle), "count"), number(0))

    def _notes(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        return self.handle.address(builder, handle, "notes")
