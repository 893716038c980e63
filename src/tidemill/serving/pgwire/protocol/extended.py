"""The extended protocol: statements that are prepared, bound to values, and run in steps.

After an error everything up to the next Sync is passed over, so a client may send many messages before it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidemill.model.errors import TidemillError
from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import CopyIn, CopyOut, Description, Outcome, Plan, Result, ResultColumn, RowStream
from tidemill.serving.pgwire.protocol.copying import copy_in
from tidemill.serving.pgwire.protocol.positions import hint_for, position_of
from tidemill.serving.pgwire.protocol.sending import CHUNK
from tidemill.serving.pgwire.scan import StatementText, split
from tidemill.serving.pgwire.session import SHORT_TEXT
from tidemill.serving.pgwire.statements.engine_plan import EnginePlan
from tidemill.serving.pgwire.statements.plan import plan_of
from tidemill.serving.pgwire.types.parameters import value_of

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["ExtendedQuery"]

Work = Coroutine[Any, Any, None] | None

MOST_STATEMENTS = 10_000
"""Prepared statements and portals of a connection at most."""


@dataclass
class PreparedStatement:
    """A statement that a client has prepared; without a plan it was empty."""

    statement: StatementText | None
    plan: Plan | None
    declared: tuple[int, ...]
    description: Description | None = None


@dataclass
class Portal:
    """A prepared statement with its values, and how many of its rows were sent."""

    prepared: PreparedStatement
    values: tuple[Any, ...]
    formats: tuple[int, ...]
    result: Result | None = None
    sent: int = 0
    left: list[tuple[Any, ...]] = field(default_factory=list)

    def formats_of(self, columns: tuple[ResultColumn, ...]) -> tuple[int, ...]:
        """A format for each column."""
        return tuple(m.spread(self.formats, len(columns)))


@contextmanager
def _of(statement: StatementText | None) -> Iterator[None]:
    """Have errors in the block know their statement."""
    try:
        yield
    except TidemillError as error:
        error.statement = statement  # type: ignore[attr-defined]
        raise


class ExtendedQuery:
    """The prepared statements and portals of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._statements: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}
        self.skipping = False

    def deallocate(self, name: str | None) -> None:
        """Forget a prepared statement, or all."""
        if name is None:
            self._statements.clear()
        elif self._statements.pop(name, None) is None:
            raise PgError("26000", f'there is no prepared statement "{name}"')

    # -- messages -----------------------------------------------------------------------------------------------

    def parse(self, payload: bytes) -> Work:
        """Prepare a statement."""
        asked = m.read_parse(payload)
        return None if self.skipping else self._guarded(None, lambda: self._parse(asked))

    def bind(self, payload: bytes) -> Work:
        """Give a prepared statement its values."""
        asked = m.read_bind(payload)
        return None if self.skipping else self._guarded(None, lambda: self._bind(asked))

    def describe(self, payload: bytes) -> Work:
        """Tell the parameters and columns of a statement, or the columns of a portal."""
        asked = m.read_target(payload)
        return None if self.skipping else self._guarded(None, lambda: self._describe(asked))

    def execute(self, payload: bytes) -> Work:
        """Send rows of a portal."""
        asked = m.read_execute(payload)
        return None if self.skipping else self._guarded(None, lambda: self._execute(asked))

    def close(self, payload: bytes) -> Work:
        """Forget a statement or portal."""
        asked = m.read_target(payload)
        if self.skipping:
            return None
        if asked.is_portal:
            self._portals.pop(asked.name, None)
        else:
            self._statements.pop(asked.name, None)
        self._connection.send(m.CLOSE_COMPLETE)
        return None

    def sync(self, payload: bytes) -> Work:
        """The end of a batch: errors before it count no more."""
        self.skipping = False
        session = self._connection.session
        assert session is not None
        if session.status == "I":
            self._portals.clear()
        self._connection.cancelled.clear()
        self._connection.ready()
        return None

    # -- at work ------------------------------------------------------------------------------------------------

    def _guarded(self, statement: StatementText | None, work: Callable[[], Work]) -> Work:
        """Do a piece of work; what has to be waited for is returned. An error has everything skipped up to Sync."""
        try:
            waiting = work()
        except TidemillError as error:
            self._refuse(error, statement)
            return None
        return None if waiting is None else self._waiting(waiting, statement)

    async def _waiting(self, work: Coroutine[Any, Any, None], statement: StatementText | None) -> None:
        try:
            await work
        except TidemillError as error:
            self._refuse(error, statement)
        except Exception as error:
            self.skipping = True
            self._connection.refuse(error)
        finally:
            self._connection.copying = None

    def _refuse(self, error: TidemillError, statement: StatementText | None) -> None:
        self.skipping = True
        statement = getattr(error, "statement", statement)
        session = self._connection.session
        assert session is not None
        if not getattr(error, "noted", False):
            self._connection.server.audit.noting(self._connection, statement).end(error)
        self._connection.refuse(error, position_of(statement, error, session), hint_for(statement, error, session))

    def _parse(self, asked: m.Parse) -> Work:
        session = self._connection.session
        assert session is not None
        if asked.name and asked.name in self._statements:
            raise PgError("42P05", f'the prepared statement "{asked.name}" exists already')
        if len(self._statements) >= MOST_STATEMENTS:
            raise PgError("54000", f"a connection has at most {MOST_STATEMENTS:,} prepared statements")
        if len(asked.text) > SHORT_TEXT:
            return self._parse_long(asked)
        self._keep(asked.name, self._read(asked))
        return None

    async def _parse_long(self, asked: m.Parse) -> None:
        session = self._connection.session
        assert session is not None
        self._keep(asked.name, await session.run(self._read, asked))

    def _read(self, asked: m.Parse) -> PreparedStatement:
        """The statement of a text, with its plan."""
        session = self._connection.session
        assert session is not None
        most = self._connection.server.limits.statement_bytes
        statements = list(split(asked.text, postgres=session.postgres, most=most))
        if len(statements) > 1:
            raise PgError("42601", "a prepared statement is one statement", position=statements[1].start)
        if not statements:
            return PreparedStatement(None, None, asked.types, Description((), None))
        with _of(statements[0]):
            return PreparedStatement(statements[0], plan_of(session, statements[0], self), asked.types)

    def _keep(self, name: str, prepared: PreparedStatement) -> None:
        self._statements[name] = prepared
        self._connection.send(m.PARSE_COMPLETE)

    def _statement(self, name: str) -> PreparedStatement:
        if name not in self._statements:
            shown = f'"{name}"' if name else "without a name"
            raise PgError("26000", f"there is no prepared statement {shown}")
        return self._statements[name]

    async def _described(self, prepared: PreparedStatement) -> Description:
        if prepared.description is None:
            assert prepared.plan is not None
            with _of(prepared.statement):
                prepared.description = await prepared.plan.describe(prepared.declared)
        return prepared.description

    def _bind(self, asked: m.Bind) -> Work:
        prepared = self._statement(asked.statement)
        if asked.portal and asked.portal in self._portals:
            raise PgError("42P03", f'the portal "{asked.portal}" exists already')
        if len(self._portals) >= MOST_STATEMENTS:
            raise PgError("54000", f"a connection has at most {MOST_STATEMENTS:,} portals")
        if prepared.description is not None:
            self._bound(asked, prepared, prepared.description)
            return None
        return self._bind_described(asked, prepared)

    async def _bind_described(self, asked: m.Bind, prepared: PreparedStatement) -> None:
        self._bound(asked, prepared, await self._described(prepared))

    def _bound(self, asked: m.Bind, prepared: PreparedStatement, description: Description) -> None:
        types = description.parameters
        if len(types) != len(asked.values):
            raise PgError(
                "08P01", f"{len(asked.values)} values are given for the {len(types)} parameters of the statement"
            )
        formats = m.spread(asked.formats, len(types))
        values = tuple(
            [
                value_of(raw, oid, form, f"${place}")
                for place, (raw, oid, form) in enumerate(zip(asked.values, types, formats, strict=True), start=1)
            ]
        )
        if description.columns is not None:
            m.spread(asked.results, len(description.columns))
        self._portals[asked.portal] = Portal(prepared, values, asked.results)
        self._connection.send(m.BIND_COMPLETE)

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            shown = f'"{name}"' if name else "without a name"
            raise PgError("34000", f"there is no portal {shown}")
        return self._portals[name]

    def _describe(self, asked: m.Target) -> Work:
        session = self._connection.session
        assert session is not None
        if asked.is_portal and asked.name in session.cursors:  # cursors are portals, whoever has made them
            self._send_columns(Description((), session.cursors[asked.name].result.columns), ())
            return None
        if asked.is_portal:
            portal = self._portal(asked.name)
            assert portal.prepared.description is not None
            self._send_columns(portal.prepared.description, portal.formats)
            return None
        prepared = self._statement(asked.name)
        return self._describe_statement(prepared)

    async def _describe_statement(self, prepared: PreparedStatement) -> None:
        description = await self._described(prepared)
        self._connection.send(m.parameter_description(description.parameters))
        self._send_columns(description, ())

    def _send_columns(self, description: Description, formats: tuple[int, ...]) -> None:
        if description.columns is None:
            self._connection.send(m.NO_DATA)
        else:
            spread = m.spread(formats, len(description.columns))
            self._connection.sender.describe(description.columns, tuple(spread))

    def _execute(self, asked: m.Execute) -> Work:
        portal = self._portal(asked.portal)
        if portal.prepared.plan is None:
            self._connection.send(m.EMPTY_QUERY)
            return None
        if portal.result is None and self._run_now(portal, asked.limit or CHUNK):
            return None
        return self._run(portal, asked.limit)

    def _run_now(self, portal: Portal, limit: int) -> bool:
        """Answer at once what the warehouse has in memory under one key; false if it has to be waited for."""
        plan, connection = portal.prepared.plan, self._connection
        noting = connection.server.audit.noting(connection, portal.prepared.statement, plan)
        found = plan.run_now(portal.values) if isinstance(plan, EnginePlan) else None
        if found is None or found.columns is None or len(found.rows) > limit:
            return False
        formats = portal.formats_of(found.columns)
        connection.send(connection.sender.encoder(found.columns, formats)(found.rows))
        connection.sender.complete(found.tag, len(found.rows))
        portal.result, portal.sent = found, len(found.rows)
        noting.end(None)
        return True

    async def _run(self, portal: Portal, limit: int) -> None:
        """Run a portal that has not run yet, and send rows of it."""
        if portal.result is not None:
            await self._send(portal, portal.result, limit)
            return
        plan, connection, statement = portal.prepared.plan, self._connection, portal.prepared.statement
        assert plan is not None
        with _of(statement), connection.server.audit.statement(connection, statement) as noting:
            noting.planned(plan)
            portal.result = await plan.run(portal.values)
            await self._send(portal, portal.result, limit)

    async def _send(self, portal: Portal, result: Result, limit: int) -> None:
        sender = self._connection.sender
        match result:
            case CopyIn() as copy:
                await copy_in(self._connection, copy)
            case CopyOut() as copy:
                await sender.copy(copy)
            case RowStream() as stream:
                await self._stream(portal, stream, limit)
            case outcome:
                await self._rows(portal, outcome, limit)

    async def _rows(self, portal: Portal, outcome: Outcome, limit: int) -> None:
        sender = self._connection.sender
        if outcome.columns is None:
            sender.complete(outcome.tag, 0)
            return
        start = portal.sent
        end = min(start + limit, len(outcome.rows)) if limit else len(outcome.rows)
        rows = outcome.rows[start:end] if (start, end) != (0, len(outcome.rows)) else outcome.rows
        await sender.rows(outcome.columns, rows, portal.formats_of(outcome.columns))
        portal.sent = end
        if end < len(outcome.rows):
            self._connection.send_notices()
            self._connection.send(m.PORTAL_SUSPENDED)
        else:
            sender.complete(outcome.tag, end - start)

    async def _stream(self, portal: Portal, stream: RowStream, limit: int) -> None:
        sender, formats = self._connection.sender, portal.formats_of(stream.columns)
        if not limit:
            await sender.stream(stream, formats)
            return
        while not portal.left:
            try:
                portal.left = list(await anext(stream.batches))
            except StopAsyncIteration:
                sender.complete(stream.tag, 0)
                return
        sent, portal.left = portal.left[:limit], portal.left[limit:]
        await sender.rows(stream.columns, sent, formats)
        self._connection.send(m.PORTAL_SUSPENDED)
