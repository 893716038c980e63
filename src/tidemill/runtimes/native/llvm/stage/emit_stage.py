"""A stage as an LLVM module: one function for each way in which rows of each input come.

===============  ================================================================================
``fire.k``       a batch of Arrow columns of input k
``rows.k``       packed records of input k
``event.k``      one packed record, after which everything is as fresh as after an epoch
``events``       Arrow batches of several inputs, mixed, each row an event
``replace.k``    the k-th target that is recomputed
``clear.k``      the k-th map of rows that are handed on
``produce``      all rows of a join graph that are not stored
``emit``         the change of the rows that come from a map
``read_groups``  the touched groups of a stage with aggregates over multisets
``partition.*``  computes time partitions (``emit_time_partitions``)
===============  ================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from llvmlite import ir

from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Window
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.reads import guards, orders, queries_of, sources_of, touched_of
from tidemill.program.stages import (
    GroupEmission,
    PartitionEmission,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import Add, RelationLoop, Replace, Trigger, Version
from tidemill.runtimes.native.llvm.codegen.control_flow import COLD, count_up, in_blocks, new_function, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import (
    FaultTable,
    FunctionFrame,
    PythonCalls,
    TextConstants,
)
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I32, I64, NULL_POINTER, PTR, NullableValue, at
from tidemill.runtimes.native.llvm.codegen.memory import fill
from tidemill.runtimes.native.llvm.io.input_rows import INPUT_TABLE, InputRecord, load_cells, load_weight
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.joingraph.graph_code import GraphCode, appends_output
from tidemill.runtimes.native.llvm.maps.map_code import MapCode
from tidemill.runtimes.native.llvm.maps.table_reader import IndexColumns, TableGlobal, TableReader
from tidemill.runtimes.native.llvm.matching.emit_match import emit_match, match_order
from tidemill.runtimes.native.llvm.queries import ChangeRow, MapGlobal, index_of
from tidemill.runtimes.native.llvm.scalars.conversions import value_type
from tidemill.runtimes.native.llvm.stage.check_stage import check_columns, check_finish, check_reader, check_replaces
from tidemill.runtimes.native.llvm.stage.emit_prefetch import PREFETCH_ROWS, emit_prefetch
from tidemill.runtimes.native.llvm.stage.emit_rows import emit_rows
from tidemill.runtimes.native.llvm.stage.emit_sessions import SessionCode, check_sessions, session_order
from tidemill.runtimes.native.llvm.stage.emit_time_partitions import (
    PartitionCode,
    TimePartitionEmitter,
    numbers_order,
    partition_indexes,
    shown_rows,
)
from tidemill.runtimes.native.llvm.stage.emit_top_k import emit_top_k, top_k_order
from tidemill.runtimes.native.llvm.stage.multiset_groups import MultisetGroupCode, multiset_order
from tidemill.runtimes.native.llvm.stage.partition_bodies import ScratchMap, check_bodies
from tidemill.runtimes.native.llvm.stage.stage_code import StageCode, StageInput
from tidemill.runtimes.native.llvm.stage.statements import StatementCode
from tidemill.runtimes.native.llvm.windows.emit_windows import begin_addends, emit_windows, window_order
from tidemill.runtimes.runtime import FieldsOf

SCRATCH_MAP = "scratch of "
"""Prefix of the name of the map in which a new target is summed."""

READ_MAP = "shown "
"""Prefix of the name of a map that is filled when rows are read."""


def emit_stage(stage: Stage, fields_of: FieldsOf, shared: Callable[[str], bool] = lambda name: False) -> StageCode:
    """The module of ``stage``, not yet compiled; raises ``NotCompiled`` where something in it has no native form.

    Rows of relations that are ``shared`` are looked up in the table that all stages share, those of others in a mirror.
    """
    tables = frozenset(name for name in stage.inputs if shared(name))
    return _emitted(stage, tuple((name, fields_of(name)) for name in stage.inputs), tables)


@lru_cache(maxsize=64)
def _emitted(stage: Stage, fields: tuple[tuple[str, tuple[Field, ...]], ...], shared: frozenset[str]) -> StageCode:
    # A view that is rebuilt, or opened again in the same process, has the same stages.
    return _StageEmitter(stage, dict(fields).__getitem__, shared).emit()


class _StageEmitter:
    def __init__(self, stage: Stage, fields_of: FieldsOf, shared: frozenset[str]) -> None:
        self._sessions = stage.finish if isinstance(stage.finish, SessionEmission) else None
        if self._sessions is not None:
            check_sessions(stage, self._sessions)
            stage = replace(stage, finish=self._sessions.groups)  # its rows come from the map of sessions
        self._partitions = stage.finish if isinstance(stage.finish, TimePartitionEmission) else None
        if self._partitions is not None:
            check_bodies(self._partitions)
            stage = shown_rows(stage, self._partitions)
        self._session_code: SessionCode | None = None
        self._addends: FunctionFrame | None = None
        self._stage = stage
        self._shared = frozenset() if stage.graphs else shared - _reading_themselves(stage)
        self._module = ir.Module("stage")
        self._faults = FaultTable()
        self._texts = TextConstants(self._module)
        self._calls = PythonCalls(self._module)
        self._fields_of = fields_of
        self._own = {map_.name: map_ for map_ in stage.maps}
        self._maps: dict[str, MapGlobal] = {}
        self._tables: dict[str, TableGlobal] = {}
        self._replaces = _replaces_of(stage)
        self._graph = GraphCode(self._module, stage, self._maps)

    def emit(self) -> StageCode:
        check_finish(self._stage)
        if self._stage.reader is not None:
            check_finish(self._stage.reader)
            check_reader(self._stage.reader)
        check_replaces(self._stage, self._replaces)
        copied = self._columns_read()
        mirrors = {name: columns for name, columns in copied.items() if name not in self._shared}
        for map_ in self._stage.maps:
            self._hold(map_)
        for mirror in mirrors.values():
            self._hold(mirror)
        for columns in copied.values():
            if columns.name not in mirrors:
                self._share(columns)
        if self._stage.finish is None and self._graph.output is None:
            self._hold(Map(self._stage.name, self._stage.output), journaled=False)
        for statement in self._replaces:
            target = self._own[statement.target]
            self._hold(replace(target, name=SCRATCH_MAP + target.name), journaled=False, bare=True)
        if self._sessions is not None:
            self._session_code = SessionCode(self._sessions, self._maps, self._function)
        partitions = None if self._partitions is None else self._emit_partitions(self._partitions)
        drained = (*drained_maps(self._stage, self._replaces), *(() if partitions is None else partitions.scratch))
        inputs = {trigger.relation: self._input(k, trigger, mirrors) for k, trigger in enumerate(self._stage.triggers)}
        self._graph.plan_liveness()
        self._emit_replaces()
        self._emit_clears(drained)
        prefetch = self._emit_prefetch(list(inputs.values()))
        for input_ in inputs.values():
            self._emit_input(input_, len(inputs), prefetch)
        self._emit_events(list(inputs.values()), prefetch)
        self._emit_produce()
        finish = self._stage.finish
        if isinstance(finish, GroupEmission) and finish.multiset_reads:
            MultisetGroupCode(finish, self._maps).emit_read(self._module)
        return StageCode(
            self._stage,
            self._module,
            self._faults,
            self._texts,
            self._calls,
            self._maps,
            tuple(mirrors),
            self._tables,
            inputs,
            self._replaces,
            self._graph.output,
            self._graph.read_output,
            self._emit_output(),
            drained,
            partitions,
        )

    def _emit_output(self) -> OutputGlobal | None:
        """``emit()``; gives where the rows go."""
        finish, emitted = self._stage.finish, (self._module, self._function, self._stage, self._maps)
        if not isinstance(finish, PartitionEmission):
            return emit_rows(*emitted)
        if isinstance(finish.rows, Window):
            return emit_windows(*emitted, self._addends)
        return emit_match(*emitted) if isinstance(finish.rows, Match) else emit_top_k(*emitted)

    # -- what there is ------------------------------------------------------------------------------------------

    def _columns_read(self) -> dict[str, Map]:
        """For each relation whose contents loops read: a map of the columns that they use."""
        used: dict[str, set[str]] = {}
        for source in self._state_sources():
            if source.relation not in self._own:
                used.setdefault(source.relation, set()).update(f.name for f in source.columns)
        return {
            name: Map(name, tuple(f for f in self._fields_of(name) if f.name in columns))
            for name, columns in used.items()
        }

    def _state_sources(self) -> Iterator[RelationLoop]:
        yield from (source for source in sources_of(self._stage) if source.version is Version.STATE)
        for query in self._graph.read_queries():
            yield from (step for step in query.sources if isinstance(step, RelationLoop))

    def _hold(self, map_: Map, journaled: bool = True, bare: bool = False, scratch: ScratchMap | None = None) -> None:
        check_columns(map_)
        looked_up = () if bare else [index for index in self._lookups(map_) if len(index) < len(map_.keys)]
        indexes = looked_up if scratch is None else scratch.indexes
        present = None if bare else session_order(self._sessions, map_) or numbers_order(self._partitions, map_)
        windows = None if bare else window_order(self._stage, map_) or match_order(self._stage, map_)
        addends = begin_addends(self._function, windows, map_)
        self._addends = addends or self._addends
        code = MapCode(
            self._module,
            map_,
            indexes,
            () if bare else sorted(orders(self._stage).get(map_.name, ())),
            () if bare else sorted(guards(self._stage).get(map_.name, ())),
            journaled,
            self._graph.entered(map_.name),
            windows if bare else windows or multiset_order(self._stage, map_) or top_k_order(self._stage, map_),
            present if scratch is None else scratch.order,
            assigned=any(statement.target == map_.name for statement in self._replaces),
            addends=None if addends is None else addends.function,
        )
        self._maps[map_.name] = MapGlobal(map_, code, self._pointer(f"handle.{len(self._maps)}"))

    def _share(self, columns: Map) -> None:
        """Read a table that stages share."""
        check_columns(columns)
        place = self._pointer(f"table.{len(self._tables)}")
        self._tables[columns.name] = TableGlobal(TableReader(columns, self._lookups(columns)), place)

    def _lookups(self, map_: Map) -> list[tuple[str, ...]]:
        """The key columns by which loops look entries of a map up, in each way that there is."""
        found = {index_of(source, map_) for source in self._state_sources() if source.relation == map_.name}
        if self._partitions is not None and map_.name in self._own:
            found |= partition_indexes(self._partitions, map_)
        return sorted(found - {()})

    def _pointer(self, name: str) -> ir.GlobalVariable:
        """A global that holds an address."""
        place = ir.GlobalVariable(self._module, PTR, name)
        place.initializer = NULL_POINTER
        return place

    def _input(self, number: int, trigger: Trigger, mirrors: dict[str, Map]) -> StageInput:
        relation = trigger.relation
        used = {f.name for f in mirrors[relation].keys} if relation in mirrors else set()
        for source in sources_of(self._stage):
            if source.version is Version.CHANGE and source.relation == relation:
                used |= {f.name for f in source.columns}
        record = InputRecord([f for f in self._fields_of(relation) if f.name in used])
        mine = [replace(s, touched=None) for s in trigger.statements if isinstance(s, Replace)]
        replaces = tuple(self._replaces.index(s) for s in mine)
        touched = tuple(part for _, part in touched_of(trigger))
        return StageInput(relation, number, record, trigger, replaces, self._table_lookups(trigger), touched)

    def _table_lookups(self, trigger: Trigger) -> dict[str, tuple[IndexColumns, ...]]:
        """The shared tables that a trigger reads, with the indexes that it needs; all where maps are recomputed."""
        if self._replaces:
            return {name: table.code.indexes for name, table in self._tables.items()}
        found: dict[str, set[IndexColumns]] = {}
        for query in (query for statement in trigger.statements for query in queries_of(statement)):
            for source in query.sources:
                if isinstance(source, RelationLoop) and source.version is Version.STATE:
                    table = self._tables.get(source.relation)
                    if table is not None:
                        found.setdefault(source.relation, set()).add(index_of(source, table.map))
        return {name: tuple(sorted(indexes - {()})) for name, indexes in found.items()}

    # -- functions ----------------------------------------------------------------------------------------------

    def _function(self, name: str, arguments: Sequence[ir.Type], exported: bool = True) -> FunctionFrame:
        function = new_function(self._module, name, I32, arguments)
        function.attributes.add("nounwind")
        if not exported:
            function.linkage = "internal"
        return FunctionFrame(function, self._faults, self._texts, self._calls)

    def _emit_replaces(self) -> None:
        for number, statement in enumerate(self._replaces):
            frame = self._function(f"replace.{number}", [])
            scratch = self._maps[SCRATCH_MAP + statement.target]
            StatementCode(frame, self._stage, self._maps).replace(statement, scratch)
            frame.done()

    def _emit_partitions(self, emission: TimePartitionEmission) -> PartitionCode:
        code = TimePartitionEmitter(self._stage, emission, self._maps)
        scratch = code.hold(lambda held: self._hold(held.map, journaled=False, bare=True, scratch=held))
        return code.emit(self._function, scratch)

    def _emit_clears(self, drained: Sequence[str]) -> None:
        for number, name in enumerate(drained):
            frame = self._function(f"clear.{number}", [])
            held = self._maps[name]
            frame.check(held.code.clear(frame.builder, held.handle(frame.builder)))
            frame.done()

    def _emit_prefetch(self, inputs: Sequence[StageInput]) -> ir.Function | None:
        lookahead = self._graph.lookahead
        begin = partial(self._function, "ahead", [I64, I64, PTR, PTR], exported=False)
        return emit_prefetch(begin, inputs, self._maps, self._tables, None if lookahead is None else lookahead.liveness)

    def _emit_input(self, input_: StageInput, inputs: int, prefetch: ir.Function | None) -> None:
        row = self._emit_row(input_)
        self._emit_batch(input_, row, inputs, prefetch)
        self._emit_records(input_, row)
        frame = self._function(f"event.{input_.number}", [PTR])
        (record,) = frame.function.args
        weight, cells = input_.record.weight(frame.builder, record), input_.record.cells(frame.builder, record)
        frame.check(_call_row(frame, row, weight, cells))
        self._freshen(frame, input_)
        frame.done()

    def _emit_row(self, input_: StageInput) -> ir.Function:
        """The statements of a trigger for one row, and then its mirror."""
        kinds: list[ir.Type] = [I64]
        for f in input_.fields:
            kinds += [value_type(f.type), *([I1] if f.nullable else [])]
        frame = self._function(f"row.{input_.number}", kinds, exported=False)
        frame.function.attributes.add("noinline")  # it has four callers, and most of the code of the stage
        weight, *rest = frame.function.args
        places = iter(rest)
        cells = {f.name: NullableValue(next(places), next(places) if f.nullable else None) for f in input_.fields}
        statements = StatementCode(
            frame, self._stage, self._maps, self._graph.lookahead, self._graph.output, self._tables, self._session_code
        )
        statements.run(input_.trigger, ChangeRow(cells, weight))
        if input_.relation in self._maps:
            statements.absorb(self._maps[input_.relation], ChangeRow(cells, weight))
        frame.done()
        return frame.function

    def _emit_produce(self) -> None:
        """``produce()``: walk from all entries of one member."""
        reader = self._stage.reader
        if reader is None:
            return
        for map_ in reader.maps:
            if map_.name not in self._graph.members:
                self._hold(replace(map_, name=READ_MAP + map_.name), bare=True)
        frame = self._function("produce", [])
        statements = StatementCode(frame, reader, self._maps, self._graph.lookahead, self._graph.read_output)
        for statement in reader.load:
            own = self._graph.read_output is not None and statement.target == reader.name
            statements.add(statement if own else replace(statement, target=READ_MAP + statement.target), None)
        frame.done()

    def _emit_batch(self, input_: StageInput, row: ir.Function, inputs: int, prefetch: ir.Function | None) -> None:
        """``fire.k(rows, columns, weights, failed, large)``: where the maps are ``large``, rows are prefetched for."""
        frame = self._function(f"fire.{input_.number}", [I64, PTR, PTR, PTR, I32])
        rows, columns, weights, failed, large = frame.function.args
        builder = frame.builder
        table = on_stack(builder, inputs * INPUT_TABLE.size)
        fill(builder, table, 0, inputs * INPUT_TABLE.size)
        own = at(builder, table, input_.number * INPUT_TABLE.size)
        INPUT_TABLE.store(builder, own, "columns", columns)
        order = on_stack(builder, PREFETCH_ROWS)
        fill(builder, order, input_.number, PREFETCH_ROWS)
        with in_blocks(builder, rows, PREFETCH_ROWS) as (start, stop):
            if prefetch is not None:
                with builder.if_then(builder.icmp_unsigned("!=", large, ir.Constant(I32, 0))):
                    INPUT_TABLE.store(builder, own, "next", start)
                    builder.call(prefetch, [ir.Constant(I64, 0), builder.sub(stop, start), order, table])
            with count_up(builder, start, stop) as place:
                builder.store(place, failed)
                weight = load_weight(builder, weights, place)
                frame.check(_call_row(frame, row, weight, load_cells(builder, columns, place, input_.fields)))
                if input_.trigger.each:
                    self._sweep(frame, input_)
        self._sweep(frame, input_)
        frame.done()

    def _emit_records(self, input_: StageInput, row: ir.Function) -> None:
        """``rows.k(rows, records, failed)``."""
        frame = self._function(f"rows.{input_.number}", [I64, PTR, PTR])
        for attribute in COLD:  # to pack a row in Python takes a hundred times as long as to unpack it
            frame.function.attributes.add(attribute)
        rows, records, failed = frame.function.args
        builder, form = frame.builder, input_.record
        with count_up(builder, ir.Constant(I64, 0), rows) as place:
            builder.store(place, failed)
            record = at(builder, records, builder.mul(place, ir.Constant(I64, form.size)))
            frame.check(_call_row(frame, row, form.weight(builder, record), form.cells(builder, record)))
            if input_.trigger.each:
                self._sweep(frame, input_)
        self._sweep(frame, input_)
        frame.done()

    def _emit_events(self, inputs: Sequence[StageInput], prefetch: ir.Function | None) -> None:
        """``events(events, order, tables, failed, large)``: the next row of each table that ``order`` names.

        Where the maps are ``large``, events are prefetched for, block by block.
        """
        frame = self._function("events", [I64, PTR, PTR, PTR, I32])
        count, order, tables, failed, large = frame.function.args
        builder = frame.builder
        with in_blocks(builder, count, PREFETCH_ROWS) as (start, stop):
            if prefetch is not None:
                with builder.if_then(builder.icmp_unsigned("!=", large, ir.Constant(I32, 0))):
                    builder.call(prefetch, [start, stop, order, tables])
            with count_up(builder, start, stop) as place:
                builder.store(place, failed)
                self._dispatch(frame, inputs, builder.load(at(builder, order, place), typ=I8), tables)
        frame.done()

    def _dispatch(self, frame: FunctionFrame, inputs: Sequence[StageInput], which: ir.Value, tables: ir.Value) -> None:
        """Take the next event of the input with that number."""
        builder = frame.builder
        after = builder.append_basic_block("after")
        switch = builder.switch(which, after)
        for input_ in inputs:
            block = builder.append_basic_block(f"input{input_.number}")
            switch.add_case(ir.Constant(I8, input_.number), block)
            builder.position_at_end(block)
            self._take_event(frame, input_, at(builder, tables, input_.number * INPUT_TABLE.size))
            builder.branch(after)
        builder.position_at_end(after)

    def _take_event(self, frame: FunctionFrame, input_: StageInput, table: ir.Value) -> None:
        builder = frame.builder
        row = INPUT_TABLE.load(builder, table, "next")
        INPUT_TABLE.store(builder, table, "next", builder.add(row, ir.Constant(I64, 1)))
        weight = load_weight(builder, INPUT_TABLE.load(builder, table, "weights"), row)
        cells = load_cells(builder, INPUT_TABLE.load(builder, table, "columns"), row, input_.fields)
        frame.check(_call_row(frame, self._module.globals[f"row.{input_.number}"], weight, cells))
        self._freshen(frame, input_)

    def _freshen(self, frame: FunctionFrame, input_: StageInput) -> None:
        """Complete an event: recompute what its input replaces."""
        self._sweep(frame, input_)
        for number in () if input_.touched else input_.replaces:
            frame.check(frame.builder.call(self._module.globals[f"replace.{number}"], []))

    def _sweep(self, frame: FunctionFrame, input_: StageInput) -> None:
        trigger = input_.trigger
        targets = dict.fromkeys(s.target for s in trigger.statements if isinstance(s, Add))
        targets |= dict.fromkeys(target for target, _ in touched_of(trigger))
        for held in (self._maps[target] for target in targets if target in self._maps):
            if held.map.values:  # without values an entry of weight 0 is gone at once
                frame.check(held.code.sweep(frame.builder, held.handle(frame.builder)))


def _call_row(frame: FunctionFrame, row: ir.Function, weight: ir.Value, cells: Sequence[NullableValue]) -> ir.Value:
    arguments = [weight]
    for cell in cells:
        arguments += [cell.value] if cell.is_null is None else [cell.value, cell.is_null]
    return frame.builder.call(row, arguments)


def drained_maps(stage: Stage, replaces: Sequence[Replace]) -> list[str]:
    """The maps whose entries are taken out: the stage's own output, and where new targets are summed."""
    output = [stage.name] if stage.finish is None and not appends_output(stage) else []
    return output + list(dict.fromkeys(SCRATCH_MAP + statement.target for statement in replaces))


def fills_by_firing(stage: Stage) -> bool:
    """True if whole inputs, fired one after the other, fill an empty stage.

    They do not bring rows that come from no input at all, nor those of relations whose changes no caller expects.
    """
    read = [[s.relation for s in statement.query.sources if isinstance(s, RelationLoop)] for statement in stage.load]
    expected = {trigger.relation for trigger in stage.triggers if trigger.statements}
    return all(names and set(names) <= expected for names in read)


def _reading_themselves(stage: Stage) -> set[str]:
    """The relations whose contents the triggers of their own changes read: these must follow row by row."""
    return {
        step.relation
        for trigger in stage.triggers
        for statement in trigger.statements
        for query in queries_of(statement)
        for step in query.sources
        if isinstance(step, RelationLoop) and step.version is Version.STATE and step.relation == trigger.relation
    }


def _replaces_of(stage: Stage) -> tuple[Replace, ...]:
    """Each statement that recomputes its target, once."""
    found = (s for trigger in stage.triggers for s in trigger.statements if isinstance(s, Replace))
    return tuple(dict.fromkeys(replace(s, touched=None) for s in found))
