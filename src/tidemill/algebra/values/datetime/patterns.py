"""Spark's patterns of dates and timestamps, such as ``yyyy-MM-dd HH:mm:ss``: read once, then used to write and read.

A pattern is a list of elements as in Java's ``DateTimeFormatter``, by whose rules, made narrower by Spark, letters are
read: week-based letters and narrow texts are refused, ``y`` is the year of the calendar unless an era stands beside it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from tidemill.algebra.values.datetime.elements import (
    FULL_TEXTS,
    SHORT_TEXTS,
    Element,
    Fraction,
    LocalizedOffset,
    Number,
    Offset,
    Optional,
    Parsed,
    Separator,
    Sign,
    Text,
    ZoneName,
    ZoneText,
)
from tidemill.algebra.values.datetime.fields import resolve
from tidemill.algebra.values.datetime.zones import to_utc
from tidemill.model.errors import ArithmeticFault, Unsupported

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"

WEEK_BASED = frozenset("YWwuec")
NOT_READ = frozenset("EFqQ")
REFUSED = re.compile(r"[ABnNp]|G{5}|M{5}|L{5}|E{5}|Q{5}|q{5}|y{7}")
"""Letters and widths that Spark refuses although Java has them."""

NUMBERS = {
    "d": "day", "h": "clock_hour_of_half", "H": "hour", "k": "clock_hour", "K": "hour_of_half", "m": "minute",
    "s": "second",
}  # fmt: skip
TEXTS = {"M": "month", "L": "month", "Q": "quarter", "q": "quarter", "E": "weekday", "G": "era"}
OFFSETS = {
    "X": (("+HHmm", "Z"), ("+HHMM", "Z"), ("+HH:MM", "Z"), ("+HHMMss", "Z"), ("+HH:MM:ss", "Z")),
    "x": (("+HHmm", "+00"), ("+HHMM", "+0000"), ("+HH:MM", "+00:00"), ("+HHMMss", "+0000"), ("+HH:MM:ss", "+00:00")),
    "Z": (("+HHMM", "+0000"), ("+HHMM", "+0000"), ("+HHMM", "+0000"), ("", ""), ("+HH:MM:ss", "Z")),
}
"""Forms of an offset by the number of letters, and the text of no offset."""


def write_pattern(instant: datetime.datetime, pattern: str) -> str:
    """A timestamp in the form of ``pattern``.

    >>> write_pattern(datetime.datetime(2024, 2, 29, 13, 5), "EEE, d MMM yyyy h:mm a")
    'Thu, 29 Feb 2024 1:05 PM'
    """
    return "".join(element.write(instant) for element in _elements(pattern, reading=False))


def read_pattern(text: str, pattern: str) -> datetime.datetime | None:
    """The timestamp that ``text`` says in the form of ``pattern``, or None where it says none.

    >>> read_pattern("29.2.2024 1:05 PM", "d.M.yyyy h:mm a"), read_pattern("30.2.2024", "d.M.yyyy")
    (datetime.datetime(2024, 2, 29, 13, 5), None)
    """
    parsed = _parsed(text, pattern)
    local = None if parsed is None else resolve(parsed.values)
    return None if parsed is None or local is None else to_utc(local, parsed.zone or datetime.UTC)


def read_local_pattern(text: str, pattern: str) -> datetime.datetime | None:
    """As ``read_pattern``, but the local time as it was written; a zone beside it must be one, and is left out.

    >>> read_local_pattern("2024-01-01 12:00+02:00", "yyyy-MM-dd HH:mmXXX")
    datetime.datetime(2024, 1, 1, 12, 0)
    """
    parsed = _parsed(text, pattern)
    return None if parsed is None else resolve(parsed.values)


def _parsed(text: str, pattern: str) -> Parsed | None:
    """The fields that ``text`` has in the form of ``pattern``; None where it has another form."""
    parsed, position = Parsed({}), 0
    for element in _elements(pattern, reading=True):
        position = element.read(text, position, parsed)
        if position < 0:
            return None
    return parsed if position == len(text) else None


def read_time(text: str, pattern: str) -> datetime.time | None:
    """The time of day that ``text`` says in the form of ``pattern``, or None where it says none.

    >>> read_time("12.10.05", "HH.mm.ss")
    datetime.time(12, 10, 5)
    """
    parsed = _parsed(text, pattern)
    found = None if parsed is None else resolve(parsed.values)
    if parsed and parsed.values.get("nano", 0) % 1000:
        raise Unsupported(f"{text!r} has nanoseconds", hint="Read six digits of a second.")
    return None if found is None else found.time()


def write_time(time: datetime.time, pattern: str) -> str:
    """A time of day in the form of ``pattern``, which has no letters of a date or a zone."""
    for part in pattern.split("'")[::2]:
        if other := re.search(r"[^\WHhKkmsSa_\d]", part):
            raise _refused(pattern, f"a time of day has no {other.group()}")
    return write_pattern(datetime.datetime.combine(datetime.date(1970, 1, 1), time), pattern)


def check_pattern(pattern: str, reading: bool) -> None:
    """Refuse what is no pattern, for texts that are read or written."""
    _elements(pattern, reading)


@lru_cache(maxsize=256)
def _elements(pattern: str, reading: bool) -> Sequence[Element]:
    _check_letters(pattern, reading)
    builder = _Builder(pattern, reading)
    builder.add_all()
    elements = builder.finished()
    if reading and any(isinstance(element, ZoneText) and element.full for element in _all(elements)):
        raise _refused(pattern, "names of zones are ambiguous", "Use VV, X or Z.")
    return elements


def _all(elements: Sequence[Element]) -> list[Element]:
    inner = (_all(element.elements) for element in elements if isinstance(element, Optional))
    return [*elements, *(element for part in inner for element in part)]


def _check_letters(pattern: str, reading: bool) -> None:
    for part in pattern.split("'")[::2]:
        if week_based := WEEK_BASED.intersection(part):
            raise _refused(pattern, f"{min(week_based)} is a letter of week-based dates", "Use EXTRACT.")
        if refused := REFUSED.search(part):
            raise _refused(pattern, f"Spark refuses {refused.group()}")
        if reading and (not_read := NOT_READ.intersection(part)):
            raise _refused(pattern, f"no text is read by {min(not_read)}")


def _refused(pattern: str, why: str, hint: str | None = None) -> ArithmeticFault:
    return ArithmeticFault(f"{pattern!r} is no pattern of dates and times", detail=f"{why}.", hint=hint)


class _Builder:
    """Elements as they are read from a pattern.

    Digits of adjacent numbers are shared out as Java does it: the first takes what those of a fixed width behind it
    leave.
    """

    def __init__(self, pattern: str, reading: bool) -> None:
        self._pattern = pattern
        self._reading = reading
        self._year = "year_of_era" if any("G" in part for part in pattern.split("'")[::2]) else "year"
        self._levels: list[list[Element]] = [[]]
        self._base: int | None = None

    def add_all(self) -> None:
        """Read the pattern: runs of a letter, texts in quotes, brackets, and other characters as they are."""
        for found in re.finditer(r"([A-Za-z])\1*|'((?:[^']|'')*)'|.", self._pattern, re.DOTALL):
            token, literal = found.group(), found[2]
            if found[1]:
                self._letters(token[0], len(token))
            elif literal is not None:
                self._append(Separator(literal.replace("''", "'") or "'"))
            elif token in "'{}#":
                raise _refused(self._pattern, f"{token} stands for nothing", "Put it into quotes, or double it.")
            elif token == "[":
                self._levels.append([])
                self._base = None
            elif token == "]":
                self._close()
            else:
                self._append(Separator(token))

    def finished(self) -> tuple[Element, ...]:
        """The elements; brackets that are still open end here."""
        while len(self._levels) > 1:
            self._close()
        return tuple(self._levels[0])

    def _fraction(self, count: int) -> None:
        """Digits of a second; texts that are read may have fewer of them."""
        if count > 9:
            raise _refused(self._pattern, "a second has nine digits")
        fraction = Fraction("nano", 1 if self._reading else count, count)
        if fraction.fixed:
            self._number(fraction)
        else:
            self._append(fraction)

    def _close(self) -> None:
        if len(self._levels) == 1:
            raise _refused(self._pattern, "] stands without [")
        inner = self._levels.pop()
        self._append(Optional(tuple(inner)))

    def _append(self, element: Element) -> None:
        self._levels[-1].append(element)
        self._base = None

    def _number(self, number: Number) -> None:
        elements = self._levels[-1]
        base = elements[self._base] if self._base is not None else None
        if self._base is not None and isinstance(base, Number) and number.fixed:
            elements[self._base] = replace(base, following=base.following + number.most)
        else:
            self._base = len(elements)
        elements.append(number)

    def _letters(self, letter: str, count: int) -> None:
        if letter == "y":
            self._number(_year(self._year, count))
        elif letter in NUMBERS and count <= 2:
            self._number(_plain(NUMBERS[letter], count))
        elif letter == "D" and count <= 3:
            self._number(_plain("day_of_year", 1) if count == 1 else Number("day_of_year", count, 3, Sign.NEVER))
        elif letter == "g":
            self._number(Number("modified_julian_day", count, 19, Sign.NEGATIVE))
        elif letter == "S":
            self._fraction(count)
        elif letter in TEXTS and count <= 4:
            self._text(letter, count)
        elif letter == "a" and count == 1:
            self._append(Text("half", SHORT_TEXTS["half"]))
        else:
            self._append(self._zone(letter, count))

    def _text(self, letter: str, count: int) -> None:
        field = TEXTS[letter]
        if count <= 2 and letter not in "EG":
            self._number(_plain(field, count))
        else:
            self._append(Text(field, (FULL_TEXTS if count == 4 else SHORT_TEXTS)[field]))

    def _zone(self, letter: str, count: int) -> Element:
        if letter in OFFSETS and count <= 5 and (letter, count) != ("Z", 4):
            return Offset(*OFFSETS[letter][count - 1])
        if (letter in "OZ" and count == 4) or (letter == "O" and count == 1):
            return LocalizedOffset(full=count == 4)
        if letter == "V" and count == 2:
            return ZoneName()
        if (letter == "z" and count <= 4) or (letter == "v" and count in (1, 4) and not self._reading):
            return ZoneText(full=count == 4)
        raise _refused(self._pattern, f"{letter * count} means nothing, or differs between versions of Java")


def _plain(field: str, width: int) -> Number:
    return Number(field, 1, 19, Sign.NEGATIVE) if width == 1 else Number(field, width, width, Sign.NEVER)


def _year(field: str, count: int) -> Number:
    if count == 2:
        return Number(field, 2, 2, Sign.NEVER, century=2000)
    return Number(field, count, 19, Sign.NEGATIVE if count < 4 else Sign.BEYOND_WIDTH)
