"""SUBSCRIBE TO a view: its changes as rows, epoch by epoch, until the client has had enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.model.types import BIGINT, Field
from tidemill.serving.pgwire.outcome import Description, ResultColumn, RowStream, column_of, columns_of
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.statements.reader import WordReader

__all__ = ["Subscribe", "SubscribePlan", "read_subscribe"]

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.05
"""Seconds between two looks at a warehouse that has no news: more while nothing happens."""

OWN_COLUMNS = (Field("epoch", BIGINT, nullable=False), Field("weight", BIGINT, nullable=False))


@dataclass(frozen=True)
class Subscribe:
    """A subscription: to a view, from after an epoch or from now on, to its end or up to an epoch."""

    view: str
    since: int | None
    until: int | None


def read_subscribe(statement: StatementText) -> Subscribe:
    """Read ``SUBSCRIBE TO v [SINCE n] [UNTIL n]``.

    >>> from tidemill.serving.pgwire.scan import split
    >>> read_subscribe(next(split("SUBSCRIBE TO spend SINCE 12")))
    Subscribe(view='spend', since=12, until=None)
    """
    words = WordReader(statement)
    words.expect("SUBSCRIBE")
    words.expect("TO")
    view = words.relation()
    since = _epoch(words, "SINCE")
    until = _epoch(words, "UNTIL")
    words.end()
    return Subscribe(view, since, until)


def _epoch(words: WordReader, word: str) -> int | None:
    if not words.accept(word):
        return None
    found = words.number()
    if found is None:
        raise words.unexpected("an epoch")
    return found


class SubscribePlan:
    """A subscription of a client."""

    def __init__(self, session: PgSession, asked: Subscribe) -> None:
        self._session = session
        self._asked = asked

    async def describe(self, declared: Sequence[int]) -> Description:
        """Epoch and weight, then the columns of the view."""
        return Description((), await self._columns())

    async def run(self, values: Sequence[Any]) -> RowStream:
        """Begin to listen."""
        self._session.require_sound()
        columns = await self._columns()
        session, asked = self._session.session, self._asked
        subscription = await self._session.run(lambda: session.subscribe(asked.view, since=asked.since, timeout=0))
        for note in subscription.notes:
            self._session.warn(note)
        return RowStream(columns, _changes(self._session, subscription, asked.until))

    async def _columns(self) -> tuple[ResultColumn, ...]:
        session, name = self._session.session, self._asked.view
        fields = await self._session.run(lambda: tuple(session.view(name).fields))
        return (*map(column_of, OWN_COLUMNS), *columns_of(fields))


async def _changes(
    session: PgSession, subscription: Any, until: int | None
) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
    """The changes of each epoch. Nobody waits in a thread: the warehouse is looked at while nothing comes.

    A client that takes nothing stops this loop; what it misses stays in the store, not in memory.
    """
    pause, seen = FIRST_PAUSE, -1
    try:
        while not session.is_over:
            epoch = session.session.epoch
            if epoch != seen:
                seen, pause = epoch, FIRST_PAUSE
                while (batch := await session.run(_next_batch, subscription)) is not None:
                    if until is not None and batch.epoch > until:
                        return
                    yield [(batch.epoch, weight, *row) for weight, row in batch.changes]
                if until is not None and epoch >= until:
                    return
            try:
                await asyncio.wait_for(session.cancelled.wait(), pause)
            except TimeoutError:
                pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        subscription.close()
    raise session.cancellation()


def _next_batch(subscription: Any) -> Any:
    return next(subscription, None)
