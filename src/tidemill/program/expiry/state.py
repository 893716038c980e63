"""State of views that has expired: no change can reach it any more.

A table declares how late its changes may be, so none has a time before a certain instant. Whatever a trigger reads,
changes and emits follows from the times of a change, so it has a bound too (``reads``): an entry of a map whose time is
before all that future triggers can touch has expired. The change of a stage has bounds as well, so what follows is
bounded in turn, through all stages of all views.

Nothing that is shown depends on whether expired state is present. Deleting it is no change of the view, and may be done
at any time, or not at all. Where a bound cannot be derived, nothing is deleted.

- A *group* is read when it changes. So it expires with its time, such as that of its window.
- The rows of a *partition* are read when one of them changes. If the partition has a time, as in a top-k of each
  window, they expire with it. Otherwise functions look from the changed row to others that are near in time or in the
  order (``row_reach``): the last rows of a partition stay, as far as these look back.
- A *session* expires when no row can lengthen it, with all of its instants.
- Of *time partitions*, the lowest that is read by one that can change must be kept. Only the map ``numbers`` is read at
  its ends, which are therefore kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.algebra.expressions.scalars import Call, Column, Scalar
from tidemill.algebra.matching.resets import taken_rows
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER
from tidemill.algebra.relational.walk import columns_in, transform
from tidemill.model.types import Field, Struct
from tidemill.program.expiry.entries import ExpiredEntries, GroupTail, RowCondition
from tidemill.program.expiry.reads import Access, accesses_of, implied_bounds
from tidemill.program.expiry.row_reach import RowReach, order_path, reach_of, session_of
from tidemill.program.expiry.time_bounds import Path, TimeBound, TimeBounds, bounds_of, common
from tidemill.program.expiry.time_functions import may_have_bound
from tidemill.program.joingraph import Serve
from tidemill.program.maps import Map
from tidemill.program.stages import (
    GroupEmission,
    InputMap,
    IterationEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import Add


class Obstacle(NamedTuple):
    """The reason why entries never expire: the relation whose changes may reach any of them, or words."""

    cause: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class MapExpiry:
    """Expiry of a map: its expired entries, or the obstacle. With neither no entry has a time but NULL."""

    stage: Stage
    map: Map
    entries: ExpiredEntries | None = None
    obstacle: Obstacle | None = None

    @property
    def added_by(self) -> list[str]:
        """The relations whose changes add entries."""
        triggers = ((trigger.relation, trigger.statements) for trigger in self.stage.triggers)
        return [name for name, added in triggers if any(one.target == self.map.name for one in added)]


@dataclass
class StateExpiry:
    """The expired state of the stages of views, one view after the other.

    ``bounds`` has those of the changes of relations: of tables at first, to which the stages of each view are added.
    """

    bounds: dict[str, TimeBounds]
    _reads: dict[str, list[Access]] = field(default_factory=dict)
    _stages: list[Stage] = field(default_factory=list)

    def maps_of(self, program: Program) -> list[MapExpiry]:
        """Expiry of each map of a view; adds the bounds of its stages."""
        return [found for stage in program.stages for found in self._of_stage(stage, program)]

    def add_unbounded(self, program: Program) -> None:
        """Add a view whose state stays as it is: changes that have not come to it yet may be older than all bounds."""
        for stage in program.stages:
            self._ignore(stage)

    def rows(self) -> Iterator[MapExpiry]:
        """Expiry of the rows of stages but the last of each view, once all of their readers are added."""
        for stage in self._stages:
            rows = Map(stage.name, stage.output)
            own = Access(stage.name, stage.name, self.bounds.get(stage.name, {}), adds=True)
            read = self._reads.get(stage.name, [])
            found = _judged(stage, rows, [own, *read])
            if read or found.entries is not None:  # rows that nobody looks up are not stored
                yield found

    # -- stages ------------------------------------------------------------------------------------------------------

    def _of_stage(self, stage: Stage, program: Program) -> Iterator[MapExpiry]:
        if stage.name != program.view:
            self._stages.append(stage)
        if words := why_kept(stage):
            self._ignore(stage)
            yield from (MapExpiry(stage, map_, obstacle=Obstacle(words=words)) for map_ in stage.maps)
            return
        accesses = list(accesses_of(stage, self.bounds))
        for access in accesses:
            self._reads.setdefault(access.target, []).append(access)
        match stage.finish:
            case None:
                added = [access.bounds for access in accesses if access.target == stage.name]
                self.bounds[stage.name] = common(added) if added else {}
                yield from (_judged(stage, map_, _of(map_, accesses)) for map_ in stage.maps)
            case GroupEmission() as groups:
                yield from self._of_groups(stage, groups, accesses)
            case PartitionEmission() as partitions:
                yield from self._of_partitions(stage, partitions, accesses)
            case SessionEmission() as sessions:
                yield from self._of_sessions(stage, sessions, accesses)
            case TimePartitionEmission() as emission:
                yield from self._of_time_partitions(stage, emission, accesses)

    def _ignore(self, stage: Stage) -> None:
        """A stage of which nothing is known: it may touch all that it reads."""
        for name in stage.inputs:
            self._reads.setdefault(name, []).append(Access(name, name, {}))

    def _emit(self, stage: Stage, emission: GroupEmission | PartitionEmission, known: TimeBounds) -> None:
        """Add the bounds of the rows that an emission computes from columns with the bounds ``known``."""
        outputs = ((output.name, bounds_of(output.scalar, known)) for output in emission.outputs)
        self.bounds[stage.name] = {(name, *rest): bound for name, found in outputs for rest, bound in found.items()}

    def _of_groups(self, stage: Stage, groups: GroupEmission, accesses: list[Access]) -> Iterator[MapExpiry]:
        maps = {map_.name: map_ for map_ in stage.maps}
        source = maps[groups.source]
        read = [source, *(maps[name] for name in dict.fromkeys(one.map for one in groups.multiset_reads))]
        touched = [
            _renamed(one, map_, source) for map_ in read for one in accesses if one.adds and one.target == map_.name
        ]
        self._emit(stage, groups, common([one.bounds for one in touched]))
        for map_ in stage.maps:
            also = [_renamed(one, source, map_) for one in touched] if map_ in read else []
            found = _judged(stage, map_, [*_of(map_, accesses), *also])
            yield found if found.entries is not None else _of_ordered(found, groups, _of(map_, accesses))

    def _of_partitions(self, stage: Stage, emission: PartitionEmission, accesses: list[Access]) -> Iterator[MapExpiry]:
        for map_ in stage.maps:
            found = _of(map_, accesses)
            if map_.name != emission.source:
                yield _judged(stage, map_, found)
                continue
            known = common([access.bounds for access in found])
            first = {key.name for key in map_.keys[: emission.width]}
            of_partition = {path: bound for path, bound in known.items() if path[0] in first}
            if of_partition:
                self._emit(stage, emission, implied_bounds(stage, map_, of_partition))
                yield _expiring(stage, map_, of_partition)
                continue
            yield self._in_order(stage, map_, emission, found)

    def _in_order(self, stage: Stage, map_: Map, emission: PartitionEmission, accesses: Sequence[Access]) -> MapExpiry:
        """The rows of partitions without a time, which are ordered by one."""
        session, path = session_of(emission.rows), order_path(emission.rows)
        reach = reach_of(emission.rows) if session is None else RowReach()
        self.bounds[stage.name] = {}
        if isinstance(reach, str):
            return _never(stage, map_, reach)
        bound = common([access.bounds for access in accesses]).get(path or ())
        if path is None or bound is None or bound.low == math.inf or not _is_compared(map_, path):
            return MapExpiry(stage, map_, obstacle=_obstacle(accesses))
        if session is not None:
            # The session that a row is in ends after the row; its other rows may lie before the bound.
            self._emit(stage, emission, {(session.name, "end"): bound})
            chain = GroupTail(map_.keys[: emission.width], link=session.gap)
            return MapExpiry(stage, map_, _entries(map_, path, int(bound.low), chain))
        if not reach.rows_back and not (reach.rows and bound.nulls):
            self._emit(stage, emission, implied_bounds(stage, map_, {path: bound.later(-reach.back)}))
        keys = map_.keys[: emission.width]
        tail = _tail(keys, reach)
        if isinstance(emission.rows, Match):
            # A run that comes to nothing lets the search go back to rows before the change.
            if not emission.rows.overlaps or bound.nulls:
                self.bounds[stage.name] = {}
            tail = GroupTail(keys, taken=_taken(emission.rows, map_))
        return MapExpiry(stage, map_, _entries(map_, path, int(bound.low) - reach.back, tail))

    def _of_sessions(self, stage: Stage, sessions: SessionEmission, accesses: list[Access]) -> Iterator[MapExpiry]:
        self.bounds[stage.name] = {}
        for map_ in stage.maps:
            if map_.name not in (sessions.source, sessions.kept):
                yield _judged(stage, map_, _of(map_, accesses))
        source, kept = (next(m for m in stage.maps if m.name == name) for name in (sessions.source, sessions.kept))
        added = _of(source, accesses)
        bound = common([access.bounds for access in added]).get((source.keys[-1].name,))
        if bound is None or bound.low == math.inf:
            yield from (MapExpiry(stage, map_, obstacle=_obstacle(added)) for map_ in (source, kept))
            return
        self.bounds[stage.name] = _of_ends(sessions, kept, bound)
        for map_, link in ((source, sessions.gap), (kept, kept.values[0].name)):
            tail = GroupTail(map_.keys[:-1], link=link)
            yield MapExpiry(stage, map_, _entries(map_, (map_.keys[-1].name,), int(bound.low), tail))

    # -- stages that make partitions from several -------------------------------------------------------------------

    def _of_time_partitions(
        self, stage: Stage, emission: TimePartitionEmission, accesses: list[Access]
    ) -> Iterator[MapExpiry]:
        maps = {map_.name: map_ for map_ in stage.maps}
        self.bounds[stage.name] = {}
        lowest = {map_.name: _lowest(map_, accesses) for map_ in stage.maps}
        unpartitioned = [feed.name for feed in emission.feeds if not feed.every]
        missing = [map_.name for map_ in stage.maps if lowest[map_.name] is None and map_.name != emission.kept]
        if unpartitioned or missing:
            cause = next(one.cause for one in accesses if one.target in (missing or lowest))
            obstacle = Obstacle(unpartitioned[0] if unpartitioned else cause)
            yield from (MapExpiry(stage, map_, obstacle=obstacle) for map_ in stage.maps)
            return
        low = {name: int(found) for name, found in lowest.items() if found is not None}
        first = min(self._first_open(emission, low))
        outputs = (
            (output.name, bounds_of(output.scalar, {(PARTITION_NUMBER,): _number(first)}))
            for output in emission.outputs
        )
        self.bounds[stage.name] = {(name, *rest): bound for name, found in outputs for rest, bound in found.items()}
        needed = {feed.map: self._needed(emission, feed, first, low[feed.map]) for feed in emission.feeds}
        needed[emission.kept] = self._needed(emission, None, first, first)
        for map_ in stage.maps:
            below = needed.get(map_.name, first)
            ends = map_.name == emission.numbers
            if below is None:
                yield _never(stage, map_, "all partitions since the first one are read")
            else:
                yield MapExpiry(stage, maps[map_.name], ExpiredEntries(map_.name, 0, PARTITION_NUMBER, below, ends))

    def _first_open(self, emission: TimePartitionEmission, low: dict[str, int]) -> Iterator[int]:
        """Partitions of the stage from which on a feed may change them."""
        yield low[emission.numbers]
        for feed in emission.feeds:
            yield low[feed.map] * feed.every // emission.every
            for slice_ in emission.slices:
                if slice_.feed == feed.name and slice_.high is not None:
                    yield slice_.high.reaches(low[feed.map])

    def _needed(self, emission: TimePartitionEmission, feed: InputMap | None, first: int, lowest: int) -> int | None:
        """The lowest partition of a feed, or of the stage itself, that partitions from ``first`` on read."""
        map_ = emission.kept if feed is None else feed.map
        lows = [slice_.low for slice_ in emission.slices if emission.map_of(slice_) == map_]
        return None if None in lows else min([lowest, *(low.at(first) for low in lows if low is not None)])


def _of_ends(sessions: SessionEmission, kept: Map, ended: TimeBound) -> TimeBounds:
    """The bounds of what is computed from the ends of sessions that change: each is after an instant that does."""
    start, length = kept.keys[-1], kept.values[0]

    def marked(part: Scalar) -> Scalar:
        match part:
            case Call("window_from", (Column(name=one), Column(name=two))) if (one, two) == (start.name, length.name):
                return Column(_SESSION, part.type)
            case Call("add_microseconds", (Column(name=one), Column(name=two))) if two == length.name:
                return Column(_END, part.type)
        return part

    known = {(_SESSION, "end"): ended, (_END,): ended}
    found = ((o.name, bounds_of(transform(o.scalar, marked), known)) for o in sessions.outputs)
    return {(name, *rest): bound for name, bounds in found for rest, bound in bounds.items()}


_SESSION, _END = "/session", "/end"
"""Names of columns for a session and its end, which no column has."""


def _of_ordered(found: MapExpiry, groups: GroupEmission, accesses: Sequence[Access]) -> MapExpiry:
    """The values of groups without a time, if they are times of which only the least or the greatest is wanted.

    Of those before the bound that can only be the first or the last one.
    """
    calls = [one.call.function for one in groups.multiset_reads if one.map == found.map.name]
    ends = bool(calls) and all(function in ("min", "max") for function in calls)
    bound = common([access.bounds for access in accesses]).get((found.map.keys[-1].name,)) if ends else None
    path = (found.map.keys[-1].name,) if ends else ()
    if bound is None or bound.low == math.inf or not _is_compared(found.map, path):
        return found
    tail = GroupTail(found.map.keys[:-1], rows=1)
    return MapExpiry(found.stage, found.map, _entries(found.map, path, int(bound.low), tail))


def _number(first: int) -> TimeBound:
    return TimeBound(first, nulls=False)


def why_kept(stage: Stage) -> str:
    """The reason why all state of a stage is kept, whatever it computes; empty if there is none."""
    if stage.serve is not Serve.BOTH:
        return "rows are computed from it when they are read"
    if stage.graphs:
        return "it is part of a join graph"
    if stage.degrees is not None:
        return "it depends on how frequent values are"
    if isinstance(stage.finish, IterationEmission):
        return "a recursion can begin at any row"
    if not all(isinstance(statement, Add) for trigger in stage.triggers for statement in trigger.statements):
        return "it is computed again as a whole"
    return ""


def _lowest(map_: Map, accesses: Sequence[Access]) -> float | None:
    """The first partition whose entries can change, by the first key of a map."""
    added = [access.bounds for access in accesses if access.target == map_.name]
    bound = common(added).get((map_.keys[0].name,)) if added and map_.keys else None
    return None if bound is None else bound.low


_DEEPEST = 2
"""Length of the longest path whose values stores compare: a column, or a field of one that is a struct."""


# -- one map -----------------------------------------------------------------------------------------------------------


def _of(map_: Map, accesses: Sequence[Access]) -> list[Access]:
    return [access for access in accesses if access.target == map_.name]


def _renamed(access: Access, map_: Map, other: Map) -> Access:
    """An access to a map as one to the entries of another one that are equal in the keys which both have."""
    names = {one.name: two.name for one, two in zip(map_.keys, other.keys, strict=False)}
    found = {(names[path[0]], *path[1:]): bound for path, bound in access.bounds.items() if path[0] in names}
    return Access(other.name, access.cause, found, access.adds, access.timeless)


def _judged(stage: Stage, map_: Map, accesses: Sequence[Access]) -> MapExpiry:
    """The expired entries of a map with these accesses: those that none of them can touch."""
    known = common([access.bounds for access in accesses])
    adding = [access for access in accesses if access.adds]
    added = common([access.bounds for access in adding])
    timeless = bool(adding) and all(access.timeless for access in adding)
    if not known and (timeless or any(bound.low == math.inf for bound in added.values())):
        return MapExpiry(stage, map_)  # there are only entries whose time is NULL
    return _expiring(stage, map_, known) if known else MapExpiry(stage, map_, obstacle=_obstacle(accesses))


def _obstacle(accesses: Sequence[Access]) -> Obstacle:
    """The change that can touch entries of any time."""
    causes = [access.cause for access in (*(one for one in accesses if not one.bounds), *accesses)]
    return Obstacle(causes[0] if causes else "")


def _expiring(stage: Stage, map_: Map, known: TimeBounds) -> MapExpiry:
    """The entries of a map before the first of its columns that has a bound; NULL has no time."""
    paths = {path: bound.low for path, bound in known.items() if bound.low < math.inf and _is_compared(map_, path)}
    if not paths:
        return MapExpiry(stage, map_)
    names = [key.name for key in map_.keys]
    path = min(paths, key=lambda path: names.index(path[0]))
    return MapExpiry(stage, map_, _entries(map_, path, int(paths[path])))


def _is_compared(map_: Map, path: Path) -> bool:
    """True if stores compare the values under a path with a bound."""
    type_ = next((key.type for key in map_.keys if key.name == path[0]), None)
    if len(path) == _DEEPEST and isinstance(type_, Struct):
        type_ = next((field.type for field in type_.fields if field.name == path[1]), None)
        return type_ is not None and may_have_bound(type_)
    return len(path) == 1 and type_ is not None and may_have_bound(type_)


def _never(stage: Stage, map_: Map, words: str) -> MapExpiry:
    return MapExpiry(stage, map_, obstacle=Obstacle(words=words))


def _taken(match: Match, map_: Map) -> RowCondition:
    """The condition without which no match can have a row of the map."""
    condition = taken_rows(match)
    assert not isinstance(condition, str)
    read = columns_in(condition)
    return RowCondition(condition, tuple(key for key in map_.keys if key.name in read))


def _tail(keys: tuple[Field, ...], reach: RowReach) -> GroupTail | None:
    return GroupTail(keys, reach.all_rows, reach.span) if reach.all_rows or reach.span else None


def _entries(map_: Map, path: Path, below: int, tail: GroupTail | None = None) -> ExpiredEntries:
    place = next(i for i, key in enumerate(map_.keys) if key.name == path[0])
    part = None
    if len(path) > 1:
        type_ = map_.keys[place].type
        assert isinstance(type_, Struct) and len(path) == 2
        part = path[1], [f.name for f in type_.fields].index(path[1])
    if tail is not None and not tail.rows and tail.link is None and tail.taken is None:
        return ExpiredEntries(map_.name, place, path[0], below - tail.span, part=part)
    return ExpiredEntries(map_.name, place, path[0], below, part=part, tail=tail)
