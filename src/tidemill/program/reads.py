"""What a program reads: which relations must keep their contents, and by which columns rows and sums are found."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.model.types import Field
from tidemill.program.linear import is_linear
from tidemill.program.statements import Add, Program, Query, Range, Read, Seek, Source, Stage, Statement, Step, Version

Order = tuple[tuple[str, ...], str]
"""Key columns that are looked up, and the one by which the entries under them stand in order."""


def queries_of(statement: Statement) -> tuple[Query, ...]:
    """The queries that a statement sums; those that stand in for others while a guard fails are the last."""
    return (statement.query,) if isinstance(statement, Add) else (*statement.queries, *statement.otherwise)


def steps_of(stage: Stage) -> Iterator[Step]:
    """Every step of every query of the triggers of ``stage``; those of its load are left out."""
    for trigger in stage.triggers:
        for statement in trigger.statements:
            for query in queries_of(statement):
                yield from query.sources


def sources_of(stage: Stage) -> Iterator[Source]:
    """Every loop of every trigger of ``stage``; those of its load are left out."""
    return (step for step in steps_of(stage) if isinstance(step, Source))


def relation_of(step: Step) -> str:
    """The relation or map that a step reads."""
    return step.relation if isinstance(step, Source) else step.map


def reads_old(step: Step) -> bool:
    """Whether a step reads what was there before the change."""
    return not isinstance(step, Source) or step.version is Version.STATE


def row_wise(stage: Stage) -> bool:
    """Whether ``stage`` must be run in one process, most often row by row: it uses sums for more than to multiply them.

    All other stages are linear in everything that they read, and take changes of any size as one.
    """
    if any(trigger.each for trigger in stage.triggers):
        return True
    keys = {map_.name: len(map_.keys) for map_ in stage.maps}
    return not all(
        isinstance(step, Source) and is_linear(query, step, keys.get(statement.target, len(stage.output)))
        for trigger in stage.triggers
        for statement in trigger.statements
        for query in queries_of(statement)
        for step in query.sources
    )


def reads_state(program: Program) -> set[str]:
    """The relations whose contents a trigger reads: they must be kept. The stages' own maps are not among them.

    A stage that is not in this set passes its changes on and forgets its rows, unless it is the view itself.
    """
    own = {map_.name for stage in program.stages for map_ in stage.maps}
    return {relation_of(step) for step in _state_steps(program)} - own


def read_maps(stage: Stage) -> set[str]:
    """The maps of ``stage`` that its own triggers read."""
    own = {map_.name for map_ in stage.maps}
    return own & {relation_of(step) for step in steps_of(stage) if reads_old(step)}


def indexes(program: Program) -> dict[str, set[tuple[str, ...]]]:
    """For each relation and map that triggers look rows up in: the column tuples to index it by."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for step in _state_steps(program):
        if step.lookup:
            found.setdefault(relation_of(step), set()).add(tuple(name for name, _ in step.lookup))
    return found


def orders(stage: Stage) -> dict[str, set[Order]]:
    """For each map of ``stage`` that range reads and seeks ask: the orders in which its entries must stand."""
    found: dict[str, set[Order]] = {}
    for step in steps_of(stage):
        order = order_of(step, stage)
        if order is not None:
            found.setdefault(relation_of(step), set()).add(order)
    return found


def order_of(step: Step, stage: Stage) -> Order | None:
    """The order in which a step needs the entries of its map, the columns as the map has them; None where in none."""
    match step:
        case Read(range=Range(column=column)):
            pass
        case Seek(column=Field(name=column)):
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
            for name, value in () if isinstance(statement, Add) else statement.guards:
                found.setdefault(name, set()).add(value)
    return found


def _state_steps(program: Program) -> Iterator[Step]:
    for stage in program.stages:
        yield from filter(reads_old, steps_of(stage))
