"""Walks through a join graph as LLVM code: nested loops over lists, from the row of a change to complete paths.

A walk is a query whose sources are members of the graph. It differs from other queries in three ways. Lists are looked
up as soon as what they are looked up by is known, so that an item which leads nowhere on some side is left before the
first of its neighbours is walked through (``Lookahead.LOCAL``). An item that is known to be dead is passed over, and
one that turns out to be is marked (``Lookahead.GLOBAL``, see ``liveness``). And what the last list gives is not
taken item by item where its columns are all that is asked of it: they are copied into the output, some at a time, or as
a run of rows that share all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.algebra.relational.walk import columns_in
from tidemill.model.schema import WEIGHT
from tidemill.program.joingraph import Lookahead
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.program.statements import Query, RelationLoop, Version
from tidemill.runtimes.native.llvm.codegen.control_flow import count_up, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame
from tidemill.runtimes.native.llvm.codegen.layout import I8, I64, NullableValue, at
from tidemill.runtimes.native.llvm.containers.slices import ListSlice
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.io.run_end_encoding import MIN_RUN
from tidemill.runtimes.native.llvm.joingraph.liveness import Continuation, Liveness
from tidemill.runtimes.native.llvm.joingraph.lookups import LookupCode, LookupColumns, LookupResult
from tidemill.runtimes.native.llvm.queries import (
    WEIGHT_OVERFLOW,
    ChangeRow,
    Continue,
    MapGlobal,
    ModuleMaps,
    Sink,
    index_of,
)
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored

SKIPPED = "passed"
"""The global that counts the items that were passed over because they were known to be dead."""

DEAD_ENDS = "dead_ends"
"""The global that counts the items that were followed to nothing, and then marked."""

FAR, NEAR = 16, 8
"""Distance in items at which the slots that an item leads to are prefetched, and then what these point to."""


@dataclass(frozen=True, slots=True)
class WalkLookAhead:
    """The look-ahead of a stage's walks: its kind, and the items known to be dead."""

    kind: Lookahead
    liveness: Liveness

    @property
    def local(self) -> bool:
        """True if all neighbours of an item are looked up before the first is followed."""
        return self.kind is not Lookahead.NONE


