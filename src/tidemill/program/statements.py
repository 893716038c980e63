"""The statements of a trigger: queries as nested loops over changes, relations and maps, and what they add to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.model.types import Field
from tidemill.program.maps import RingField


class Version(Enum):
    """The rows of a relation that a source reads."""

    CHANGE = "change"
    STATE = "state"


class ChangeSubset(Enum):
    """The two kinds of rows of a change, where a key tells which row takes the place of which."""

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
    """The statements for a change of ``relation``, before its contents absorb the change.

    With ``each``, the statements are for one row at a time: every row of the change finds the maps as the row before it
    left them. All other triggers take a change of any size at once, or row by row to the same end.
    """

    relation: str
    statements: tuple[TriggerStatement, ...]
    each: bool = False
