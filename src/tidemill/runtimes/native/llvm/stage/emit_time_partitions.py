"""Time partitions as code: each is computed by its query from slices of maps, and compared with the rows that it had.

===========================  ==========================================================================================
``partition.make.k``         compute a partition with the k-th query, all of it or its touched groups alone
``partition.remove``         remove the rows of a partition
``partition.touch.k``        collect the groups of the k-th query to which rows belong that the epoch has changed
``partition.numbers``        the partitions beside a number that have rows
``partition.roll``           add the rows of a partition to the window that is kept, or take them away
``partition.follow``         bring that window up to date with what the epoch has changed of its partitions
``partition.show``           give a partition the rows of that window
``partition.begin``          empty it
===========================  ==========================================================================================

Which partitions are recomputed, and in which order, is decided by ``runtimes.time_partitions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map
from tidemill.program.stages import GroupEmission, Program, Stage, TimePartitionEmission
from tidemill.program.statements import Add
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, new_function, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame
from tidemill.runtimes.native.llvm.codegen.layout import (
    I1,
    I32,
    I64,
    NULL_POINTER,
    PTR,
    NullableValue,
    StructLayout,
    at,
)
from tidemill.runtimes.native.llvm.maps.map_code import OrderColumns
from tidemill.runtimes.native.llvm.queries import ChangeRow, MapGlobal, index_of
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored
from tidemill.runtimes.native.llvm.stage.emit_rows import BeginFunction
from tidemill.runtimes.native.llvm.stage.partition_bodies import (
    Admits,
    BodyCode,
    BodyMaps,
    ScratchMap,
    SliceRange,
    TakeRow,
    check_bodies,
    loops_of,
    slice_index,
)
from tidemill.runtimes.native.operators.touched_groups import GroupingColumns, grouping_columns

HoldMap = Callable[[ScratchMap], None]
"""Adds a scratch map to the module."""

SPAN = StructLayout()
"""Two partition numbers: of a slice the first and how many, of bounds the first and the last."""
SPAN.field("first", I64)
SPAN.field("second", I64)

BESIDE = StructLayout()
"""The partitions at or before a number, and after it, each with a word that says if there is one."""
for _name in ("has_before", "before", "has_after", "after"):
    BESIDE.field(_name, I64)


@dataclass(frozen=True, slots=True)
class PartitionCode:
    """The queries of a stage of time partitions, and the scratch maps in which they compute.

    ``grouped`` has the queries, by their place, whose groups can be recomputed one by one.
    """

    emission: TimePartitionEmission
    bodies: tuple[Program, ...]
    scratch: tuple[str, ...]
    grouped: frozenset[int]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The maps that statements fill."""
        return self.emission.numbers, *dict.fromkeys(feed.map for feed in self.emission.feeds)


def shown_rows(stage: Stage, emission: TimePartitionEmission) -> Stage:
    """The stage with its rows as those of the map that has all computed partitions."""
    times = Column(WEIGHT, BIGINT, nullable=False)
    return replace(stage, finish=GroupEmission(emission.kept, emission.outputs, emission.condition, times=times))


def numbers_order(emission: TimePartitionEmission | None, map_: Map) -> OrderColumns | None:
    """The order of the partition numbers, where ``map_`` has these."""
    if emission is None or map_.name != emission.numbers:
        return None
    return (), map_.keys[0].name


def partition_indexes(emission: TimePartitionEmission, map_: Map) -> set[tuple[str, ...]]:
    """The key columns by which the queries find entries of a map of the stage."""
    numbered = {feed.map for feed in emission.feeds if feed.every} | {emission.kept}
    if map_.name not in numbered:
        read = {slice_.name for slice_ in emission.slices if emission.map_of(slice_) == map_.name}
        return {index_of(loop, map_) for body in emission.bodies for loop in loops_of(body) if loop.relation in read}
    found: set[tuple[str, ...]] = {(map_.keys[0].name,)}
    for slice_ in emission.slices:
        if emission.map_of(slice_) == map_.name:
            loops = (loop for body in emission.bodies for loop in loops_of(body))
            found |= {slice_index(loop, map_) for loop in loops if loop.relation == slice_.name}
    return found


