"""The protocol of an autonomous source: it reports commits and answers queries, in one order.

The source is a database of others. It may not be locked, stamped or copied, and goes on changing while it answers. All
that the protocols need of it is the ordering assumption of section 3 of the ECA paper, made explicit here: ``receive``
gives notifications and answers in one sequence, and an answer was evaluated in exactly the state that the notifications
before it lead to. How a source guarantees that is up to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.changes.zset import ZSet
from tidemill.model.schema import Table
from tidemill.sources.remote_queries.signed_query import SignedQuery

Position = str
"""A state of a source, in its own notation: text that can be stored, shown and resumed from."""


@dataclass(frozen=True)
class Committed:
    """A notification: one transaction as weighted rows by relation (an update is the old row and the new row).

    ``position`` names the state after it.
    """

    changes: Mapping[str, ZSet]
    position: Position


@dataclass(frozen=True)
class Answered:
    """The signed rows of query ``number``, evaluated in the state ``position``; ``received`` is their size in bytes."""

    number: int
    rows: ZSet
    position: Position
    received: int = 0


Message = Committed | Answered


@dataclass
class Traffic:
    """The traffic between warehouse and source, as the ECA paper counts it: messages, and bytes of answers."""

    queries: int = 0
    answers: int = 0
    bytes: int = 0
    notifications: int = field(default=0, compare=False)


class Source(Protocol):
    """An open autonomous source. Not thread-safe: it has a single user."""

    name: str
    traffic: Traffic

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that it offers, by their name within the source."""

    def start(self, since: Position | None) -> Position:
        """Begin to deliver what was committed after ``since``, or from now on; returns that position.

        ``EpochGone`` if the source no longer has the changes after ``since``.
        """

    def ask(self, query: SignedQuery, timeout: float | None = None) -> int:
        """Send a query, positive and negative terms in one message; returns its number. The answer comes later."""

    def describe(self, query: SignedQuery) -> str:
        """The parts of ``query`` that are evaluated remotely and locally, for EXPLAIN; the first line is a heading."""

    def key_range(self, table: str, column: str) -> tuple[int, int, int] | None:
        """The least and the greatest value of an integer key, and about how many rows there are.

        None for an empty table, or if the source is always read by one query.
        """

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, in order; None if none came in time.

        A broken connection is reopened, and pending queries are sent again: nothing is lost and nothing comes twice.
        ``SourceLost`` if that fails for too long.
        """

    @property
    def unread(self) -> int:
        """Number of buffered messages: so many calls of ``receive`` do not wait."""

    def forget(self, upto: Position) -> None:
        """Acknowledge that everything up to here is stored durably: the source need not keep it any longer."""

    def remove(self) -> None:
        """Remove from the source what it keeps for this reader, and close it: for a view that is dropped."""

    def close(self) -> None:
        """Close the source; what it keeps for us stays, so that ``start`` can continue."""
