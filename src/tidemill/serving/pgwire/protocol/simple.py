"""The simple protocol: a text of statements, whose rows go out as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemill.model.errors import TidemillError
from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import CopyIn, CopyOut, Result, RowStream
from tidemill.serving.pgwire.protocol.copying import copy_in
from tidemill.serving.pgwire.protocol.positions import hint_for, position_of
from tidemill.serving.pgwire.scan import StatementText, split
from tidemill.serving.pgwire.statements.plan import plan_of

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["run_query", "send_result"]


async def run_query(connection: Connection, text: str) -> None:
    """Run the statements of a query one after the other, up to the first error."""
    session = connection.session
    assert session is not None
    statement: StatementText | None = None
    found = False
    try:
        statements = _statements(connection, text)
        while (statement := await session.read(text, next, statements, None)) is not None:
            found = True
            with connection.server.audit.statement(connection, statement) as noting:
                if statement.parameters:
                    raise _no_parameters(statement)
                plan = await session.read(statement.text, plan_of, session, statement, connection.extended)
                noting.planned(plan)
                await send_result(connection, await plan.run(()))
        if not found:
            connection.send(m.EMPTY_QUERY)
    except TidemillError as error:
        connection.refuse(error, position_of(statement, error, session), hint_for(statement, error, session))
    except Exception as error:
        connection.refuse(error)
    finally:
        connection.copying = None
    connection.ready()


def _statements(connection: Connection, text: str) -> Iterator[StatementText]:
    """The statements of a text. The dialect may change on the way, so each is found when the one before has run."""
    session = connection.session
    assert session is not None
    before = session.postgres
    statements = split(text, postgres=before, most=connection.server.limits.statement_bytes)
    for statement in statements:
        yield statement
        if session.postgres != before:
            rest = statement.start + len(statement.text)
            yield from _moved(connection, text, rest)
            return


def _moved(connection: Connection, text: str, start: int) -> Iterator[StatementText]:
    for statement in _statements(connection, text[start:]):
        yield StatementText(statement.text, statement.start + start, statement.marks)


def _no_parameters(statement: StatementText) -> PgError:
    place = next(mark.start for mark in statement.marks if mark.kind == "parameter")
    return PgError("42P02", "there is no parameter $1", hint="A simple query has no parameters.", position=place)


async def send_result(connection: Connection, result: Result) -> None:
    """Send what a statement gave, with its columns."""
    sender = connection.sender
    match result:
        case CopyIn():
            await copy_in(connection, result)
        case CopyOut():
            await sender.copy(result)
        case RowStream(columns=columns):
            formats = (m.TEXT,) * len(columns)
            sender.describe(columns, formats)
            await sender.stream(result, formats)
        case _:
            formats = (m.TEXT,) * len(result.columns or ())
            if result.columns is not None:
                sender.describe(result.columns, formats)
            await sender.all_rows(result, formats)
