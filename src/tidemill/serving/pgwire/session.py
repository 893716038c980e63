"""One connection's session: its statements, transaction, settings, cursors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tidemill.engine.results import Result as EngineResult
from tidemill.serving.pgwire.errors import Cancelled, PgError, notice_fields
from tidemill.serving.pgwire.outcome import Notice, Outcome, RowStream
from tidemill.serving.pgwire.scan import Mark, StatementText
from tidemill.serving.pgwire.settings import Settings, milliseconds

__all__ = ["PgSession", "StatementRunner", "TidemillSession"]

T = TypeVar("T")


class StatementRunner(Protocol):
    """Runs engine work in threads, for the event loop."""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a function."""


class TidemillSession(Protocol):
    """The public methods of a session of a warehouse that this door uses."""

    @property
    def epoch(self) -> int: ...
    def sql(self, text: str, args: Any = None) -> EngineResult: ...
    def prepare(self, text: str, *, types: Mapping[str, str] | None = None) -> Any: ...
    def apply(self, changes: Mapping[str, Any]) -> int: ...
    def subscribe(self, view: str, *, since: int | None = None, timeout: float | None = None) -> Any: ...
    def view(self, name: str) -> Any: ...
    def table(self, name: str) -> Any: ...
    def views(self) -> Sequence[str]: ...
    def tables(self) -> Sequence[str]: ...


DEFINITIONS = {"CREATE", "DROP", "ALTER", "RENAME", "REFRESH", "ANALYZE", "GRANT", "REVOKE", "RELEASE", "REPLAY"}
"""First words of statements that are committed by themselves."""

CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE", "UPSERT", "REPLACE"}
"""First words of statements that change rows."""


class Shared:
    """What all connections of a door share: the database that answers queries of the catalog, once it was needed."""

    catalog: Any = None


COPY = StatementText("COPY", 0, (Mark("word", "INSERT", 0),))
"""COPY into a table, which changes rows as INSERT does."""


