"""The elements of a pattern of dates and timestamps: each writes its part of a timestamp, and reads it from a text.

``read`` returns the position behind what it has read, or -1. Texts are read as by Java's ``DateTimeFormatter``: case
does not matter, and numbers have the digits and signs that the pattern asks for.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tidemill.algebra.values.datetime.fields import FIELDS
from tidemill.algebra.values.datetime.zones import MOST_SECONDS, fixed_zone, zone_names, zone_of
from tidemill.model.errors import Unsupported

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

FULL_TEXTS: dict[str, dict[int, str]] = {
    "month": dict(enumerate(MONTHS, start=1)),
    "weekday": dict(enumerate(WEEKDAYS, start=1)),
    "quarter": dict(enumerate(("1st quarter", "2nd quarter", "3rd quarter", "4th quarter"), start=1)),
    "era": {0: "Before Christ", 1: "Anno Domini"},
}
SHORT_TEXTS: dict[str, dict[int, str]] = {
    "month": {number: name[:3] for number, name in FULL_TEXTS["month"].items()},
    "weekday": {number: name[:3] for number, name in FULL_TEXTS["weekday"].items()},
    "quarter": dict(enumerate(("Q1", "Q2", "Q3", "Q4"), start=1)),
    "era": {0: "BC", 1: "AD"},
    "half": {0: "AM", 1: "PM"},
}
"""Names of fields' values in English, as Spark writes them."""


@dataclass
class Parsed:
    """The fields that have been read so far, and the zone."""

    values: dict[str, int]
    zone: datetime.tzinfo | None = None

    def put(self, name: str, value: int, position: int) -> int:
        """Keep a value, and return ``position``; -1 if the field has another value already."""
        return position if self.values.setdefault(name, value) == value else -1


class Element(Protocol):
    """An element of a pattern."""

    def write(self, instant: datetime.datetime) -> str:
        """The part of ``instant``."""
        ...

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        """Read from ``position`` on into ``parsed``; the position behind, or -1."""
        ...


class Sign(Enum):
    """Signs that a number may have: none, a minus, or also a plus where it has more digits than its width."""

    NEVER = "never"
    NEGATIVE = "negative"
    BEYOND_WIDTH = "beyond width"


