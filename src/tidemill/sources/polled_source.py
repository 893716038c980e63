"""Polled sources: each poll is one read transaction, which guarantees the order of notifications and answers.

A poll sees one state of the source. It reads the visible changes that were not delivered yet, and answers all pending
queries. Changes come first, answers after them: each answer was then evaluated in exactly the state that the
notifications before it lead to, with no reasoning about clocks or log positions. The result of a poll is recorded only
when it is complete, so an interrupted one is simply repeated.

At most one poll is buffered here; the next is made when all its messages were received. A backlog of more than ``held``
transactions is read in several polls, of which the last one answers the queries: the rest stays in the source.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemill.model.errors import EpochGone, SourceSlow
from tidemill.model.schema import Table
from tidemill.sources.remote_queries.dialects import Dialect
from tidemill.sources.remote_queries.remote_tables import RemoteTable, offered_tables, table_named, tables_by_name
from tidemill.sources.remote_queries.render_sql import RemotePlan, describe_remote_plan, plan_remote
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Answered, Committed, Message, Traffic

__all__ = ["MAX_TRIES", "PendingQuery", "PolledSource", "reader_taken_over"]

MAX_TRIES = 3
"""Number of retries of a query that times out before ``SourceSlow``."""


@dataclass
class PendingQuery:
    """A query in flight: its number, its timeout, and how often it timed out."""

    number: int
    query: SignedQuery
    timeout: float | None
    late: int = 0


class PolledSource(ABC):
    """The part that is common to all sources: pending queries, buffered messages, counters."""

    def __init__(self, name: str, dialect: Dialect, query_timeout: float | None = None) -> None:
        self.name = name
        self.traffic = Traffic()
        self._dialect = dialect
        self._remote: dict[str, RemoteTable] = {}
        self._plans: dict[SpjView, RemotePlan] = {}
        self._query_timeout = query_timeout
        self._messages: deque[Message] = deque()
        self._asked: list[PendingQuery] = []
        self._numbers = 0

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables in use."""
        return offered_tables(self._remote)

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """The columns left out of each table, and why."""
        return {name: table.notes for name, table in self._remote.items() if table.notes}

    def describe(self, query: SignedQuery) -> str:
        """The parts of ``query`` that are evaluated remotely and locally, and the SQL: for EXPLAIN."""
        return describe_remote_plan(self._plan(query.view), query)

    def _use(
        self,
        there: Iterable[RemoteTable],
        names: Iterable[str] | None,
        columns: Mapping[str, Collection[str]] | None = None,
    ) -> list[RemoteTable]:
        """Start to use the named tables, or all; returns those that can be read.

        ``columns``, if given, has all tables that may be used, with their columns.
        """
        found = tables_by_name(there)
        if columns is not None:
            found = {name: found[name].only(columns[name]) for name in found if name in columns}
        wanted = found if names is None else [name.lower() for name in names]
        self._remote = {name: found[name] if names is None else table_named(found, name, self.name) for name in wanted}
        return [table for table in self._remote.values() if table.columns]

    def _plan(self, view: SpjView) -> RemotePlan:
        if view not in self._plans:
            self._plans[view] = plan_remote(view, self._dialect, self._remote, self.name)
        return self._plans[view]

    @abstractmethod
    def _look(self, asked: Sequence[PendingQuery]) -> list[Message]:
        """One read transaction: the changes that are new in it, then the answers."""

    @abstractmethod
    def _wait(self, seconds: float) -> None:
        """Return when something may have changed, or after ``seconds``."""

    def ask(self, query: SignedQuery, timeout: float | None = None) -> int:
        """Send a query; terms that need no source are evaluated locally when the answer comes."""
        self._numbers += 1
        self.traffic.queries += 1
        self._asked.append(PendingQuery(self._numbers, query, timeout or self._query_timeout))
        return self._numbers

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, in order; None if none came within ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._messages:
            self._messages.extend(self._look(self._asked))
            told = {message.number for message in self._messages if isinstance(message, Answered)}
            self._asked = [asked for asked in self._asked if asked.number not in told]
            if self._messages:
                break
            self._refuse_late()
            left = 60.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return None
            self._wait(left)
        return self._counted(self._messages.popleft())

    def key_range(self, table: str, column: str) -> tuple[int, int, int] | None:
        """None: a source that says nothing else is read by one query."""
        return None

    @property
    def unread(self) -> int:
        """Number of messages of the last poll that were not received yet."""
        return len(self._messages)

    def _refuse_late(self) -> None:
        for asked in self._asked:
            if asked.late >= MAX_TRIES:
                late, asked.late = asked.late, 0
                raise SourceSlow(
                    f'source "{self.name}" did not answer query {asked.number} in {asked.timeout} seconds',
                    detail=f"It was asked {late} times, and stays asked.",
                    hint="An index on the join columns may help, or a longer query_timeout.",
                )

    def _counted(self, message: Message) -> Message:
        if isinstance(message, Committed):
            self.traffic.notifications += 1
        else:
            self.traffic.answers += 1
            self.traffic.bytes += message.received
        return message


def reader_taken_over(reader: str) -> EpochGone:
    """The error if another warehouse uses our reader name: changes that it acknowledged are lost to us."""
    return EpochGone(
        f'changes that were kept for the reader "{reader}" are gone',
        detail="Somebody else reads under the same name, or has reset it.",
        hint="Give each warehouse a name of its own in the option reader, and fill the views again.",
    )
