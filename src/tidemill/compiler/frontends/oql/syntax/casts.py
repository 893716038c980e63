"""``(type) x``: the type in parentheses, told from an expression in parentheses by what follows it."""

from __future__ import annotations

from tidemill.compiler.frontends.odl.parse import PRIMITIVE_TYPES
from tidemill.compiler.frontends.oql.syntax.tokens import OqlCursor
from tidemill.model.types import Decimal, Type

__all__ = ["MOMENT_TYPES", "TypeName", "accept_cast"]

TypeName = tuple[Type | None, str]
"""The type of a value, or else None, and its name: that of a class."""

MOMENT_TYPES = {name: PRIMITIVE_TYPES[(name,)] for name in ("date", "timestamp")}
"""Types of which a constant is written as the name and a text: ``date '2024-02-29'``."""


def accept_cast(cursor: OqlCursor) -> TypeName | None:
    """Read a type in parentheses, if it is followed by what it is a cast of; else nothing."""
    start = cursor.position
    if cursor.accept("("):
        found = _accept_type(cursor)
        if found is not None and cursor.accept(")") and _begins_operand(cursor):
            return found
    cursor.position = start
    return None


def _accept_type(cursor: OqlCursor) -> TypeName | None:
    if cursor.accept("decimal", "<"):
        digits = [token.text for token in cursor.rest[:4]]
        match digits:
            case [precision, ",", scale, ">"] if precision.isdecimal() and scale.isdecimal():
                cursor.position += 4
                return Decimal(int(precision), int(scale)), "decimal"
            case [precision, ">", *_] if precision.isdecimal():
                cursor.position += 2
                return Decimal(int(precision), 0), "decimal"
        return None
    for words, value in PRIMITIVE_TYPES.items():
        if cursor.accept(*words):
            return value, " ".join(words)
    if not cursor.sees_name():
        return None
    name = cursor.name("a type")
    if cursor.accept(":", ":"):
        name = f"{name}::{cursor.name('a class')}"
    return (Decimal(), name) if name.lower() == "decimal" else (None, name)


def _begins_operand(cursor: OqlCursor) -> bool:
    """True before what can only be an operand: after a parenthesis, a sign or another word continues an expression."""
    token = cursor.token
    if token is None:
        return False
    operands = ("nil", "null", "select", "struct", "exists")
    return (
        token.kind in ("number", "text", "marker")
        or cursor.sees("(")
        or cursor.sees_name()
        or any(map(cursor.sees, operands))
        or (cursor.sees(":") and cursor.sees_name(after=1))
    )
