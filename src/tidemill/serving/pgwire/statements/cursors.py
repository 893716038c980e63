"""DECLARE, FETCH, MOVE and CLOSE: rows that are fetched as they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import CopyIn, CopyOut, Description, Outcome, Plan, RowStream
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import Cursor, PgSession
from tidemill.serving.pgwire.settings import milliseconds
from tidemill.serving.pgwire.statements.reader import WordReader

__all__ = ["cursor_plan"]

PlanOf = Callable[[str], Plan]

MOST_CURSORS = 100


def cursor_plan(session: PgSession, statement: StatementText, plan_of: PlanOf) -> Plan | None:
    """The plan of a statement about a cursor; None for any other statement."""
    words, first = WordReader(statement), statement.words[:1]
    if first == ("DECLARE",):
        return _declare(session, words, plan_of)
    if first == ("CLOSE",):
        return _close(session, words)
    if first in (("FETCH",), ("MOVE",)):
        return FetchPlan(session, words)
    return None


class _Once:
    """A statement without parameters and columns."""

    def __init__(self, run: Callable[[], Awaitable[Outcome]]) -> None:
        self._run = run

    async def describe(self, declared: Sequence[int]) -> Description:
        """Nothing to describe."""
        return Description((), None)

    async def run(self, values: Sequence[Any]) -> Outcome:
        """Run it."""
        return await self._run()


def _declare(session: PgSession, words: WordReader, plan_of: PlanOf) -> Plan | None:
    words.expect("DECLARE")
    name = words.name()
    while words.accept("BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL"):
        pass
    if not words.accept("CURSOR"):
        return None  # a variable of the warehouse's own SQL
    holds = words.accept_all("WITH", "HOLD")
    words.accept_all("WITHOUT", "HOLD")
    words.expect("FOR")
    query = words.rest()
    plan = plan_of(query)

    async def run() -> Outcome:
        if session.status == "I" and not holds and not query.upper().startswith("SUBSCRIBE"):
            raise PgError("25P01", "DECLARE CURSOR can only be used in a transaction", hint="Or declare it WITH HOLD.")
        if name in session.cursors:
            raise PgError("42P03", f'the cursor "{name}" exists already')
        if len(session.cursors) >= MOST_CURSORS:
            raise PgError("54000", f"a connection has at most {MOST_CURSORS} cursors")
        found = await plan.run(())
        if isinstance(found, CopyIn | CopyOut) or found.columns is None:
            raise PgError("42601", "a cursor is for a query that has rows")
        keeps = holds or session.status == "I"
        session.cursors[name] = Cursor(found, holds=keeps)
        return Outcome("DECLARE CURSOR")

    return _Once(run)


def _close(session: PgSession, words: WordReader) -> Plan:
    words.expect("CLOSE")
    name = None if words.accept("ALL") else words.name()
    words.end()

    async def run() -> Outcome:
        if name is not None and name not in session.cursors:
            raise PgError("34000", f'there is no cursor "{name}"')
        gone = [session.cursors.pop(one) for one in ([name] if name is not None else list(session.cursors))]
        for cursor in gone:
            await close_cursor(cursor)
        return Outcome("CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR")

    return _Once(run)


async def close_cursor(cursor: Cursor) -> None:
    """Close a cursor."""
    if isinstance(cursor.result, RowStream):
        await cursor.result.batches.aclose()  # type: ignore[attr-defined]


class FetchPlan:
    """FETCH, and MOVE, which does the same without showing rows."""

    def __init__(self, session: PgSession, words: WordReader) -> None:
        self._session = session
        self._shows = words.accept("FETCH")
        if not self._shows:
            words.expect("MOVE")
        self._count = self._read_count(words)
        words.accept("FROM", "IN")
        self._name = words.name()
        self._seconds: float | None = None
        if words.accept("WITH"):
            self._seconds = _timeout(words)
        words.end()

    def _read_count(self, words: WordReader) -> int | None:
        """Number of rows to fetch; None for all."""
        if words.accept("NEXT"):
            return 1
        words.accept("FORWARD")
        if words.accept("ALL"):
            return None
        if words.accept("BACKWARD", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
            raise PgError("0A000", "a cursor goes forward only")
        count = words.number()
        if count is not None and count < 0:
            raise PgError("0A000", "a cursor goes forward only")
        return 1 if count is None else count

    @property
    def _cursor(self) -> Cursor:
        if self._name not in self._session.cursors:
            raise PgError("34000", f'there is no cursor "{self._name}"')
        return self._session.cursors[self._name]

    async def describe(self, declared: Sequence[int]) -> Description:
        """The columns of the cursor's query."""
        return Description((), self._cursor.result.columns if self._shows else None)

    async def run(self, values: Sequence[Any]) -> Outcome:
        """The next rows."""
        self._session.require_sound()
        cursor = self._cursor
        if isinstance(cursor.result, RowStream):
            rows = await self._streamed(cursor, cursor.result)
        else:
            end = None if self._count is None else cursor.place + self._count
            rows = list(cursor.result.rows[cursor.place : end])
            cursor.place += len(rows)
        if not self._shows:
            return Outcome(f"MOVE {len(rows)}")
        return Outcome("FETCH {rows}", cursor.result.columns, rows)

    async def _streamed(self, cursor: Cursor, stream: RowStream) -> list[tuple[Any, ...]]:
        """Rows of a subscription: those that are there, and if there are none, those of the next epoch."""
        wanted = self._count
        if not cursor.left and wanted != 0:
            cursor.left = list(await self._next(cursor, stream))
        taken = cursor.left if wanted is None else cursor.left[:wanted]
        cursor.left = [] if wanted is None else cursor.left[wanted:]
        return taken

    async def _next(self, cursor: Cursor, stream: RowStream) -> Sequence[tuple[Any, ...]]:
        """The next rows of a stream, or none after the timeout: what is being waited for then stays asked for."""
        if cursor.waiting is None:
            cursor.waiting = asyncio.ensure_future(anext(stream.batches, ()))
            cursor.waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may ask again
        done, _ = await asyncio.wait({cursor.waiting}, timeout=self._seconds)
        if not done:
            return ()
        waiting, cursor.waiting = cursor.waiting, None
        found: Sequence[tuple[Any, ...]] = waiting.result()
        return found


def _timeout(words: WordReader) -> float:
    """``WITH (TIMEOUT '1s')``: how long FETCH waits for changes."""
    words.expect("(")
    words.expect("TIMEOUT")
    words.accept("=")
    value = words.value()
    words.expect(")")
    return milliseconds(value) / 1000
