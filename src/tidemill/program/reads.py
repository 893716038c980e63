"""The reads of a program: which relations must keep their contents, and by which columns rows and sums are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from tidemill.algebra.aggregates.registry import function_of
from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.walk import expressions
from tidemill.algebra.user_functions import functions_of, is_registered
from tidemill.model.types import Field
from tidemill.program.linearity import is_linear, scalars_of
from tidemill.program.stages import (
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import (
    Add,
    ArrayLoop,
    MapRead,
    MapSeek,
    Query,
    Range,
    RelationLoop,
    Replace,
    Step,
    Touched,
    Trigger,
    TriggerStatement,
    Version,
)

MapOrder = tuple[tuple[str, ...], str]
"""Key columns that are looked up, and the one that orders the entries under them."""


def queries_of(statement: TriggerStatement) -> tuple[Query, ...]:
    """The queries that a statement sums; those that replace others while a guard fails come after these."""
    if isinstance(statement, Add):
        return (statement.query,)
    touched = statement.touched
    rest = () if touched is None else (*touched.queries, *touched.otherwise)
    return (*statement.queries, *statement.otherwise, *rest)


def row_queries(statement: TriggerStatement) -> tuple[Query, ...]:
    """The queries that run for one changed row while no guard fails."""
    if isinstance(statement, Add):
        return (statement.query,)
    return statement.queries if statement.touched is None else statement.touched.queries


def touched_of(trigger: Trigger) -> list[tuple[str, Touched]]:
    """The parts of targets that a row of ``trigger`` can affect, with their targets."""
    found = ((s.target, s.touched) for s in trigger.statements if isinstance(s, Replace))
    return [(target, touched) for target, touched in found if touched is not None]


def triggers_of(stage: Stage) -> tuple[Trigger, ...]:
    """The triggers of ``stage``, and the one that its own iterations fire."""
    return (*stage.triggers, stage.finish.again) if isinstance(stage.finish, IterationEmission) else stage.triggers


def steps_of(stage: Stage) -> Iterator[Step]:
    """Every step of every query of the triggers of ``stage``; those of its load are left out."""
    for trigger in triggers_of(stage):
        for statement in trigger.statements:
            for query in queries_of(statement):
                yield from query.sources


def sources_of(stage: Stage) -> Iterator[RelationLoop]:
    """Every loop of every trigger of ``stage``; those of its load are left out."""
    return (step for step in steps_of(stage) if isinstance(step, RelationLoop))


def relation_of(step: RelationLoop | MapRead | MapSeek) -> str:
    """The relation or map that a step reads."""
    return step.relation if isinstance(step, RelationLoop) else step.map


def reads_old(step: Step) -> TypeGuard[RelationLoop | MapRead | MapSeek]:
    """True if a step reads the state before the change."""
    return isinstance(step, MapRead | MapSeek) or (isinstance(step, RelationLoop) and step.version is Version.STATE)


def reads_change(step: Step) -> TypeGuard[RelationLoop]:
    """True if a step reads the change."""
    return isinstance(step, RelationLoop) and step.version is Version.CHANGE


def compared_relations(stage: Stage) -> list[list[str]]:
    """The relations that each query of a stage's load reads in loops within each other, without a lookup."""
    loops = [[step for step in add.query.sources if isinstance(step, RelationLoop)] for add in stage.load]
    return [[step.relation for step in steps if not step.lookup] for steps in loops]


def row_wise(stage: Stage) -> bool:
    """True if ``stage`` must run in one process, usually row by row: it does more with sums than multiply them.

    So must a stage that iterates, since each iteration would be a job, one that calls functions that users registered
    in this process, and one whose partitions are computed by such queries. All other stages are linear in everything
    that they read, and process changes of any size at once.
    """
    if (
        isinstance(stage.finish, IterationEmission)
        or any(trigger.each for trigger in stage.triggers)
        or calls_python(stage)
    ):
        return True
    if isinstance(stage.finish, TimePartitionEmission) and any(
        row_wise(below) for body in stage.finish.bodies for below in body.stages
    ):
        return True
    keys = {map_.name: len(map_.keys) for map_ in stage.maps}
    return not all(
        isinstance(step, ArrayLoop)
        or (isinstance(step, RelationLoop) and is_linear(query, step, keys.get(statement.target, len(stage.output))))
        for trigger in stage.triggers
        for statement in trigger.statements
        for query in queries_of(statement)
        for step in query.sources
    )


def calls_python(stage: Stage) -> bool:
    """True if some expression or aggregate of ``stage`` is a user's function."""
    called = {name for scalar in _scalars_of(stage) for name in functions_of(scalar)}
    match stage.finish:
        case GroupEmission(multiset_reads=multiset_reads):
            called |= {read.call.function for read in multiset_reads}
        case PartitionEmission(rows=Window(calls=calls)):
            called |= {call.function for call in calls}
        case TimePartitionEmission(bodies=bodies) if any(
            calls_python(below) for body in bodies for below in body.stages
        ):
            return True
    return any(map(is_registered, called))


def _scalars_of(stage: Stage) -> Iterator[Scalar]:
    statements = [*stage.load, *(statement for trigger in triggers_of(stage) for statement in trigger.statements)]
    for query in (query for statement in statements for query in queries_of(statement)):
        yield from scalars_of(query)
    if stage.finish is not None:
        yield from (output.scalar for output in stage.finish.outputs)
        yield from () if stage.finish.condition is None else (stage.finish.condition,)
    match stage.finish:
        case PartitionEmission(rows=rows):
            yield from expressions(rows)
            yield from (condition for _, condition in rows.conditions) if isinstance(rows, Match) else ()
        case TimePartitionEmission(bodies=bodies):
            yield from (scalar for body in bodies for below in body.stages for scalar in _scalars_of(below))


