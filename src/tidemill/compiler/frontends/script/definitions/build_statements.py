"""The statements about views that are built in the background, and their readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.compiler.frontends.script.statements import Statement
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import TextLocation

__all__ = ["ChangeBuild", "ShowBuilds", "read_change_build"]

Action = Literal["pause", "resume", "cancel"]

ACTIONS: dict[str, Action] = {"pause": "pause", "resume": "resume", "cancel": "cancel"}


@dataclass(frozen=True)
class ShowBuilds(Statement):
    """``SHOW BUILDS``: the views that are being built."""


@dataclass(frozen=True)
class ChangeBuild(Statement):
    """``PAUSE BUILD name``, ``RESUME BUILD name`` and ``CANCEL BUILD name``."""

    action: Action
    name: str


def read_change_build(cursor: StatementCursor, place: TextLocation) -> ChangeBuild:
    """``PAUSE | RESUME | CANCEL BUILD name``."""
    return ChangeBuild(place, ACTIONS[cursor.tokens[0].text.lower()], cursor.name("view"))
