"""The queries that compute time partitions, as code: loops over slices of maps that fill scratch maps, and their rows.

A query is loaded from nothing each time, so none of its maps has a journal, an index or an order. MIN and MAX need no
multiset either: nothing is taken back while rows are gone through, so the least or greatest value so far is all there
is to a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from llvmlite import ir

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import function_of
from tidemill.algebra.relational.walk import columns_in
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, Field, Type
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import GroupEmission, MultisetRead, Program, Stage, TimePartitionEmission
from tidemill.program.statements import Add, Query, RelationLoop
from tidemill.runtimes.native.llvm.codegen import memory
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, count_up, number, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled, RowFault
from tidemill.runtimes.native.llvm.codegen.layout import (
    F64,
    I64,
    I128,
    NULL_POINTER,
    NullableValue,
    RingValue,
    cell_type,
)
from tidemill.runtimes.native.llvm.containers.sort_keys import from_sort_key, key_bits, to_sort_key
from tidemill.runtimes.native.llvm.maps.map_code import OrderColumns
from tidemill.runtimes.native.llvm.maps.ordered_index import UNORDERED
from tidemill.runtimes.native.llvm.queries import ChangeRow, Continue, MapGlobal, ModuleMaps, QueryCode
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, from_stored, to_stored
from tidemill.runtimes.native.llvm.scalars.exact_numbers import canonical
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions
from tidemill.runtimes.native.llvm.stage.emit_rows import fitting
from tidemill.runtimes.native.llvm.stage.multiset_groups import end_of

TAKEN_BACK = RowFault("a value was to be taken back from a partition that is being computed")
MISFIT = RowFault("a value does not fit its column")

TakeRow = Callable[[Sequence[NullableValue], IRValue], None]
"""Takes the cells of a row, as maps store them, and its weight."""


@dataclass(frozen=True, slots=True)
class SliceRange:
    """The partitions that a slice reads: the first of them, and how many (i64). A feed without partitions has none."""

    map: str
    numbers: tuple[IRValue, IRValue] | None


Admits = Callable[[IRValue], IRValue]
"""An i1: whether the entry of a slice is to be read, by a query that loops over nothing else."""


class SliceQueryCode(QueryCode):
    """A query whose relations may be slices: entries of a map with a range of partition numbers for its first key."""

    def __init__(
        self,
        frame: FunctionFrame,
        stage: Stage,
        maps: ModuleMaps,
        query: Query,
        slices: Mapping[str, SliceRange],
        admits: Admits | None,
        row: ChangeRow | None = None,
    ) -> None:
        super().__init__(frame, stage, maps, query, row)
        self._slices = slices
        self._admits = admits

    def _loop(self, source: RelationLoop, then: Continue) -> None:
        range_ = self._slices.get(source.relation)
        if range_ is None:
            super()._loop(source, then)
        elif range_.numbers is None:
            super()._loop(replace(source, relation=range_.map), then)
        else:
            held = self._maps[range_.map]
            index = slice_index(source, held.map)
            found = partial(self._each_partition, held, source, index, range_.numbers, then)
            self._looked_up(held, index[1:], source.lookup, found)

    def _each_partition(
        self,
        held: MapGlobal,
        source: RelationLoop,
        index: tuple[str, ...],
        numbers: tuple[IRValue, IRValue],
        then: Continue,
        keys: Sequence[NullableValue],
    ) -> None:
        builder, (first, count) = self._builder, numbers

        def body(inner: ir.IRBuilder, entry: IRValue) -> None:
            assert inner is builder
            self._bind_entry(held, source, then, entry)

        with count_up(builder, number(0), count) as place:
            at = NullableValue(builder.add(first, place))
            held.code.loop(builder, held.handle(builder), index, [at, *keys], body)

    def _bind_entry(self, held: MapGlobal, source: RelationLoop, then: Continue, entry: IRValue) -> None:
        if self._admits is None:
            super()._bind_entry(held, source, then, entry)
            return
        with self._builder.if_then(self._admits(entry)):
            super()._bind_entry(held, source, then, entry)


def slice_index(source: RelationLoop, held: Map) -> tuple[str, ...]:
    """The key columns by which a loop over a slice finds entries: the partition number, and those that it looks up."""
    names = [name for name, _ in source.lookup]
    if len(set(names)) < len(names):
        raise NotCompiled(f"{source.relation} is looked up twice by one column")
    return (held.keys[0].name, *(f.name for f in held.keys[1:] if f.name in names))


def loops_of(body: Program) -> Iterator[RelationLoop]:
    """The loops of a query; refuses those with other steps."""
    for add in (add for stage in body.stages for add in stage.load):
        for step in add.query.sources:
            if not isinstance(step, RelationLoop):
                raise NotCompiled("partitions that are made with more than loops")
            yield step


@dataclass(frozen=True, slots=True)
class ExtremeMap:
    """A scratch map with the least or greatest value of each group, by its sort key."""

    read: MultisetRead
    map: Map

    @property
    def least(self) -> bool:
        """True if it has the least value."""
        return end_of(self.read) == "least"


class BodyMaps:
    """The scratch maps of a query: those of its stages, the rows of all but the last, and one for each MIN and MAX.

    The multiset of a percentile has an order of its values instead, and so has that of MIN and MAX if the query
    ``takes_back`` rows. ``prefix`` goes before the names of maps in the module.
    """

    def __init__(self, body: Program, prefix: str, *, takes_back: bool = False) -> None:
        self._prefix, self._takes_back = prefix, takes_back
        self.extremes: dict[str, list[ExtremeMap]] = {}
        """For each multiset of the query that is only read at its ends, what is kept instead."""
        self.ranked: dict[str, Map] = {}
        """The other multisets, without NULLs among their values."""
        self._own: dict[str, Map] = {}
        for stage in body.stages:
            self._hold(stage, last=stage is body.stages[-1])
        self._indexes: dict[str, set[tuple[str, ...]]] = {name: set() for name in self._own}
        for loop in loops_of(body):
            if loop.relation in self._own:
                names = {name for name, _ in loop.lookup}
                self._indexes[loop.relation].add(
                    tuple(f.name for f in self._own[loop.relation].keys if f.name in names)
                )

    def _hold(self, stage: Stage, *, last: bool) -> None:
        finish = stage.finish
        if finish is not None and not isinstance(finish, GroupEmission):
            raise NotCompiled("partitions of rows that are ranked or numbered")
        maps = {map_.name: map_ for map_ in stage.maps}
        reads = () if finish is None else finish.multiset_reads
        ranks = {read.map for read in reads if self._takes_back or not is_extreme(read)}
        for read in reads:
            group = _group_keys(stage, maps[read.map], read)
            if read.map in ranks:
                value = replace(maps[read.map].keys[-1], nullable=False)
                self.ranked[read.map] = self._own[read.map] = Map(read.map, (*group, value))
            else:
                extreme = Map(f"{end_of(read)} of {read.map}", group, (RingField("end", BIGINT),))
                self.extremes.setdefault(read.map, []).append(ExtremeMap(read, extreme))
        self._own |= {e.map.name: e.map for held in self.extremes.values() for e in held}
        self._own |= {name: map_ for name, map_ in maps.items() if name not in self.extremes | self.ranked}
        if finish is None or not last:
            self._own[stage.name] = Map(stage.name, stage.output)

    def declared(self) -> Iterator[ScratchMap]:
        """The maps as the module names them."""
        for name, map_ in self._own.items():
            indexes = {index for index in self._indexes[name] if 0 < len(index) < len(map_.keys)}
            names = tuple(f.name for f in map_.keys)
            order = (names[:-1], names[-1]) if name in self.ranked else None
            yield ScratchMap(replace(map_, name=self._prefix + name), tuple(sorted(indexes)), order)

    def held(self, maps: ModuleMaps) -> dict[str, MapGlobal]:
        """The scratch maps, by the names that the query has for them."""
        return {name: maps[self._prefix + name] for name in self._own}


def is_extreme(read: MultisetRead) -> bool:
    """True if an aggregate is at an end of its multiset."""
    return function_of(read.call).end is not None


def _group_keys(stage: Stage, multiset: Map, read: MultisetRead) -> tuple[Field, ...]:
    """The keys of the groups of a multiset; refuses aggregates over values that have no native order."""
    assert isinstance(stage.finish, GroupEmission)
    width = next(len(map_.keys) for map_ in stage.maps if map_.name == stage.finish.source)
    call = read.call
    known = function_of(call).end is not None and not function_of(call).by_second
    known = (known and multiset.keys[-1].type == call.of) or is_median(call, multiset.keys[-1].type)
    if len(multiset.keys) != width + 1 or isinstance(multiset.keys[-1].type, UNORDERED) or not known:
        raise NotCompiled(f"the aggregate {call.function} of such values in partitions")
    return tuple(Field(f.name, f.type) for f in multiset.keys[:width])


def is_median(call: AggregateCall, type_: Type) -> bool:
    """True if an aggregate is one percentile between two numbers."""
    if not function_of(call).interpolates or call.distinct or call.of != t.DOUBLE:
        return False
    return not isinstance(call.parameters[0], tuple) and isinstance(type_, t.Integral | t.Floating)


@dataclass(frozen=True, slots=True)
class ScratchMap:
    """A map in which partitions are computed: its indexes, and the order of the values of each group, if it has one."""

    map: Map
    indexes: tuple[tuple[str, ...], ...] = ()
    order: OrderColumns | None = None


class BodyCode:
    """Emits one query into a function: it fills the scratch maps, and hands its rows on."""

    def __init__(
        self,
        frame: FunctionFrame,
        body: Program,
        own: BodyMaps,
        maps: ModuleMaps,
        slices: Mapping[str, SliceRange],
        admits: Callable[[Add], Admits | None],
    ) -> None:
        """``admits`` gives the condition under which the entries that a statement loops over are read."""
        self._frame, self._body, self._own, self._slices, self._admits = frame, body, own, slices, admits
        self._scratch = own.held(maps)
        self._maps = {**maps, **self._scratch}

    @property
    def _builder(self) -> ir.IRBuilder:
        return self._frame.builder

    def clear(self) -> None:
        """Empty the scratch maps."""
        for held in self._scratch.values():
            self._frame.check(held.code.clear(self._builder, held.handle(self._builder)))

    def emit(self, take: TakeRow) -> None:
        """Run the query; ``take`` gets its rows."""
        for stage in self._body.stages:
            for add in stage.load:
                self._load(stage, add)
            last = stage is self._body.stages[-1]
            if isinstance(stage.finish, GroupEmission):
                self._groups(stage, stage.finish, take if last else partial(self._pass_on, stage))
            elif last:
                self._whole(self._scratch[stage.name], take)

    # -- filling --------------------------------------------------------------------------------------------------

    def change(self, row: ChangeRow) -> None:
        """Run the triggers of the only stage for a row of its slice."""
        (stage,) = self._body.stages
        for trigger in stage.triggers:
            for statement in trigger.statements:
                if not isinstance(statement, Add):
                    raise NotCompiled("windows that are rolled and recomputed")
                self._load(stage, statement, row)

    def sweep(self) -> None:
        """Drop the groups that are empty, after a change."""
        for held in self._scratch.values():
            if held.map.values:
                self._frame.check(held.code.sweep(self._builder, held.handle(self._builder)))

    def show(self, take: TakeRow) -> None:
        """Hand the rows of the last stage on, from what its maps hold."""
        (stage,) = self._body.stages
        assert isinstance(stage.finish, GroupEmission)
        self._groups(stage, stage.finish, take)

    def _load(self, stage: Stage, add: Add, row: ChangeRow | None = None) -> None:
        query = SliceQueryCode(self._frame, stage, self._maps, add.query, self._slices, self._admits(add), row)
        if add.target in self._own.extremes:
            multiset = next(map_ for map_ in stage.maps if map_.name == add.target)
            query.emit(multiset, partial(self._fold, add.target))
        else:
            target = self._scratch[add.target]
            query.emit(target.map, partial(self._add_to, target))

    def _add_to(
        self, target: MapGlobal, keys: Sequence[NullableValue], weight: IRValue, values: Sequence[RingValue]
    ) -> None:
        self._frame.check(target.code.add(self._builder, target.handle(self._builder), keys, weight, values))

    def _fold(self, multiset: str, keys: Sequence[NullableValue], weight: IRValue, values: Sequence[RingValue]) -> None:
        """Keep a value of a group if it is the least or greatest so far."""
        builder = self._builder
        self._frame.refuse(builder.icmp_signed("<", weight, number(0)), TAKEN_BACK)
        with builder.if_then(builder.icmp_signed(">", weight, number(0)), likely=True):
            *group, value = keys
            key = to_sort_key(builder, value.value)
            for extreme in self._own.extremes[multiset]:
                self._improve(extreme, group, key if key.type == I128 else builder.zext(key, I128))

    def _improve(self, extreme: ExtremeMap, group: Sequence[NullableValue], key: IRValue) -> None:
        builder, held = self._builder, self._scratch[extreme.map.name]
        code, handle = held.code.changing, held.handle(self._builder)
        entry = code.find(builder, handle, code.keys.of_cells(builder, group))
        with builder.if_else(builder.icmp_unsigned("!=", entry, NULL_POINTER), likely=True) as (known, new):
            with known:
                best = code.record.load(builder, entry, "value0")
                better = builder.icmp_unsigned("<" if extreme.least else ">", key, best)
                code.record.store(builder, entry, "value0", builder.select(better, key, best))
            with new:
                self._frame.check(held.code.add(builder, handle, group, number(1), (key,)))

    def _pass_on(self, stage: Stage, cells: Sequence[NullableValue], weight: IRValue) -> None:
        self._add_to(self._scratch[stage.name], cells, weight, ())

    # -- rows -----------------------------------------------------------------------------------------------------

    def _whole(self, held: MapGlobal, take: TakeRow) -> None:
        """The rows that statements have added to the output of a stage."""
        builder = self._builder

        def body(inner: ir.IRBuilder, entry: IRValue) -> None:
            assert inner is builder
            cells = [held.code.key(builder, entry, place) for place in range(len(held.map.keys))]
            take(cells, held.code.weight(builder, entry))

        held.code.loop(builder, held.handle(builder), None, (), body)

    def _groups(self, stage: Stage, finish: GroupEmission, take: TakeRow) -> None:
        """The row of each group that has one."""
        builder, held = self._builder, self._scratch[finish.source]
        if finish.always:
            code = held.code.changing
            entry = code.find(builder, held.handle(builder), code.keys.of_cells(builder, ()))
            nothing = on_stack(builder, code.record.payload)
            memory.fill(builder, nothing, 0, code.record.payload)
            absent = builder.icmp_unsigned("==", entry, NULL_POINTER)
            self._group(stage, finish, builder.select(absent, nothing, entry), take)
            return

        def body(inner: ir.IRBuilder, entry: IRValue) -> None:
            assert inner is builder
            with builder.if_then(builder.icmp_signed(">", held.code.weight(builder, entry), number(0)), likely=True):
                self._group(stage, finish, entry, take)

        held.code.loop(builder, held.handle(builder), None, (), body)

    def _group(self, stage: Stage, finish: GroupEmission, entry: IRValue, take: TakeRow) -> None:
        bound = self._bindings(finish, entry)
        _check_bound(finish, bound)
        expressions = LlvmExpressions(self._frame, bound)
        condition = number(1, ir.IntType(1)) if finish.condition is None else expressions.holds(finish.condition)
        with self._builder.if_then(condition):
            times = number(1) if finish.times is None else self._times(expressions, finish)
            with self._builder.if_then(self._builder.icmp_signed(">", times, number(0)), likely=True):
                take(self._cells(stage, finish, expressions), times)

    def _times(self, expressions: LlvmExpressions, finish: GroupEmission) -> IRValue:
        assert finish.times is not None
        cell = expressions.cell(finish.times)
        if cell.value.type != I64:
            raise NotCompiled("rows of partitions that are repeated so")
        return cell.value if cell.is_null is None else self._builder.select(cell.is_null, number(0), cell.value)

    def _bindings(self, finish: GroupEmission, entry: IRValue) -> dict[str, NullableValue]:
        builder, held = self._builder, self._scratch[finish.source]
        code = held.code
        found = {WEIGHT: NullableValue(code.weight(builder, entry))}
        group = [code.key(builder, entry, place) for place in range(len(held.map.keys))]
        for key, cell in zip(held.map.keys, group, strict=True):
            found[key.name] = from_stored(builder, cell, key.type)
        for place, value in enumerate(held.map.values):
            fault = RowFault(f"a sum does not fit {value.type}", "Convert its argument to DOUBLE.")
            found[value.name] = NullableValue(fitting(self._frame, value, code.value(builder, entry, place), fault))
        for read in finish.multiset_reads:
            if is_extreme(read) and read.map in self._own.extremes:
                extreme = next(one for one in self._own.extremes[read.map] if one.read == read)
                found[read.call.name] = from_stored(builder, self._end(extreme, group), read.call.of)
            else:
                found[read.call.name] = self._ranked_value(read, group)
        return found

    def _ranked_value(self, read: MultisetRead, group: Sequence[NullableValue]) -> NullableValue:
        """A value of an ordered multiset, NULL where that is empty."""
        held = self._scratch[read.map]
        assert held.code.changing.present is not None
        ranks = RankCode(self._frame, held, group)
        if not is_extreme(read):
            return ranks.percentile(*read.call.parameters)
        place = number(0) if end_of(read) == "least" else self._builder.sub(ranks.count, number(1))
        return from_stored(self._builder, ranks.at(place), read.call.of)

    def _end(self, extreme: ExtremeMap, group: Sequence[NullableValue]) -> NullableValue:
        """The least or greatest value of a group, NULL where it has none."""
        builder, held = self._builder, self._scratch[extreme.map.name]
        code, kind = held.code.changing, cell_type(extreme.read.call.of)
        entry = code.find(builder, held.handle(builder), code.keys.of_cells(builder, group))
        missing = builder.icmp_unsigned("==", entry, NULL_POINTER)
        key = Local(builder, number(0, I128))
        with builder.if_then(builder.not_(missing), likely=True):
            key.set(code.record.load(builder, entry, "value0"))
        bits = ir.IntType(key_bits(kind))
        narrow = key.get() if bits == I128 else builder.trunc(key.get(), bits)
        return NullableValue(from_sort_key(builder, narrow, kind), missing)

    def _cells(self, stage: Stage, finish: GroupEmission, expressions: LlvmExpressions) -> list[NullableValue]:
        builder, cells = self._builder, []
        for field, output in zip(stage.output, finish.outputs, strict=True):
            narrow, misfit = as_key(builder, expressions.cell(output.scalar), output.scalar.type, field.type)
            if misfit is not None:
                self._frame.refuse(misfit, MISFIT)
            cells.append(to_stored(builder, narrow, field.type))
        return cells


class RankCode:
    """Emits reads of the ordered values of a group, by their positions counted from 0."""

    def __init__(self, frame: FunctionFrame, held: MapGlobal, group: Sequence[NullableValue]) -> None:
        builder, code = frame.builder, held.code.changing
        order = code.present
        assert order is not None
        self._builder, self._held, self._order = builder, held, order
        self._type = held.map.keys[-1].type
        value = NullableValue(ir.Constant(cell_type(self._type), 0.0 if isinstance(self._type, t.Floating) else 0))
        self._prefix, _ = order.split(builder, code.keys.of_cells(builder, [*group, value]))
        self._handle = held.handle(builder)
        among = order.find(builder, self._handle, self._prefix)
        count = Local(builder, number(0))
        none = number(0, among.type) if isinstance(among.type, ir.IntType) else NULL_POINTER
        with builder.if_then(builder.icmp_unsigned("!=", among, none), likely=True):
            total = order.sum_until(builder, self._handle, among, order.last(), number(1, ir.IntType(1)))
            count.set(total.weight)
        self.count = count.get()
        """The number of values, copies counted."""

    def at(self, place: IRValue) -> NullableValue:
        """The value at a position, NULL where there are not so many."""
        builder = self._builder
        found, cell = self._order.seek(
            builder, self._handle, self._prefix, False, lambda before: builder.icmp_signed("<=", before.weight, place)
        )
        return NullableValue(cell, builder.not_(found))

    def percentile(self, share: float, descending: bool) -> NullableValue:
        """Linear interpolation between the two values around a position, by the steps of the evaluator."""
        builder = self._builder
        last = builder.sub(self.count, number(1))
        position = builder.fmul(builder.sitofp(last, F64), ir.Constant(F64, float(share)))
        lower = builder.fptosi(position, I64)
        inside = builder.fcmp_ordered(">", position, builder.sitofp(lower, F64))
        higher = builder.add(lower, builder.zext(inside, I64))
        one, other = (self._number_at(builder.sub(last, at) if descending else at) for at in (lower, higher))
        below = builder.fmul(builder.fsub(builder.sitofp(higher, F64), position), one)
        above = builder.fmul(builder.fsub(position, builder.sitofp(lower, F64)), other)
        same = builder.or_(builder.not_(inside), builder.fcmp_ordered("==", one, other))
        between = canonical(builder, builder.select(same, one, builder.fadd(below, above)))
        return NullableValue(between, builder.icmp_signed("<=", self.count, number(0)))

    def _number_at(self, place: IRValue) -> IRValue:
        value = self.at(place).value
        return value if value.type == F64 else self._builder.sitofp(value, F64)


def _check_bound(finish: GroupEmission, bound: Mapping[str, NullableValue]) -> None:
    """Refuse expressions over more than is bound: what rounding leaves out of a DOUBLE is known to Python alone."""
    above = [scalar for scalar in (finish.condition, finish.times) if scalar is not None]
    if not set().union(*map(columns_in, (*above, *(output.scalar for output in finish.outputs)))) <= bound.keys():
        raise NotCompiled("partitions with sums of DOUBLE that are not rounded")


def check_bodies(emission: TimePartitionEmission) -> None:
    """Refuse partitions whose queries have no native form."""
    if emission.rolls and len(emission.update.stages) > 1:
        raise NotCompiled("windows that are rolled in several stages")
    for body in emission.bodies:
        for stage in body.stages:
            if any(isinstance(f.type, t.Void) for f in stage.output):
                raise NotCompiled(f"a column of type {t.Void()}")
