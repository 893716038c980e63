"""Batches (future work 2 of the paper): a source that appears to stand still while it is queried, and to move in steps.

Updates that arrive while a query is unanswered are held back, and their effect is taken out of the answer by lazy
compensation (``late_answers``). So a maintainer receives one batch, queries about it, and gets answers in exactly the
state after it. The next batch is everything that was held. This has three consequences:

* Every iteration ends. Each correction binds one more relation, so an answer is complete after as many messages as the
  query has unbound relations: one for a join of two. ECA without batches installs only when no query is unanswered,
  which never happens if the source changes faster than it answers.
* k updates cost the queries of one, and changes that cancel within a batch cause no query.
* Maintainers that share a source, such as those of several subplans of a view, end an iteration in the same state.

States between the updates of a batch are not shown, so a complete maintainer is only strongly consistent with batches.
If they are not ``merged``, each update is a batch of its own, and every maintainer is complete.
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
    """A query of a maintainer: the query now at the source, and the part of the answer that is known."""

    number: int
    question: LateAnsweredQuery
    timeout: float | None
    rows: ZSet = field(default_factory=ZSet)
    received: int = 0


class BatchedSource:
    """``source``, from the state ``position`` on, as maintainers see it: they send queries and receive its updates."""

    def __init__(self, source: Source, position: Position, *, merged: bool = True) -> None:
        self._source = source
        self._position = position
        self._merged = merged
        self._numbers = count(1)
        self._asked: dict[int, _BatchedQuery] = {}
        self._held: deque[Message] = deque()
        self._ready: deque[Answered] = deque()

    def ask(self, query: SignedQuery, timeout: float | None = None) -> int:
        """Send a query about the state of the last batch delivered; returns its number.

        A query without terms does not hold batches back. Its answer follows everything that the source had committed
        when it was sent, and may be followed by later updates.
        """
        question = LateAnsweredQuery(query)
        for message in self._held:
            if isinstance(message, Committed):
                question.note_later_changes(message.changes)
        asked = _BatchedQuery(next(self._numbers), question, timeout)
        self._send(asked)
        return asked.number

    @property
    def unread(self) -> int:
        """Number of messages that are known and were not received yet."""
        return self._source.unread + len(self._held) + len(self._ready)

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next batch or answer; None if the timeout passes."""
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
        """Hold an update back; with ``merged`` it joins the last batch held, if there is one."""
        last = self._held[-1] if self._held else None
        changes: dict[str, ZSet] = {}
        if self._merged and isinstance(last, Committed):
            changes = dict(last.changes)
            self._held.pop()
        for name, rows in message.changes.items():
            changes.setdefault(name, ZSet()).update_by(rows)
        self._held.append(Committed(changes, message.position))

    def _answer(self, asked: _BatchedQuery, message: Answered) -> None:
        """Correct the answer for later updates; it stays incomplete while a correction must be queried."""
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
        if not self._held:  # no update since then is unseen
            self._position = message.position
        self._ready.append(Answered(asked.number, asked.rows, self._position, asked.received))

    def _send(self, asked: _BatchedQuery) -> None:
        self._asked[self._source.ask(asked.question.query, asked.timeout)] = asked
