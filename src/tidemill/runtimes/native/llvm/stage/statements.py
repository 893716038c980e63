"""Statements as LLVM code: nested loops over maps and mirrors that add to maps.

One emitted function takes one row of a change. A statement of a trigger never reads what an earlier one added to, so
the statements run one after the other. Adding leaves an entry of weight 0 in place while its values are not: between
two terms of one change that says nothing. Such entries go when the maps are swept, after the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.program.reads import queries_of, reads_old, relation_of, touched_of
from tidemill.program.stages import Stage
from tidemill.program.statements import (
    Add,
    MapRead,
    Query,
    RelationLoop,
    Replace,
    Touched,
    Trigger,
    TriggerStatement,
    Version,
)
from tidemill.runtimes.native.llvm.codegen.frame import FALSE, FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I8, I64, I128, NullableValue, RingValue
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.joingraph.lookups import LookupColumns, LookupResult
from tidemill.runtimes.native.llvm.joingraph.walks import WalkCode, WalkLookAhead
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers
from tidemill.runtimes.native.llvm.queries import ChangeRow, MapGlobal, ModuleMaps, ModuleTables, QueryCode
from tidemill.runtimes.native.llvm.scalars.conversions import to_stored
from tidemill.runtimes.native.llvm.stage.emit_sessions import SessionCode

RECOMPUTING = "recomputing"
"""A byte that is set while a change is taken as a whole: its rows need not keep targets fresh that are recomputed."""


class StatementCode:
    """Emits the statements of ``stage`` into ``frame``. ``maps`` has its maps, its mirrors and its output.

    ``tables`` are those that stages share.

    What is added to instants goes through ``sessions``, where the stage has some.

    Where the stage is a join graph its queries are walks, with that ``lookahead``; its rows may go to an ``output``.
    """

    def __init__(
        self,
        frame: FunctionFrame,
        stage: Stage,
        maps: ModuleMaps,
        lookahead: WalkLookAhead | None = None,
        output: OutputGlobal | None = None,
        tables: ModuleTables = MappingProxyType({}),
        sessions: SessionCode | None = None,
    ) -> None:
        self._frame = frame
        self._sessions = sessions
        self._tables = tables
        self._stage = stage
        self._maps = maps
        self._lookahead = lookahead
        self._output = output
        self._known: dict[LookupColumns, LookupResult] = {}

    def run(self, trigger: Trigger, row: ChangeRow) -> None:
        """The statements of a trigger for one row; what its targets have of the row is taken out first, and put back.

        Unless all of it is recomputed anyway, at the end of the change.
        """
        parts = touched_of(trigger)
        self._touch(parts, row, -1)
        for statement in trigger.statements:
            if isinstance(statement, Add):
                self.add(statement, row)
        self._touch(parts, row, 1)

    def _touch(self, parts: Sequence[tuple[str, Touched]], row: ChangeRow, sign: int) -> None:
        """Add the parts of targets that a row touches, as maps have them now, so many times."""
        if not parts:
            return
        builder, module = self._frame.builder, self._frame.module
        if RECOMPUTING not in module.globals:
            ir.GlobalVariable(module, I8, RECOMPUTING).initializer = ir.Constant(I8, 0)
        recomputing = builder.load(module.globals[RECOMPUTING], typ=I8)
        with builder.if_then(builder.icmp_unsigned("==", recomputing, ir.Constant(I8, 0))):
            for target, touched in parts:
                self._sum_guarded(touched, self._maps[target], row, sign)

    def add(self, statement: Add, row: ChangeRow | None) -> None:
        """``target += query``, for the one row of a change, or where there is none for all that maps hold."""
        check_reads(statement, self._stage)
        if self._output is not None and statement.target == self._output.map.name:
            self._query(statement.query, row, self._output).emit(self._output.map, self._post)
            return
        target = self._maps[statement.target]
        query = self._query(statement.query, row, None)
        query.emit(target.map, partial(self._add_to, target, statement.query.weight is not None))
        # What was looked up in the target is no longer what it was.
        self._known = {lookup: found for lookup, found in self._known.items() if lookup[0] != statement.target}

    def _query(self, query: Query, row: ChangeRow | None, output: OutputGlobal | None) -> QueryCode:
        if self._lookahead is None:
            return QueryCode(self._frame, self._stage, self._maps, query, row, self._tables)
        return WalkCode(self._frame, self._stage, self._maps, query, row, self._lookahead, output, self._known)

    def _post(self, keys: Sequence[NullableValue], weight: ir.Value, _: Sequence[RingValue]) -> None:
        assert self._output is not None
        builder = self._frame.builder
        self._output.code.add(builder, self._output.handle(builder), keys, weight)

    def _add_to(
        self,
        target: MapGlobal,
        sparse: bool,
        keys: Sequence[NullableValue],
        weight: ir.Value,
        values: Sequence[RingValue],
    ) -> None:
        """Add to ``target``; where amounts are given they are often all zero, and then there is nothing to do."""
        builder = self._frame.builder
        if self._sessions is not None and target.map.name == self._sessions.source:
            cells = target.code.changing.keys.of_cells(builder, keys)
            self._frame.check(self._sessions.add(builder, cells, EntryNumbers(weight, tuple(values))))
            return
        exact = [value for value in values if isinstance(value, ir.Value)]
        if not sparse or len(exact) < len(values):
            self._frame.check(target.code.add(builder, target.handle(builder), keys, weight, values))
            return
        changes = builder.icmp_signed("!=", weight, ir.Constant(I64, 0))
        for value in exact:
            changes = builder.or_(changes, builder.icmp_signed("!=", value, ir.Constant(I128, 0)))
        with builder.if_then(changes):
            self._frame.check(target.code.add(builder, target.handle(builder), keys, weight, values))

    def absorb(self, mirror: MapGlobal, row: ChangeRow) -> None:
        """Add a row to a mirror, after all statements have run without it."""
        builder = self._frame.builder
        keys = [to_stored(builder, row.cells[f.name], f.type) for f in mirror.map.keys]
        self._frame.check(mirror.code.add(builder, mirror.handle(builder), keys, row.weight, ()))

    def replace(self, statement: Replace, scratch: MapGlobal) -> None:
        """``target := queries``: they are summed in ``scratch``, which the target then becomes equal to."""
        check_reads(statement, self._stage)
        builder = self._frame.builder
        target = self._maps[statement.target]
        self._sum_guarded(statement, scratch, None, 1)
        self._frame.check(target.code.assign(builder, target.handle(builder), scratch.code, scratch.handle(builder)))

    def _sum_guarded(self, statement: Replace | Touched, target: MapGlobal, row: ChangeRow | None, sign: int) -> None:
        """Add the queries of a statement to ``target`` so many times; others while a guard is broken."""
        if not statement.guards:
            self._sum(statement.queries, target, row, sign)
            return
        with self._frame.builder.if_else(self.is_broken(statement), likely=False) as (otherwise, then):
            with otherwise:
                self._sum(statement.otherwise, target, row, sign)
            with then:
                self._sum(statement.queries, target, row, sign)

    def is_broken(self, statement: Replace | Touched) -> ir.Value:
        """An i1: whether a sum that must not be negative is."""
        builder, broken = self._frame.builder, FALSE
        for name, value in statement.guards:
            held = self._maps[name]
            count = held.code.negatives(builder, held.handle(builder), value)
            broken = builder.or_(broken, builder.icmp_signed("!=", count, ir.Constant(I64, 0)))
        return broken

    def _sum(self, queries: Sequence[Query], target: MapGlobal, row: ChangeRow | None, sign: int) -> None:
        for query in queries:
            emitted = QueryCode(self._frame, self._stage, self._maps, query, row)
            emitted.emit(target.map, partial(self._add_times, sign, target, query.weight is not None))

    def _add_times(
        self,
        sign: int,
        target: MapGlobal,
        sparse: bool,
        keys: Sequence[NullableValue],
        weight: ir.Value,
        values: Sequence[RingValue],
    ) -> None:
        if sign < 0:
            builder = self._frame.builder
            weight, values = builder.neg(weight), [builder.neg(value) for value in values]
        self._add_to(target, sparse, keys, weight, values)


def check_reads(statement: TriggerStatement, stage: Stage) -> None:
    """Refuse a statement that reads the map it adds to: its loops would see what it has added.

    They do not where one query reads single entries, no two of which are the same.
    """
    for query in queries_of(statement):
        own = [step for step in filter(reads_old, query.sources) if relation_of(step) == statement.target]
        alone = isinstance(statement, Add)
        if not all(alone and isinstance(step, MapRead) and _reads_each_once(step, query, stage) for step in own):
            raise NotCompiled(f"a statement that reads its own target {statement.target}")


def _reads_each_once(read: MapRead, query: Query, stage: Stage) -> bool:
    """True if a read has another key in each iteration: there is one, or one for each entry of a map, by its keys."""
    loops = [step for step in query.sources if isinstance(step, RelationLoop) and step.version is Version.STATE]
    others = [step for step in query.sources if not isinstance(step, RelationLoop | MapRead)]
    if read.range is not None or others or len(loops) > 1:
        return False
    keys = {map_.name: map_.keys for map_ in stage.maps}
    sought = {scalar.name for _, scalar in read.lookup if isinstance(scalar, Column)}
    return all(
        loop.relation in keys and {f"{loop.alias}.{f.name}" for f in keys[loop.relation]} <= sought for loop in loops
    )
