"""Window function calls, and the frames that they look at. ``algebra.kernels.windows`` says what they mean.

==================================  =====================================================================
function                            value
==================================  =====================================================================
row_number, rank, dense_rank        the place of the row; ``rank`` and ``dense_rank`` of the first of its peers
percent_rank, cume_dist, ntile(n)   the same as a share of the part, or as one of n buckets
lag(x, n, d), lead(x, n, d)         x of the row n places before or after, d where there is none
first_value, last_value, nth_value  x of a row of the frame
session_window(t, gap)              start and end of the run of rows of which none comes a gap after the one before
any aggregate                       over the rows of the frame
==================================  =====================================================================

Peers are rows that are equal in all terms of the order. The gap of a session is a literal, in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model.types import Field, Type

RANKINGS = frozenset(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"))
"""Functions of the place of a row alone."""

OFFSETS = frozenset(("lag", "lead"))
"""Functions that look at a row so many places away."""

VALUES = frozenset(("first_value", "last_value", "nth_value"))
"""Functions that pick a row of the frame."""

SESSION = "session_window"


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row that a function looks at.

    An end is an offset from the row, negative before it, or None where there is no end. With ``rows`` offsets count
    rows; else they are added to the value of the one term of the order (days of a DATE, microseconds of a TIMESTAMP;
    counted against the order where that is descending), and 0 means all peers.
    """

    rows: bool
    start: Any
    end: Any


WHOLE = Frame(True, None, None)
"""All rows of the part."""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function and the name that its value gets.

    ``filter`` and ``parameters`` are those of an aggregate: FILTER (WHERE ...), and constants such as a separator.
    """

    name: str
    function: str
    arguments: tuple[Scalar, ...]
    of: Type
    frame: Frame = WHOLE
    ignore_nulls: bool = False
    filter: Scalar | None = None
    parameters: tuple[Any, ...] = ()

    @property
    def field(self) -> Field:
        """The column that this makes."""
        if self.function in RANKINGS or self.function == SESSION:
            return Field(self.name, self.of, nullable=False)
        aggregate = AGGREGATE_FUNCTIONS.get(self.function)
        return Field(self.name, self.of, aggregate is None or aggregate.nullable)
