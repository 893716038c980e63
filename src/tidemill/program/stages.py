"""Programs: stages that maintain a view, for any runtime to run.

A program is a list of *stages* in the order in which changes pass through them. A stage consumes changes of its inputs
(tables, streams, views, earlier stages) and emits the change of its own output, which is a relation like any other.
Within an epoch every relation is handled once, in topological order:

1. each stage that reads it *fires* its trigger: statements that read the change, and the state of the other inputs;
2. the relation's contents *absorb* the change.

So a trigger sees inputs that were handled before it with their changes and the others without: the telescoping sum
``dR*S + (R+dR)*dS`` that makes one epoch over many tables exact. When all inputs of a stage are handled it *emits*.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import DEFAULT_LEVELS, TopK, Window
from tidemill.algebra.relational.time_partitions import PartitionSlice
from tidemill.model.types import Field
from tidemill.program.joingraph import Graph, Serve
from tidemill.program.joins import AppendedReference, ClassifiedJoin, DegreeRole
from tidemill.program.maps import Map
from tidemill.program.statements import Add, Trigger


@dataclass(frozen=True, slots=True)
class MultisetRead:
    """The value of an aggregate over a multiset that is kept entry by entry, bound as ``call.name``.

    ``map`` has the keys of the emission's map as its first keys; the entries that share them are the multiset, each
    repeated by its weight. ``call`` is over the other keys of ``map``. Minimum and maximum are found in O(log n), other
    aggregates cost the size of the multiset.
    """

    map: str
    call: AggregateCall


@dataclass(frozen=True, slots=True)
class GroupEmission:
    """Rows of a stage from its map: for every key of positive weight that passes ``condition``, one row.

    Expressions see the map's keys and values by name, the weight as ``_weight``, and what ``multiset_reads`` bind. A
    DOUBLE value is rounded, with its rounding error under its name with the suffix ``LOW``. Only keys touched in an
    epoch, in this map or in a multiset, can change their row, so the cost is O(|change|). ``always`` is the global
    aggregate: its single key ``()`` has a row even at weight zero (values then read 0). ``times`` is the multiplicity
    of the row if it is not one (no row if it is not positive).
    """

    source: str
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    always: bool = False
    multiset_reads: tuple[MultisetRead, ...] = ()
    times: Scalar | None = None


def key_of_groups(emission: GroupEmission, map_: Map) -> frozenset[str] | None:
    """Columns of which no two rows have the same values: the keys of ``map_``, if all of them come out."""
    names = {o.scalar.name: o.name for o in emission.outputs if isinstance(o.scalar, Column)}
    keys = [f.name for f in map_.keys]
    return frozenset(names[key] for key in keys) if emission.times is None and names.keys() >= set(keys) else None


@dataclass(frozen=True, slots=True)
class PartitionEmission:
    """Rows of a stage from partitions of its map: the rows of each touched partition are computed again.

    A partition is the entries of ``source`` that are equal in the columns that ``rows`` is partitioned by; these are
    the first keys of the map, and those that it is ordered by come next. ``rows`` is a ``TopK``, a ``Window`` or a
    ``Match`` over ``Scan(source)``, whose alias is empty so that columns go by their bare names; ``condition`` and
    ``outputs`` are over its columns. The output of a partition depends on its own entries alone, so the change is the
    new output of the touched partitions minus the old one. If the map only ``grows``, the rows of a top-k are all that
    is needed of a partition, with those that its offset skips, and runtimes may drop the others.
    """

    source: str
    rows: TopK | Window | Match
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    grows: bool = False

    @property
    def kept_rows(self) -> int | None:
        """The number of first rows of a partition that are needed; None if all are."""
        if not self.grows or not isinstance(self.rows, TopK) or self.rows.limit is None or self.rows.ties:
            return None
        return self.rows.offset + self.rows.limit

    @property
    def width(self) -> int:
        """The number of the map's keys that name a partition."""
        return len(self.rows.partition)


@dataclass(frozen=True, slots=True)
class SessionEmission:
    """Rows of a stage from sessions: one for each, computed from its sums as ``groups`` says.

    The last key of ``source`` is an instant; statements add the sums of all rows at that instant that are equal in the
    other keys. Entries of positive weight with equal other keys are in one *session* as long as the next instant is at
    most ``gap`` microseconds later. The map ``kept``, which ``groups`` reads, has an entry for each session: its keys
    are the other keys and the first instant of the session, its first value is the length of the session in
    microseconds up to a gap after its last instant, and its weight and other values are the sums over the session.

    When all inputs are new, ``kept`` is brought up to date. An instant that is new lengthens a session or joins two;
    one that has gone shortens or splits one, whose sums are those of a range of instants. So the cost is O(log n) for
    each instant whose entry has changed, however long its session is.
    """

    source: str
    gap: int
    groups: GroupEmission

    @property
    def kept(self) -> str:
        """The map of sessions."""
        return self.groups.source

    @property
    def outputs(self) -> tuple[Named, ...]:
        """The columns of a row, over the keys and values of ``kept``."""
        return self.groups.outputs

    @property
    def condition(self) -> Scalar | None:
        """The condition under which a session has a row."""
        return self.groups.condition


