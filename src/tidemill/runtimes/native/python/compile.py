"""Stages as readable Python: a function for each statement, for the sums of each map, and for the output rows.

``source`` gives the text as EXPLAIN shows it; ``compile_stage`` compiles it. Tracebacks show the generated lines.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from types import CodeType
from typing import Any

from tidemill.algebra.expressions.scalars import Named
from tidemill.model.array_tree import KNOWN_NODES
from tidemill.model.types import Type
from tidemill.program.maps import Map
from tidemill.program.reads import guards_of, queries_of, reads_change, reads_old, relation_of, triggers_of
from tidemill.program.stages import IterationEmission, Program, SessionEmission, Stage, TimePartitionEmission
from tidemill.program.statements import Query, RelationLoop, Replace, Touched, Trigger, TriggerStatement, Version
from tidemill.program.text import text_of_statement
from tidemill.runtimes.native.batched_calls import BatchedCall, batched_calls
from tidemill.runtimes.native.operators.groups import OutputOperator
from tidemill.runtimes.native.python.access import Access, AccessForm, RowShapes, zero_entry
from tidemill.runtimes.native.python.decimal_use import may_compute_decimals
from tidemill.runtimes.native.python.function_writer import FunctionWriter, quotable
from tidemill.runtimes.native.python.identifiers import GlobalNames
from tidemill.runtimes.native.python.map_entries import write_combine
from tidemill.runtimes.native.python.nested_loops import LoopWriter
from tidemill.runtimes.native.python.output import BindOutput, write_output
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.stage_maps import StageMaps
from tidemill.runtimes.runtime import FieldsOf


@dataclass(frozen=True)
class CompiledQuery:
    """A compiled query: ``run(sums, *dictionaries)``, the accesses of those dictionaries, and the columns of rows."""

    run: Callable[..., None]
    accesses: tuple[Access, ...]
    query: Query
    shapes: RowShapes = field(compare=False, repr=False)

    @cached_property
    def batched(self) -> tuple[BatchedCall, ...]:
        """The calls of registered functions that can be made before it runs, if they take batches."""
        return batched_calls(self.query)

    @cached_property
    def parted(self) -> bool:
        """True if it reads a part of the change, split by keys."""
        return any(access.part is not None for access in self.accesses)


@dataclass(frozen=True, slots=True)
class KeyProbe:
    """A lookup of a query in one of its sources: ``keys`` sums exactly the keys that its loops will read."""

    access: Access
    keys: CompiledQuery


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """A compiled statement: the sums of its routines are added to the target, or replace its entries.

    If one of the sums ``guards``, given as map and number, is negative somewhere, ``otherwise`` is run instead.
    ``touched`` is the same for the part that one changed row can affect; it ``loops`` if it visits single entries.
    """

    target: str
    replaces: bool
    routines: tuple[CompiledQuery, ...]
    guards: tuple[tuple[str, int], ...] = ()
    otherwise: tuple[CompiledQuery, ...] = ()
    touched: CompiledStatement | None = None
    loops: bool = False

    def is_broken(self, maps: Mapping[str, RowMap | RingMap]) -> bool:
        """True if a sum that the usual routines rely on is negative somewhere."""
        return any(maps[name].negatives(number) for name, number in self.guards)


@dataclass(frozen=True)
class CompiledTrigger:
    """The statements for a change of one relation, for all of it at once or for ``each`` of its rows in turn."""

    steps: tuple[CompiledStatement, ...]
    each: bool

    @cached_property
    def adds(self) -> tuple[CompiledStatement, ...]:
        """The statements that add to their targets."""
        return tuple(step for step in self.steps if not step.replaces)

    @cached_property
    def batched(self) -> tuple[CompiledQuery, ...]:
        """The routines of ``adds`` with calls that can be made for many rows at once."""
        return tuple(routine for step in self.adds for routine in step.routines if routine.batched)

    @cached_property
    def replaces(self) -> tuple[CompiledStatement, ...]:
        """The statements that recompute their targets."""
        return tuple(step for step in self.steps if step.replaces)


@dataclass(frozen=True, slots=True)
class CompiledStage:
    """A stage, ready to run. ``rows`` has, by function, the row variables that ``FunctionWriter`` noted for fault
    reports.

    ``bodies`` are the queries that compute its time partitions, by name, and ``again`` gives the same stage for another
    runtime. If it is ``exact``, its functions must run where decimals are; if it ``settles``, something is computed
    between its triggers and its output.
    """

    stage: Stage
    text: str
    file: str
    again: Callable[[], CompiledStage]
    triggers: dict[str, CompiledTrigger]
    load: tuple[CompiledStatement, ...]
    finish: OutputOperator | None
    combines: dict[str, Callable[..., tuple[Any, ...]]]
    rows: dict[str, list[tuple[int, str, str]]]
    bodies: Mapping[str, tuple[CompiledStage, ...]]
    exact: bool
    settles: bool

    def empty_maps(self) -> StageMaps:
        """The stage's maps, empty."""
        return StageMaps(
            {
                map_.name: RingMap(map_, zero_entry(map_), self.combines[map_.name]) if map_.values else RowMap()
                for map_ in self.stage.maps
            }
        )