class WalkCode(LookupCode):
    """Emits one walk. With ``output`` its rows go there, else to the sink.

    ``known`` has what walks from the same row have looked up by its columns, all before their first step.
    """

    def __init__(
        self,
        frame: FunctionFrame,
        stage: Stage,
        maps: ModuleMaps,
        query: Query,
        row: ChangeRow | None,
        lookahead: WalkLookAhead,
        output: OutputGlobal | None,
        known: dict[LookupColumns, LookupResult],
    ) -> None:
        super().__init__(frame, stage, maps, query, row, known)
        self._lookahead = lookahead
        self._output = output
        self._dead: dict[str, ir.Value] = {}

    # ----------------------------------------------------------------------------------------------------- the steps

    def emit(self, target: Map, sink: Sink) -> None:
        """Run ``sink`` for every row that the walk yields."""
        if self._lookahead.local and not self._query.filters:
            self._look_up_by_row()
        super().emit(target, sink)

    def _step(self, place: int, target: Map, sink: Sink) -> None:
        if place == len(self._query.sources) - 1:
            source = self._query.sources[place]
            if isinstance(source, RelationLoop) and self._copies_columns(source):
                self._append_last(source)
                return
        super()._step(place, target, sink)

    def _bind_change(self, source: RelationLoop, then: Continue) -> None:
        super()._bind_change(source, lambda: self._look_up_neighbours(then))

    def _loop(self, source: RelationLoop, then: Continue) -> None:
        if not self._is_plain(source):
            super()._loop(source, lambda: self._look_up_neighbours(then))
            return
        found = self._find(source)
        if isinstance(found, ListSlice):
            self._follow(source, found, then)
            return
        with self._builder.if_else(self._is_there(found)) as (there, missing):
            with there:
                self._bind_entry(self._maps[source.relation], source, lambda: self._look_up_neighbours(then), found)
            with missing:
                self._mark_predecessor_dead(source)
        self._found.pop(source.alias, None)

    def _look_up_neighbours(self, then: Continue) -> None:
        """Go on where there is something in every list that can be looked up by now."""
        waiting = [step for step in self._query.sources if self._lookahead.local and self._can_look_up(step)]
        if not waiting:
            then()
            return
        source = waiting[0]
        assert isinstance(source, RelationLoop)
        found = self._found[source.alias] = self._find(source)
        with self._builder.if_else(self._is_there(found)) as (there, missing):
            with there:
                self._look_up_neighbours(then)
            with missing:
                self._mark_predecessor_dead(source)
        self._found.pop(source.alias, None)

    def _can_look_up(self, step: object) -> bool:
        if not isinstance(step, RelationLoop) or step.version is not Version.STATE or step.alias in self._found:
            return False
        bound = f"{step.alias}.{WEIGHT}" in self._cells
        return (
            not bound
            and self._is_plain(step)
            and all(isinstance(scalar, Column) and scalar.name in self._cells for _, scalar in step.lookup)
        )

    # -------------------------------------------------------------------------------------------------------- items

    def _follow(self, source: RelationLoop, found: ListSlice, then: Continue) -> None:
        """Go on with every item of a list that is not known to be dead."""
        builder, continuation = self._builder, self._continuation(source)
        alive = self._frame.variable(I8)
        builder.store(number(0, I8), alive)
        with count_up(builder, number(0), found.rows) as place:
            self._fetch_ahead(source, found, place)
            if continuation is None:
                self._bind_item(source, found, place, then)
                builder.store(number(1, I8), alive)
            else:
                is_dead = self._lookahead.liveness.is_dead(builder, found, place, continuation)
                with builder.if_else(is_dead) as (dead, other):
                    with dead:
                        self._count(SKIPPED)
                    with other:
                        self._go_on(source, found, place, continuation, alive, then)
        with builder.if_then(builder.icmp_unsigned("==", builder.load(alive, typ=I8), number(0, I8))):
            self._mark_predecessor_dead(source)

    def _fetch_ahead(self, source: RelationLoop, found: ListSlice, place: ir.Value) -> None:
        """Ask for what later items of a list lead to: for the slots of the lists, and then for the lists."""
        builder, held = self._builder, self._maps[source.relation]
        own = {f"{source.alias}.{f.name}": i for i, f in enumerate(held.map.keys)}
        for step in self._query.sources[self._query.sources.index(source) + 1 :]:
            if not isinstance(step, RelationLoop) or step.version is not Version.STATE or not self._is_plain(step):
                continue
            other = self._maps[step.relation]
            index, sought = index_of(step, other.map), dict(step.lookup)
            lists, columns = other.code.lists(index), [sought[name] for name in index]
            places = [own[column.name] for column in columns if isinstance(column, Column) and column.name in own]
            if lists is None or len(places) < len(columns):
                continue
            for distance, fetch in ((FAR, lists.prefetch_slot), (NEAR, lists.prefetch_items)):
                later = builder.add(place, number(distance))
                with builder.if_then(builder.icmp_unsigned("<", later, found.rows)):
                    fetch(builder, other.handle(builder), [found.key(builder, later, i).value for i in places])

    def _go_on(
        self,
        source: RelationLoop,
        found: ListSlice,
        place: ir.Value,
        continuation: Continuation,
        alive: ir.Value,
        then: Continue,
    ) -> None:
        """Follow an item, and mark it where one of its branches turns out to lead nowhere."""
        builder = self._builder
        branches = self._branches(source)
        for alias in branches:
            self._dead[alias] = self._frame.variable(I8)
            builder.store(number(0, I8), self._dead[alias])
        self._bind_item(source, found, place, then)
        flags = {alias: builder.load(self._dead.pop(alias), typ=I8) for alias in branches}
        causes = [builder.icmp_unsigned("!=", flag, number(0, I8)) for flag in flags.values()]
        dead = causes[0]
        for cause in causes[1:]:
            dead = builder.or_(dead, cause)
        with builder.if_else(dead) as (marked, other):
            with marked:
                pairs = list(zip(continuation.branches, causes, strict=True))
                self._lookahead.liveness.mark(builder, found, place, continuation, pairs)
                self._count(DEAD_ENDS)
            with other:
                builder.store(number(1, I8), alive)

    def _bind_item(self, source: RelationLoop, found: ListSlice, place: ir.Value, then: Continue) -> None:
        builder, held, alias = self._builder, self._maps[source.relation], source.alias
        places = {f.name: i for i, f in enumerate(held.map.keys)}
        for f in source.columns:
            self._cells[f"{alias}.{f.name}"] = from_stored(builder, found.key(builder, place, places[f.name]), f.type)
        if source.values:
            entry = held.code.record(builder, held.handle(builder), found.load(builder, place, "id"))
            self._bind_values(held, source, entry)
        weight = self._weight_of(held, found, place)
        self._cells[f"{alias}.{WEIGHT}"] = NullableValue(weight)
        self._weights.append(weight)
        self._where(source.filters, lambda: self._look_up_neighbours(then))
        self._weights.pop()

    def _weight_of(self, held: MapGlobal, found: ListSlice, place: ir.Value) -> ir.Value:
        builder = self._builder
        return found.weight(builder, place, lambda id_: held.code.record(builder, held.handle(builder), id_))

    # -------------------------------------------------------------------------------------------------- what is dead

    def _continuation(self, source: RelationLoop) -> Continuation | None:
        """The continuation after the items of a source, where it is marked."""
        if self._lookahead.kind is not Lookahead.GLOBAL:
            return None
        continuation = self._lookahead.liveness.continuation(self._query, self._query.sources.index(source))
        return continuation if continuation in self._lookahead.liveness.marked else None

    def _branches(self, source: RelationLoop) -> list[str]:
        """The sources that are looked up from this one, in the order of its branches."""
        further = self._query.sources[self._query.sources.index(source) + 1 :]
        return [step.alias for step in further if self._lookahead.liveness.pairs(source, step) is not None]

    def _mark_predecessor_dead(self, source: RelationLoop) -> None:
        """Mark the item dead from which the walk came to ``source``, where nothing was found."""
        if source.alias in self._dead:
            self._builder.store(number(1, I8), self._dead[source.alias])

    def _count(self, what: str) -> None:
        counter = self._frame.module.globals[what]
        self._builder.store(self._builder.add(self._builder.load(counter, typ=I64), number(1)), counter)

    # ------------------------------------------------------------------------------------------------ whole columns

    def _copies_columns(self, source: RelationLoop) -> bool:
        """True if all that is asked of the last source are columns as they are."""
        plain = source.version is Version.STATE and bool(source.lookup) and self._is_plain(source)
        if self._output is None or not plain or source.filters or self._query.weight is not None:
            return False
        held = self._maps[source.relation]
        if held.map.values or held.code.lists(index_of(source, held.map)) is None:
            return False
        own = {f"{source.alias}.{f.name}" for f in source.columns} | {f"{source.alias}.{WEIGHT}"}
        return all(
            isinstance(output.scalar, Column) or not columns_in(output.scalar) & own for output in self._query.outputs
        )

    def _append_last(self, source: RelationLoop) -> None:
        found = self._find(source)
        assert isinstance(found, ListSlice)
        with self._builder.if_else(self._is_there(found)) as (there, missing):
            with there:
                self._append_slice(source, found)
            with missing:
                self._mark_predecessor_dead(source)

    def _append_slice(self, source: RelationLoop, found: ListSlice) -> None:
        assert self._output is not None
        builder, cells, times = self._builder, self._appended_cells(source, found), self._weight()
        runs = self._output.runs_of(self._frame.module, cells)
        with builder.if_then(builder.icmp_unsigned("!=", times, number(0)), likely=True):
            if runs is None:
                self._append_rows(source, found, cells, times)
                return
            weight, alike = self._weight_of_run(found, times)
            with builder.if_else(alike) as (run, rows):
                with run:
                    runs.append_slice(builder, cells, found, weight)
                with rows:
                    self._append_rows(source, found, cells, times)

    def _weight_of_run(self, found: ListSlice, times: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The weight that all rows of a list have, and an i1: whether they have, and are enough for a run."""
        builder = self._builder
        small, alike = found.common_weight(builder)
        product = builder.smul_with_overflow(times, small)
        fits = builder.not_(builder.extract_value(product, 1))
        enough = builder.icmp_unsigned(">=", found.rows, number(MIN_RUN))
        return builder.extract_value(product, 0), builder.and_(builder.and_(alike, fits), enough)

    def _append_rows(
        self, source: RelationLoop, found: ListSlice, cells: Sequence[NullableValue | str], times: ir.Value
    ) -> None:
        assert self._output is not None
        builder, output = self._builder, self._output
        doubtful = output.code.append_slice(builder, output.handle(builder), cells, found, times)
        with builder.if_then(doubtful, likely=False):
            self._weigh_one_by_one(self._maps[source.relation], found, times)

    def _appended_cells(self, source: RelationLoop, found: ListSlice) -> Sequence[NullableValue | str]:
        """For each output the cell that all items have, or the column that is theirs."""
        held = self._maps[source.relation]
        columns = {f"{source.alias}.{f.name}": i for i, f in enumerate(held.map.keys)}
        cells: list[NullableValue | str] = []
        for output in self._query.outputs:
            scalar = output.scalar
            place = columns.get(scalar.name) if isinstance(scalar, Column) else None
            if place is None:
                cells.append(self._key_cell(scalar))
            elif place in found.layout.places:
                cells.append(found.key(self._builder, number(0), place))
            else:
                cells.append(f"key{place}")
        return cells

    def _weigh_one_by_one(self, held: MapGlobal, found: ListSlice, times: ir.Value) -> None:
        """Write the weights of the rows appended last again, each checked."""
        assert self._output is not None
        builder, output = self._builder, self._output.handle(self._builder)
        weights = self._output.code.latest_weights(builder, output, found.rows)
        with count_up(builder, number(0), found.rows) as place:
            pair = builder.smul_with_overflow(times, self._weight_of(held, found, place))
            self._frame.refuse(builder.extract_value(pair, 1), WEIGHT_OVERFLOW)
            weight = builder.extract_value(pair, 0)
            builder.store(weight, at(builder, weights, builder.mul(place, number(8))), align=8)
            self._output.code.note(builder, output, weight, weight)