class PgSession:
    """What a connection has of a warehouse, and of PostgreSQL's session state.

    A transaction of the warehouse begins with the first statement that needs it, not with BEGIN: so a definition at
    the beginning of a block is possible, which tools write that wrap everything in BEGIN and COMMIT.
    """

    def __init__(
        self,
        session: TidemillSession,
        pool: StatementRunner,
        settings: Settings,
        user: str,
        database: str,
        process: int,
        cancelled: asyncio.Event,
        shared: Shared,
    ) -> None:
        self.session = session
        self.pool = pool
        self.settings = settings
        self.user = user
        self.database = database
        self.process = process
        self.shared = shared
        self.status = "I"
        self.notices: list[Notice] = []
        self.cursors: dict[str, Cursor] = {}
        self.cancelled = cancelled
        """Set while what runs is to end."""
        self._started = False
        self._statements = 0
        self._savepoints: list[tuple[str, int]] = []
        self._saved: Mapping[str, str] = {}
        self._read_only = False

    @property
    def postgres(self) -> bool:
        """True if statements are in PostgreSQL's dialect."""
        return self.settings["dialect"] == "postgres"

    def warn(self, what: str, *, severity: str = "WARNING", sqlstate: str = "01000", hint: str | None = None) -> None:
        """Tell the client something with the statement that runs."""
        self.notices.append(notice_fields(severity, sqlstate, what, hint))

    # -- running ------------------------------------------------------------------------------------------------

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run engine work in a thread, in the transaction if there is one."""
        return await self.pool.run(function, *args)

    async def run_statement(self, statement: StatementText, function: Callable[[], T]) -> T:
        """Run a statement of the engine, whose transaction begins if it has to."""
        word = statement.words[0] if statement.words else ""
        self.require_sound()
        if self._read_only and (word in CHANGES or word in DEFINITIONS):
            raise PgError("25006", f"{word} cannot be in a transaction that is READ ONLY")
        if self.status == "T" and word in DEFINITIONS and not self._started:
            self.warn(f"{word} is committed by itself: ROLLBACK does not undo it", sqlstate="01000")
        elif self.status == "T" and not self._started:
            await self.run(self.session.sql, "BEGIN")
            self._started = True
        self._statements += 1
        return await self.run(function)

    async def run_copy(self, function: Callable[[], T]) -> T:
        """Run a COPY into a table, in the transaction if there is one."""
        return await self.run_statement(COPY, function)

    def require_sound(self) -> None:
        """Refuse to go on in a transaction that has failed."""
        if self.status == "E":
            raise PgError(
                "25P02",
                "the transaction has failed, and takes no statements any more",
                hint="End it with ROLLBACK.",
            )

    def failed(self) -> None:
        """Note that a statement was refused."""
        if self.status == "T":
            self.status = "E"

    def apply_timeout(self) -> None:
        """Let the session know how long a statement may take."""
        limit = milliseconds(self.settings["statement_timeout"])
        set_timeout = getattr(self.session, "set_timeout", None)
        if set_timeout is not None:
            set_timeout(limit / 1000 if limit else None)

    async def close(self) -> None:
        """Roll back what is open, and let the session go."""
        if self._started:
            await self.run(self.session.sql, "ROLLBACK")
        close = getattr(self.session, "close", None)
        if close is not None:
            await asyncio.to_thread(close)

    def cancellation(self) -> PgError:
        """Why what runs is to end."""
        return Cancelled()

    # -- transactions -------------------------------------------------------------------------------------------

    def begin(self, *, read_only: bool) -> Outcome:
        """BEGIN."""
        self.require_sound()
        if self.status == "T":
            self.warn("there is already a transaction in progress", sqlstate="25001")
            return Outcome("BEGIN")
        self.status, self._started = "T", False
        self._saved = self.settings.snapshot()
        self._read_only = read_only or self.settings["default_transaction_read_only"] == "on"
        return Outcome("BEGIN")

    def set_read_only(self, read_only: bool) -> None:
        """SET TRANSACTION READ ONLY."""
        if self.status == "T":
            self._read_only = read_only

    async def commit(self) -> Outcome:
        """COMMIT: everything of the transaction is one epoch; a failed one is rolled back."""
        if self.status == "E":
            return await self.rollback()
        if self.status == "I":
            self.warn("there is no transaction in progress", sqlstate="25P01")
            return Outcome("COMMIT")
        started = self._started
        self._ended()
        self.settings.end_transaction()
        if started:
            await self.run(self.session.sql, "COMMIT")
        return Outcome("COMMIT")

    async def rollback(self) -> Outcome:
        """ROLLBACK."""
        if self.status == "I":
            self.warn("there is no transaction in progress", sqlstate="25P01")
            return Outcome("ROLLBACK")
        started = self._started
        self._ended()
        self.settings.restore(self._saved)
        if started:
            await self.run(self.session.sql, "ROLLBACK")
        return Outcome("ROLLBACK")

    def savepoint(self, name: str) -> None:
        """SAVEPOINT."""
        self.require_sound()
        self._require_block("SAVEPOINT")
        self._savepoints.append((name, self._statements))

    def release_savepoint(self, name: str) -> None:
        """RELEASE SAVEPOINT."""
        self.require_sound()
        self._require_block("RELEASE SAVEPOINT")
        del self._savepoints[self._savepoint(name) :]

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TO: possible as long as the warehouse has seen no statement since, for an epoch has no parts."""
        self._require_block("ROLLBACK TO SAVEPOINT")
        place = self._savepoint(name)
        if self._savepoints[place][1] != self._statements:
            raise PgError(
                "0A000",
                f'the transaction cannot go back to savepoint "{name}"',
                detail="A transaction is one epoch, or nothing: what it has changed since cannot be undone by itself.",
                hint="ROLLBACK the whole transaction, and run it again.",
            )
        del self._savepoints[place + 1 :]
        self.status = "T"

    def _savepoint(self, name: str) -> int:
        for place in reversed(range(len(self._savepoints))):
            if self._savepoints[place][0] == name:
                return place
        raise PgError("3B001", f'there is no savepoint "{name}"')

    def _require_block(self, what: str) -> None:
        if self.status == "I":
            raise PgError("25P01", f"{what} can only be used in a transaction")

    def _ended(self) -> None:
        self.status, self._started, self._read_only, self._savepoints = "I", False, False, []
        self.cursors = {name: cursor for name, cursor in self.cursors.items() if cursor.holds}


class Cursor:
    """A cursor: rows that are fetched as they are asked for."""

    def __init__(self, result: Outcome | RowStream, *, holds: bool) -> None:
        self.result = result
        self.holds = holds
        self.place = 0
        self.left: list[tuple[Any, ...]] = []
        self.waiting: asyncio.Future[Any] | None = None
