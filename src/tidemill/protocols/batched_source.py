"""Batches (future work 2 of the paper): a source as if it stood still while it is asked, and moved in steps.

Updates that come while a question is under way are held back, and what the answer shows of them is taken out of it, by
the questions of lazy compensation (``questions``). So a keeper is told one batch, asks about it, and gets answers of
exactly the state after it. Then the next batch is everything that was held. Three things follow.

* A round ends. Each correction binds one more relation, so an answer is here after as many messages as the query has
  relations that it does not bind: one for a join of two. ECA alone installs when nothing is under way, which with a
  source that changes faster than it answers is never.
* k updates cost the queries of one, and what cancels within a batch is not asked at all.
* Keepers that share a source, such as those of several cores of a view, end a round in the same state.

States between the updates of a batch are not shown: a complete keeper is strongly consistent with batches, unless they
are not ``merged``. Then each update has a round of its own, and every keeper is complete.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from itertools import count

from tidemill.changes.zset import ZSet
from tidemill.protocols.compensation.late_answers import LateAnsweredQuery, split_local
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Answered, Committed, Message, Position, Source


@dataclass
class _BatchedQuery:
    """A query of a keeper: what is asked of the source at present, and what is known of the answer."""

    number: int
    question: LateAnsweredQuery
    timeout: float | None
    rows: ZSet = field(default_factory=ZSet)
    received: int = 0


class BatchedSource:
    """``source``, from the state ``position`` on, for keepers that ask it and are told what it does."""

    def __init__(self, source: Source, position: Position, *, merged: bool = True) -> None:
        self._source = source
        self._position = position
        self._merged = merged
        self._numbers = count(1)
        self._asked: dict[int, _BatchedQuery] = {}
        self._held: deque[Message] = deque()
        self._ready: deque[Answered] = deque()

    def ask(self, query: SignedQuery, timeout: float | None = None) -> int:
        """Send a query about the state that was told last; returns its number.

        One without terms waits for nobody. Its answer comes after everything that the source had committed when it was
        asked, and may be followed by what came later.
        """
        question = LateAnsweredQuery(query)
        for message in self._held:
            if isinstance(message, Committed):
                question.note_later_changes(message.changes)
        asked = _BatchedQuery(next(self._numbers), question, timeout)
        self._send(asked)
        return asked.number

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next batch, or the next answer; None where none came in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (message := self._next()) is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            first = self._source.receive(left)
            if first is None:
                return None
            self._take(first)
            while self._source.unread:
                self._take(self._source.receive(0))
            if left == 0.0:
                return self._next()
        return message

    def _next(self) -> Message | None:
        if self._ready:
            return self._ready.popleft()
        if not self._held or (isinstance(self._held[0], Committed) and self._busy):
            return None
        message = self._held.popleft()
        self._position = message.position
        return message

    @property
    def _busy(self) -> bool:
        return any(asked.question.query.terms for asked in self._asked.values())

    def _take(self, message: Message | None) -> None:
        match message:
            case Committed(changes=changes):
                for asked in self._asked.values():
                    asked.question.note_later_changes(changes)
                self._hold(message)
            case Answered():
                self._answer(self._asked.pop(message.number), message)

    def _hold(self, message: Committed) -> None:
        """Add an update to those that wait; to the last batch of them, where there is one to add to."""
        last = self._held[-1] if self._held else None
        changes: dict[str, ZSet] = {}
        if self._merged and isinstance(last, Committed):
            changes = dict(last.changes)
            self._held.pop()
        for name, rows in message.changes.items():
            changes.setdefault(name, ZSet()).update_by(rows)
        self._held.append(Committed(changes, message.position))

    def _answer(self, asked: _BatchedQuery, message: Answered) -> None:
        """Take out of the answer what it should not show; where that must be asked, it is not complete yet."""
        if not asked.question.query.terms:
            self._held.append(Answered(asked.number, ZSet(), message.position))
            return
        here, left = split_local(asked.question.correction)
        asked.rows.update_by(message.rows)
        asked.rows.update_by(here)
        asked.received += message.received
        if left is not None:
            asked.question = left
            self._send(asked)
            return
        if not self._held:  # nothing has happened since that anybody would see
            self._position = message.position
        self._ready.append(Answered(asked.number, asked.rows, self._position, asked.received))

    def _send(self, asked: _BatchedQuery) -> None:
        self._asked[self._source.ask(asked.question.query, asked.timeout)] = asked
