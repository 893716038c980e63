"""The invariants of relations that are computed by time partitions, checked on every compile.

- The maps exist and have no sums. Those of feeds with partitions begin with the partition number, a BIGINT, and so does
  the map of computed rows; the map of numbers has nothing else.
- The bounds of a slice never fall from one partition to the next. A slice of a feed without partitions is all of it,
  and only such a slice is unbounded.
- A partition is computed from earlier ones of the relation itself, never from later ones.
- The queries output the columns that are kept, and scan nothing but slices. They have loads, and no triggers; but if a
  window rolls, the one query has a single slice, and its triggers read changes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.algebra.relational.time_partitions import PartitionSlice
from tidemill.model.types import BIGINT
from tidemill.program.maps import Map
from tidemill.program.reads import reads_state
from tidemill.program.stages import Program, TimePartitionEmission
from tidemill.program.statements import RelationLoop


def time_partition_problems(emission: TimePartitionEmission, maps: Mapping[str, Map]) -> Iterator[str]:
    """Violations in how the rows of a stage are computed from its maps, as sentences."""
    numbered = {feed.map for feed in emission.feeds if feed.every} | {emission.numbers, emission.kept}
    for name in numbered | {feed.map for feed in emission.feeds}:
        map_ = maps.get(name)
        if map_ is None or map_.values:
            yield f'"{name}" is no map of rows that it has'
        elif name in numbered and (not map_.keys or map_.keys[0].type != BIGINT):
            yield f'the first key of "{name}" is no number of a partition'
    yield from (problem for slice_ in emission.slices for problem in _problems_of_slice(slice_, emission, numbered))
    if emission.numbers in maps and len(maps[emission.numbers].keys) != 1:
        yield f'"{emission.numbers}" has more than numbers'
    yield from _problems_of_bodies(emission, maps)


def _problems_of_slice(slice_: PartitionSlice, emission: TimePartitionEmission, numbered: set[str]) -> Iterator[str]:
    ends = [end for end in (slice_.low, slice_.high) if end is not None]
    if any(end.times < 1 or end.over < 1 for end in ends):
        yield f"{slice_.name} goes backwards"
    if ends and emission.map_of(slice_) not in numbered:
        yield f"{slice_.name} is cut, and its feed has no partitions"
    if emission.map_of(slice_) == emission.kept:
        last = slice_.high
        if last is None or last.plus >= 0 or last.times != last.over:
            yield f"{slice_.name} does not end before partition i"


def _problems_of_bodies(emission: TimePartitionEmission, maps: Mapping[str, Map]) -> Iterator[str]:
    names = {slice_.name for slice_ in emission.slices}
    for body in emission.bodies:
        own = {name for stage in body.stages for name in (stage.name, *(map_.name for map_ in stage.maps))}
        sources = (step for stage in body.stages for add in stage.load for step in add.query.sources)
        for read in (step.relation for step in sources if isinstance(step, RelationLoop)):
            if read not in names | own:
                yield f'"{body.view}" reads "{read}", which is no slice'
        if emission.rolls:
            yield from _problems_of_rolling(emission, body)
        elif any(stage.triggers for stage in body.stages):
            yield f'"{body.view}" has triggers, and no change ever reaches it'
        given = [f.type for f in body.stages[-1].output]
        if emission.kept in maps and given != [f.type for f in maps[emission.kept].keys[1:]]:
            yield f'"{body.view}" does not give out what "{emission.kept}" keeps'


def _problems_of_rolling(emission: TimePartitionEmission, body: Program) -> Iterator[str]:
    if len(emission.slices) != 1 or len(emission.bodies) != 1:
        yield f'"{body.view}" rolls, and reads more than one slice'
    if reads_state(body):
        yield f'"{body.view}" rolls, and reads more than changes'
