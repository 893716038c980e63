"""The rows of a stage of window functions as code: what an epoch has changed of them.

The changes of a partition are taken in order. Around each lies an interval of rows whose values may have changed; those
that meet are one. Its rows are laid out as they were and as they are, and where the values of a row differ, the old
ones leave and the new ones come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from llvmlite import ir

from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.windows import Frame
from tidemill.program.maps import Map
from tidemill.program.stages import PartitionEmission, Stage
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    all_zero,
    escape,
    forever,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I1, I64, NULL_POINTER, PTR
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.group_cursor import GroupCursor
from tidemill.runtimes.native.llvm.containers.key_cells import equal
from tidemill.runtimes.native.llvm.io.output_code import OutputCode, OutputGlobal
from tidemill.runtimes.native.llvm.io.posted_rows import post_row
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder
from tidemill.runtimes.native.llvm.maps.window_rows import WindowRowsCode, addend_types
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.windows.folds import all_folds, words_of
from tidemill.runtimes.native.llvm.windows.frames import FrameCode
from tidemill.runtimes.native.llvm.windows.functions import FunctionCode, check_functions, sums_of
from tidemill.runtimes.native.llvm.windows.partitions import PartitionCode
from tidemill.runtimes.native.llvm.windows.reach import Reach, end_units, reach_of
from tidemill.runtimes.native.llvm.windows.sort_terms import has_sort_key, sort_terms

BeginFunction = Callable[[str, Sequence[ir.Type], bool], FunctionFrame]


def check_windows(stage: Stage, finish: PartitionEmission) -> None:
    """Refuse windows that have no native form."""
    assert isinstance(finish.rows, Window)
    (source,) = [map_ for map_ in stage.maps if map_.name == finish.source]
    if not has_sort_key(source, finish.width, finish.rows.order):
        raise NotCompiled("a window over many columns or ordered by expressions")
    check_functions(finish.rows)
    order = window_order(stage, source)
    assert order is not None
    order.sort_terms(source)


def window_order(stage: Stage, map_: Map) -> GroupOrder | None:
    """The order of the rows of each partition, where ``map_`` has those of a window."""
    finish = stage.finish
    if not isinstance(finish, PartitionEmission) or map_.name != finish.source or not isinstance(finish.rows, Window):
        return None
    terms = sort_terms(map_, finish.width, finish.rows.order)
    return GroupOrder(finish.width, terms, sums=len(sums_of(finish.rows)), words=words_of(finish.rows))


def begin_addends(begin: BeginFunction, order: GroupOrder | None, map_: Map) -> FunctionFrame | None:
    """The function that gives what a row adds to sums, without instructions as yet; None where nothing is summed."""
    if order is None or not order.sums:
        return None
    return begin("window.addends", addend_types(map_, order), False)


def emit_windows(
    module: ir.Module,
    begin: BeginFunction,
    stage: Stage,
    maps: Mapping[str, MapGlobal],
    addends: FunctionFrame | None,
) -> OutputGlobal:
    """Emit ``emit()`` into the module of ``stage``; gives where its rows go."""
    finish = stage.finish
    assert isinstance(finish, PartitionEmission)
    place = ir.GlobalVariable(module, PTR, "emitted")
    place.initializer = NULL_POINTER
    output = OutputGlobal(Map(stage.name, stage.output), OutputCode(module, stage.output), place)
    code = WindowCode(begin, finish, maps[finish.source], output)
    if addends is not None:
        code.functions.emit_addends(addends)
    code.emit()
    return output


class WindowCode:
    """Emits ``emit()``: the change of the rows of all touched partitions. Gives a status."""

    def __init__(self, begin: BeginFunction, finish: PartitionEmission, held: MapGlobal, output: OutputGlobal) -> None:
        assert isinstance(finish.rows, Window)
        self._begin, self._finish, self._window = begin, finish, finish.rows
        self._held, self._output = held, output
        index = held.code.changing.ordered
        assert isinstance(index, WindowRowsCode)
        self._folds = all_folds(self._window)
        self._index, self._code = index, PartitionCode(index, len(self._folds))
        self._frames = FrameCode(self._window, self._code)
        self._reach = reduce(Reach.__or__, (reach_of(call, self._window) for call in self._window.calls), Reach())
        self.functions = FunctionCode(self._window, held.map, self._code)

    def emit(self) -> None:
        """Emit it all, or raise ``NotCompiled``."""
        code = self._code
        frame = self._begin("window.values", [PTR, PTR, I64, code.key, PTR], False)
        self.functions.emit_values(frame)
        post = self._emit_post()
        changed = self._emit_interval(frame.function, post)
        partition = self._emit_partition(changed)
        frame = self._begin("emit", [], True)
        builder = frame.builder
        struct, handle = on_stack(builder, code.partition.size), self._held.handle(builder)
        with self._index.each_changed(builder, handle) as (prefix, changes):
            group = self._index.groups.find(builder, self._index.own(builder, handle), prefix)
            for name, value in (("handle", handle), ("group", group), ("changes", changes)):
                code.partition.store(builder, struct, name, value)
            frame.check(builder.call(partition, [struct]))
        frame.done()

    # ----------------------------------------------------------------------------------------------------- intervals

    def _emit_partition(self, changed: ir.Function) -> ir.Function:
        """``partition(partition)``: find the intervals of a partition, and emit each."""
        code, reach = self._code, self._reach
        frame = self._begin("window.partition", [PTR], False)
        builder, (partition,) = frame.builder, frame.function.args
        code.begin(builder, partition)
        total = code.version.load(builder, code.new(builder, partition), "total")
        cursor = GroupCursor(builder, code.reader, *code.changes(builder, partition))
        interval = on_stack(builder, code.interval.size)
        low, high = Local(builder, number(0)), Local(builder, number(0))
        is_open, goes_on = Local(builder, number(0, I1)), Local(builder, number(0, I1))
        moved = [Local(builder, number(0, type_)) for type_ in self._index.trees.types]
        whole = self._touches_end(builder, partition, total)

        def close() -> None:
            with builder.if_then(is_open.get()):
                self._store_bounds(builder, partition, interval, low.get(), high.get())
                self._store_moved(builder, interval, "after", moved)
                frame.check(builder.call(changed, [partition, interval]))

        cursor.open(number(0, code.key))
        with loop_while(builder, cursor.more):
            key, sums = cursor.item()
            first, last = self._around(builder, partition, total, key, whole)
            meets = builder.or_(goes_on.get(), builder.icmp_signed("<=", first, high.get()))
            with builder.if_else(builder.and_(is_open.get(), meets)) as (joined, apart):
                with joined:
                    low.set(_least(builder, low.get(), first))
                    high.set(_greatest(builder, high.get(), last))
                with apart:
                    close()
                    is_open.set(number(1, I1))
                    low.set(first)
                    high.set(last)
                    code.interval.store(builder, interval, "first", key)
                    self._store_moved(builder, interval, "before", moved)
            code.interval.store(builder, interval, "last", key)
            for total_, part in zip(moved, sums.numbers(), strict=True):
                total_.set(builder.add(total_.get(), part))
            if reach.running:
                goes_on.set(builder.not_(all_zero(builder, [total_.get() for total_ in moved])))
            cursor.advance()
        with builder.if_then(goes_on.get()):
            high.set(total)
        close()
        frame.done()
        return frame.function

    def _store_bounds(
        self, builder: ir.IRBuilder, partition: IRValue, interval: IRValue, low: IRValue, high: IRValue
    ) -> None:
        """Store which rows are laid out: those of the interval, and all that functions go through."""
        code = self._code
        total = code.version.load(builder, code.new(builder, partition), "total")
        first, last = Local(builder, low), Local(builder, high)
        for frame in dict.fromkeys(call.frame for call in self._folds):
            start, end = self._read_by(builder, partition, interval, frame, low, high)
            first.set(_greatest(builder, number(0), _least(builder, first.get(), start)))
            last.set(_least(builder, total, _greatest(builder, last.get(), end)))
        bounds = {"low": first.get(), "high": last.get()}
        bounds |= {"skipped": builder.sub(low, first.get()), "behind": builder.sub(last.get(), high)}
        for name, value in bounds.items():
            code.interval.store(builder, interval, name, value)

    def _read_by(
        self, builder: ir.IRBuilder, partition: IRValue, interval: IRValue, frame: Frame, low: IRValue, high: IRValue
    ) -> tuple[IRValue, IRValue]:
        """The rows that the frames of an interval's rows have, as they are."""
        code, frames = self._code, self._frames
        total = code.version.load(builder, code.new(builder, partition), "total")
        start, end = (end_units(one, frame, self._window) for one in (frame.start, frame.end))
        first, behind = Local(builder, number(0)), Local(builder, total)
        group = code.rows(builder, partition)
        is_empty = builder.icmp_signed(">=", low, high)
        if start is not None and frame.rows:
            first.set(builder.add(low, number(start)))
        elif start is not None:
            key = Local(builder, code.interval.load(builder, interval, "first"))
            with builder.if_then(builder.not_(is_empty)):
                held, _ = code.reader.select(builder, *group, low)
                key.set(builder.select(builder.icmp_unsigned("<", held, key.get()), held, key.get()))
            bound = frames.lowest(builder, frames.moved(builder, key.get(), start)[0])
            first.set(code.reader.sum_until(builder, *group, bound, False).weight)
        if end is not None and frame.rows:
            behind.set(builder.add(high, number(end)))
        elif end is not None:
            key = Local(builder, code.interval.load(builder, interval, "last"))
            with builder.if_then(builder.not_(is_empty)):
                held, _ = code.reader.select(builder, *group, builder.sub(high, number(1)))
                key.set(builder.select(builder.icmp_unsigned(">", held, key.get()), held, key.get()))
            bound = frames.highest(builder, frames.moved(builder, key.get(), end)[0])
            behind.set(code.reader.sum_until(builder, *group, bound, True).weight)
        return first.get(), behind.get()

    def _store_moved(self, builder: ir.IRBuilder, interval: IRValue, name: str, moved: Sequence[Local]) -> None:
        weight, *sums = (total.get() for total in moved)
        self._code.interval.store(builder, interval, name, weight)
        self._code.store_sums(builder, self._code.interval, interval, name, sums)

    def _touches_end(self, builder: ir.IRBuilder, partition: IRValue, total: IRValue) -> IRValue:
        """An i1: whether the last row has changed and is read by all."""
        if not self._reach.tail:
            return number(0, I1)
        code = self._code
        cursor, last = (
            GroupCursor(builder, code.reader, *code.changes(builder, partition)),
            Local(builder, number(0, code.key)),
        )
        cursor.open(number(0, code.key))
        with loop_while(builder, cursor.more):
            last.set(cursor.item()[0])
            cursor.advance()
        through = code.reader.sum_until(builder, *code.rows(builder, partition), last.get(), True)
        return builder.icmp_signed("==", through.weight, total)

    def _around(
        self, builder: ir.IRBuilder, partition: IRValue, total: IRValue, key: IRValue, whole: IRValue
    ) -> tuple[IRValue, IRValue]:
        """The numbers of the first row and of the row after the last, as they are, that a change may reach."""
        reach, group = self._reach, self._code.rows(builder, partition)

        def rows_until(key: IRValue, inclusive: bool) -> IRValue:
            found: NodeSums = self._code.reader.sum_until(builder, *group, key, inclusive)
            return found.weight

        first, last = rows_until(key, False), rows_until(key, True)
        low, high = first, last
        for start, end in reach.ranges:
            before = self._frames.lowest(builder, self._frames.moved(builder, key, start)[0])
            after = self._frames.highest(builder, self._frames.moved(builder, key, end)[0])
            low = _least(builder, low, rows_until(before, False))
            high = _greatest(builder, high, rows_until(after, True))
        low = number(0) if reach.before is None else _least(builder, low, builder.sub(first, number(reach.before)))
        high = total if reach.after is None else _greatest(builder, high, builder.add(last, number(reach.after)))
        everything = builder.or_(whole, builder.icmp_signed("<", first, number(reach.head)))
        low = builder.select(builder.or_(everything, builder.icmp_signed("<", low, number(0))), number(0), low)
        high = builder.select(builder.or_(everything, builder.icmp_signed(">", high, total)), total, high)
        return low, high

    # ---------------------------------------------------------------------------------------------------------- rows

    def _emit_interval(self, values: ir.Function, post: ir.Function) -> ir.Function:
        """``interval(partition, interval)``: emit the rows of an interval whose values are not what they were."""
        code, layout = self._code, self.functions.values
        frame = self._begin("window.interval", [PTR, PTR], False)
        builder, (partition, interval) = frame.builder, frame.function.args
        code.lay_out(builder, partition, interval)
        versions = code.old(builder, partition), code.new(builder, partition)
        skipped, behind = (code.interval.load(builder, interval, name) for name in ("skipped", "behind"))
        places = [Local(builder, skipped) for _ in versions]
        targets = [on_stack(builder, layout.size) for _ in versions]
        for version in versions:
            for name in code.progress:
                code.version.store(builder, version, name, number(0))
        counts = [builder.sub(code.version.load(builder, version, "count"), behind) for version in versions]
        bases = [code.version.load(builder, version, "base") for version in versions]
        with forever(builder) as ended:
            there = [
                builder.icmp_unsigned("<", place.get(), count) for place, count in zip(places, counts, strict=True)
            ]
            escape(builder, builder.not_(builder.or_(*there)), ended)
            keys = [
                code.row_key(builder, code.row(builder, version, place.get()))
                for version, place in zip(versions, places, strict=True)
            ]
            taken = [
                builder.and_(mine, builder.or_(builder.not_(others), builder.icmp_unsigned("<=", key, other)))
                for mine, others, key, other in zip(there, there[::-1], keys, keys[::-1], strict=True)
            ]
            for version, base, place, key, target, chosen in zip(
                versions, bases, places, keys, targets, taken, strict=True
            ):
                with builder.if_then(chosen):
                    number_ = builder.add(base, place.get())
                    frame.check(builder.call(values, [partition, version, number_, key, target]))
            same = Local(builder, builder.and_(*taken))
            with builder.if_then(same.get()):
                same.set(self._are_equal(builder, *targets))
            for place, key, target, chosen, weight in zip(places, keys, targets, taken, (-1, 1), strict=True):
                with builder.if_then(builder.and_(chosen, builder.not_(same.get()))):
                    frame.check(builder.call(post, [partition, key, target, number(weight)]))
                place.set(builder.add(place.get(), builder.zext(chosen, I64)))
        frame.done()
        return frame.function

    def _are_equal(self, builder: ir.IRBuilder, one: IRValue, other: IRValue) -> IRValue:
        layout, count = self.functions.values, len(self._window.calls)
        names = [f"{name}{i}" for name in ("value", "null") for i in range(count)]
        return equal(builder, *([layout.load(builder, side, name) for name in names] for side in (one, other)))

    def _emit_post(self) -> ir.Function:
        """``post(partition, key, values, weight)``: post the row of an entry with these values, if it gives one."""
        frame = self._begin("window.post", [PTR, self._code.key, PTR, I64], False)
        builder, (partition, key, values, weight) = frame.builder, frame.function.args
        cells = self.functions.bindings(builder, self._code.prefix(builder, partition), key)
        for i, call in enumerate(self._window.calls):
            cells[call.name] = self.functions.value(builder, values, i)
        post_row(frame, self._finish, self._output, cells, weight)
        return frame.function


def _least(builder: ir.IRBuilder, one: IRValue, other: IRValue) -> IRValue:
    return builder.select(builder.icmp_signed("<", one, other), one, other)


def _greatest(builder: ir.IRBuilder, one: IRValue, other: IRValue) -> IRValue:
    return builder.select(builder.icmp_signed(">", one, other), one, other)
