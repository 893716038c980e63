"""SHOW REFRESHES, SHOW COSTS, SHOW STATE and SHOW CLOCKS: what views have cost, what they keep, and what time it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.script.statements import Statement
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import ParseError, TextLocation
from tidemill.model.periods import parse_period

__all__ = [
    "ORDERS",
    "ShowClocks",
    "ShowCosts",
    "ShowRefreshes",
    "ShowState",
    "Since",
    "parse_since",
    "read_show_clocks",
    "read_show_costs",
    "read_show_refreshes",
    "read_show_state",
]

Since = int | datetime | timedelta
"""An epoch, after which; a time in UTC, from which; or a time back from now."""


@dataclass(frozen=True)
class ShowRefreshes(Statement):
    """``SHOW REFRESHES``: entries of the refresh log, the newest first."""

    view: str | None = None
    since: Since | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ShowCosts(Statement):
    """``SHOW COSTS``: the costs of each view over a period, the greatest first."""

    since: Since | None = None
    by: str = "time"
    limit: int | None = None


@dataclass(frozen=True)
class ShowState(Statement):
    """``SHOW STATE``: the maps of all views, or of one, with their sizes in memory and on disk."""

    view: str | None = None


@dataclass(frozen=True)
class ShowClocks(Statement):
    """``SHOW CLOCKS``: the clocks that views compare rows with."""


ORDERS = ("time", "rows", "bytes", "state")
"""Orders of SHOW COSTS."""


def read_show_refreshes(cursor: StatementCursor, place: TextLocation) -> ShowRefreshes:
    """``SHOW REFRESHES [OF view] [SINCE epoch | 'time' | 'period'] [LIMIT n]``."""
    view = cursor.name("view") if cursor.accept("OF") else None
    return ShowRefreshes(place, view, _since(cursor), _limit(cursor))


def read_show_costs(cursor: StatementCursor, place: TextLocation) -> ShowCosts:
    """``SHOW COSTS [SINCE epoch | 'time' | 'period'] [ORDER BY time | rows | bytes | state] [LIMIT n]``."""
    since, by = _since(cursor), "time"
    if cursor.token is not None and cursor.token.token_type == TokenType.ORDER_BY:
        cursor.next("ORDER BY")
        by = next((word for word in ORDERS if cursor.accept(word.upper())), "")
        if not by:
            raise cursor.expected(" or ".join((", ".join(ORDERS[:-1]), ORDERS[-1])))
    return ShowCosts(place, since, by, _limit(cursor))


def read_show_clocks(cursor: StatementCursor, place: TextLocation) -> ShowClocks:
    """``SHOW CLOCKS``."""
    return ShowClocks(place)


def read_show_state(cursor: StatementCursor, place: TextLocation) -> ShowState:
    """``SHOW STATE [OF view]``."""
    return ShowState(place, cursor.name("view") if cursor.accept("OF") else None)


def _since(cursor: StatementCursor) -> Since | None:
    if not cursor.accept("SINCE"):
        return None
    where = cursor.place
    token = cursor.next("an epoch, a time or a period")
    if token.token_type == TokenType.NUMBER and token.text.isdigit():
        return int(token.text)
    found = parse_since(token.text) if token.token_type == TokenType.STRING else None
    if found is None:
        raise ParseError(
            f"{token.text!r} is no epoch, time or period",
            where=where,
            hint="SINCE 12, SINCE '2026-01-31 08:00' (in UTC) or SINCE '10 minutes'.",
        )
    return found


def parse_since(text: str) -> datetime | timedelta | None:
    """A time in UTC, or a period; None if the text is neither.

    >>> parse_since("10 minutes"), parse_since("2026-01-31 08:00"), parse_since("soon")
    (datetime.timedelta(seconds=600), datetime.datetime(2026, 1, 31, 8, 0), None)
    """
    seconds = parse_period(text)
    if seconds is not None:
        return timedelta(seconds=seconds)
    try:
        given = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return given if given.tzinfo is None else given.astimezone(UTC).replace(tzinfo=None)


def _limit(cursor: StatementCursor) -> int | None:
    if not cursor.accept("LIMIT"):
        return None
    where = cursor.place
    token = cursor.next("a number of rows")
    if not (token.token_type == TokenType.NUMBER and token.text.isdigit()):
        raise ParseError("LIMIT takes a number of rows", where=where)
    return int(token.text)
