"""MIN and MAX over frames, as code: a queue of the rows that can still be the least one of a frame.

Neither end of a frame ever moves back from one row to the next. So a row that comes into the frame is better than all
before it that are not less: these leave the queue for good, and the least of the frame stands at its head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.windows import WindowCall
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, escape, forever, loop_while, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I1, NullableValue, cell_type
from tidemill.runtimes.native.llvm.containers.sort_keys import from_sort_key, key_bits, to_sort_key
from tidemill.runtimes.native.llvm.maps.ordered_index import UNORDERED
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored, to_stored
from tidemill.runtimes.native.llvm.windows.partitions import PartitionCode
from tidemill.runtimes.native.llvm.windows.reach import FOLDS


@dataclass(frozen=True, slots=True)
class Fold:
    """A MIN or MAX of a window: its number among them, the type of its values, and the first word of a row for it.

    That word of row i has the i-th row of the queue; those behind it have the value of the row as a sort key.
    """

    number: int
    greatest: bool
    of: Type
    word: int

    @property
    def bits(self) -> int:
        """The bits of a sort key."""
        return key_bits(cell_type(self.of))


def all_folds(window: Window) -> dict[WindowCall, Fold]:
    """The folds of a window, with the words of a row that they use."""
    found: dict[WindowCall, Fold] = {}
    word = 0
    for call in window.calls:
        if call.function in FOLDS:
            of = call.arguments[0].type
            if isinstance(of, UNORDERED):
                raise NotCompiled(f"the order of a {of}")
            found[call] = Fold(len(found), FOLDS[call.function], of, word)
            word += 1 + found[call].bits // 64
    return found


def folds_of(window: Window, call: WindowCall) -> Fold:
    """The fold that a call is."""
    return all_folds(window)[call]


def words_of(window: Window) -> int:
    """The words of a row that all folds use."""
    return sum(1 + fold.bits // 64 for fold in all_folds(window).values())


class FoldCode:
    """Emits a fold for one row after the other of a version."""

    def __init__(self, frame: FunctionFrame, partitions: PartitionCode, version: IRValue, fold: Fold) -> None:
        self._frame, self._partitions, self._version, self._fold = frame, partitions, version, fold
        self._key = ir.IntType(fold.bits)

    def value(self, start: IRValue, end: IRValue, read: Callable[[IRValue], NullableValue]) -> NullableValue:
        """The least or greatest value of the rows from number ``start`` until before ``end``, as ``read`` gives them.

        It is NULL where there is none.
        """
        builder, layout = self._frame.builder, self._partitions.version
        base = layout.load(builder, self._version, "base")
        first, behind = builder.sub(start, base), builder.sub(end, base)
        head, tail, following = (Local(builder, self._progress(name)) for name in ("head", "tail", "next"))
        with loop_while(builder, lambda: builder.icmp_signed("<", following.get(), behind)):
            self._take(following.get(), head, tail, read)
            following.set(builder.add(following.get(), number(1)))
        with forever(builder) as arrived:
            escape(builder, builder.icmp_signed(">=", head.get(), tail.get()), arrived)
            escape(builder, builder.icmp_signed(">=", self._queued(head.get()), first), arrived)
            head.set(builder.add(head.get(), number(1)))
        for name, local in (("head", head), ("tail", tail), ("next", following)):
            layout.store(builder, self._version, f"{name} {self._fold.number}", local.get())
        is_empty, found = builder.icmp_signed(">=", head.get(), tail.get()), Local(builder, number(0, self._key))
        with builder.if_then(builder.not_(is_empty)):
            found.set(self._held(self._queued(head.get())))
        cell = from_sort_key(builder, found.get(), cell_type(self._fold.of))
        return from_stored(builder, NullableValue(cell, is_empty), self._fold.of)

    def _take(self, place: IRValue, head: Local, tail: Local, read: Callable[[IRValue], NullableValue]) -> None:
        """A row comes into the frame."""
        builder, partitions = self._frame.builder, self._partitions
        row = partitions.row(builder, self._version, place)
        cell = to_stored(builder, read(partitions.row_key(builder, row)), self._fold.of)
        own = to_sort_key(builder, cell.value)
        with builder.if_then(number(1, I1) if cell.is_null is None else builder.not_(cell.is_null)):
            builder.store(own, partitions.word(builder, row, self._fold.word + 1), align=8)
            sign = "<=" if self._fold.greatest else ">="
            with forever(builder) as settled:
                escape(builder, builder.icmp_signed(">=", head.get(), tail.get()), settled)
                last = builder.sub(tail.get(), number(1))
                escape(builder, builder.not_(builder.icmp_unsigned(sign, self._held(self._queued(last)), own)), settled)
                tail.set(last)
            queue = partitions.row(builder, self._version, tail.get())
            builder.store(place, partitions.word(builder, queue, self._fold.word), align=8)
            tail.set(builder.add(tail.get(), number(1)))

    def _progress(self, name: str) -> IRValue:
        return self._partitions.version.load(self._frame.builder, self._version, f"{name} {self._fold.number}")

    def _queued(self, place: IRValue) -> IRValue:
        """The row at a place of the queue."""
        builder, partitions = self._frame.builder, self._partitions
        row = partitions.row(builder, self._version, place)
        return builder.load(partitions.word(builder, row, self._fold.word), typ=ir.IntType(64), align=8)

    def _held(self, place: IRValue) -> IRValue:
        """The value of a row that has come into the frame."""
        builder, partitions = self._frame.builder, self._partitions
        row = partitions.row(builder, self._version, place)
        return builder.load(partitions.word(builder, row, self._fold.word + 1), typ=self._key, align=8)