def source(stage: Stage, fields_of: FieldsOf) -> str:
    """The Python text that runs ``stage``; ``fields_of`` gives the columns of the relations that it reads."""
    return compile_stage(stage, fields_of).text


def compile_stage(stage: Stage, fields_of: FieldsOf) -> CompiledStage:
    """Generate the functions of ``stage`` and compile them."""
    return write_stage(stage, fields_of).bind()


@dataclass(frozen=True)
class WrittenStage:
    """A stage whose functions are written. It can be bound more than once, each time with output operators of its own.

    ``bodies`` are the queries that compute its time partitions, by name.
    """

    module: _StageModule
    triggers: list[tuple[Trigger, list[_StatementText]]]
    load: list[_StatementText]
    combines: dict[str, str]
    finish: BindOutput | None
    bodies: Mapping[str, tuple[WrittenStage, ...]]

    @cached_property
    def text(self) -> str:
        """The functions, as Python."""
        return self.module.text()

    @cached_property
    def _exact(self) -> bool:
        return may_compute_decimals(self.module.stage)

    @cached_property
    def _code(self) -> CodeType:
        return compile_generated(self.text, self.module.file)

    def bind(self) -> CompiledStage:
        """The stage, ready to run."""
        module, maps = self.module, {map_.name: map_ for map_ in self.module.stage.maps}
        space = run_generated(self._code, self.text, module.file, module.known.values)
        return CompiledStage(
            module.stage,
            self.text,
            module.file,
            self.bind,
            {
                trigger.relation: CompiledTrigger(
                    tuple(step.found_in(space, module.shapes) for step in steps), _row_by_row(trigger, maps)
                )
                for trigger, steps in self.triggers
            },
            tuple(step.found_in(space, module.shapes) for step in self.load),
            None if self.finish is None else self.finish(space),
            {map_name: space[name] for map_name, name in self.combines.items()},
            module.rows,
            {name: tuple(stage.bind() for stage in stages) for name, stages in self.bodies.items()},
            self._exact,
            isinstance(module.stage.finish, SessionEmission | IterationEmission | TimePartitionEmission),
        )


def write_stage(stage: Stage, fields_of: FieldsOf) -> WrittenStage:
    """Generate the functions of ``stage``."""
    maps = {map_.name: map_ for map_ in stage.maps}
    module = _StageModule(stage, RowShapes(maps, fields_of))
    triggers = [(trigger, module.trigger(trigger)) for trigger in triggers_of(stage)]
    load = [module.statement(statement, "load") for statement in stage.load]
    combines = {map_.name: module.known.function(f"add_to_{map_.name}") for map_ in stage.maps if map_.values}
    for map_name, name in combines.items():
        module.add(name, write_combine(name, maps[map_name], module.known))
    finish = None if stage.finish is None else write_output(module, stage.finish, maps)
    bodies = _write_bodies(stage.finish, maps) if isinstance(stage.finish, TimePartitionEmission) else {}
    return WrittenStage(module, triggers, load, combines, finish, bodies)


