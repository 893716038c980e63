"""State of a view by time partitions that has expired: no change can reach it any more.

A stream declares how late its rows may be, so its partitions before a certain instant cannot change: it is *open* from
there on. Derived partitions follow. If a stage stays within partitions, it is open where its inputs are. If it reads
several, the first of its partitions that reads an open one is open, and all after that; the lowest partition that an
open one reads must be kept, and those below it are never read again.

So nothing depends on whether expired state is present. Deleting it is no change of the view, and may be done at any
time, or not at all. Only the map ``numbers`` of a ``TimePartitionEmission`` is read at its ends, which are therefore
kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Named, Scalar
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER
from tidemill.model.schema import Partitioning, names_of
from tidemill.model.types import Date, Field, Timestamp
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
from tidemill.program.statements import Add, Query, RelationLoop


@dataclass(frozen=True, slots=True)
class ExpiredEntries:
    """The entries of a stored map that have expired: those whose column ``place`` is less than ``below``.

    That column has partition numbers, or instants in microseconds since 1970. With ``ends`` the first and the last of
    them are kept.
    """

    map: str
    place: int
    column: str
    below: int
    ends: bool = False

    def __call__(self, row: tuple[Any, ...]) -> bool:
        """True if a row is among them."""
        return row[self.place] is not None and number_of(row[self.place]) < self.below


def number_of(value: Any) -> int:
    """A partition number as it is, and an instant or a date in microseconds since 1970.

    >>> number_of(7), number_of(datetime(1970, 1, 2))
    (7, 86400000000)
    """
    if isinstance(value, int):
        return value
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (moment.replace(tzinfo=None) - _FIRST) // timedelta(microseconds=1)


_FIRST = datetime(1970, 1, 1)


MapColumn = tuple[str, int]
"""The column of a relation or map with the partition of a row, and the length of partitions: in microseconds if it has
their numbers, and 1 if it has instants."""


@dataclass
class StateExpiry:
    """The expired state of the stages of a view, one after the other.

    ``cuts`` has the partitioning of the relations that it reads, ``opens`` when they are open; stages are added to
    both.
    """

    cuts: Mapping[str, Partitioning]
    opens: dict[str, int]
    _places: dict[str, MapColumn] = field(init=False)

    def __post_init__(self) -> None:
        self._places = {name: (cut.column, 1) for name, cut in self.cuts.items()}

    def of(self, program: Program) -> Iterator[ExpiredEntries]:
        """The expired entries of a view's maps, and the expired rows of all stages but the last."""
        for stage in program.stages:
            if stage.inputs and all(name in self.opens for name in stage.inputs):
                if isinstance(stage.finish, TimePartitionEmission):
                    yield from self._of_time_partitions(stage, stage.finish)
                else:
                    yield from self._of_partitionwise(stage)
                if stage.name != program.view and stage.name in self.opens:
                    yield from self._below(stage.name, stage.output, self.opens[stage.name])

    def _below(self, name: str, columns: Sequence[Field], opened: int) -> Iterator[ExpiredEntries]:
        """The entries before an instant, of a map or of rows that have a partition column."""
        if name in self._places:
            column, length = self._places[name]
            yield ExpiredEntries(name, names_of(columns).index(column), column, opened // length)

    # -- stages that make partitions from several -----------------------------------------------------------------

    def _of_time_partitions(self, stage: Stage, emission: TimePartitionEmission) -> Iterator[ExpiredEntries]:
        if not all(feed.every for feed in emission.feeds):
            return  # a feed without partitions is read by all of them
        first = min(self._first_open(stage, emission))
        self.opens[stage.name] = first * emission.every
        self._note_rows(stage, emission.outputs, (PARTITION_NUMBER, emission.every))
        for feed in emission.feeds:
            lows = [slice_.low for slice_ in emission.slices if slice_.feed == feed.name]
            needed = [low.at(first) for low in lows if low is not None]
            if len(needed) == len(lows):
                yield _numbered(feed.map, min(*needed, self._lowest(stage, feed)))
        own = [slice_.low for slice_ in emission.slices if emission.map_of(slice_) == emission.kept]
        needed = [low.at(first) for low in own if low is not None]
        if len(needed) == len(own):
            yield _numbered(emission.kept, min([first, *needed]))
        yield _numbered(emission.numbers, first, ends=True)

    def _first_open(self, stage: Stage, emission: TimePartitionEmission) -> Iterator[int]:
        """Partitions of the stage from which on a feed may change them."""
        yield from (self.opens[name] // emission.every for name in stage.inputs)
        for feed in emission.feeds:
            lowest = self._lowest(stage, feed)
            yield lowest * feed.every // emission.every
            for slice_ in emission.slices:
                if slice_.feed == feed.name and slice_.high is not None:
                    yield slice_.high.reaches(lowest)

    def _lowest(self, stage: Stage, feed: InputMap) -> int:
        """The first partition of a feed that can change."""
        adding = (trigger for trigger in stage.triggers for add in trigger.statements if add.target == feed.map)
        return min(self.opens[trigger.relation] for trigger in adding) // feed.every

    # -- stages that stay within partitions -----------------------------------------------------------------------

    def _of_partitionwise(self, stage: Stage) -> Iterator[ExpiredEntries]:
        self.opens[stage.name] = opened = min(self.opens[name] for name in stage.inputs)
        statements = [statement for trigger in stage.triggers for statement in trigger.statements]
        adds = [statement for statement in (*statements, *stage.load) if isinstance(statement, Add)]
        # A map that is computed from all entries, or found by walking them, would miss deleted ones. A session may be
        # open at one end and have begun long before.
        derived = isinstance(stage.finish, IterationEmission | SessionEmission)
        if len(adds) < len(statements) + len(stage.load) or stage.graphs or derived:
            return
        maps = [*stage.maps, *([] if stage.finish else [Map(stage.name, stage.output)])]
        for _ in maps:  # the entries of one map may come from another one
            for map_ in maps:
                self._note(map_, [add.query for add in adds if add.target == map_.name])
        for map_ in stage.maps:
            yield from self._below(map_.name, map_.keys, opened)
        if isinstance(stage.finish, GroupEmission | PartitionEmission) and stage.finish.source in self._places:
            self._note_rows(stage, stage.finish.outputs, self._places[stage.finish.source])

    def _note(self, map_: Map, queries: Sequence[Query]) -> None:
        """Find the key of a map that has the partition of an entry, whichever statement added it."""
        for place, key in enumerate(map_.keys):
            lengths = {self._length(query.outputs[place].scalar, query) for query in queries}
            (length, *others) = lengths or {None}
            if length is not None and not others:
                self._places[map_.name] = key.name, length
                return

    def _note_rows(self, stage: Stage, outputs: Sequence[Named], place: MapColumn) -> None:
        """Find the column of a stage that comes from the map's column at ``place``."""
        column, length = place
        shown = [output.name for output in outputs if _is_column(output.scalar, column)]
        if shown:
            self._places[stage.name] = shown[0], length

    def _length(self, scalar: Scalar, query: Query) -> int | None:
        """The length of partitions in microseconds if ``scalar`` is a partition number; 1 if it is an instant."""
        for source in query.sources:
            if isinstance(source, RelationLoop) and source.relation in self._places:
                name, length = self._places[source.relation]
                match scalar:
                    case Call("partition_number", (time, Literal(value=int(every)))) if length == 1:
                        if _is_column(time, f"{source.alias}.{name}"):
                            return every
                    case _ if _is_column(scalar, f"{source.alias}.{name}"):
                        return length
        return None


def _is_column(scalar: Scalar, name: str) -> bool:
    """True if ``scalar`` is a column, or the first instant of the day of one."""
    match scalar:
        case Cast(input=Column(of=Date()) as column, of=Timestamp()):
            return column.name == name
    return isinstance(scalar, Column) and scalar.name == name


def _numbered(name: str, below: int, *, ends: bool = False) -> ExpiredEntries:
    return ExpiredEntries(name, 0, PARTITION_NUMBER, below, ends)
