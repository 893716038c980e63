"""Where in a query an error points, and what may have been meant."""

from __future__ import annotations

from tidemill.model.errors import SqlError, TextLocation, TidemillError
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import PgSession

__all__ = ["hint_for", "position_of"]


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


def hint_for(statement: StatementText | None, error: TidemillError, session: PgSession) -> str | None:
    """Hint where a text in double quotes may have been meant as a name, as in PostgreSQL."""
    if statement is None or session.postgres or not isinstance(error, SqlError):
        return None
    quoted = next((mark.text for mark in statement.marks if mark.kind == "text" and mark.text[0] == '"'), None)
    if quoted is None:
        return None
    return f"In Spark SQL {quoted[:40]} is a text: quote names with backquotes, or SET dialect = 'postgres'."
