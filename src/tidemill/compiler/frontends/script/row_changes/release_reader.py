"""RELEASE ERRORS."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.compiler.frontends.script.statements import Statement
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import TextLocation

__all__ = ["ReleaseErrors", "read_release_errors"]


@dataclass(frozen=True)
class ReleaseErrors(Statement):
    """``RELEASE ERRORS``: tries rows again that a view in quarantine does not show, or gives them up."""

    name: str
    skip: bool = False


def read_release_errors(cursor: StatementCursor, place: TextLocation) -> ReleaseErrors:
    """``RELEASE ERRORS OF view [SKIP ROWS]``."""
    cursor.expect("OF")
    name = cursor.name("view")
    skip = cursor.accept("SKIP")
    if skip:
        cursor.expect("ROWS")
    return ReleaseErrors(place, name, bool(skip))
