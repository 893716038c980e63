"""The rows of a stage that matches a pattern, as code: what an epoch has changed of them.

Where all rows of a partition come behind those that were there, the search goes on from where it was. Any other change
is searched around: from the last row before it that no run outlives, over the rows as they were and as they are, until
both searches are alike. What comes out of one and not of the other is the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llvmlite import ir

from tidemill.algebra.matching.deterministic import NotDeterministic, determinize
from tidemill.algebra.relational.match import Match
from tidemill.program.maps import Map
from tidemill.program.stages import PartitionEmission, Stage
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    count_up,
    escape,
    external,
    forever,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I1, I32, I64, NULL_POINTER, PTR
from tidemill.runtimes.native.llvm.codegen.memory import copy, fill
from tidemill.runtimes.native.llvm.containers.group_cursor import GroupCursor, GroupReader
from tidemill.runtimes.native.llvm.io.output_code import OutputCode, OutputGlobal
from tidemill.runtimes.native.llvm.io.posted_rows import post_row
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder
from tidemill.runtimes.native.llvm.maps.match_rows import MatchRowsCode
from tidemill.runtimes.native.llvm.matching.run_values import RunValues
from tidemill.runtimes.native.llvm.matching.search_code import BeginFunction, SearchCode, SearchLayout
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.scalars.expressions import may_fail
from tidemill.runtimes.native.llvm.windows.sort_terms import has_sort_key, sort_terms


def check_match(stage: Stage, finish: PartitionEmission) -> None:
    """Refuse patterns that have no native form."""
    match = finish.rows
    assert isinstance(match, Match)
    try:
        automaton = determinize(match)
    except NotDeterministic as reason:
        raise NotCompiled(str(reason)) from None
    if any(map(may_fail, (*automaton.conditions, *(read.argument for read in automaton.reads)))):
        raise NotCompiled("conditions of a pattern that may be an error")
    (source,) = [map_ for map_ in stage.maps if map_.name == finish.source]
    if not has_sort_key(source, finish.width, match.order):
        raise NotCompiled("a pattern over many columns or ordered by expressions")
    match_order(stage, source)


def match_order(stage: Stage, map_: Map) -> GroupOrder | None:
    """The order of the rows of each partition, where ``map_`` has those of a pattern."""
    finish = stage.finish
    if not isinstance(finish, PartitionEmission) or map_.name != finish.source or not isinstance(finish.rows, Match):
        return None
    order = GroupOrder(finish.width, sort_terms(map_, finish.width, finish.rows.order), sums=0)
    values = RunValues(finish.rows)
    layout = SearchLayout(determinize(finish.rows), values, order.key_type(map_))
    return replace(order, beside=layout.partition.size)


def emit_match(module: ir.Module, begin: BeginFunction, stage: Stage, maps: Mapping[str, MapGlobal]) -> OutputGlobal:
    """Emit ``emit()`` into the module of ``stage``; gives where its rows go."""
    finish = stage.finish
    assert isinstance(finish, PartitionEmission)
    place = ir.GlobalVariable(module, PTR, "emitted")
    place.initializer = NULL_POINTER
    output = OutputGlobal(Map(stage.name, stage.output), OutputCode(module, stage.output), place)
    MatchCode(begin, finish, maps[finish.source], output).emit()
    return output


class MatchCode:
    """Emits ``emit()``: the change of the rows of all touched partitions. Gives a status."""

    def __init__(self, begin: BeginFunction, finish: PartitionEmission, held: MapGlobal, output: OutputGlobal) -> None:
        assert isinstance(finish.rows, Match)
        index = held.code.changing.ordered
        assert isinstance(index, MatchRowsCode)
        self._begin, self._finish, self._held, self._output = begin, finish, held, output
        self._index, self._key = index, index.trees.key
        self._values = RunValues(finish.rows)
        automaton = determinize(finish.rows)
        self._at_end = automaton.at_end
        self._search = SearchCode(begin, automaton, self._values, index, held.map)
        self._layout = self._search.layout
        self._rows = GroupReader(index.groups, index.items)
        self._changes = GroupReader(index.changed_groups, index.items)

    def emit(self) -> None:
        """Emit it all, or raise ``NotCompiled``."""
        symbol = self._search.emit_symbol()
        find, step, post = self._search.emit_find(), self._search.emit_step(), self._emit_post()
        row = self._emit_row(find, step, post)
        pair = self._emit_pair(row) if self._at_end else self._emit_netted_pair(find, step, post)
        finish = self._emit_finish(post) if self._at_end else None
        begin = self._emit_begin(symbol)
        rescan = self._emit_rescan(pair, begin, finish)
        partition = self._emit_partition(row, finish, rescan)
        frame = self._begin("emit", [], True)
        builder, handle = frame.builder, self._held.handle(frame.builder)
        with self._index.each_changed(builder, handle) as (prefix, changes):
            group = self._index.groups.find(builder, self._index.own(builder, handle), prefix)
            frame.check(builder.call(partition, [handle, group, changes]))
        frame.done()

    def _emit_post(self) -> ir.Function:
        """``match.post(changes, key, run, weight)``: post the row of an entry, with the measures of a run."""
        frame = self._begin("match.post", [PTR, self._key, PTR, I64], False)
        builder, (changes, key, run, weight) = frame.builder, frame.function.args
        cells = self._search.bindings(builder, changes, key) | self._values.measured(frame, run)
        post_row(frame, self._finish, self._output, cells, weight)
        return frame.function

    # --------------------------------------------------------------------------------------------------- one row

    def _emit_row(self, find: ir.Function, step: ir.Function, post: ir.Function) -> ir.Function:
        """``match.row(changes, key, search, weight)``: read one more row, and post what comes out with a weight.

        Where matches come out once, that is the one before unless this row prolongs it; then it is taken back if it
        has come out.
        """
        frame = self._begin("match.row", [PTR, self._key, PTR, I64], False)
        builder, (changes, key, search, weight) = frame.builder, frame.function.args
        layout, transition = self._layout.search, builder.call(find, [changes, key, search])
        if self._at_end:
            prolongs = self._search.prolongs(builder, transition)
            shown = builder.icmp_unsigned("!=", layout.load(builder, search, "shown"), number(0, I32))
            times = builder.select(prolongs, builder.neg(weight), weight)
            # What is prolonged and has not come out needs nothing; nor does what is over and has come out.
            self._post_pending(frame, post, changes, search, times, builder.icmp_unsigned("==", prolongs, shown))
        complete = builder.call(step, [changes, key, search, transition])
        if self._at_end:
            layout.store(builder, search, "pending", complete)
            layout.store(builder, search, "shown", number(0, I32))
        else:
            with builder.if_then(builder.icmp_unsigned("!=", complete, number(0, I32))):
                run = self._search.run(builder, search, complete)
                frame.check(builder.call(post, [changes, key, run, weight]))
        frame.done()
        return frame.function

    def _post_pending(
        self,
        frame: FunctionFrame,
        post: ir.Function,
        changes: IRValue,
        search: IRValue,
        weight: IRValue,
        condition: IRValue,
    ) -> None:
        """Post the complete run that waits for the next row, if there is one and ``condition`` holds."""
        builder, layout = frame.builder, self._layout.search
        pending = layout.load(builder, search, "pending")
        there = builder.icmp_unsigned("!=", pending, number(0, I32))
        with builder.if_then(builder.and_(there, condition)):
            run = self._search.run(builder, search, pending)
            frame.check(builder.call(post, [changes, layout.load(builder, search, "last"), run, weight]))

    def _emit_finish(self, post: ir.Function) -> ir.Function:
        """``match.finish(changes, search, weight)``: post the match that the last row has completed, once."""
        frame = self._begin("match.finish", [PTR, PTR, I64], False)
        builder, (changes, search, weight) = frame.builder, frame.function.args
        layout = self._layout.search
        hidden = builder.icmp_unsigned("==", layout.load(builder, search, "shown"), number(0, I32))
        self._post_pending(frame, post, changes, search, weight, hidden)
        layout.store(builder, search, "shown", number(1, I32))
        frame.done()
        return frame.function

    # ---------------------------------------------------------------------------------------------- rows at the end

    def _emit_partition(self, row: ir.Function, finish: ir.Function | None, rescan: ir.Function) -> ir.Function:
        """``match.partition(handle, group, changes)``: go on with the search if rows have come at the end alone."""
        frame = self._begin("match.partition", [PTR, PTR, PTR], False)
        builder, (handle, group, changes) = frame.builder, frame.function.args
        partition, search = self._layout.partition, self._layout.search
        cursor = GroupCursor(builder, self._changes, self._index.changes(builder, handle), changes)
        cursor.open(number(0, self._key))
        with builder.if_then(builder.icmp_unsigned("==", group, NULL_POINTER), likely=False):
            builder.ret(builder.call(rescan, [handle, group, changes]))
        place = self._index.search(builder, group)
        self._begin_epoch(builder, handle, place)
        before, now = (partition.address(builder, place, name) for name in ("before", "now"))
        first, _ = cursor.item()
        known = builder.icmp_unsigned("!=", partition.load(builder, place, "known"), number(0, I32))
        behind = builder.icmp_unsigned(">", first, search.load(builder, before, "last"))
        with builder.if_then(builder.not_(builder.and_(known, behind)), likely=False):
            builder.ret(builder.call(rescan, [handle, group, changes]))
        copy(builder, now, before, search.size)
        with loop_while(builder, cursor.more):
            key, sums = cursor.item()
            with count_up(builder, number(0), sums.weight):
                frame.check(builder.call(row, [changes, key, now, number(1)]))
            cursor.advance()
        if finish is not None:
            frame.check(builder.call(finish, [changes, now, number(1)]))
        partition.store(builder, place, "valid", number(1, I32))
        frame.done()
        return frame.function

    def _begin_epoch(self, builder: ir.IRBuilder, handle: IRValue, place: IRValue) -> None:
        """The search as of now becomes that before the epoch, if it is of an earlier one."""
        partition, epoch = self._layout.partition, self._index.handle.load(builder, handle, "epoch")
        with builder.if_then(builder.icmp_unsigned("!=", partition.load(builder, place, "stamp"), epoch)):
            partition.store(builder, place, "stamp", epoch)
            partition.store(builder, place, "known", partition.load(builder, place, "valid"))
            before, now = (partition.address(builder, place, name) for name in ("before", "now"))
            copy(builder, before, now, self._layout.search.size)
        partition.store(builder, place, "valid", number(0, I32))

    # -------------------------------------------------------------------------------------------- rows anywhere else

    def _emit_begin(self, symbol: ir.Function) -> ir.Function:
        """``match.begin(handle, group, changes, first, search, key)``: from where to search around a change.

        Writes the search after the last row before the key ``first`` that no run outlives, and the next key.
        """
        frame = self._begin("match.begin", [PTR, PTR, PTR, self._key, PTR, PTR], False)
        builder, (handle, group, changes, first, search, target) = frame.builder, frame.function.args
        rows, search_ = (self._index.own(builder, handle), group), self._layout.search
        fill(builder, search, 0, search_.size)
        builder.store(number(0, self._key), target, align=8)
        place = Local(builder, self._rows.sum_until(builder, *rows, first, False).weight)
        key, previous = Local(builder, number(0, self._key)), Local(builder, number(0, self._key))
        with builder.if_then(builder.icmp_signed(">", place.get(), number(0))):
            previous.set(self._row_before(builder, rows, place.get()))
        with loop_while(builder, lambda: builder.icmp_signed(">", place.get(), number(0))):
            key.set(previous.get())
            place.set(builder.sub(place.get(), number(1)))
            has_previous = builder.icmp_signed(">", place.get(), number(0))
            with builder.if_then(has_previous):
                previous.set(self._row_before(builder, rows, place.get()))
            found = builder.call(symbol, [changes, key.get(), previous.get(), builder.zext(has_previous, I32)])
            with builder.if_then(self._search.forgets(builder, found)):
                search_.store(builder, search, "last", key.get())
                search_.store(builder, search, "begun", number(1, I32))
                builder.store(builder.add(key.get(), number(1, self._key)), target, align=8)
                frame.done()
        frame.done()
        return frame.function

    def _row_before(self, builder: ir.IRBuilder, rows: tuple[IRValue, IRValue], place: IRValue) -> IRValue:
        """The key of the row before that with a number."""
        own, group = rows
        key, _ = self._rows.select(builder, own, group, builder.sub(place, number(1)))
        return key

    def _emit_pair(self, row: ir.Function) -> ir.Function:
        """``match.pair(changes, key, before, now, old, new)``: read so many rows of an entry as they were and are."""
        frame = self._begin("match.pair", [PTR, self._key, PTR, PTR, I64, I64], False)
        builder, (changes, key, *searches, old, new) = frame.builder, frame.function.args
        for search, times, weight in zip(searches, (old, new), (-1, 1), strict=True):
            with count_up(builder, number(0), times):
                frame.check(builder.call(row, [changes, key, search, number(weight)]))
        frame.done()
        return frame.function

    def _emit_netted_pair(self, find: ir.Function, step: ir.Function, post: ir.Function) -> ir.Function:
        """The same where rows come out at once: what is equal on both sides is not posted."""
        frame = self._begin("match.pair", [PTR, self._key, PTR, PTR, I64, I64], False)
        builder, (changes, key, *searches, old, new) = frame.builder, frame.function.args
        most = builder.select(builder.icmp_signed(">", old, new), old, new)
        size = self._values.layout.size
        with count_up(builder, number(0), most) as time:
            found = [Local(builder, number(0, I32)) for _ in searches]
            for local, search, times in zip(found, searches, (old, new), strict=True):
                with builder.if_then(builder.icmp_signed("<", time, times)):
                    transition = builder.call(find, [changes, key, search])
                    local.set(builder.call(step, [changes, key, search, transition]))
            completed = [local.get() for local in found]
            there = [builder.icmp_unsigned("!=", complete, number(0, I32)) for complete in completed]
            same = Local(builder, builder.and_(*there))
            with builder.if_then(same.get()):
                one, other = (self._search.run(builder, *pair) for pair in zip(searches, completed, strict=True))
                same.set(_equal(builder, one, other, size))
            for complete, search, shown, weight in zip(completed, searches, there, (-1, 1), strict=True):
                with builder.if_then(builder.and_(shown, builder.not_(same.get()))):
                    run = self._search.run(builder, search, complete)
                    frame.check(builder.call(post, [changes, key, run, number(weight)]))
        frame.done()
        return frame.function

    def _emit_rescan(self, pair: ir.Function, begin: ir.Function, finish: ir.Function | None) -> ir.Function:
        """``match.rescan(handle, group, changes)``: search the rows as they were and as they are."""
        frame = self._begin("match.rescan", [PTR, PTR, PTR], False)
        frame.function.attributes.add("noinline")
        builder, (handle, group, changes) = frame.builder, frame.function.args
        search, partition = self._layout.search, self._layout.partition
        rows = GroupCursor(builder, self._rows, self._index.own(builder, handle), group)
        moved = GroupCursor(builder, self._changes, self._index.changes(builder, handle), changes)
        before, now = (on_stack(builder, search.size) for _ in range(2))
        start = on_stack(builder, self._key.width // 8)
        moved.open(number(0, self._key))
        frame.check(builder.call(begin, [handle, group, changes, moved.item()[0], before, start]))
        copy(builder, now, before, search.size)
        rows.open(builder.load(start, typ=self._key, align=8))
        exists = builder.icmp_unsigned("!=", group, NULL_POINTER)
        known, joined = Local(builder, number(0, I1)), Local(builder, number(0, I1))
        with builder.if_then(exists):
            place = self._index.search(builder, group)
            known.set(builder.icmp_unsigned("!=", partition.load(builder, place, "known"), number(0, I32)))
        with forever(builder) as ended:
            more = [cursor.more() for cursor in (rows, moved)]
            escape(builder, builder.not_(builder.or_(*more)), ended)
            key, old, new = self._next(builder, rows, moved)
            frame.check(builder.call(pair, [changes, key, before, now, old, new]))
            settled = builder.and_(known.get(), builder.not_(moved.more()))
            with builder.if_then(settled), builder.if_then(_equal(builder, before, now, search.size)):
                # From here on all is as it was, so the search before the epoch ends as this one would.
                with builder.if_then(rows.more()):
                    place = self._index.search(builder, group)
                    copy(builder, now, partition.address(builder, place, "before"), search.size)
                    joined.set(number(1, I1))
                builder.branch(ended)
        if finish is not None:
            with builder.if_then(builder.not_(joined.get())):
                frame.check(builder.call(finish, [changes, before, number(-1)]))
                frame.check(builder.call(finish, [changes, now, number(1)]))
        with builder.if_then(exists):
            place = self._index.search(builder, group)
            copy(builder, partition.address(builder, place, "now"), now, search.size)
            partition.store(builder, place, "valid", number(1, I32))
        frame.done()
        return frame.function

    def _next(self, builder: ir.IRBuilder, rows: GroupCursor, moved: GroupCursor) -> tuple[IRValue, IRValue, IRValue]:
        """The next key of the rows or of the changes, and how many rows had it and have it now."""
        sides = []
        for cursor in (rows, moved):
            more, key, weight = cursor.more(), Local(builder, number(-1, self._key)), Local(builder, number(0))
            with builder.if_then(more):
                held, sums = cursor.item()
                key.set(held)
                weight.set(sums.weight)
            sides.append((more, key.get(), weight.get()))
        (has_row, row, rows_now), (has_change, change, change_weight) = sides
        key = builder.select(builder.icmp_unsigned("<", row, change), row, change)
        here = [
            builder.and_(there, builder.icmp_unsigned("==", one, key))
            for there, one in ((has_row, row), (has_change, change))
        ]
        new = builder.select(here[0], rows_now, number(0))
        old = builder.sub(new, builder.select(here[1], change_weight, number(0)))
        for cursor, taken in zip((rows, moved), here, strict=True):
            with builder.if_then(taken):
                cursor.advance()
        return key, old, new


def _equal(builder: ir.IRBuilder, one: IRValue, other: IRValue, size: int) -> IRValue:
    """An i1: whether two pieces of memory are the same."""
    if not size:
        return number(1, I1)
    compare = external(builder.module, "memcmp", I32, [PTR, PTR, I64])
    return builder.icmp_unsigned("==", builder.call(compare, [one, other, number(size)]), number(0, I32))
