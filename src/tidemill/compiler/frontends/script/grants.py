"""GRANT, REVOKE and SHOW GRANTS."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.compiler.frontends.script.statements import Statement
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import ParseError, TextLocation

__all__ = ["EVERYTHING", "GRANT_READERS", "PRIVILEGES", "GrantPrivileges", "RevokePrivileges", "ShowGrants"]

PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")
"""Privileges that can be granted; ALL is all of them."""

EVERYTHING = "*"
"""Stands for all tables and views, present and future."""


@dataclass(frozen=True)
class GrantPrivileges(Statement):
    """``GRANT``: rights on a table or view to a user or role; ``condition`` is the text behind WHERE."""

    privileges: tuple[str, ...]
    relation: str
    grantee: str
    condition: str | None = None


@dataclass(frozen=True)
class RevokePrivileges(Statement):
    """``REVOKE``: takes rights on a table or view from a user or role, with all of their conditions."""

    privileges: tuple[str, ...]
    relation: str
    grantee: str


@dataclass(frozen=True)
class ShowGrants(Statement):
    """``SHOW GRANTS``: of a table or view, of a user or role, or all."""

    relation: str | None = None
    grantee: str | None = None


def _read_grant(cursor: StatementCursor, place: TextLocation) -> Statement:
    """``GRANT privilege, ... ON [TABLE | VIEW] name | SCHEMA default | ALL TABLES TO grantee [WHERE condition]``."""
    privileges, relation = _privileges(cursor), _relation(cursor)
    cursor.expect("TO")
    grantee = _grantee(cursor)
    condition = None
    if cursor.accept("WHERE"):
        condition = cursor.text(cursor.position) if cursor.rest else ""
        cursor.parse()
    return GrantPrivileges(place, privileges, relation, grantee, condition)


def _read_revoke(cursor: StatementCursor, place: TextLocation) -> Statement:
    """``REVOKE privilege, ... ON ... FROM grantee``."""
    privileges, relation = _privileges(cursor), _relation(cursor)
    cursor.expect("FROM")
    return RevokePrivileges(place, privileges, relation, _grantee(cursor))


def _read_show_grants(cursor: StatementCursor, place: TextLocation) -> Statement:
    """``SHOW GRANTS [ON ...] [TO grantee]``."""
    relation = _relation(cursor) if cursor.sees("ON") else None
    return ShowGrants(place, relation, _grantee(cursor) if cursor.accept("TO") else None)


def _privileges(cursor: StatementCursor) -> tuple[str, ...]:
    if cursor.accept("ALL"):
        cursor.accept("PRIVILEGES")
        return PRIVILEGES
    found: list[str] = []
    while True:
        where = cursor.place
        word = cursor.next("a privilege").text.upper()
        if word not in PRIVILEGES:
            raise ParseError(f'"{word}" is no privilege', where=where, hint=f"There is {', '.join(PRIVILEGES)}, ALL.")
        found.append(word)
        if not cursor.accept(","):
            return tuple(dict.fromkeys(found))


def _relation(cursor: StatementCursor) -> str:
    cursor.expect("ON")
    if cursor.accept("ALL", "TABLES"):
        return EVERYTHING
    if cursor.accept("SCHEMA") or cursor.accept("DATABASE"):
        cursor.expect("DEFAULT")
        return EVERYTHING
    cursor.accept("MATERIALIZED")
    if not cursor.accept("TABLE"):
        cursor.accept("VIEW")
    return cursor.name("table or view")


def _grantee(cursor: StatementCursor) -> str:
    if not cursor.accept("ROLE"):
        cursor.accept("USER")
    return cursor.column_name()


GRANT_READERS = {
    ("GRANT",): _read_grant,
    ("REVOKE",): _read_revoke,
    ("SHOW", "GRANTS"): _read_show_grants,
}
"""Readers by first words."""
