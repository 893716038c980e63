"""Rows that match a pattern, as a relation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.relational.relations import Unary
from tidemill.algebra.relational.row_patterns import RowPattern, anchors_in
from tidemill.model.types import Field, Type

ROW_NAVIGATIONS = frozenset(("first", "last"))
"""Functions that pick a row."""

WITHIN = ""
"""Among the names of conditions: that which must hold for every row after the first one until a run ends."""

CLASSIFIER = "classifier"
MATCH_NUMBER = "match_number"


@dataclass(frozen=True, slots=True)
class Navigation:
    """A value that is read of a run, and its name.

    Only rows of ``variables`` are read; without any, all rows. ``offset`` is for ``first`` and ``last``. ``step`` takes
    the argument from a row that many positions after in the partition instead (before, if negative), whether or not
    that one is in the run. ``earlier`` excludes the row that is being tried, ``final`` reads the whole match in each of
    its rows, and ``distinct`` aggregates equal values once.
    """

    name: str
    function: str
    argument: Scalar | None
    of: Type
    variables: tuple[str, ...] = ()
    offset: int = 0
    step: int = 0
    earlier: bool = False
    final: bool = False
    distinct: bool = False

    @property
    def field(self) -> Field:
        """The column of its value."""
        aggregate = AGGREGATE_FUNCTIONS.get(self.function)
        never_null = self.function == MATCH_NUMBER if aggregate is None else not aggregate.nullable
        return Field(self.name, self.of, not never_null)

    @property
    def counts_rows(self) -> bool:
        """True for COUNT(*), the one aggregate without an argument."""
        return self.argument is None and self.function in AGGREGATE_FUNCTIONS

    def sees(self, variable: str) -> bool:
        """True if rows of that variable count."""
        return not self.variables or variable in self.variables


class RowsPerMatch(Enum):
    """The rows that a match outputs."""

    ONE = "one row per match"
    ALL = "all rows per match"
    EACH = "a row whenever the pattern is complete"


class Contiguity(Enum):
    """The rows of a partition that a match may pass over."""

    NONE = "none"
    NEXT = "till next match"
    ANY = "till any match"


class AfterMatch(Enum):
    """The row at which the search continues after a match."""

    PAST_LAST = "past last row"
    NEXT = "to next row"
    FIRST = "to first"
    LAST = "to last"


@dataclass(frozen=True, slots=True)
class Skip:
    """The row at which the search continues after a match; for ``FIRST`` and ``LAST`` one of ``variables``."""

    after: AfterMatch = AfterMatch.PAST_LAST
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match(Unary):
    """The rows at which rows of a partition, in order, match ``pattern``, each followed by the values of ``measures``.

    Partitions and their order are those of ``TopK``. ``conditions`` tell which rows a variable can be, over the names
    of ``navigations`` alone, which see the rows of the run so far and the row that is tried: so only navigations read
    columns.

    A run begins at a row and takes rows in order. Without ``skips`` it takes every row, and ends at the first that it
    cannot take. ``NEXT`` passes over rows that it cannot take. ``ANY`` passes over any row as well as taking it, so
    that every choice of rows is a run. A condition of the name ``WITHIN`` ends runs: one that has taken rows is given
    up at the first row for which it is not true.

    ``ONE`` and ``ALL``: the search for a match begins at the first row. Of all runs from there that complete the
    pattern the best one is the match (see ``matching.automaton``), and it outputs its last row, or all of its rows. The
    search continues where ``skip`` says, or at the next row if there is no match or an empty one, which outputs the row
    at which it is.

    ``ALL`` may leave out empty matches (``omits_empty``), and may have a row with NULL measures for each row that is
    ``unmatched``: of no match, nor the one at which an empty match is.

    ``EACH``: runs from a row are followed together, and each row that completes the pattern is output, for the best of
    the runs that it completes. When none of them can continue, the search begins again after the last row that was
    output, or at the next row if there was none. While one can continue, it does not; but with ``NEXT`` in ``skip``,
    and if runs skip ``ANY`` row, runs begin at every row, and each choice of rows is output.
    """

    partition: tuple[Scalar, ...]
    order: tuple[SortOrder, ...]
    pattern: RowPattern
    conditions: tuple[tuple[str, Scalar], ...]
    navigations: tuple[Navigation, ...]
    measures: tuple[Navigation, ...]
    output: RowsPerMatch = RowsPerMatch.EACH
    skips: Contiguity = Contiguity.NONE
    skip: Skip = Skip()
    omits_empty: bool = False
    unmatched: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        measured = (navigation.field for navigation in self.measures)
        return self.input.fields + tuple(replace(one, nullable=one.nullable or self.unmatched) for one in measured)

    @property
    def overlaps(self) -> bool:
        """True if runs begin at every row, independently of earlier ones, and are output as they complete."""
        everywhere = self.skips is Contiguity.ANY or self.skip.after is AfterMatch.NEXT
        return self.output is RowsPerMatch.EACH and everywhere

    @property
    def reach(self) -> tuple[int, int]:
        """The number of rows before and after a row that the navigations read, or of which an anchor must know."""
        steps = (0, *(navigation.step for navigation in (*self.navigations, *self.measures)))
        return max(-min(steps), anchors_in(self.pattern)), max(steps)

    @property
    def needs_all_rows(self) -> bool:
        """True if all rows of a run are needed, and not just the last."""
        return self.output is RowsPerMatch.ALL or self.skips is Contiguity.ANY or bool(self.skip.variables)

    @property
    def counts(self) -> bool:
        """True if the number of a match in its partition is read."""
        return any(navigation.function == MATCH_NUMBER for navigation in (*self.navigations, *self.measures))

    @property
    def arguments(self) -> tuple[Scalar, ...]:
        """The values that are read of each row: the arguments of all navigations, each once."""
        return tuple(dict.fromkeys(self.navigation_arguments))

    @property
    def navigation_arguments(self) -> tuple[Scalar, ...]:
        """The arguments of navigations and measures, one after the other."""
        return tuple(
            navigation.argument for navigation in (*self.navigations, *self.measures) if navigation.argument is not None
        )

    def with_navigation_arguments(self, scalars: Iterator[Scalar]) -> Match:
        """The same with the next of ``scalars`` in place of each of ``navigation_arguments``."""
        navigations, measures = (
            tuple(
                navigation if navigation.argument is None else replace(navigation, argument=next(scalars))
                for navigation in part
            )
            for part in (self.navigations, self.measures)
        )
        return replace(self, navigations=navigations, measures=measures)
