"""What the warehouse asks of an autonomous source: tell what was committed, and answer queries, in one order.

The source is somebody else's database. It may not be locked, stamped or copied, and goes on changing while it answers.
All that the protocols need of it is the ordering assumption of section 3 of the ECA paper, made explicit here:
``receive`` gives notifications and answers in one sequence, and an answer was evaluated in exactly the state that the
notifications before it lead to. How a source keeps that promise is its own affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.changes.zset import ZSet
from tidemill.model.schema import Table
from tidemill.sources.remote_queries.signed_query import SignedQuery

Position = str
"""A state of a source, as it names it itself: text that can be stored, shown and resumed from."""


@dataclass(frozen=True)
class Committed:
    """A notification: one transaction as weighted rows by relation (an update is the old row and the new row).

    ``position`` names the state after it.
    """

    changes: Mapping[str, ZSet]
    position: Position


@dataclass(frozen=True)
class Answered:
    """The signed rows of query ``number``, evaluated in the state ``position``; ``received`` is what came, in bytes."""

    number: int
    rows: ZSet
    position: Position
    received: int = 0


Message = Committed | Answered


@dataclass
class Traffic:
    """What went between warehouse and source, as the ECA paper counts it: messages, and bytes of answers."""

    queries: int = 0
    answers: int = 0
    bytes: int = 0
    notifications: int = field(default=0, compare=False)


class Source(Protocol):
    """An autonomous source, open. Not thread-safe: one keeper drives it."""

    name: str
    traffic: Traffic

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that it offers, by their name within the source."""

    def start(self, since: Position | None) -> Position:
        """Begin to deliver what was committed after ``since``, or from now on; returns where that is.

        ``EpochGone`` where the source no longer knows what came after ``since``.
        """

    def ask(self, query: SignedQuery, timeout: float | None = None) -> int:
        """Send a query, positive and negative terms in one message; returns its number. The answer comes later."""

    def describe(self, query: SignedQuery) -> str:
        """What of ``query`` is evaluated there and what here, for EXPLAIN; the first line is a heading."""

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, in order; None where none came in time.

        A connection that breaks is made again, and what was asked is asked again: nothing is lost and nothing comes
        twice. ``SourceLost`` where that fails for too long.
        """

    @property
    def unread(self) -> int:
        """How many messages are here already: so many calls of ``receive`` do not wait."""

    def forget(self, upto: Position) -> None:
        """The warehouse has stored everything up to here durably: the source need not remember it any longer."""

    def remove(self) -> None:
        """Take out of the source what it keeps for this reader, and let go of it: for a view that is dropped."""

    def close(self) -> None:
        """Let go of the source; what it remembers for us stays, so that ``start`` can go on."""
