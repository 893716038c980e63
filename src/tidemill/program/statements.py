"""Programs: what keeps a view fresh, for any runtime to run.

A program is a list of *stages* in the order in which changes pass through them. A stage eats changes of its inputs
(tables, streams, views, earlier stages) and emits the change of its own output, which is a relation like any other.
Within an epoch every relation is handled once, in topological order:

1. each stage that reads it *fires* its trigger: statements that read the change, and the state of the other inputs;
2. the relation's contents *absorb* the change.

So a trigger sees inputs that were handled before it with their changes and the others without: the telescoping sum
``dR*S + (R+dR)*dS`` that makes one epoch over many tables exact. When all inputs of a stage are handled it *emits*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.relational.aggregates import AggregateCall
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK, Window
from tidemill.model.types import Field
from tidemill.program.joingraph import Graph, Serve
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import TimePartitionEmission


class Version(Enum):
    """Which rows of a relation a source reads."""

    CHANGE = "change"
    STATE = "state"


class ChangeSubset(Enum):
    """What becomes of the rows of a change, where a key tells which row takes the place of which."""

    STAYING = "staying"
    ARRIVING = "arriving"


@dataclass(frozen=True, slots=True)
class Split:
    """One part of a change of a relation whose rows are known by ``key``.

    *Staying* are the rows that leave, and those that come in place of one with the same values in ``fixed``: what a row
    meets is decided by these, so it is known from what the row before it has met. *Arriving* are all other rows that
    come. Both together are the change.
    """

    part: ChangeSubset
    key: tuple[str, ...]
    fixed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelationLoop:
    """One loop of a query: the rows of a relation, bound as ``alias.column``, their weight as ``alias._weight``.

    ``columns`` are the relation's fields that the query uses (all others are never read). ``lookup`` pairs a column of
    this relation with an expression over earlier steps that it must equal (a NULL on either side matches nothing):
    runtimes answer it from an index or a hash join. ``filters`` are conditions over this and earlier steps. A source
    that reads a map of the stage may bind sums of it too: ``values`` are those that the query uses. With a ``split``
    only that part of a change is read.
    """

    relation: str
    alias: str
    version: Version
    columns: tuple[Field, ...]
    lookup: tuple[tuple[str, Scalar], ...] = ()
    filters: tuple[Scalar, ...] = ()
    values: tuple[RingField, ...] = ()
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class RangeBound:
    """One end of a range of keys. Only a closed bound includes its key; a NULL bound lets nothing in."""

    scalar: Scalar
    closed: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The keys of an ordered map between two bounds; an end without one is open to infinity. NULL lies in no range."""

    column: str
    lower: RangeBound | None = None
    upper: RangeBound | None = None


@dataclass(frozen=True, slots=True)
class MapRead:
    """The numbers of a map at one key, bound as ``alias._weight`` and ``alias.value``; zero where nothing is.

    ``lookup`` names every key of the map (a NULL finds nothing), but for the one that has a ``range``: then the
    numbers are summed over the range, in O(log n) from subtree sums. A read multiplies nothing: this is how a nested
    aggregate is assigned to variables.
    """

    map: str
    alias: str
    lookup: tuple[tuple[str, Scalar], ...]
    values: tuple[RingField, ...]
    range: Range | None = None
    filters: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class MapSeek:
    """The key at which a running sum turns, bound as ``alias.column``; NULL where it never does.

    The entries of ``map`` under ``lookup`` stand in the order of ``column``. For each, ``alias._weight`` and
    ``alias.value`` are the sums over the entries after it (``after``) or before it, itself excluded. ``condition``
    over these must hold from some entry on to the end where the sums are smallest: what is bound is the entry nearest
    to the other end for which it holds. With sums that only grow from entry to entry that is a descent in O(log n).
    """

    map: str
    alias: str
    lookup: tuple[tuple[str, Scalar], ...]
    column: Field
    after: bool
    values: tuple[RingField, ...]
    condition: Scalar
    filters: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayLoop:
    """The elements of an array of this row, bound as ``alias.name`` for each of ``columns``; multiplies nothing.

    ``columns`` are the element, or the position (counted from 0) and the element. With ``outer`` an array that is empty
    or NULL still gives one round, with NULLs.
    """

    alias: str
    array: Scalar
    columns: tuple[Field, ...]
    outer: bool = False
    filters: tuple[Scalar, ...] = ()

    @property
    def lookup(self) -> tuple[tuple[str, Scalar], ...]:
        """Elements are not looked up."""
        return ()

    @property
    def values(self) -> tuple[RingField, ...]:
        """Elements have no sums."""
        return ()


Step = RelationLoop | MapRead | MapSeek | ArrayLoop


@dataclass(frozen=True, slots=True)
class Query:
    """Nested loops over ``sources``, outermost first, yielding ``outputs`` with the product of the sources' weights.

    Reads and seeks stand among the sources, where what they need is bound. ``filters`` need no source at all. Without
    sources a query yields one row of weight one.

    Where ``weight`` is given it takes the place of the product, and the values among the outputs are added as they
    stand: nothing is multiplied for them. That is how statements multiply sums of maps with each other.
    """

    sources: tuple[Step, ...]
    outputs: tuple[Named, ...]
    filters: tuple[Scalar, ...] = ()
    weight: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Add:
    """``target[keys] += values`` for each row of the query: its first outputs are the target's keys, then its values.

    A NULL value adds nothing. ``target`` is a map of the stage, or the stage's own output.
    """

    target: str
    query: Query


