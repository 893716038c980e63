"""Queries as LLVM code: nested loops over the row of a change, maps and mirrors, with reads and seeks among them.

Each step binds cells under the names of its columns and goes on with the next; the innermost hands the keys, the weight
and the values of what was found to a *sink*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Type
from tidemill.program.maps import Map, RingField
from tidemill.program.reads import MapOrder, order_of
from tidemill.program.stages import Stage
from tidemill.program.statements import ArrayLoop, MapRead, MapSeek, Query, RangeBound, RelationLoop, Version
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled, RowFault
from tidemill.runtimes.native.llvm.codegen.layout import (
    I1,
    I32,
    I64,
    I128,
    NULL_POINTER,
    PTR,
    NullableValue,
    RingValue,
    cell_type,
)
from tidemill.runtimes.native.llvm.maps.map_code import MapCode, RangeLimit
from tidemill.runtimes.native.llvm.maps.table_reader import TableGlobal
from tidemill.runtimes.native.llvm.scalars import double_sums, wide_integers
from tidemill.runtimes.native.llvm.scalars.comparisons import compare
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, from_stored, nearest_key, to_stored, value_type
from tidemill.runtimes.native.llvm.scalars.exact_numbers import any_of, from_cell
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions
from tidemill.runtimes.native.llvm.scalars.time_windows import each_window
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

WEIGHT_OVERFLOW = RowFault("a weight leaves 64 bits")
VALUE_OVERFLOW = RowFault("a sum leaves 128 bits", "Convert its argument to DOUBLE.")

Continue = Callable[[], None]
Sink = Callable[[Sequence[NullableValue], ir.Value, Sequence[RingValue]], None]
"""Takes what a query yields: the keys, the weight and the values, as a map adds them."""


@dataclass(frozen=True, slots=True)
class MapGlobal:
    """A map in the module: its code, and the global that will hold its handle."""

    map: Map
    code: MapCode
    place: ir.GlobalVariable

    def handle(self, builder: ir.IRBuilder) -> ir.Value:
        """The map's handle."""
        return builder.load(self.place, typ=PTR)