def same_text(one: str, other: str) -> bool:
    """True for texts that differ in case only."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or a.upper() == b.upper() or a.lower() == b.lower() for a, b in pairs)


def digits_until(text: str, position: int, end: int) -> int:
    """The position behind the digits from ``position`` on, at most ``end``."""
    while position < min(end, len(text)) and "0" <= text[position] <= "9":
        position += 1
    return position


@dataclass(frozen=True)
class Separator:
    """Text that stands as it is."""

    text: str

    def write(self, instant: datetime.datetime) -> str:
        return self.text

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        end = position + len(self.text)
        return end if same_text(text[position:end], self.text) else -1


@dataclass(frozen=True)
class Number:
    """A number of ``least`` to ``most`` digits; the first of adjacent ones leaves ``following`` digits to the others.

    With a ``century`` two digits stand for a year in the hundred years from there on.
    """

    name: str
    least: int
    most: int
    sign: Sign = Sign.NEVER
    following: int = 0
    century: int = 0

    @property
    def fixed(self) -> bool:
        """True if it always has the same number of digits."""
        return self.least == self.most and self.sign == Sign.NEVER

    def write(self, instant: datetime.datetime) -> str:
        value = FIELDS[self.name](instant)
        return str(value % 100 if self.century else value).rjust(self.least, "0")

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        sign = text[position : position + 1]
        if (sign == "-" and self.sign != Sign.NEVER) or (sign == "+" and self.sign == Sign.BEYOND_WIDTH):
            position += 1
        else:
            sign = ""
        end = digits_until(text, position, position + self.most + self.following)
        if end - position < self.least:
            return -1
        if self.following:
            end = position + max(self.least, end - position - self.following)
        return self._kept(sign, text[position:end], end, parsed)

    def _kept(self, sign: str, digits: str, end: int, parsed: Parsed) -> int:
        value = int(digits)
        if sign == "-" and value == 0:
            return -1
        if self.sign == Sign.BEYOND_WIDTH and sign != "-" and (sign == "+") != (len(digits) > self.least):
            return -1
        return parsed.put(self.name, (-value if sign == "-" else value) + self.century, end)


@dataclass(frozen=True)
class Fraction(Number):
    """Digits of a second behind its point."""

    def write(self, instant: datetime.datetime) -> str:
        return f"{instant.microsecond * 1000:09}"[: self.most]

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        end = digits_until(text, position, position + self.most)
        if end - position < self.least:
            return -1
        return parsed.put("nano", int(text[position:end].ljust(9, "0")), end)


@dataclass(frozen=True)
class Text:
    """A value by its name."""

    name: str
    texts: dict[int, str] = field(hash=False)

    def write(self, instant: datetime.datetime) -> str:
        return self.texts[FIELDS[self.name](instant)]

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        for value, name in self.texts.items():
            if same_text(text[position : position + len(name)], name):
                return parsed.put(self.name, value, position + len(name))
        return -1


@dataclass(frozen=True)
class Optional:
    """Elements in brackets: written always, and read where they are there."""

    elements: tuple[Element, ...]

    def write(self, instant: datetime.datetime) -> str:
        return "".join(element.write(instant) for element in self.elements)

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        tried, end = Parsed(dict(parsed.values), parsed.zone), position
        for element in self.elements:
            end = element.read(text, end, tried)
            if end < 0:
                return position
        parsed.values, parsed.zone = tried.values, tried.zone
        return end


OFFSET_FORMS = {
    "+HHmm": r"([+-])(\d\d)(\d\d)?()",
    "+HHMM": r"([+-])(\d\d)(\d\d)()",
    "+HH:MM": r"([+-])(\d\d):(\d\d)()",
    "+HHMMss": r"([+-])(\d\d)(\d\d)(\d\d)?",
    "+HH:MM:ss": r"([+-])(\d\d):(\d\d)(?::(\d\d))?",
    "GMT+H": r"([+-])(\d\d?)(?::(\d\d)(?::(\d\d))?)?",
    "GMT+HH:MM": r"([+-])(\d\d):(\d\d)(?::(\d\d))?",
}


def read_offset(form: str, text: str, position: int, parsed: Parsed) -> int:
    """Read an offset from UTC of that form."""
    found = re.compile(OFFSET_FORMS[form], re.ASCII).match(text, position)
    if not found:
        return -1
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > MOST_SECONDS:
        return -1
    return keep_offset(-total if found[1] == "-" else total, found.end(), parsed)


def keep_offset(seconds: int, position: int, parsed: Parsed) -> int:
    """Keep an offset as the zone."""
    parsed.zone = fixed_zone(seconds)
    return parsed.put("offset", seconds, position)


@dataclass(frozen=True)
class Offset:
    """An offset from UTC; ``none`` is the text of no offset."""

    form: str
    none: str

    def write(self, instant: datetime.datetime) -> str:
        return self.none

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        end = position + len(self.none)
        if same_text(text[position:end], self.none):
            return keep_offset(0, end, parsed)
        return read_offset(self.form, text, position, parsed)


@dataclass(frozen=True)
class LocalizedOffset:
    """``GMT``, and an offset behind it where there is one."""

    full: bool

    def write(self, instant: datetime.datetime) -> str:
        return "GMT"

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        end = position + 3
        if not same_text(text[position:end], "GMT"):
            return -1
        if text[end : end + 1] not in ("+", "-"):
            return keep_offset(0, end, parsed)
        return read_offset("GMT+HH:MM" if self.full else "GMT+H", text, end, parsed)


@dataclass(frozen=True)
class ZoneName:
    """The name of a zone."""

    def write(self, instant: datetime.datetime) -> str:
        return "UTC"

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        if text[position : position + 1] in ("+", "-"):
            return read_offset("+HH:MM:ss", text, position, parsed)
        for prefix in ("UTC", "GMT", "UT"):
            end = position + len(prefix)
            if same_text(text[position:end], prefix):
                if text[end : end + 1] in ("+", "-"):
                    return read_offset("+HH:MM:ss", text, end, parsed)
                parsed.zone = datetime.UTC
                return end
        return self._region(text, position, parsed)

    def _region(self, text: str, position: int, parsed: Parsed) -> int:
        for name in sorted(zone_names(), key=len, reverse=True):
            if same_text(text[position : position + len(name)], name):
                parsed.zone = zone_of(name)
                return position + len(name)
        if same_text(text[position : position + 1], "Z"):
            parsed.zone = datetime.UTC
            return position + 1
        return -1


@dataclass(frozen=True)
class ZoneText:
    """The zone as people call it. Of the names that are no identifiers only some are read: others are ambiguous."""

    full: bool

    def write(self, instant: datetime.datetime) -> str:
        return "Coordinated Universal Time" if self.full else "UTC"

    def read(self, text: str, position: int, parsed: Parsed) -> int:
        end = ZoneName().read(text, position, parsed)
        word = ZONE_WORD.match(text, position)
        if end >= 0 or word is None:
            return end
        zone = SHORT_ZONES.get(word[0][:3].upper())
        if zone is None:
            raise Unsupported(f"{word[0]!r} as the name of a zone", hint="Use identifiers, such as Europe/Paris.")
        parsed.zone = zone_of(zone)
        return position + 3


ZONE_WORD = re.compile(r"[A-Za-z]+")
SHORT_ZONES = {
    **dict.fromkeys(("PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("CST", "CDT"), "America/Chicago"),
    **dict.fromkeys(("EST", "EDT"), "America/New_York"),
}
"""Zones by short names; in winter and in summer both mean the zone with its own summer time."""