def reads_state(program: Program) -> set[str]:
    """The relations whose contents a trigger reads: they must be kept. The stages' own maps are not among them.

    A stage that is not in this set passes its changes on without keeping its rows, unless it is the view itself. A
    stage whose rows are recomputed is in it: its change is the difference to the old rows.
    """
    own = {map_.name for stage in program.stages for map_ in stage.maps}
    return ({relation_of(step) for step in _state_steps(program)} | _replaced(program)) - own


def is_copy(stage: Stage, source: Stage) -> bool:
    """True if the rows of ``stage`` are those of ``source``, column by column."""
    names = [f.name for f in source.output]
    match stage:
        case Stage(maps=(), finish=None, triggers=(Trigger(statements=(Add(query=Query() as query),)),)):
            match query:
                case Query(sources=(RelationLoop(lookup=(), filters=(), split=None) as loop,), filters=(), weight=None):
                    read = [out.scalar.name if isinstance(out.scalar, Column) else "" for out in query.outputs]
                    same = [f.name for f in stage.output] == names and read == [f"{loop.alias}.{n}" for n in names]
                    return loop.relation == source.name and same
    return False


def _replaced(program: Program) -> set[str]:
    return {
        statement.target
        for stage in program.stages
        for trigger in stage.triggers
        for statement in trigger.statements
        if isinstance(statement, Replace)
    }


def read_maps(stage: Stage) -> set[str]:
    """The maps of ``stage`` that its own triggers read."""
    own = {map_.name for map_ in stage.maps}
    return own & {relation_of(step) for step in steps_of(stage) if reads_old(step)}


def loads_own_maps(stage: Stage) -> bool:
    """True if the load of ``stage`` reads its own maps, so that these must be empty before it."""
    own = {map_.name for map_ in stage.maps}
    steps = (step for add in stage.load for step in add.query.sources)
    return any(relation_of(step) in own for step in steps if not isinstance(step, ArrayLoop))


def looked_up(stage: Stage) -> set[str]:
    """The maps of ``stage`` that its own triggers read by keys alone: never all entries, nor in an order.

    Triggers that process a change row by row are excluded: each row would make lookups of its own.
    """
    if any(trigger.each for trigger in triggers_of(stage)):
        return set()
    others = {
        relation_of(step)
        for step in steps_of(stage)
        if reads_old(step) and not (isinstance(step, RelationLoop) and step.lookup)
    }
    return read_maps(stage) - others - read_together(stage).keys()


def read_together(stage: Stage) -> dict[str, int]:
    """The number of leading keys by which entries of a map are read together; 0 if all of them are.

    Multisets and partitions, iterations of a recursion and time partitions read more than the entries that a change
    touches.
    """
    match stage.finish:
        case PartitionEmission(source=source, width=width):
            return {source: width}
        case SessionEmission(source=source, kept=kept):
            keys = next(len(map_.keys) for map_ in stage.maps if map_.name == source)
            return {source: keys - 1, kept: keys - 1}
        case IterationEmission(source=source, kept=kept):
            return {source: 0, kept: 0}
        case TimePartitionEmission(feeds=feeds, numbers=numbers, kept=kept):
            return {feed.map: int(feed.every != 0) for feed in feeds} | {numbers: 0, kept: 1}
        case GroupEmission(source=source, multiset_reads=multiset_reads):
            width = next(len(map_.keys) for map_ in stage.maps if map_.name == source)
            return {read.map: width for read in multiset_reads}
    return {}


def read_at_ends(stage: Stage) -> set[str]:
    """The multisets of ``stage`` of which only the least and the greatest value of a group are read: MIN and MAX."""
    if not isinstance(stage.finish, GroupEmission):
        return set()
    reads = stage.finish.multiset_reads
    width = read_together(stage)
    keys = {map_.name: len(map_.keys) for map_ in stage.maps}
    functions = [(read.map, function_of(read.call)) for read in reads]
    others = {name for name, function in functions if function.end is None or function.by_second}
    return {name for name, _ in functions if keys[name] == width[name] + 1} - others - read_maps(stage)


def orders(stage: Stage) -> dict[str, set[MapOrder]]:
    """For each map of ``stage`` with range reads or seeks: the orders in which its entries must be kept."""
    found: dict[str, set[MapOrder]] = {}
    for step in filter(reads_old, steps_of(stage)):
        order = order_of(step, stage)
        if order is not None:
            found.setdefault(relation_of(step), set()).add(order)
    return found


def order_of(step: Step, stage: Stage) -> MapOrder | None:
    """The order in which a step needs the entries of its map, with the map's column names; None if it needs none."""
    match step:
        case MapRead(range=Range(column=column)):
            pass
        case MapSeek(column=Field(name=column)):
            pass
        case _:
            return None
    keys = next(map_.keys for map_ in stage.maps if map_.name == step.map)
    looked_up = {name for name, _ in step.lookup}
    return tuple(f.name for f in keys if f.name in looked_up), column


def guards(stage: Stage) -> dict[str, set[str]]:
    """For each map of ``stage`` that must not have negative sums: the names of those sums."""
    found: dict[str, set[str]] = {}
    for trigger in stage.triggers:
        for statement in trigger.statements:
            for name, value in guards_of(statement):
                found.setdefault(name, set()).add(value)
    return found


def guards_of(statement: TriggerStatement) -> tuple[tuple[str, str], ...]:
    """The sums, as map and value, of which a statement relies on none being negative."""
    if isinstance(statement, Add):
        return ()
    return statement.guards + (statement.touched.guards if statement.touched is not None else ())


def _state_steps(program: Program) -> Iterator[RelationLoop | MapRead | MapSeek]:
    for stage in program.stages:
        yield from filter(reads_old, steps_of(stage))