@dataclass(frozen=True, slots=True)
class Replace:
    """``target := the sum of queries``, from the state after the epoch; the difference is what changed.

    A seek is right only while the sums that it runs over never fall. ``guards`` name them, as map and value: while an
    entry of such a map has a negative value (or weight, where the value is ``_weight``), ``otherwise`` is computed
    instead, which means the same and scans.
    """

    target: str
    queries: tuple[Query, ...]
    guards: tuple[tuple[str, str], ...] = ()
    otherwise: tuple[Query, ...] = ()


TriggerStatement = Add | Replace


@dataclass(frozen=True, slots=True)
class Trigger:
    """What to do when ``relation`` changes, before its contents absorb the change.

    With ``each``, the statements are for one row at a time: every row of the change finds the maps as the row before it
    left them. All other triggers take a change of any size at once, or row by row to the same end.
    """

    relation: str
    statements: tuple[TriggerStatement, ...]
    each: bool = False


@dataclass(frozen=True, slots=True)
class MultisetRead:
    """The value of an aggregate over a bag that is kept entry by entry, bound as ``call.name``.

    ``map`` has the keys of the finish's map as its first keys; the entries that share them are the bag, each as often
    as its weight says. ``call`` is over the other keys of ``map``. The least and the greatest entry are found in
    O(log n), other aggregates cost the bag.
    """

    map: str
    call: AggregateCall


@dataclass(frozen=True, slots=True)
class GroupEmission:
    """How the rows of a stage come from its map: for every key of positive weight that passes ``condition``, one row.

    Expressions see the map's keys and values by name, the weight as ``_weight``, and what ``peeks`` bind. A DOUBLE
    value is seen rounded, and what rounding leaves out by its name with the suffix ``LOW``. Only keys touched in an
    epoch, in this map or in one that is peeked at, can change their row, so the cost is O(|change|). ``always`` is the
    global aggregate: its single key ``()`` has a row even at weight zero (values then read 0). ``times`` says how often
    the row comes, where that is not once (never where it is not positive).
    """

    source: str
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    always: bool = False
    peeks: tuple[MultisetRead, ...] = ()
    times: Scalar | None = None


@dataclass(frozen=True, slots=True)
class PartitionEmission:
    """How the rows of a stage come from parts of its map: each part that an epoch touches gives its rows anew.

    A part are the entries of ``source`` that are equal in the columns that ``rows`` is partitioned by; these are the
    first keys of the map, and those that it is ordered by come next. ``rows`` is a ``TopK``, a ``Window`` or a
    ``Match`` over ``Scan(source)``, whose alias is empty so that columns go by their bare names; ``condition`` and
    ``outputs`` are over its columns. What a part gives depends on its own entries alone, so the change is what the
    touched parts give now less what they gave before.
    """

    source: str
    rows: TopK | Window | Match
    outputs: tuple[Named, ...]
    condition: Scalar | None = None

    @property
    def width(self) -> int:
        """How many of the map's keys name a part."""
        return len(self.rows.partition)


@dataclass(frozen=True, slots=True)
class IterationEmission:
    """How the rows of a stage come out of a recursion: round by round, each from what counts in the one before.

    The first key of ``source`` and of ``kept`` is the round, a BIGINT; the others are the columns of a row. Statements
    add to ``source`` what is found: the base in round 0, and what follows from a row of round i in round i + 1. A row
    *counts* in each round in which it is found, as often as it is; with ``distinct`` once, in the first of them. What
    counts is in ``kept``, which the triggers read. What is found stays in ``source`` only where it is needed to tell
    the next round of a row that loses its first one, so where rows are ``distinct``.

    When all inputs are new the rounds are settled in order, from the first that was touched: ``again`` is the trigger
    for what changes in ``kept``. It adds to later rounds alone, so a round is final once it is settled. That makes
    deletions on cycles exact, and the cost is O(what changes, times its matches). A replaced ``source`` starts anew.

    ``outputs`` and ``condition`` are over the columns of a row; rows that differ only in their round add up.
    """

    source: str
    kept: str
    distinct: bool
    again: Trigger
    outputs: tuple[Named, ...]
    condition: Scalar | None = None


Emission = GroupEmission | PartitionEmission | IterationEmission | TimePartitionEmission
"""How the rows of a stage come out of its maps."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A block of a view: its state, how to fill it from whole inputs, and how each input's change moves it.

    Without ``finish`` the statements add straight to the output, whose name is the stage's. ``note`` says why the stage
    is not kept as it was asked for, where that is so.

    ``graphs`` tell which of the maps are one join graph: what the triggers do can be done by walking it. Where
    ``serve`` says that rows are not stored, ``reader`` gives them: its load fills its own maps from those that it has
    in common with this stage, and it has neither inputs nor triggers.
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


@dataclass(frozen=True, slots=True)
class Program:
    """The stages of one view, in order; the last one carries the view's name and rows."""

    view: str
    stages: tuple[Stage, ...]
