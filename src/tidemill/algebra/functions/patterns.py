"""Patterns in text: LIKE, and regular expressions as far as Java's and Python's agree."""

from __future__ import annotations

import re
from functools import lru_cache

from tidemill.algebra.functions.function import Function, takes
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """Whether all of ``text`` is as ``pattern`` says: ``%`` is any text, ``_`` any character.

    >>> like("tidemill", "tide%"), like("50%", "50\\\\%")
    (True, True)
    """
    return _like(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _like(pattern: str, escape: str) -> re.Pattern[str]:
    pieces, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            pieces.append(re.escape(_escaped(next(characters, None), pattern, escape)))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(pieces), re.DOTALL)


def _escaped(character: str | None, pattern: str, escape: str) -> str:
    if character is None or character not in ("%", "_", escape):
        raise ArithmeticFault(
            f"the LIKE pattern {pattern!r} is not valid", detail=f"{escape} must stand before %, _ or {escape}."
        )
    return character


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression; Java's named groups and possessive quantifiers read the same in Python 3.11."""
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ArithmeticFault(f"the regular expression {pattern!r} is not valid", detail=f"{error}.") from None


def matches(text: str, pattern: str) -> bool:
    """RLIKE: whether ``pattern`` is found anywhere in ``text``."""
    return compiled(pattern).search(text) is not None


def regexp_replace(text: str, pattern: str, replacement: str, position: int = 1) -> str:
    """Every match from ``position`` on replaced; ``$1`` stands for the first group, ``\\\\$`` for a dollar sign."""
    if position < 1:
        raise ArithmeticFault("REGEXP_REPLACE counts positions from 1")
    head, tail = text[: position - 1], text[position - 1 :]
    expression = compiled(pattern)
    return head + expression.sub(lambda match: _filled(match, replacement), tail)


def _filled(match: re.Match[str], replacement: str) -> str:
    def value(found: re.Match[str]) -> str:
        if found["group"] is None:
            return found["literal"]
        return match.group(int(found["group"])) or ""

    try:
        return re.sub(r"\\(?P<literal>.)|\$(?P<group>\d)", value, replacement)
    except IndexError:
        raise ArithmeticFault(f"the replacement {replacement!r} names a group that is not there") from None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    """That group of the first match; empty where nothing matches."""
    expression = compiled(pattern)
    if not 0 <= group <= expression.groups:
        raise ArithmeticFault(f"the regular expression {pattern!r} has no group {group}")
    found = expression.search(text)
    return (found.group(group) or "") if found else ""


def split(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """``text`` cut at every match of a regular expression, into at most ``limit`` parts where that is positive.

    >>> split("a1b22c", "[0-9]+")
    ('a', 'b', 'c')
    """
    parts: list[str] = []
    start = 0
    for match in compiled(pattern).finditer(text):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0:
            continue  # as in Java, an empty match at the start cuts nothing off
        parts.append(text[start : match.start()])
        start = match.end()
    return (*parts, text[start:])


PATTERNS = (
    Function(
        "like",
        takes(t.STRING, t.STRING, t.STRING, gives=t.BOOLEAN, optional=1),
        like,
        "like({args})",
        constants=(2,),
    ),
    Function("rlike", takes(t.STRING, t.STRING, gives=t.BOOLEAN), matches, "({0} RLIKE {1})"),
    Function(
        "regexp_replace",
        takes(t.STRING, t.STRING, t.STRING, t.INT, gives=t.STRING, optional=1),
        regexp_replace,
        "regexp_replace({args})",
        constants=(3,),
    ),
    Function(
        "regexp_extract",
        takes(t.STRING, t.STRING, t.INT, gives=t.STRING, optional=1),
        regexp_extract,
        "regexp_extract({args})",
    ),
    Function("split", takes(t.STRING, t.STRING, t.INT, gives=t.Array(t.STRING), optional=1), split, "split({args})"),
)
