"""The statements of a trigger: queries as nested loops over changes, relations and maps, and what they add to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.model.types import Field
from tidemill.program.maps import RingField


class Version(Enum):
    """The rows of a relation that a source reads."""

    CHANGE = "change"
    STATE = "state"


class ChangeSubset(Enum):
    """The two kinds of rows of a change, if a key pairs each new row with the old row that it replaces."""

    STAYING = "staying"
    ARRIVING = "arriving"


@dataclass(frozen=True, slots=True)
class Split:
    """One part of a change of a relation whose rows are identified by ``key``.

    *Staying* are the deleted rows, and those inserted in place of one with the same values in ``fixed``: these values
    decide the join partners of a row, which are therefore those of the row before it. *Arriving* are all other inserted
    rows. Both together are the change.
    """

    part: ChangeSubset
    key: tuple[str, ...]
    fixed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RangeBound:
    """One end of a range of keys. Only a closed bound includes its key; with a NULL bound the range is empty."""

    scalar: Scalar
    closed: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The keys of an ordered map between two bounds; a missing bound is infinite. NULL lies in no range."""

    column: str
    lower: RangeBound | None = None
    upper: RangeBound | None = None


@dataclass(frozen=True, slots=True)
class RelationLoop:
    """One loop of a query: the rows of a relation, bound as ``alias.column``, their weight as ``alias._weight``.

    ``columns`` are the relation's fields that the query uses (all others are never read). ``lookup`` pairs a column of
    this relation with an expression over earlier steps that it must equal (a NULL on either side matches nothing):
    runtimes answer it from an index or a hash join. ``filters`` are conditions over this and earlier steps. A source
    that reads a map of the stage may bind sums of it too: ``values`` are those that the query uses. With a ``split``
    only that part of a change is read. It is ``single`` if the columns that are looked up determine the others, by the
    keys of the relations that a map is made of; between the two halves of an update it may find two entries.

    A loop over a map of the stage, without a lookup, may have a ``range`` for one of its keys. Its bounds are not NULL,
    and the filters say the same: a runtime that keeps the map in that order visits no other entries.
    """

    relation: str
    alias: str
    version: Version
    columns: tuple[Field, ...]
    lookup: tuple[tuple[str, Scalar], ...] = ()
    filters: tuple[Scalar, ...] = ()
    values: tuple[RingField, ...] = ()
    split: Split | None = None
    single: bool = field(default=False, compare=False)
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class MapRead:
    """The numbers of a map at one key, bound as ``alias._weight`` and ``alias.value``; zero if there is no entry.

    ``lookup`` names every key of the map (a NULL finds nothing), except the one that has a ``range``: then the numbers
    are summed over the range, in O(log n) from subtree sums. A read multiplies nothing: this is how a nested aggregate
    is assigned to variables.
    """

    map: str
    alias: str
    lookup: tuple[tuple[str, Scalar], ...]
    values: tuple[RingField, ...]
    range: Range | None = None
    filters: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class MapSeek:
    """The key at which a condition on a running sum changes, bound as ``alias.column``; NULL if it never does.

    The entries of ``map`` under ``lookup`` are ordered by ``column``. For each, ``alias._weight`` and ``alias.value``
    are the sums over the entries after it (``after``) or before it, itself excluded. ``condition`` over these must be
    monotone: true from some entry on to the end where the sums are smallest. The entry bound is the one nearest to the
    other end for which it is true. With sums that only grow from entry to entry that is a descent in O(log n).
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

    ``columns`` are the element, or the position (counted from 0) and the element. With ``outer`` an empty or NULL array
    still gives one iteration, with NULLs.
    """

    alias: str
    array: Scalar
    columns: tuple[Field, ...]
    outer: bool = False
    filters: tuple[Scalar, ...] = ()

    @property
    def lookup(self) -> tuple[tuple[str, Scalar], ...]:
        """No lookup: elements are always scanned."""
        return ()

    @property
    def values(self) -> tuple[RingField, ...]:
        """No values: elements have no sums."""
        return ()


Step = RelationLoop | MapRead | MapSeek | ArrayLoop


@dataclass(frozen=True, slots=True)
class Query:
    """Nested loops over ``sources``, outermost first, yielding ``outputs`` with the product of the sources' weights.

    Reads and seeks are among the sources, after the steps that bind what they need. ``filters`` need no source at all.
    Without sources a query yields one row of weight one.

    If ``weight`` is given it replaces the product, and the values among the outputs are added as they are, without
    multiplication. That is how statements multiply sums of maps with each other.
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
class Touched:
    """The part of a target that one changed row can affect: the sum of ``queries``, which find it by that row.

    It is summed before the other statements of the trigger and after them, and the target changes by the difference.
    ``guards`` and ``otherwise`` are as those of a ``Replace``. It ``loops`` if the queries visit entries of maps one by
    one, rather than sums over them or single ones.
    """

    queries: tuple[Query, ...]
    guards: tuple[tuple[str, str], ...] = ()
    otherwise: tuple[Query, ...] = ()
    loops: bool = False


@dataclass(frozen=True, slots=True)
class Replace:
    """``target := the sum of queries``, from the state after the epoch; the change is the difference.

    A seek is right only while its running sums are monotone. ``guards`` name them, as map and value: while an entry of
    such a map has a negative value (or weight, if the value is ``_weight``), ``otherwise`` is computed instead, which
    means the same and scans. With ``touched`` a change of few rows replaces only what each row can affect.
    """

    target: str
    queries: tuple[Query, ...]
    guards: tuple[tuple[str, str], ...] = ()
    otherwise: tuple[Query, ...] = ()
    touched: Touched | None = None


TriggerStatement = Add | Replace


@dataclass(frozen=True, slots=True)
class Trigger:
    """The statements for a change of ``relation``, before its contents absorb the change.

    With ``each``, the statements are for one row at a time: every row of the change sees the maps as the row before it
    left them. All other triggers process a change of any size at once, or row by row with the same result; but a
    loop with a ``range`` needs the old and the new row of a clock together.
    """

    relation: str
    statements: tuple[TriggerStatement, ...]
    each: bool = False
