"""The audit log of the door: statements as they end, and logins, written in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.pgwire.outcome import Plan
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.statements.engine_plan import EnginePlan

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["Audit", "Noting"]

LOG = logging.getLogger("tidemill.pgwire")

DOOR = "pgwire"

PAUSE = 0.05
"""Seconds for which entries gather: a thread that writes one takes longer than its statement."""

MOST_WAITING = 10_000
"""Entries that may wait; whoever has one more waits until all are written."""


class Audit:
    """Writes entries to a log, if there is one, without keeping the event loop waiting for a disk."""

    def __init__(self, log: AuditLog | None) -> None:
        self._log = log
        self._waiting: list[Callable[[], None]] = []
        self._writer: asyncio.Task[None] | None = None

    def login(self, name: str | None, address: str, error: BaseException | None = None) -> None:
        """Note a login; ``name`` is None where there is no such user."""
        if self._log is not None:
            self._put(partial(self._log.note_login, name, door=DOOR, address=address, error=error))

    @contextmanager
    def statement(self, connection: Connection, statement: StatementText | None) -> Iterator[Noting]:
        """Note a statement that runs in the block, however it ends."""
        noting = self.noting(connection, statement)
        try:
            yield noting
        except asyncio.CancelledError:
            noting.end(None if connection.session is None else connection.session.ended_by)
            raise
        except Exception as error:
            noting.end(error)
            error.noted = True  # type: ignore[attr-defined]
            raise
        noting.end(None)

    def noting(self, connection: Connection, statement: StatementText | None, plan: Plan | None = None) -> Noting:
        """A statement that begins to run, and is noted when it ends."""
        return Noting(self, connection, statement, plan)

    def note(
        self,
        noting: Noting,
        *,
        ended: bool = True,
        seconds: float | None = None,
        rows: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Note a statement."""
        statement, connection = noting.statement, noting.connection
        if self._log is None or statement is None:
            return
        text, read = _told(statement, noting.plan, connection.session is not None and connection.session.postgres)
        self._put(
            partial(
                self._log.note,
                connection.principal,
                text,
                door=DOOR,
                address=connection.address,
                seconds=seconds,
                rows=rows,
                error=error,
                ended=ended,
                read=read,
            )
        )

    def _put(self, entry: Callable[[], None]) -> None:
        self._waiting.append(entry)
        if len(self._waiting) > MOST_WAITING:
            _write(self._taken())
        elif self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(PAUSE)
                await asyncio.to_thread(_write, self._taken())
        finally:
            self._writer = None

    def _taken(self) -> list[Callable[[], None]]:
        entries, self._waiting = self._waiting, []
        return entries

    async def close(self) -> None:
        """Write what waits."""
        if self._writer is not None:
            await self._writer


class Noting:
    """A statement that is about to be noted, with what becomes known of it while it runs."""

    def __init__(
        self, audit: Audit, connection: Connection, statement: StatementText | None, plan: Plan | None
    ) -> None:
        self._audit = audit
        self.connection = connection
        self.statement = statement
        self.plan = plan
        self._began = time.perf_counter()
        connection.sender.sent = None

    def planned(self, plan: Plan) -> None:
        """Note the plan; a subscription is noted when it begins as well, for it may last for days."""
        self.plan = plan
        if self.statement is not None and any(mark.text.upper() == "SUBSCRIBE" for mark in self.statement.marks):
            self._audit.note(self, ended=False)

    def end(self, error: BaseException | None) -> None:
        """Note the end."""
        seconds = time.perf_counter() - self._began
        self._audit.note(self, seconds=seconds, rows=self.connection.sender.sent, error=error)


def _write(entries: list[Callable[[], None]]) -> None:
    for entry in entries:
        try:
            entry()
        except Exception as error:  # one that cannot be told must not keep back the others
            LOG.error("a statement could not be noted: %s", type(error).__name__)


def _told(
    statement: StatementText, plan: Plan | None, postgres: bool
) -> tuple[str, Callable[[str], str | None] | None]:
    """The text of a statement, and how to read it without its values: None as the warehouse reads it.

    What has no plan is not told, except in the warehouse's own dialect, where the log sees for itself if it is SQL.
    """
    if isinstance(plan, EnginePlan) and plan.is_translated:
        return plan.text, None
    if plan is None or isinstance(plan, EnginePlan):
        return statement.text, (lambda text: None) if postgres else None
    return statement.text, lambda text: statement.without_values