def _write_bodies(emission: TimePartitionEmission, maps: Mapping[str, Map]) -> dict[str, tuple[WrittenStage, ...]]:
    """The queries that compute time partitions, over inputs whose rows have the keys of their maps."""
    read = {slice_.name: maps[emission.map_of(slice_)].keys for slice_ in emission.slices}
    return {
        body.view: tuple(_written_query(body, read.__getitem__, follows=emission.rolls)) for body in emission.bodies
    }


def compile_query(program: Program, fields_of: FieldsOf) -> tuple[CompiledStage, ...]:
    """A program that is only asked for its rows: it is loaded, and receives no changes."""
    return tuple(stage.bind() for stage in _written_query(program, fields_of, follows=False))


def _written_query(program: Program, fields_of: FieldsOf, *, follows: bool) -> Iterator[WrittenStage]:
    """The stages of a program that is asked for its rows, and receives changes only if it ``follows`` them."""
    own = {stage.name: stage.output for stage in program.stages}
    for stage in program.stages:
        kept = follows or any(trigger.each for trigger in stage.triggers)
        yield write_stage(
            stage if kept else replace(stage, inputs=(), triggers=()),
            lambda name: own[name] if name in own else fields_of(name),
        )


def _row_by_row(trigger: Trigger, maps: Mapping[str, Map]) -> bool:
    """True if a trigger processes the rows of a change one after the other.

    That is also cheaper if a change is joined with itself: the pairs of its rows would be quadratic. The effect of
    earlier rows must then be in maps of the stage; the contents of a relation change only later.
    """
    queries = [query for statement in trigger.statements for query in queries_of(statement)]
    meets_itself = any(sum(reads_change(step) for step in query.sources) > 1 for query in queries)
    old = {relation_of(step) for query in queries for step in query.sources if reads_old(step)}
    return trigger.each or (meets_itself and old <= maps.keys())


def compile_probes(stage: Stage, query: Query, fields_of: FieldsOf, filtered: bool) -> tuple[KeyProbe, ...]:
    """For each stored source of ``query`` that is looked up, in order: the query over the sources before it whose rows
    are the keys. They tell what to fetch from a relation or map that is too large for a dictionary.

    Without ``filtered`` they also give the keys of rows that the query's filters reject.
    """
    whole = query
    if not filtered:
        query = replace(query, sources=tuple(replace(source, filters=()) for source in query.sources), filters=())
    own = {map_.name: map_ for map_ in stage.maps}
    return tuple(
        _probe(stage, query, whole, place, source, RowShapes(own, fields_of))
        for place, source in enumerate(query.sources)
        if isinstance(source, RelationLoop) and source.lookup and source.version is Version.STATE
    )


def _probe(stage: Stage, query: Query, whole: Query, place: int, source: RelationLoop, shapes: RowShapes) -> KeyProbe:
    module = _StageModule(replace(stage, name=f"{stage.name}, keys of {source.alias}"), shapes)
    sought = Query(query.sources[:place], tuple(Named(c, scalar) for c, scalar in source.lookup), query.filters)
    loops = LoopWriter(sought, (), shapes, module.known, whole)
    name = module.known.function("keys")
    module.add(name, loops.write(name, f"The keys by which {source.relation} is looked up."))
    columns = [f.name for f in shapes.fields(source.relation)]
    positions = tuple(columns.index(column) for column, _ in source.lookup)
    routine = CompiledQuery(module.execute()[name], loops.accesses, sought, shapes)
    return KeyProbe(Access(source.relation, source.version, AccessForm.INDEX, positions), routine)


