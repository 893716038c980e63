"""Window function calls, and their frames. ``algebra.kernels.windows`` defines their meaning.

==================================  =====================================================================
function                            value
==================================  =====================================================================
row_number, rank, dense_rank        the position of the row; ``rank`` and ``dense_rank`` that of its first peer
percent_rank, cume_dist, ntile(n)   the same as a fraction of the partition, or as one of n buckets
lag(x, n, d), lead(x, n, d)         x of the row n positions before or after, d if there is none
first_value, last_value, nth_value  x of a row of the frame
session_window(t, gap)              start and end of the sequence of rows without a gap between them
session_window(t, gap, longest)     the same with a gap of each row's own
any aggregate                       over the rows of the frame
==================================  =====================================================================

Peers are rows that are equal in all terms of the order. The gap of a session is in microseconds: a literal, or a
positive value of the row, of which ``longest`` is an upper bound, a literal, or NULL if none is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model.types import Field, Type

RANKINGS = frozenset(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"))
"""Functions of the position of a row alone."""

OFFSETS = frozenset(("lag", "lead"))
"""Functions that read a row that many positions away."""

VALUES = frozenset(("first_value", "last_value", "nth_value"))
"""Functions that pick a row of the frame."""

SESSION = "session_window"


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row that a function reads.

    An end is an offset from the row, negative before it, or None if unbounded. With ``rows`` offsets count rows; else
    they are added to the value of the one term of the order (days of a DATE, microseconds of a TIMESTAMP; subtracted if
    the order is descending), and 0 means all peers.
    """

    rows: bool
    start: Any
    end: Any


WHOLE = Frame(True, None, None)
"""All rows of the partition."""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function and the name of its value.

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
