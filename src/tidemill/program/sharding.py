"""Sharding of stages: which of them can run in tasks that see a part of a change each, and where their sums must meet.

A trigger whose queries are linear in the change gives the same sums if the change is cut into parts and the sums of the
parts are added. If triggers read maps that they add to, as those of join graphs do, every task must know before the
next trigger what all of a change has added: so that has to be a function of the change alone. Only sums for the same
entry have to meet, and the entries from which one row is computed: these are in one *shard*, by a hash of their first
keys.
"""

from __future__ import annotations

from tidemill.algebra.expressions.scalars import Column
from tidemill.program.reads import calls_python, queries_of, read_maps, read_together, reads_change
from tidemill.program.stages import (
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import Replace, Trigger


def why_not_sharded(stage: Stage) -> str:
    """The reason why a stage cannot run in shards, for EXPLAIN; empty if it can."""
    if isinstance(stage.finish, IterationEmission):
        return "each iteration reads the one before"
    if isinstance(stage.finish, TimePartitionEmission):
        return "its time partitions read each other"
    if any(isinstance(statement, Replace) for trigger in stage.triggers for statement in trigger.statements):
        return "a trigger recomputes all of a map"
    if any(trigger.each for trigger in stage.triggers):
        return "a trigger takes one row at a time"
    if joined := _added_to_by_joins(stage):
        return f"its triggers read {', '.join(sorted(joined))}, which they add to by joins"
    return "it calls functions that are registered in this process" if calls_python(stage) else ""


def _added_to_by_joins(stage: Stage) -> set[str]:
    """The maps that triggers read, and to which some add more than a function of the change: a later trigger of the
    epoch would need what all parts of the change have added. To others every task can add that by itself."""
    read = read_maps(stage)
    statements = [statement for trigger in stage.triggers for statement in trigger.statements]
    return {
        statement.target
        for statement in statements
        if statement.target in read
        for query in queries_of(statement)
        if len(query.sources) != 1 or not reads_change(query.sources[0]) or query.sources[0].split is not None
    }


def shard_widths(stage: Stage) -> dict[str, int]:
    """For each map of ``stage``, and for its rows if these are what its statements add to: the number of leading
    columns that decide the shard of an entry."""
    together = read_together(stage)
    widths = {map_.name: together.get(map_.name, len(map_.keys)) for map_ in stage.maps}
    return widths if stage.finish is not None else widths | {stage.name: len(stage.output)}


def needs_whole_change(trigger: Trigger) -> bool:
    """True if a trigger pairs rows of the change with each other: then one task has to see all of them."""
    queries = [query for statement in trigger.statements for query in queries_of(statement)]
    return any(
        sum(map(reads_change, query.sources)) > 1
        or any(reads_change(step) and step.split is not None for step in query.sources)
        for query in queries
    )


def has_distinct_shards(stage: Stage) -> bool:
    """True if no two shards can emit the same row, because a row shows the columns that decide its shard."""
    match stage.finish:
        case None:
            return True
        case GroupEmission(source=source) | PartitionEmission(source=source) | SessionEmission(source=source):
            width = shard_widths(stage)[source]
            keys = next(map_.keys[:width] for map_ in stage.maps if map_.name == source)
            shown = {output.scalar.name for output in stage.finish.outputs if isinstance(output.scalar, Column)}
            return shown.issuperset(f.name for f in keys)
    return False
