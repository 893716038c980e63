"""Patterns in text: LIKE, and Java's regular expressions, except those that need backtracking."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidemill.algebra.functions.function import Function, always, takes
from tidemill.algebra.functions.text import java_regex
from tidemill.algebra.functions.text.java_regex import RegexTranslation
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, Unsupported


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """True if ``pattern`` matches all of ``text``: ``%`` is any text, ``_`` any character.

    >>> like("tidemill", "tide%"), like("50%", "50\\\\%")
    (True, True)
    """
    return _like(pattern, escape).fullmatch(text) is not None


def check_escapes(pattern: str, escape: str) -> None:
    """Refuse a pattern in which ``escape`` is not followed by a character that it can escape."""
    _like(pattern, escape)


@lru_cache(maxsize=1024)
def _like(pattern: str, escape: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern. A piece between two ``%`` matches at its first occurrence, atomically:
    a later one gains nothing."""
    pieces = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1] += re.escape(_escaped(next(characters, None), pattern, escape))
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
    first, *between = pieces
    found = [f"(?>.*?{piece})" for piece in between[:-1] if piece]
    return re.compile("".join([first, *found, *(f".*{piece}" for piece in between[-1:])]), re.DOTALL)


def _escaped(character: str | None, pattern: str, escape: str) -> str:
    if character is None or character not in ("%", "_", escape):
        raise ArithmeticFault(
            f"the LIKE pattern {pattern!r} is not valid", detail=f"{escape} must stand before %, _ or {escape}."
        )
    return character


@dataclass(frozen=True, slots=True)
class Regular:
    """A regular expression that is searched for without backtracking, in UTF-8.

    Of several matches at one position Java prefers the first that it would come to. If the text ends with a line end,
    ``$`` matches at two positions, and only for some patterns is it known which one that is.
    """

    pattern: str
    expression: Any
    form: RegexTranslation

    def find(self, text: bytes, start: int = 0) -> Any:
        """The first match from byte ``start`` on, or None."""
        found = self.expression.search(text, start)
        before = _before_line_end(text) if self.form.ends else None
        if before is None or start > len(before):
            return found
        other = self.expression.search(before, start)
        if found is None or other is None or found.span() == other.span():
            return other if found is None else found
        if found.start() == other.start() and self.form.chooses:
            raise ArithmeticFault(
                f"the regular expression {self.pattern!r} cannot be searched for in a text that ends with a line end",
                detail="$ can match before the line end as well as after it.",
                hint="Use \\\\z for the very end of the text.",
            )
        return min(found, other, key=lambda match: (match.start(), -match.end()))

    def all(self, text: bytes) -> Iterator[Any]:
        """The matches one after the other, as Java finds them: after an empty one the search resumes at the next
        character."""
        start = 0
        while start <= len(text) and (found := self.find(text, start)) is not None:
            yield found
            start = found.end()
            if found.end() == found.start():
                start += len(text[start:][:4].decode(errors="ignore")[:1].encode()) or 1


def _before_line_end(text: bytes) -> bytes | None:
    """``text`` without the line end that it ends with; None where it ends with none."""
    for end in LINE_ENDS:
        if text.endswith(end):
            return text[: -len(end)]
    return None


LINE_ENDS = tuple(end.encode() for end in ("\r\n", "\n", "\r", "\x85", "\u2028", "\u2029"))

HINT = "Backreferences, looking around and possessive quantifiers are left out: without them no search takes long."


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Regular:
    """A regular expression as Java writes it."""
    try:
        form = java_regex.translated(pattern)
    except java_regex.NotRegular as error:
        what = "supported" if error.valid else "valid"
        raise ArithmeticFault(
            f"the regular expression {pattern!r} is not {what}",
            detail=f"{str(error)[:1].upper()}{str(error)[1:]}.",
            hint=HINT if error.valid else None,
        ) from None
    import re2  # Spark's workers may not have it, and most views need none

    options = re2.Options()
    options.log_errors = False
    try:
        return Regular(pattern, re2.compile(form.text.encode(), options), form)
    except re2.error as error:
        detail = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ArithmeticFault(f"the regular expression {pattern!r} is not supported", detail=f"{detail}.") from None


@lru_cache(maxsize=1024)
def _with_places(pattern: str) -> Regular:
    """A regular expression whose match positions are needed, not only whether it matches."""
    found = compiled(pattern)
    if found.form.idles:
        raise ArithmeticFault(
            f"the regular expression {pattern!r} is not supported here",
            detail="It repeats what can be empty, so where a match ends depends on the engine.",
            hint="Repeat something that takes at least one character.",
        )
    return found


def check_pattern(values: Sequence[Any]) -> None:
    """Refuse an invalid constant pattern."""
    _check(values, compiled)


def check_places(values: Sequence[Any]) -> None:
    """The same for functions that need match positions."""
    _check(values, _with_places)


def _check(values: Sequence[Any], compile_: Callable[[str], Regular]) -> None:
    if isinstance(values[1], str):
        try:
            compile_(values[1])
        except ArithmeticFault as fault:
            raise Unsupported(fault.what, detail=fault.detail, hint=fault.hint) from None


