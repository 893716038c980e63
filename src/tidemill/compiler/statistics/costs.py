"""Cost of one changed row in a stage: the highest cost class among its steps, the reason, and what would lower it.

The classes are those that EXPLAIN shows and ``tidemill bench sql`` measures. They measure work; the
number of rows of the view that change can be larger than any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import assert_never

from tidemill.algebra.aggregates.registry import collects, function_of
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK, Window
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, SESSION, WindowCall
from tidemill.algebra.text import function_text
from tidemill.algebra.user_functions import aggregate_of
from tidemill.model.clocks import is_clock
from tidemill.program.joins import DegreeRole
from tidemill.program.reads import reads_old, row_queries, touched_of
from tidemill.program.stages import (
    GroupEmission,
    IterationEmission,
    MultisetRead,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import ArrayLoop, MapRead, MapSeek, RelationLoop, Replace, Step, Trigger


class CostClass(IntEnum):
    """Cost classes of one changed row, cheapest first, in the size of the state."""

    CONSTANT = 0
    LOGARITHMIC = 1
    MATCHES = 2
    GROUP = 3
    PARTITION = 4
    DATA = 5

    def __str__(self) -> str:
        return _SPELLED[self]


_SPELLED = {
    CostClass.CONSTANT: "O(1)",
    CostClass.LOGARITHMIC: "O(log n)",
    CostClass.MATCHES: "O(matches)",
    CostClass.GROUP: "O(group)",
    CostClass.PARTITION: "O(partition)",
    CostClass.DATA: "O(data)",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """A class, the reason, and a hint to a lower class. ``recomputes``: the state is recomputed."""

    kind: CostClass
    why: str
    hint: str = ""
    recomputes: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"


def highest_cost(costs: Sequence[Cost]) -> Cost:
    """The highest cost; the first of equal ones."""
    return max(costs, key=lambda cost: (cost.recomputes, cost.kind))


DeclaredKeys = Mapping[str, frozenset[str]]
"""The key columns of tables that declare them."""

NO_KEYS: DeclaredKeys = {}


def cost_of_stage(stage: Stage, program: Program, declared: DeclaredKeys = NO_KEYS) -> Cost:
    """Highest cost of a changed row in ``stage``, whichever of its inputs it belongs to."""
    costs = [cost_of_trigger(trigger, program, declared) for trigger in stage.triggers]
    return (
        highest_cost([*costs, *filter(None, [cost_of_emission(stage)])])
        if costs
        else Cost(CostClass.CONSTANT, "it never changes")
    )


def cost_of_trigger(trigger: Trigger, program: Program, declared: DeclaredKeys = NO_KEYS) -> Cost:
    """Cost of a changed row in a trigger.

    A lookup costs the entries that it finds: one if it is by all keys of a map, or by the ``declared`` key of a table.
    A loop over all rows of a relation is O(data), unless that is a global aggregate, which has one row.
    """
    keys = {map_.name: {f.name for f in map_.keys} for stage in program.stages for map_ in stage.maps}
    single = {stage.name for stage in program.stages if isinstance(stage.finish, GroupEmission) and stage.finish.always}
    single |= {name for name, columns in keys.items() if not columns}
    rare = {stage.name for stage in program.stages if stage.degrees is DegreeRole.THRESHOLD}
    steps = list(_steps(trigger))
    state = list(filter(reads_old, steps))
    if any(isinstance(step, RelationLoop) and step.range is not None for step in state):
        return Cost(CostClass.LOGARITHMIC, "rows whose instant has come are found in the order of their instants")
    loops = [step for step in state if isinstance(step, RelationLoop) and not is_clock(step.relation)]
    scanned = dict.fromkeys(source.relation for source in loops if not source.lookup and source.relation not in single)
    if any(isinstance(statement, Replace) for statement in trigger.statements) and (scanned or not state):
        return Cost(CostClass.DATA, "everything is computed again", "Use strategy auto.", recomputes=True)
    if scanned and trigger.relation in rare:
        why = "all of them are visited, when there are four times as many rows as before, or a quarter"
        return Cost(CostClass.MATCHES, f"index lookups only; values of {' and '.join(scanned)}: {why}")
    if scanned and trigger.relation in single:
        return Cost(CostClass.DATA, f"it visits all of {' and '.join(scanned)}, when its one row changes")
    if scanned:
        hint = "An equality between the tables would make it a lookup."
        return Cost(CostClass.DATA, f"it visits all of {' and '.join(scanned)}", hint)
    if any(touched.loops for _, touched in touched_of(trigger)):
        return Cost(
            CostClass.GROUP, "the rows that have the keys of nested aggregates in common with it are read again"
        )
    if any(not _finds_one(source, keys, declared) for source in loops):
        return Cost(CostClass.MATCHES, "index lookups only")
    if any(isinstance(step, MapSeek) or (isinstance(step, MapRead) and step.range) for step in state):
        return Cost(CostClass.LOGARITHMIC, "sums over ranges of ordered keys")
    if any(isinstance(step, ArrayLoop) for step in steps):
        return Cost(CostClass.CONSTANT, "the changed row and its elements are enough")
    if any(source.single or source.relation in declared for source in loops):
        return Cost(CostClass.CONSTANT, "single rows and entries, by their keys")
    if not trigger.statements:
        return Cost(CostClass.CONSTANT, "it changes no row")
    why = "single entries of maps, by their keys" if state else "the changed row is enough"
    return Cost(CostClass.CONSTANT, why)


def _finds_one(loop: RelationLoop, keys: Mapping[str, set[str]], declared: DeclaredKeys) -> bool:
    """True if a lookup finds at most one row or entry."""
    found = {name for name, _ in loop.lookup}
    by_declared_key = loop.relation in declared and declared[loop.relation] <= found
    return loop.single or by_declared_key or found == keys.get(loop.relation)


def cost_of_emission(stage: Stage) -> Cost | None:
    """Cost to update the rows of a touched group or partition; None where that is the entry itself."""
    emission = stage.finish
    match emission:
        case None:
            return None
        case GroupEmission(multiset_reads=multiset_reads):
            single = {map_.name for map_ in stage.maps if map_.end is not None}
            costs = [_read_cost(read, single) for read in multiset_reads]
            return highest_cost(costs) if costs else None
        case PartitionEmission(rows=rows, kept_rows=kept):
            return _cost_of_partition(rows) if kept is None else _keeping_rows(kept)
        case SessionEmission():
            return Cost(CostClass.LOGARITHMIC, "sums at instants in order, and the sessions that a change touches")
        case IterationEmission(again=again):
            return _going_on(again)
        case TimePartitionEmission():
            return _making(emission)
        case _:
            assert_never(emission)


def _cost_of_partition(rows: TopK | Window | Match) -> Cost:
    match rows:
        case TopK():
            return _ranking(rows)
        case Window():
            return _windowing(rows)
        case Match():
            return _matching(rows)
        case _:
            assert_never(rows)


def _read_cost(read: MultisetRead, single: Set[str]) -> Cost:
    name = function_text(read.call.function)
    if read.map in single:
        return Cost(CostClass.CONSTANT, f"{name} is the one value that is kept, since nothing is deleted")
    if function_of(read.call).end is not None:
        return Cost(CostClass.LOGARITHMIC, f"{name} is one end of an ordered multiset")
    registered = aggregate_of(read.call)
    if registered is not None and registered.takes_back:
        return Cost(CostClass.LOGARITHMIC, f"{name} takes rows back from the state of its group")
    if function_of(read.call).positions is not None and not read.call.distinct:
        return Cost(CostClass.LOGARITHMIC, f"{name} is found by its position in an ordered multiset")
    if collects(read.call):
        return Cost(CostClass.LOGARITHMIC, f"{name} edits the array of a touched group")
    return Cost(CostClass.GROUP, f"{name} goes through the values of a touched group")


def retractions_of(stage: Stage) -> str:
    """Ways in which the aggregates of a stage take deletions back, by name; empty where all are sums or none."""
    if not isinstance(stage.finish, GroupEmission) or not stage.finish.multiset_reads:
        return ""
    single = {map_.name for map_ in stage.maps if map_.end is not None}
    by: dict[str, dict[str, None]] = {}
    for read in stage.finish.multiset_reads:
        by.setdefault(_retraction(read, single), {})[function_text(read.call.function)] = None
    ways = [f"{', '.join(names)} by {way}" for way, names in by.items()]
    sums = any(map_.name == stage.finish.source and map_.values for map_ in stage.maps)
    return "; ".join([*ways, *(["sums by subtraction"] if sums else [])])


def _retraction(read: MultisetRead, single: Set[str]) -> str:
    if read.map in single:
        return "nothing, since no row is deleted"
    registered = aggregate_of(read.call)
    if registered is not None and registered.takes_back:
        return "its own remove()"
    recomputes = _read_cost(read, single).kind is CostClass.GROUP
    return "recomputing the group" if recomputes else "an ordered multiset"


def _ranking(rows: TopK) -> Cost:
    if rows.limit is None:
        return Cost(CostClass.PARTITION, "without a limit all rows of a touched partition after the offset are read")
    return Cost(
        CostClass.LOGARITHMIC, f"an ordered index, of which the first {rows.offset + rows.limit:,} rows are read"
    )


def _keeping_rows(kept: int) -> Cost:
    rows = "the first row" if kept == 1 else f"the first {kept:,} rows"
    return Cost(CostClass.CONSTANT, f"{rows} of a partition, which are all that is kept, since nothing is deleted")


def _windowing(rows: Window) -> Cost:
    if all(map(_is_near, rows.calls)):
        return Cost(
            CostClass.LOGARITHMIC, "an ordered index, and only the neighbours of a changed row are computed again"
        )
    if rows.partition:
        return Cost(CostClass.PARTITION, "only the partitions that a change touches are computed again")
    hint = "Add PARTITION BY, so that a change touches a part of the rows."
    return Cost(CostClass.DATA, "without PARTITION BY all rows are one partition", hint, recomputes=True)


def _matching(rows: Match) -> Cost:
    late = "rows after a late one are read again until nothing changes"
    if rows.partition:
        return Cost(CostClass.PARTITION, f"a row that comes last is one step of an automaton; {late}")
    hint = "Add PARTITION BY, so that a late row causes only rows of its own key to be read again."
    return Cost(CostClass.DATA, late, hint)


def _going_on(again: Trigger) -> Cost:
    loops = [step for step in filter(reads_old, _steps(again)) if isinstance(step, RelationLoop)]
    scanned = dict.fromkeys(loop.relation for loop in loops if not loop.lookup)
    if scanned:
        hint = "An equality with the rows last found would make it a lookup."
        return Cost(CostClass.DATA, f"each iteration that changes visits all of {' and '.join(scanned)}", hint)
    return Cost(CostClass.MATCHES, "each row found in another iteration is looked up where it leads to")


def _making(emission: TimePartitionEmission) -> Cost:
    if any(emission.map_of(slice_) == emission.kept for slice_ in emission.slices):
        return Cost(CostClass.PARTITION, "touched partitions are recomputed, and those after them while they change")
    if any(slice_.low is None for slice_ in emission.slices):
        hint = "With subscripts on all that it reads, a change would touch fewer partitions."
        return Cost(CostClass.PARTITION, "the touched partition and all later ones are recomputed", hint)
    return Cost(CostClass.PARTITION, "the partitions that read a touched one are recomputed")


def _is_near(call: WindowCall) -> bool:
    """True if a window function reads a bounded number of neighbours, so that a change affects only these."""
    if call.function in OFFSETS:
        return not call.ignore_nulls
    bounded = call.frame.start is not None and call.frame.end is not None
    return bounded and call.function not in RANKINGS and call.function != SESSION


def _steps(trigger: Trigger) -> Iterator[Step]:
    """The steps of a trigger, without those that run only while a guard fails."""
    for statement in trigger.statements:
        for query in row_queries(statement):
            yield from query.sources