class TimePartitionEmitter:
    """Emits the functions of a stage of time partitions; ``maps`` are those of the module."""

    def __init__(self, stage: Stage, emission: TimePartitionEmission, maps: Mapping[str, MapGlobal]) -> None:
        check_bodies(emission)
        self._emission, self._maps = emission, maps
        self._columns = {map_.name: map_.keys for map_ in stage.maps}
        self._bodies = emission.bodies
        self._own = [BodyMaps(body, f"{place} of ") for place, body in enumerate(self._bodies)]
        self._groupings = [grouping_columns(body, emission, self._columns) for body in self._bodies]
        self._rolling = BodyMaps(emission.update, "rolling ", takes_back=True) if emission.rolls else None
        self._made = Map(f"made {emission.kept}", self._columns[emission.kept])

    def hold(self, hold: HoldMap) -> tuple[str, ...]:
        """Declare the scratch maps; gives their names."""
        touched = [self._touched_map(i, found) for i, found in enumerate(self._groupings) if found is not None]
        declared = [scratch for own in self._own for scratch in own.declared()]
        declared += () if self._rolling is None else self._rolling.declared()
        declared += map(ScratchMap, (self._made, *touched))
        for scratch in declared:
            hold(scratch)
        return tuple(scratch.map.name for scratch in declared)

    def _touched_map(self, place: int, grouping: GroupingColumns) -> Map:
        kept = self._columns[self._emission.kept]
        keys = tuple(Field(f"group{i}", kept[at_].type) for i, at_ in enumerate(grouping.output))
        return Map(f"touched {place}", keys)

    def emit(self, begin: BeginFunction, scratch: tuple[str, ...]) -> PartitionCode:
        """Define all functions."""
        for place in range(len(self._bodies)):
            self._emit_make(begin, place)
            self._emit_touch(begin, place)
        self._emit_remove(begin)
        self._emit_numbers(begin)
        if self._rolling is not None:
            self._emit_rolling(begin, self._rolling)
        grouped = frozenset(place for place, found in enumerate(self._groupings) if found is not None)
        return PartitionCode(self._emission, self._bodies, scratch, grouped)

    # -- one partition ----------------------------------------------------------------------------------------------

    def _emit_make(self, begin: BeginFunction, place: int) -> None:
        """``partition.make.k(number, slices, some, changed)``: with ``some`` the touched groups alone are computed.

        Where the partition had no rows its new ones need not be compared with any.
        """
        frame = begin(f"partition.make.{place}", [I64, PTR, I32, PTR], True)
        at_number, ranges, some, changed = frame.function.args
        builder = frame.builder
        restricted = builder.icmp_unsigned("!=", some, number(0, I32))
        slices = {
            slice_.name: self._range(builder, slice_.name, at(builder, ranges, i * SPAN.size))
            for i, slice_ in enumerate(self._emission.slices)
        }
        body = BodyCode(
            frame,
            self._bodies[place],
            self._own[place],
            self._maps,
            slices,
            partial(self._admitted, frame, place, restricted),
        )
        body.clear()
        self._replace_rows(frame, at_number, changed, partial(self._is_compared, frame, place, restricted), body.emit)
        body.clear()
        frame.done()

    def _replace_rows(
        self,
        frame: FunctionFrame,
        at_number: IRValue,
        changed: IRValue,
        is_compared: Admits,
        emit: Callable[[TakeRow], None],
    ) -> None:
        """Replace the rows of a partition by those that ``emit`` hands on."""
        builder = frame.builder
        self._clear_made(frame)
        fresh = builder.not_(self._has_rows(builder, at_number))

        def take(cells: Sequence[NullableValue], weight: IRValue) -> None:
            keys = [NullableValue(at_number), *cells]
            with builder.if_else(fresh) as (new, compared):
                with new:
                    self._add(frame, self._kept, keys, weight)
                    self._note_change(builder, changed)
                with compared:
                    self._add(frame, self._maps[self._made.name], keys, weight)

        emit(take)
        with builder.if_then(builder.not_(fresh)):
            self._become(frame, at_number, changed, is_compared)

    def _range(self, builder: ir.IRBuilder, name: str, place: IRValue) -> SliceRange:
        (slice_,) = [slice_ for slice_ in self._emission.slices if slice_.name == name]
        map_ = self._emission.map_of(slice_)
        whole = {feed.map for feed in self._emission.feeds if not feed.every}
        if map_ in whole:
            return SliceRange(map_, None)
        return SliceRange(map_, (SPAN.load(builder, place, "first"), SPAN.load(builder, place, "second")))

    def _emit_remove(self, begin: BeginFunction) -> None:
        """``partition.remove(number, changed)``."""
        frame = begin("partition.remove", [I64, PTR], True)
        at_number, changed = frame.function.args
        self._clear_made(frame)
        self._become(frame, at_number, changed, lambda entry: number(1, I1))
        frame.done()

    def _become(self, frame: FunctionFrame, at_number: IRValue, changed: IRValue, is_compared: Admits) -> None:
        """Replace the rows of a partition by those that were made, as far as they are compared."""
        builder, kept, made = frame.builder, self._kept, self._maps[self._made.name]
        with self._rows_of(builder, at_number) as entry, builder.if_then(is_compared(entry)):
            self._add(frame, made, _keys(builder, kept, entry), builder.neg(kept.code.weight(builder, entry)))

        def body(inner: ir.IRBuilder, entry: IRValue) -> None:
            assert inner is builder
            weight = made.code.weight(builder, entry)
            with builder.if_then(builder.icmp_unsigned("!=", weight, number(0))):
                self._add(frame, kept, _keys(builder, made, entry), weight)
                self._note_change(builder, changed)

        made.code.loop(builder, made.handle(builder), None, (), body)
        self._clear_made(frame)

    @property
    def _kept(self) -> MapGlobal:
        return self._maps[self._emission.kept]

    @contextmanager
    def _rows_of(self, builder: ir.IRBuilder, at_number: IRValue) -> Iterator[IRValue]:
        """For each row of a partition that was computed before."""
        kept = self._kept
        with kept.code.each(
            builder, kept.handle(builder), (kept.map.keys[0].name,), [NullableValue(at_number)]
        ) as entry:
            yield entry

    def _has_rows(self, builder: ir.IRBuilder, at_number: IRValue) -> IRValue:
        kept, index = self._kept, (self._kept.map.keys[0].name,)
        first = kept.code.first_in_slice(builder, kept.handle(builder), index, [NullableValue(at_number)])
        return builder.icmp_unsigned("!=", first, NULL_POINTER)

    def _add(self, frame: FunctionFrame, held: MapGlobal, keys: Sequence[NullableValue], weight: IRValue) -> None:
        frame.check(held.code.add(frame.builder, held.handle(frame.builder), keys, weight, ()))

    def _clear_made(self, frame: FunctionFrame) -> None:
        made = self._maps[self._made.name]
        frame.check(made.code.clear(frame.builder, made.handle(frame.builder)))

    def _note_change(self, builder: ir.IRBuilder, changed: IRValue) -> None:
        builder.store(number(1), changed)

    # -- rolling windows --------------------------------------------------------------------------------------------

    def _emit_rolling(self, begin: BeginFunction, own: BodyMaps) -> None:
        (slice_,) = self._emission.slices
        held = self._maps[self._emission.map_of(slice_)]

        def window(frame: FunctionFrame) -> BodyCode:
            return BodyCode(frame, self._emission.update, own, self._maps, {}, lambda add: None)

        frame = begin("partition.begin", [], True)
        window(frame).clear()
        frame.done()
        self._emit_roll(begin("partition.roll", [I64, I64], True), held, window)
        self._emit_follow(begin("partition.follow", [I64, I64], True), held, window)
        frame = begin("partition.show", [I64, PTR], True)
        at_number, changed = frame.function.args
        self._replace_rows(frame, at_number, changed, lambda entry: number(1, I1), window(frame).show)
        frame.done()

    def _emit_roll(self, frame: FunctionFrame, held: MapGlobal, window: Callable[[FunctionFrame], BodyCode]) -> None:
        """``partition.roll(number, sign)``."""
        at_number, sign = frame.function.args
        builder, body = frame.builder, window(frame)
        index = (held.map.keys[0].name,)
        with held.code.each(builder, held.handle(builder), index, [NullableValue(at_number)]) as entry:
            weight = builder.mul(held.code.weight(builder, entry), sign)
            body.change(ChangeRow(_cells(builder, held, entry), weight))
        body.sweep()
        frame.done()

    def _emit_follow(self, frame: FunctionFrame, held: MapGlobal, window: Callable[[FunctionFrame], BodyCode]) -> None:
        """``partition.follow(first, last)``: what has changed of these partitions, as often as it has."""
        first, last = frame.function.args
        builder, body = frame.builder, window(frame)
        status = Local(builder, number(0, I32))
        row = self._emit_row(held, frame, window)

        def tell(old: IRValue, entry: IRValue | None) -> None:
            # Nothing returns from here: a key that was visited has a mark until all are.
            own = held.code.key(builder, old, 0).value
            inside = builder.and_(builder.icmp_signed(">=", own, first), builder.icmp_signed("<=", own, last))
            now = number(0) if entry is None else held.code.weight(builder, entry)
            with builder.if_then(inside):
                found = builder.call(row, [old, builder.sub(now, held.code.weight(builder, old))])
                failed = builder.icmp_unsigned("!=", found, number(0, I32))
                status.set(builder.select(failed, found, status.get()))

        held.code.epochs.each_touched(builder, held.handle(builder), tell)
        frame.check(status.get())
        body.sweep()
        frame.done()

    def _emit_row(
        self, held: MapGlobal, like: FunctionFrame, window: Callable[[FunctionFrame], BodyCode]
    ) -> ir.Function:
        """``partition.follow.row(record, weight)``: a changed row of a partition of the window."""
        function = new_function(like.module, "partition.follow.row", I32, [PTR, I64])
        function.linkage = "internal"
        frame = FunctionFrame(function, like.faults, like.texts, like.calls)
        record, weight = function.args
        with frame.builder.if_then(frame.builder.icmp_unsigned("!=", weight, number(0))):
            window(frame).change(ChangeRow(_cells(frame.builder, held, record), weight))
        frame.done()
        return function

    # -- touched groups ---------------------------------------------------------------------------------------------

    def _touched(self, place: int) -> MapGlobal:
        return self._maps[f"touched {place}"]

    def _admitted(self, frame: FunctionFrame, place: int, restricted: IRValue, add: Add) -> Admits | None:
        """The condition under which entries are read: their group is touched, unless all groups are computed."""
        grouping = self._groupings[place]
        if grouping is None:
            return None
        relation = _relation_of(add)
        scans = [one for one in self._bodies[place].stages[0].load if _relation_of(one) == relation]
        positions = grouping.scanned[relation][scans.index(add)]
        (slice_,) = [slice_ for slice_ in self._emission.slices if slice_.name == relation]
        held = self._maps[self._emission.map_of(slice_)]
        return partial(self._is_touched, frame, place, restricted, held, positions)

    def _is_compared(self, frame: FunctionFrame, place: int, restricted: IRValue, entry: IRValue) -> IRValue:
        grouping = self._groupings[place]
        if grouping is None:
            return number(1, I1)
        return self._is_touched(frame, place, restricted, self._kept, grouping.output, entry)

    def _is_touched(
        self,
        frame: FunctionFrame,
        place: int,
        restricted: IRValue,
        held: MapGlobal,
        positions: Sequence[int],
        entry: IRValue,
    ) -> IRValue:
        builder, touched = frame.builder, self._touched(place)
        code = touched.code.changing
        found = Local(builder, number(1, I1))
        with builder.if_then(restricted):
            cells = [held.code.key(builder, entry, position) for position in positions]
            there = code.find(builder, touched.handle(builder), code.keys.of_cells(builder, cells))
            found.set(builder.icmp_unsigned("!=", there, NULL_POINTER))
        return found.get()

    def _emit_touch(self, begin: BeginFunction, place: int) -> None:
        """``partition.touch.k(bounds)``: the groups of rows that the epoch has changed within the bounds of slices."""
        grouping = self._groupings[place]
        if grouping is None:
            return
        frame = begin(f"partition.touch.{place}", [PTR], True)
        (bounds,) = frame.function.args
        builder, touched = frame.builder, self._touched(place)
        frame.check(touched.code.clear(builder, touched.handle(builder)))
        whole = {feed.map for feed in self._emission.feeds if not feed.every}
        for i, slice_ in enumerate(self._emission.slices):
            held = self._maps[self._emission.map_of(slice_)]
            scans = grouping.scanned[slice_.name]
            if not scans:
                continue
            place_ = at(builder, bounds, i * SPAN.size)
            first, last = (SPAN.load(builder, place_, name) for name in ("first", "second"))
            with held.code.epochs.each_noted(builder, held.handle(builder)) as record:
                inside: IRValue = number(1, I1)
                if held.map.name not in whole:
                    own = held.code.key(builder, record, 0).value
                    low, high = builder.icmp_signed(">=", own, first), builder.icmp_signed("<=", own, last)
                    inside = builder.and_(low, high)
                with builder.if_then(inside):
                    for positions in scans:
                        keys = [held.code.key(builder, record, position) for position in positions]
                        self._add(frame, touched, keys, number(1))
        frame.done()

    # -- numbers ----------------------------------------------------------------------------------------------------

    def _emit_numbers(self, begin: BeginFunction) -> None:
        """``partition.numbers(number, beside)``."""
        frame = begin("partition.numbers", [I64, PTR], True)
        at_number, beside = frame.function.args
        builder, held = frame.builder, self._maps[self._emission.numbers]
        order = held.code.changing.present
        assert order is not None
        keys = held.code.changing.keys.of_cells(builder, [NullableValue(at_number)])
        found = order.neighbours(builder, held.handle(builder), keys)
        for name in ("has_before", "has_after"):
            BESIDE.store(builder, beside, name, builder.zext(getattr(found, name), I64))
        for name in ("before", "after"):
            BESIDE.store(builder, beside, name, getattr(found, name))
        frame.done()


def _relation_of(add: Add) -> str:
    (source,) = add.query.sources
    return str(getattr(source, "relation", ""))


def _cells(builder: ir.IRBuilder, held: MapGlobal, entry: IRValue) -> dict[str, NullableValue]:
    """The columns of an entry by their names, as expressions see them."""
    keys = enumerate(held.map.keys)
    return {key.name: from_stored(builder, held.code.key(builder, entry, place), key.type) for place, key in keys}


def _keys(builder: ir.IRBuilder, held: MapGlobal, entry: IRValue) -> list[NullableValue]:
    return [held.code.key(builder, entry, place) for place in range(len(held.map.keys))]
