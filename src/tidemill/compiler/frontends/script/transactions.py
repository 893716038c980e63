"""BEGIN, COMMIT and ROLLBACK."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.compiler.frontends.script.statements import Statement
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import TextLocation

__all__ = ["TRANSACTION_READERS", "BeginTransaction", "CommitTransaction", "RollbackTransaction"]


@dataclass(frozen=True)
class BeginTransaction(Statement):
    """``BEGIN [TRANSACTION | WORK]``, or ``START TRANSACTION``."""


@dataclass(frozen=True)
class CommitTransaction(Statement):
    """``COMMIT [TRANSACTION | WORK]``: all changes since BEGIN are one epoch."""


@dataclass(frozen=True)
class RollbackTransaction(Statement):
    """``ROLLBACK [TRANSACTION | WORK]``: nothing has changed since BEGIN."""


def _read_begin(cursor: StatementCursor, place: TextLocation) -> Statement:
    _accept_noise(cursor)
    return BeginTransaction(place)


def _read_commit(cursor: StatementCursor, place: TextLocation) -> Statement:
    _accept_noise(cursor)
    return CommitTransaction(place)


def _read_rollback(cursor: StatementCursor, place: TextLocation) -> Statement:
    _accept_noise(cursor)
    return RollbackTransaction(place)


def _accept_noise(cursor: StatementCursor) -> None:
    if not cursor.accept("TRANSACTION"):
        cursor.accept("WORK")


TRANSACTION_READERS = {
    ("BEGIN",): _read_begin,
    ("START", "TRANSACTION"): _read_begin,
    ("COMMIT",): _read_commit,
    ("ROLLBACK",): _read_rollback,
}
"""Readers by first words."""
