"""One connection's session: its statements, transaction, settings, cursors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tidemill.engine.results import Result as EngineResult
from tidemill.serving.pgwire.errors import Cancelled, PgError, notice_fields
from tidemill.serving.pgwire.limits import PgLimits
from tidemill.serving.pgwire.outcome import Notice, Outcome, RowStream
from tidemill.serving.pgwire.scan import Mark, StatementText
from tidemill.serving.pgwire.settings import Settings, milliseconds

__all__ = ["PgSession", "StatementRunner", "TidemillSession"]

T = TypeVar("T")


class StatementRunner(Protocol):
    """Runs engine work in threads, for the event loop."""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a function."""

    def close(self) -> None:
        """Wait for what runs."""


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
    def set_timeout(self, seconds: float | None) -> None: ...
    def cancel(self) -> bool: ...
    def close(self) -> None: ...


DEFINITIONS = {"CREATE", "DROP", "ALTER", "RENAME", "REFRESH", "ANALYZE", "GRANT", "REVOKE", "RELEASE", "REPLAY"}
"""First words of statements that are committed by themselves."""

CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE", "UPSERT", "REPLACE"}
"""First words of statements that change rows."""


SHORT_TEXT = 4_000
"""Characters of a text that are read in a few milliseconds."""


class Shared:
    """State that the sessions of a door share: limits, and databases for queries of the catalog once needed."""

    def __init__(self, limits: PgLimits) -> None:
        self.limits = limits
        self.catalog: Any = None


COPY = StatementText("COPY", 0, (Mark("word", "INSERT", 0),))
"""COPY into a table, which changes rows as INSERT does."""


class PgSession:
    """A connection's session of a warehouse, with PostgreSQL's session state.

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
        self.ended_by: PgError | None = None
        """Why the session ends, once it is to end."""
        self._timeout: float | None = None
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

    async def read(self, text: str, function: Callable[..., T], *args: Any) -> T:
        """The result of a function that reads a text: at once if it is short, or else in a thread."""
        return function(*args) if len(text) <= SHORT_TEXT else await self.run(function, *args)

    async def run_statement(self, statement: StatementText, function: Callable[[], T]) -> T:
        """Run a statement of the engine, whose transaction begins if it has to."""
        if self.timeout != self._timeout:
            self._timeout = self.timeout
            self.session.set_timeout(self._timeout)
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

    def cancel(self) -> bool:
        """Have the warehouse end what runs; false if nothing does."""
        return self.session.cancel()

    @property
    def timeout(self) -> float | None:
        """The seconds that a statement may take: those of the door, or fewer where the client wants fewer."""
        wanted, most = milliseconds(self.settings["statement_timeout"]) / 1000, self.shared.limits.statement_timeout
        return min((limit for limit in (wanted, most) if limit), default=None)

    async def close(self) -> None:
        """Close the session, and with it its transaction."""
        await asyncio.to_thread(self.session.close)

    @property
    def is_over(self) -> bool:
        """True once what runs is to end, and with it what would go on forever."""
        return self.cancelled.is_set() or self.ended_by is not None

    def cancellation(self) -> PgError:
        """Why what runs is to end."""
        return self.ended_by or Cancelled()

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