@dataclass(frozen=True, slots=True)
class _StatementText:
    """A statement whose functions have names but are not compiled yet."""

    statement: TriggerStatement
    numbers: Mapping[tuple[str, str], tuple[str, int]]
    functions: tuple[tuple[str, tuple[Access, ...], Query], ...]

    def found_in(self, space: dict[str, Any], shapes: RowShapes) -> CompiledStatement:
        routines = [CompiledQuery(space[name], accesses, query, shapes) for name, accesses, query in self.functions]
        if not isinstance(self.statement, Replace):
            return CompiledStatement(self.statement.target, False, tuple(routines))
        left, touched = iter(routines), self.statement.touched
        whole = self._guarded(self.statement, left)
        if touched is None:
            return whole
        return replace(whole, touched=replace(self._guarded(touched, left), loops=touched.loops))

    def _guarded(self, guarded: Replace | Touched, left: Iterator[CompiledQuery]) -> CompiledStatement:
        usual, otherwise = (tuple(islice(left, len(queries))) for queries in (guarded.queries, guarded.otherwise))
        guards = tuple(map(self.numbers.__getitem__, guarded.guards))
        return CompiledStatement(self.statement.target, True, usual, guards, otherwise)


@dataclass
class _StageModule:
    """The text of a stage while it is written."""

    stage: Stage
    shapes: RowShapes
    known: GlobalNames = field(default_factory=GlobalNames)
    lines: list[str] = field(default_factory=list)
    rows: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return f"<tidemill native {self.stage.name}>"

    def trigger(self, trigger: Trigger) -> list[_StatementText]:
        """Write the functions of a trigger."""
        return [self.statement(statement, f"on_{trigger.relation}") for statement in trigger.statements]

    def statement(self, statement: TriggerStatement, wish: str) -> _StatementText:
        """Write the functions of a statement, one for each of its queries."""
        values = self._values_of(statement.target)
        document = text_of_statement(statement, self.stage)
        functions = []
        for query in queries_of(statement):
            name = self.known.function(wish)
            loops = LoopWriter(query, values, self.shapes, self.known)
            self.add(name, loops.write(name, document))
            functions.append((name, loops.accesses, query))
        numbers = {(name, value): (name, self.shapes.exact(name).index(value)) for name, value in guards_of(statement)}
        return _StatementText(statement, numbers, tuple(functions))

    def add(self, name: str, body: FunctionWriter) -> None:
        """Append a function."""
        self.lines += ["", "", body.head, *body.lines]
        self.rows |= {name: body.rows, **body.inner}

    def text(self) -> str:
        """The whole module; constants are shown as comments, their values are passed to ``execute``."""
        title = quotable(f"Stage {self.stage.name}, strategy {self.stage.strategy}: what runs when an input changes.")
        head = '"""' + title.replace("\n", " ") + '"""'
        constants = [f"# {name} = {value!r}" for name, value in self.known.values.items() if not callable(value)]
        return "\n".join([head, *([""] if constants else []), *constants, *self.known.parts, *self.lines, ""])

    def execute(self) -> dict[str, Any]:
        """The functions, by name."""
        return execute_generated(self.text(), self.file, self.known.values)

    def _values_of(self, target: str) -> tuple[Type, ...]:
        map_ = next((map_ for map_ in self.stage.maps if map_.name == target), None)
        return tuple(value.type for value in map_.values) if map_ else ()


def execute_generated(text: str, file: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions of generated code, by name; tracebacks show its lines under ``file``."""
    return run_generated(compile_generated(text, file), text, file, values)


def compile_generated(text: str, file: str) -> CodeType:
    """Generated code, not run yet."""
    with warnings.catch_warnings():
        # Constants lead to conditions such as ``0 is not None``: correct, but Python would warn about them.
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(text, file, "exec")


def run_generated(code: CodeType, text: str, file: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions of compiled code, by name; tracebacks show the lines of ``text`` under ``file``."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {KNOWN_NODES: {}, **values}
    exec(code, space)
    return space
