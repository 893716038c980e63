"""The statements about stages, versions of views that live beside the present ones, and their readers."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.compiler.frontends.script.statements import Statement
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import TextLocation

__all__ = ["DropStage", "PromoteStage", "ShowStages", "read_drop_stage", "read_promote_stage"]


@dataclass(frozen=True)
class ShowStages(Statement):
    """``SHOW STAGES``: the versions of views that live beside the present ones."""


@dataclass(frozen=True)
class PromoteStage(Statement):
    """``PROMOTE STAGE name``: its views take the place of the present ones."""

    name: str


@dataclass(frozen=True)
class DropStage(Statement):
    """``DROP STAGE name``: its views are gone, and the present ones stay."""

    name: str
    if_exists: bool = False


def read_promote_stage(cursor: StatementCursor, place: TextLocation) -> PromoteStage:
    """``PROMOTE STAGE name``."""
    return PromoteStage(place, cursor.name("stage"))


def read_drop_stage(cursor: StatementCursor, place: TextLocation) -> DropStage:
    """``DROP STAGE [IF EXISTS] name``."""
    if_exists = cursor.accept("IF", "EXISTS")
    return DropStage(place, cursor.name("stage"), if_exists)