@dataclass(frozen=True, slots=True)
class IterationEmission:
    """Rows of a stage from a recursion: each iteration from the rows that count in the one before.

    The first key of ``source`` and of ``kept`` is the iteration, a BIGINT; the others are the columns of a row.
    Statements add found rows to ``source``: the base case in iteration 0, and what follows from a row of iteration i in
    iteration i + 1. A row *counts* in each iteration in which it is found, with its multiplicity; with ``distinct``
    once, in the first of them. The rows that count are in ``kept``, which the triggers read. Found rows stay in
    ``source`` only if they are needed to find the next iteration of a row that loses its first one, that is, if rows
    are ``distinct``.

    When all inputs are new the iterations are settled in order, from the first that was touched: ``again`` is the
    trigger for changes of ``kept``. It adds to later iterations alone, so an iteration is final once it is settled.
    That makes deletions on cycles exact, and the cost is O(what changes, times its matches). If ``source`` is replaced,
    all iterations run again.

    ``outputs`` and ``condition`` are over the columns of a row; rows that differ only in their iteration add up.
    Rows in iteration ``levels`` or later are an error, unless there are ``enough`` rows before it.
    """

    source: str
    kept: str
    distinct: bool
    again: Trigger
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    levels: int = DEFAULT_LEVELS
    enough: int | None = None


@dataclass(frozen=True, slots=True)
class InputMap:
    """The map that holds the rows of feed ``name``, in partitions of ``every`` microseconds (0: without partitions).

    Without partitions, its keys are only the columns used.
    """

    name: str
    map: str
    every: int


@dataclass(frozen=True, slots=True)
class TimePartitionEmission:
    """Rows of a stage from time partitions: each that an epoch touches is recomputed, in order of time.

    Partition i is touched if an entry of a feed has changed in a slice that it reads, if an earlier partition of the
    stage that it reads has changed, or if it is new: the first and the last of ``numbers`` may move. The first
    partition is the answer of the query ``initialize``, all others are that of ``update``; both read the ``slices`` by
    name, whose rows have the keys of their maps as columns (no query reads the number). So the cost is that of the
    touched partitions, and a partition that comes out unchanged does not propagate.

    If it ``rolls``, the query ``update`` computes all partitions from one slice, and has triggers for changes of that
    slice which read nothing else: a runtime may keep its maps and move them from one partition to the next.

    ``outputs`` and ``condition`` are over the keys of ``kept``.
    """

    every: int
    feeds: tuple[InputMap, ...]
    slices: tuple[PartitionSlice, ...]
    numbers: str
    kept: str
    initialize: Program
    update: Program
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    rolls: bool = False

    @property
    def bodies(self) -> tuple[Program, ...]:
        """The queries that compute partitions, each once."""
        return (self.update,) if self.initialize == self.update else (self.initialize, self.update)

    def map_of(self, slice_: PartitionSlice) -> str:
        """The map with the rows of a slice: that of its feed, or that of the relation's own partitions."""
        return next((feed.map for feed in self.feeds if feed.name == slice_.feed), self.kept)


Emission = GroupEmission | PartitionEmission | SessionEmission | IterationEmission | TimePartitionEmission
"""Computation of the rows of a stage from its maps."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A block of a view: its state, how to fill it from whole inputs, and how each input's change updates it.

    Without ``finish`` the statements add directly to the output, whose name is the stage's. ``note`` says why the stage
    is not maintained as requested, if it is not.

    ``graphs`` tell which of the maps are one join graph: its triggers can be run by walking it. If ``serve`` says that
    rows are not stored, ``reader`` computes them: its load fills its own maps from those that it shares with this
    stage, and it has neither inputs nor triggers. ``joins`` are the classes of its joins, and ``references`` the
    foreign keys by which its triggers leave out what is empty, for EXPLAIN.

    ``degrees`` is its role in a join with heavy and light parts. ``before`` are the stages that only this one reads, as
    strategies return it; in a program they stand before it.
    """

    name: str
    output: tuple[Field, ...]
    inputs: tuple[str, ...]
    maps: tuple[Map, ...]
    load: tuple[Add, ...]
    triggers: tuple[Trigger, ...]
    finish: Emission | None
    strategy: str
    note: str = ""
    graphs: tuple[Graph, ...] = ()
    serve: Serve = Serve.BOTH
    reader: Stage | None = None
    joins: tuple[ClassifiedJoin, ...] = field(default=(), compare=False)
    references: tuple[AppendedReference, ...] = field(default=(), compare=False)
    degrees: DegreeRole | None = None
    before: tuple[Stage, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Program:
    """The stages of one view, in order; the last one carries the view's name and rows."""

    view: str
    stages: tuple[Stage, ...]
