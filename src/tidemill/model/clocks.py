"""Clocks: relations of one row, the instant that ``now()`` is in views, which advances in epochs of its own.

The *wall* clock of a warehouse is the time of its machine, as of the last tick. An *event* clock is the greatest time
that has come in one column of a table. Either goes forward alone. Names of clocks have a sign that names given by users
cannot contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.model.schema import Table
from tidemill.model.types import TIMESTAMP, Field

CLOCK_PREFIX = "clock@"
"""Prefix of the name of every clock's relation."""

WALL = "wall"
"""The clock that follows the machine's time."""

NOW = Field("now", TIMESTAMP, nullable=False)
"""The only column of a clock."""

CLOCK_POSITION = "clock:"
"""Prefix of the position that stores the instant of a clock, followed by what it follows."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock by what it ``follows``: the wall clock, or the column of a table, as ``orders.placed_at``.

    >>> Clock("orders.placed_at").relation, Clock.of_relation("clock@wall")
    ('clock@orders.placed_at', Clock(follows='wall'))
    """

    follows: str

    @classmethod
    def of_relation(cls, name: str) -> Clock:
        """The clock whose relation has this name."""
        return cls(name.removeprefix(CLOCK_PREFIX))

    @property
    def relation(self) -> str:
        """The name of its relation."""
        return CLOCK_PREFIX + self.follows

    @property
    def position(self) -> str:
        """The name of the position that stores its instant."""
        return CLOCK_POSITION + self.follows

    @property
    def table(self) -> Table:
        """Its relation, as a table of one row."""
        return Table(self.relation, (NOW,))

    @property
    def column(self) -> tuple[str, str] | None:
        """The table and the column that an event clock follows; None for the wall clock."""
        table, dot, column = self.follows.partition(".")
        return (table, column) if dot else None


def is_clock(relation: str) -> bool:
    """True for the name of a clock's relation."""
    return relation.startswith(CLOCK_PREFIX)


def is_clock_position(name: str) -> bool:
    """True if a position is the instant of a clock rather than the position of a source."""
    return name.startswith(CLOCK_POSITION)


def instant_of(positions: Mapping[str, str], clock: Clock) -> datetime | None:
    """The instant of a clock; None if it has not begun."""
    text = positions.get(clock.position)
    return None if text is None else datetime.fromisoformat(text)


def machine_time() -> datetime:
    """The present time in UTC, in which timestamps are kept, to the microsecond."""
    return datetime.now(UTC).replace(tzinfo=None)