def matches(text: str, pattern: str) -> bool:
    """RLIKE: whether ``pattern`` is found anywhere in ``text``.

    >>> matches("a" * 5000 + "!", "(a+)+$")
    False
    """
    expression, encoded = compiled(pattern), text.encode()
    if expression.expression.search(encoded) is not None:
        return True
    before = _before_line_end(encoded) if expression.form.ends else None
    return before is not None and expression.expression.search(before) is not None


def regexp_replace(text: str, pattern: str, replacement: str, position: int = 1) -> str:
    """Every match from ``position`` on replaced; ``$1`` stands for the first group, ``\\\\$`` for a dollar sign."""
    if position < 1:
        raise ArithmeticFault("REGEXP_REPLACE counts positions from 1")
    head, tail = text[: position - 1], text[position - 1 :].encode()
    pieces, start = [], 0
    for match in _with_places(pattern).all(tail):
        pieces += [tail[start : match.start()].decode(), _filled(match, replacement)]
        start = match.end()
    return "".join([head, *pieces, tail[start:].decode()])


def _filled(match: Any, replacement: str) -> str:
    def value(found: re.Match[str]) -> str:
        if found["group"] is None:
            return found["literal"]
        return (match.group(int(found["group"])) or b"").decode()

    try:
        return re.sub(r"\\(?P<literal>.)|\$(?P<group>\d)", value, replacement)
    except IndexError:
        raise ArithmeticFault(f"the replacement {replacement!r} names a group that is not there") from None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    """That group of the first match; empty where nothing matches."""
    expression = _with_places(pattern)
    if not 0 <= group <= expression.expression.groups:
        raise ArithmeticFault(f"the regular expression {pattern!r} has no group {group}")
    found = expression.find(text.encode())
    return (found.group(group) or b"").decode() if found else ""


def regexp_extract_all(text: str, pattern: str, group: int = 1) -> tuple[str, ...]:
    """That group of every match; empty for a match without it.

    >>> regexp_extract_all("100-200, 300-400", "([0-9]+)-")
    ('100', '300')
    """
    expression = _with_places(pattern)
    if not 0 <= group <= expression.expression.groups:
        raise ArithmeticFault(f"the regular expression {pattern!r} has no group {group}")
    return tuple((match.group(group) or b"").decode() for match in expression.all(text.encode()))


def regexp_count(text: str, pattern: str) -> int:
    """The number of matches."""
    return sum(1 for _ in _with_places(pattern).all(text.encode()))


def regexp_substr(text: str, pattern: str) -> str | None:
    """The first match; NULL where nothing matches, or nothing is matched."""
    return regexp_extract(text, pattern, 0) or None


def regexp_instr(text: str, pattern: str, group: int = 0) -> int:
    """Where the first match begins, counted from 1; 0 where nothing matches. Spark takes a group and ignores it."""
    encoded = text.encode()
    found = _with_places(pattern).find(encoded)
    return len(encoded[: found.start()].decode()) + 1 if found else 0


def split(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """``text`` cut at every match of a regular expression, into at most ``limit`` parts where that is positive.

    >>> split("a1b22c", "[0-9]+")
    ('a', 'b', 'c')
    """
    if not pattern and text:
        # Spark cuts between characters here, and not behind the last one.
        return (*text[: limit - 1], text[limit - 1 :]) if 0 < limit < len(text) else tuple(text)
    parts: list[str] = []
    start, encoded = 0, text.encode()
    for match in _with_places(pattern).all(encoded):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0:
            continue  # as in Java, an empty match at the start cuts nothing off
        parts.append(encoded[start : match.start()].decode())
        start = match.end()
    return (*parts, encoded[start:].decode())


PATTERNS = (
    Function(
        "like",
        takes(t.STRING, t.STRING, t.STRING, gives=t.BOOLEAN, optional=1),
        like,
        "like({args})",
        constants=(2,),
        total=True,
    ),
    Function("rlike", takes(t.STRING, t.STRING, gives=t.BOOLEAN), matches, "({0} RLIKE {1})", check=check_pattern),
    Function(
        "regexp_replace",
        takes(t.STRING, t.STRING, t.STRING, t.INT, gives=t.STRING, optional=1),
        regexp_replace,
        "regexp_replace({args})",
        constants=(3,),
        check=check_places,
    ),
    Function(
        "regexp_extract",
        takes(t.STRING, t.STRING, t.INT, gives=t.STRING, optional=1),
        regexp_extract,
        "regexp_extract({args})",
        check=check_places,
    ),
    Function(
        "regexp_extract_all",
        takes(t.STRING, t.STRING, t.INT, gives=t.Array(t.STRING), optional=1),
        regexp_extract_all,
        "regexp_extract_all({args})",
        check=check_places,
    ),
    Function(
        "regexp_count",
        takes(t.STRING, t.STRING, gives=t.INT),
        regexp_count,
        "regexp_count({args})",
        check=check_places,
    ),
    Function(
        "regexp_substr",
        takes(t.STRING, t.STRING, gives=t.STRING),
        regexp_substr,
        "regexp_substr({args})",
        null_when=always,
        check=check_places,
    ),
    Function(
        "regexp_instr",
        takes(t.STRING, t.STRING, t.INT, gives=t.INT, optional=1),
        regexp_instr,
        "regexp_instr({args})",
        check=check_places,
    ),
    Function(
        "split",
        takes(t.STRING, t.STRING, t.INT, gives=t.Array(t.STRING), optional=1),
        split,
        "split({args})",
        check=check_places,
    ),
)