ModuleMaps = Mapping[str, MapGlobal]
ModuleTables = Mapping[str, TableGlobal]


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The row of a change: its cells by column name, and its weight (i64)."""

    cells: Mapping[str, NullableValue]
    weight: ir.Value


class QueryCode:
    """Emits one query; ``row`` is what its change sources bind, ``tables`` are those that stages share."""

    def __init__(
        self,
        frame: FunctionFrame,
        stage: Stage,
        maps: ModuleMaps,
        query: Query,
        row: ChangeRow | None,
        tables: ModuleTables = MappingProxyType({}),
    ) -> None:
        self._frame = frame
        self._stage = stage
        self._maps = maps
        self._tables = tables
        self._query = query
        self._row = row
        self._cells: dict[str, NullableValue] = {}
        self._expressions = LlvmExpressions(frame, self._cells)
        self._weights: list[ir.Value] = []

    @property
    def _builder(self) -> ir.IRBuilder:
        return self._frame.builder

    def emit(self, target: Map, sink: Sink) -> None:
        """Run ``sink`` for every row that the query yields."""
        self._where(self._query.filters, partial(self._step, 0, target, sink))

    def _step(self, place: int, target: Map, sink: Sink) -> None:
        if place == len(self._query.sources):
            self._yield(target, sink)
            return
        then = partial(self._step, place + 1, target, sink)
        step = self._query.sources[place]
        match step:
            case RelationLoop(version=Version.CHANGE):
                self._bind_change(step, then)
            case RelationLoop():
                self._loop(step, then)
            case MapRead():
                self._read(step, then)
            case MapSeek():
                self._seek(step, then)
            case ArrayLoop():
                self._windows(step, then)

    def _where(self, conditions: Sequence[Scalar], then: Continue) -> None:
        """Go on where all conditions hold. Each is computed only where those before it do, as they may fail."""
        if not conditions:
            then()
            return
        with self._builder.if_then(self._expressions.holds(conditions[0])):
            self._where(conditions[1:], then)

    def _bind_change(self, source: RelationLoop, then: Continue) -> None:
        assert self._row is not None
        cells = {f.name: self._row.cells[f.name] for f in source.columns}
        self._cells |= {f"{source.alias}.{name}": cell for name, cell in cells.items()}
        self._cells[f"{source.alias}.{WEIGHT}"] = NullableValue(self._row.weight)
        self._weights.append(self._row.weight)
        types = {f.name: f.type for f in source.columns}
        self._equal([(cells[name], types[name], key) for name, key in source.lookup], source.filters, then)
        self._weights.pop()

    def _equal(
        self, pairs: Sequence[tuple[NullableValue, Type, Scalar]], filters: Sequence[Scalar], then: Continue
    ) -> None:
        """Go on where every cell equals the value beside it, neither being NULL, and the filters hold."""
        if not pairs:
            self._where(filters, then)
            return
        cell, type_, scalar = pairs[0]
        sought, never = self._key(scalar, type_)
        equal = compare(self._builder, "eq", cell.value, sought.value, type_)
        for excluded in (never, cell.is_null, sought.is_null):
            if excluded is not None:
                equal = self._builder.and_(equal, self._builder.not_(excluded))
        with self._builder.if_then(equal):
            self._equal(pairs[1:], filters, then)

    def _loop(self, source: RelationLoop, then: Continue) -> None:
        """The entries of a map or mirror: one by its whole key, those of a slice, or all; or the rows of a table."""
        if source.relation in self._tables:
            self._table_rows(self._tables[source.relation], source, then)
            return
        held = self._maps[source.relation]
        index = index_of(source, held.map)
        if len(index) == len(held.map.keys):
            self._looked_up(held, index, source.lookup, partial(self._find_one, held, source, then))
            return
        self._looked_up(held, index, source.lookup, partial(self._find_all, held, source, index, then))

    def _table_rows(self, table: TableGlobal, source: RelationLoop, then: Continue) -> None:
        """The rows of a shared table under the keys of a lookup, or all of them."""
        columns, builder = index_of(source, table.map), self._builder

        def found(keys: Sequence[NullableValue]) -> None:
            handle = table.handle(builder)
            table.code.loop(builder, handle, columns, keys, partial(self._bind_row, table, source, then, handle))

        self._looked_up(table, columns, source.lookup, found)

    def _bind_row(
        self, table: TableGlobal, source: RelationLoop, then: Continue, handle: ir.Value, row: ir.Value
    ) -> None:
        places = {f.name: place for place, f in enumerate(table.map.keys)}
        for f in source.columns:
            cell = table.code.key(self._builder, handle, row, places[f.name])
            self._cells[f"{source.alias}.{f.name}"] = from_stored(self._builder, cell, f.type)
        self._cells[f"{source.alias}.{WEIGHT}"] = NullableValue(ir.Constant(I64, 1))
        self._where(source.filters, then)

    def _looked_up(
        self,
        held: MapGlobal | TableGlobal,
        columns: Sequence[str],
        lookup: Sequence[tuple[str, Scalar]],
        then: Callable[[Sequence[NullableValue]], None],
    ) -> None:
        """Go on with the keys of a lookup, in the order of ``columns``, unless there can be no such entry."""
        types = {f.name: f.type for f in held.map.keys}
        found = {name: self._key(scalar, types[name]) for name, scalar in lookup}
        keys = [to_stored(self._builder, found[name][0], types[name]) for name in columns]
        impossible = [never for _, never in found.values() if never is not None]
        if not impossible:
            then(keys)
            return
        possible = self._builder.not_(impossible[0])
        for never in impossible[1:]:
            possible = self._builder.and_(possible, self._builder.not_(never))
        with self._builder.if_then(possible):
            then(keys)

    def _key(self, scalar: Scalar, type_: Type) -> tuple[NullableValue, ir.Value | None]:
        return as_key(self._builder, self._expressions.cell(scalar), scalar.type, type_)

    def _find_one(self, held: MapGlobal, source: RelationLoop, then: Continue, keys: Sequence[NullableValue]) -> None:
        builder = self._builder
        entry = held.code.find(builder, held.handle(builder), keys)
        with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
            self._bind_entry(held, source, then, entry)

    def _find_all(
        self,
        held: MapGlobal,
        source: RelationLoop,
        index: tuple[str, ...],
        then: Continue,
        keys: Sequence[NullableValue],
    ) -> None:
        builder = self._builder

        def body(inner: ir.IRBuilder, entry: ir.Value) -> None:
            assert inner is builder
            self._bind_entry(held, source, then, entry)

        held.code.loop(builder, held.handle(builder), index or None, keys, body)

    def _bind_entry(self, held: MapGlobal, source: RelationLoop, then: Continue, entry: ir.Value) -> None:
        builder, code, alias = self._builder, held.code, source.alias
        places = {f.name: place for place, f in enumerate(held.map.keys)}
        for f in source.columns:
            self._cells[f"{alias}.{f.name}"] = from_stored(builder, code.key(builder, entry, places[f.name]), f.type)
        self._bind_values(held, source, entry)
        weight = code.weight(builder, entry)
        self._cells[f"{alias}.{WEIGHT}"] = NullableValue(weight)
        self._weights.append(weight)
        self._where(source.filters, then)
        self._weights.pop()

    def _bind_values(self, held: MapGlobal, source: RelationLoop, entry: ir.Value) -> None:
        for value in source.values:
            number = held.code.value(self._builder, entry, _place(held, value))
            self._cells[f"{source.alias}.{value.name}"] = NullableValue(number)

    def _read(self, step: MapRead, then: Continue) -> None:
        """The numbers of one key or of a range, as variables: zero where there are none."""
        held = self._maps[step.map]
        frame = self._frame
        weight = frame.variable(I64)
        values = [frame.variable(I128) for _ in step.values]
        self._builder.store(ir.Constant(I64, 0), weight)
        for variable in values:
            self._builder.store(ir.Constant(I128, 0), variable)
        order = order_of(step, self._stage)
        names = [f.name for f in held.map.keys] if order is None else list(order[0])
        found = self._read_key if order is None else partial(self._read_range, order)
        self._looked_up(held, names, step.lookup, partial(found, held, step, weight, values))
        self._cells[f"{step.alias}.{WEIGHT}"] = NullableValue(self._builder.load(weight, typ=I64))
        for value, variable in zip(step.values, values, strict=True):
            self._cells[f"{step.alias}.{value.name}"] = NullableValue(self._builder.load(variable, typ=I128))
        self._where(step.filters, then)

    def _read_key(
        self,
        held: MapGlobal,
        step: MapRead,
        weight: ir.Value,
        values: Sequence[ir.Value],
        keys: Sequence[NullableValue],
    ) -> None:
        builder, code = self._builder, held.code
        entry = code.find(builder, held.handle(builder), keys)
        with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
            builder.store(code.weight(builder, entry), weight)
            for value, variable in zip(step.values, values, strict=True):
                builder.store(code.value(builder, entry, _place(held, value)), variable)

    def _read_range(
        self,
        order: MapOrder,
        held: MapGlobal,
        step: MapRead,
        weight: ir.Value,
        values: Sequence[ir.Value],
        prefix: Sequence[NullableValue],
    ) -> None:
        assert step.range is not None
        (type_,) = [f.type for f in held.map.keys if f.name == step.range.column]
        lower, below = self._limit(step.range.lower, type_, upwards=True)
        upper, above = self._limit(step.range.upper, type_, upwards=False)
        empty = any_of(self._builder, below, above)
        if empty is None:
            self._sum_range(order, held, step, (weight, *values), prefix, (lower, upper))
            return
        with self._builder.if_then(self._builder.not_(empty)):
            self._sum_range(order, held, step, (weight, *values), prefix, (lower, upper))

    def _sum_range(
        self,
        order: MapOrder,
        held: MapGlobal,
        step: MapRead,
        variables: Sequence[ir.Value],
        prefix: Sequence[NullableValue],
        limits: tuple[RangeLimit | None, RangeLimit | None],
    ) -> None:
        builder = self._builder
        totals = held.code.sum_range(builder, held.handle(builder), order, prefix, *limits)
        found = [totals.weight, *(totals.values[_place(held, value)] for value in step.values)]
        for total, variable in zip(found, variables, strict=True):
            assert total is not None
            builder.store(total, variable)

    def _limit(
        self, bound: RangeBound | None, type_: Type, *, upwards: bool
    ) -> tuple[RangeLimit | None, ir.Value | None]:
        """One end of a range, and an i1 under which nothing lies in it; ``upwards`` is the lower end."""
        if bound is None:
            return None, None
        cell = self._expressions.cell(bound.scalar)
        if bound.scalar.type == type_ and cell.value.type == value_type(type_):
            return RangeLimit(to_stored(self._builder, cell, type_), bound.closed), None
        value, empty = nearest_key(self._builder, cell.value, bound.scalar.type, bound.closed, type_, upwards)
        return RangeLimit(NullableValue(value, cell.is_null), closed=True), empty

    def _seek(self, step: MapSeek, then: Continue) -> None:
        held = self._maps[step.map]
        order = order_of(step, self._stage)
        assert order is not None
        kind = cell_type(step.column.type)
        found, key = self._frame.variable(I32), self._frame.variable(kind)
        self._builder.store(ir.Constant(I32, 0), found)
        self._builder.store(ir.Constant(kind, 0.0 if isinstance(kind, ir.DoubleType) else 0), key)
        self._looked_up(held, order[0], step.lookup, partial(self._descend, held, step, order, found, key))
        missing = self._builder.icmp_unsigned("==", self._builder.load(found, typ=I32), ir.Constant(I32, 0))
        cell = NullableValue(self._builder.load(key, typ=kind), missing)
        self._cells[f"{step.alias}.{step.column.name}"] = from_stored(self._builder, cell, step.column.type)
        self._where(step.filters, then)

    def _windows(self, step: ArrayLoop, then: Continue) -> None:
        """The windows of time that an instant of the row is in; no other arrays have a native form."""
        if step.outer or len(step.columns) > 1:
            raise NotCompiled("the elements of an array with their positions")
        array, (element,) = step.array, step.columns
        instant = self._expressions.cell(array.arguments[0] if isinstance(array, Call) else array)
        known = ir.Constant(I1, 1) if instant.is_null is None else self._builder.not_(instant.is_null)
        with self._builder.if_then(known), each_window(self._builder, array, instant.value) as window:
            self._cells[f"{step.alias}.{element.name}"] = self._expressions.settled(window, None)
            self._where(step.filters, then)

    def _descend(
        self,
        held: MapGlobal,
        step: MapSeek,
        order: MapOrder,
        found: ir.Value,
        key: ir.Value,
        prefix: Sequence[NullableValue],
    ) -> None:
        builder = self._builder

        def condition(inner: ir.IRBuilder, weight: ir.Value, values: Sequence[ir.Value | None]) -> ir.Value:
            assert inner is builder
            self._cells[f"{step.alias}.{WEIGHT}"] = NullableValue(weight)
            for value in step.values:
                total = values[_place(held, value)]
                assert total is not None
                self._cells[f"{step.alias}.{value.name}"] = NullableValue(total)
            return self._expressions.holds(step.condition)

        there, at = held.code.seek(builder, held.handle(builder), order, prefix, step.after, condition)
        builder.store(builder.zext(there, I32), found)
        with builder.if_then(there):
            builder.store(at.value, key)

    def _yield(self, target: Map, sink: Sink) -> None:
        outputs = [output.scalar for output in self._query.outputs]
        keys = [self._key_cell(scalar) for scalar in outputs[: len(target.keys)]]
        weight = self._weight()
        values = [
            self._term(scalar, value.type, weight)
            for scalar, value in zip(outputs[len(target.keys) :], target.values, strict=True)
        ]
        sink(keys, weight, values)

    def _key_cell(self, scalar: Scalar) -> NullableValue:
        cell = self._expressions.cell(scalar)
        sought, misfit = as_key(self._builder, cell, scalar.type, scalar.type)
        if misfit is not None:  # a number of a map that is wider than a column can be
            self._frame.refuse(misfit, VALUE_OVERFLOW)
        return to_stored(self._builder, sought, scalar.type)

    def _weight(self) -> ir.Value:
        """The weight of what is yielded: the product of the sources' weights, or what the query gives for it."""
        if self._query.weight is not None:
            cell = self._expressions.cell(self._query.weight)
            number = from_cell(self._known(cell, 0), t.BIGINT)
            self._refuse(wide_integers.outside(self._builder, number, 64), WEIGHT_OVERFLOW)
            return wide_integers.resized(self._builder, number.value, 64)
        if not self._weights:
            return ir.Constant(I64, 1)
        result = self._weights[0]
        for weight in self._weights[1:]:
            pair = self._builder.smul_with_overflow(result, weight)
            self._frame.refuse(self._builder.extract_value(pair, 1), WEIGHT_OVERFLOW)
            result = self._builder.extract_value(pair, 0)
        return result

    def _term(self, scalar: Scalar, ring: Type, weight: ir.Value) -> RingValue:
        """The amount that a row adds to a ring value: its value times the weight, or its value alone."""
        cell = self._expressions.cell(scalar)
        amounts = self._query.weight is not None
        if isinstance(ring, t.Double):
            times: ir.Value = ir.Constant(I64, 1) if amounts else weight
            if cell.is_null is not None:
                times = self._builder.select(cell.is_null, ir.Constant(I64, 0), times)
            return double_sums.term(self._builder, self._known(cell, 0.0), times)
        number = from_cell(self._known(cell, 0), scalar.type)
        if amounts:
            return wide_integers.resized(self._builder, number.value, 128)
        product, failed = wide_integers.product(self._builder, number, WideInteger(weight, 63))
        self._refuse(failed, VALUE_OVERFLOW)
        return product

    def _known(self, cell: NullableValue, otherwise: float) -> ir.Value:
        """The value, or what adds nothing in the place of NULL."""
        if cell.is_null is None:
            return cell.value
        return self._builder.select(cell.is_null, ir.Constant(cell.value.type, otherwise), cell.value)

    def _refuse(self, condition: ir.Value | None, fault: RowFault) -> None:
        if condition is not None:
            self._frame.refuse(condition, fault)


def index_of(source: RelationLoop, map_: Map) -> tuple[str, ...]:
    """The key columns by which a source looks entries up, in the order in which the map has them."""
    names = [name for name, _ in source.lookup]
    if len(set(names)) < len(names):
        raise NotCompiled(f"{source.relation} is looked up twice by one column")
    return tuple(f.name for f in map_.keys if f.name in names)


def _place(held: MapGlobal, value: RingField) -> int:
    return [known.name for known in held.map.values].index(value.name)
