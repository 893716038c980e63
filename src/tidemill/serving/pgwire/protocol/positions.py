"""Where in a query an error points."""

from __future__ import annotations

from tidemill.model.errors import TextLocation, TidemillError
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import PgSession

__all__ = ["position_of"]


def position_of(statement: StatementText | None, error: TidemillError, session: PgSession) -> int | None:
    """The place of an error, counted in characters of the query from 1; None if it has none."""
    if statement is None:
        return None
    if isinstance(error, PgError):
        return None if error.position is None else statement.start + error.position + 1
    if not isinstance(error.where, TextLocation) or session.postgres:
        return None
    lines = statement.named.split("\n")
    if error.where.name != "sql" or not 0 < error.where.line <= len(lines):
        return None
    before = sum(len(line) + 1 for line in lines[: error.where.line - 1])
    return statement.position(before + error.where.column - 1)
