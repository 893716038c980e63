"""Options of functions that read and write documents: names in any case, and values that are texts.

A function takes its options as further arguments, which are constants: a name, its value, and so on.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.algebra.values import formats
from tidemill.algebra.values.datetime.patterns import check_pattern, read_pattern, read_time, write_pattern, write_time
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import Type

Options = dict[str, str]
"""Values by names in lower case."""

COMMON_REFUSED = ("encoding", "charset", "locale", "enabledatetimeparsingfallback")
"""Options that change what every kind of document means."""

FORMAT_OPTIONS = ("dateformat", "timestampformat", "timestampntzformat", "timeformat")
"""Options with patterns, in the order of ``DateTimeFormats``."""

_NO_TIME = re.compile(r"[^\WHhKkmsSa_\d]")
_FRACTION = re.compile(r"\.([0-9]+)")
_TIME_ONLY = re.compile(r"\s*T?\d{1,2}:")
_ZONE_LETTERS = re.compile(r"[VzOXxZv]")
_DAYS = re.compile(r"[-+]?[0-9]{1,3}")
_LONG_YEAR = re.compile(r"\s*(?:[-+]?[0-9]{5,7}\s*(?:$|-)|-[0-9]{4}\b)")
_MANY_DAYS = re.compile(r"[-+]?[0-9]{8,10}")
_DAY_ZERO = datetime.date(1970, 1, 1)


def read_options(given: Sequence[str], refused: Sequence[str]) -> Options:
    """Options from a list of names and values; one of ``refused`` is an error, and unknown ones mean nothing."""
    options = {name.lower(): value for name, value in zip(given[::2], given[1::2], strict=True)}
    for name in options.keys() & {*refused, *COMMON_REFUSED}:
        raise Unsupported(f"the option {name!r} is not supported", hint="Leave it out.")
    if options.get("timezone", "UTC").upper() not in ("UTC", "Z", "ETC/UTC", "GMT"):
        raise Unsupported(
            f"the time zone {options['timezone']!r} of a document",
            hint="Timestamps are in UTC: convert them beforehand.",
        )
    return options


def flag(options: Options, name: str, default: bool) -> bool:
    """An option that is true or false."""
    value = options.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise TypeMismatch(f"the option {name!r} is true or false, not {value!r}")
    return value == "true"


def fails_fast(options: Options, function: str) -> bool:
    """True where a record that does not fit is an error; where it becomes NULL, the mode is PERMISSIVE."""
    mode = options.get("mode", "PERMISSIVE").upper()
    if mode == "DROPMALFORMED":
        raise TypeMismatch(f"{function} has no mode DROPMALFORMED", hint="Modes are PERMISSIVE and FAILFAST.")
    return mode == "FAILFAST"


@dataclass(frozen=True)
class DateTimeFormats:
    """Format of dates and timestamps in a document: by a pattern, or where that is empty, as CAST reads them."""

    date: str = ""
    timestamp: str = ""
    timestamp_ntz: str = ""
    time: str = ""

    @classmethod
    def of(cls, options: Options, reading: bool) -> DateTimeFormats:
        """The formats that options give; what is no pattern is refused."""
        patterns = [options.get(name, "") for name in FORMAT_OPTIONS]
        for pattern in patterns:
            try:
                check_pattern(pattern, reading)
            except ArithmeticFault as fault:
                raise Unsupported(fault.what, detail=fault.detail, hint=fault.hint) from None
        if _ZONE_LETTERS.search("".join(patterns[2].split("'")[::2])):
            raise Unsupported("a zone in the pattern of TIMESTAMP_NTZ", hint="It has none.")
        if _NO_TIME.search("".join(patterns[3].split("'")[::2])):
            raise Unsupported(f"{patterns[3]!r} as the pattern of TIME", hint="Use the letters H, h, m, s, S and a.")
        return cls(*patterns)

    def read(self, text: str, of: Type) -> datetime.date | datetime.datetime | datetime.time | None:
        """A date, a timestamp or a time of day from a text; None where it is none."""
        if isinstance(of, t.Time):
            return self._read_time(text, of)
        beyond = _LONG_YEAR.match(text) or (of == t.DATE and _MANY_DAYS.fullmatch(text))
        if beyond and not self._pattern(of):
            raise ArithmeticFault(f"{text!r} is beyond the years 1 to 9999")
        match of:
            case t.TimestampNtz():
                return self._read_local(text)
            case t.Timestamp():
                return self._read_instant(text)
        return self._read_date(text)

    def _read_time(self, text: str, of: t.Time) -> datetime.time | None:
        found = read_time(text, self.time) if self.time else formats.read_time(text)
        digits = _FRACTION.search(text)
        if found and digits and len(digits[1]) > of.precision:
            # Spark keeps digits that the type does not have.
            raise ArithmeticFault(f"{text!r} has more digits than {of}", hint="Read it as STRING, and convert that.")
        return found

    def _read_local(self, text: str) -> datetime.datetime | None:
        if self.timestamp_ntz:
            return read_pattern(text, self.timestamp_ntz)
        found = formats.read_timestamp(text)
        # A text with a zone is none, unlike in a CAST.
        return found if found == formats.read_timestamp(text, zoned=False) and not text.rstrip().endswith("Z") else None

    def _read_instant(self, text: str) -> datetime.datetime | None:
        if self.timestamp:
            return read_pattern(text, self.timestamp)
        if _TIME_ONLY.match(text):
            raise ArithmeticFault(
                f"{text!r} is a time without a date", detail="Spark takes the day on which it is read."
            )
        return formats.read_timestamp(text) or formats.read_timestamp(text.replace("GMT", "", 1))

    def _read_date(self, text: str) -> datetime.date | None:
        if self.date:
            moment = read_pattern(text, self.date)
            return None if moment is None else moment.date()
        found = formats.read_date(text)
        if found is None and _DAYS.fullmatch(text):
            return _DAY_ZERO + datetime.timedelta(days=int(text))
        return found

    def write(self, value: datetime.datetime | datetime.date | datetime.time, of: Type) -> str:
        """A date, a timestamp or a time of day as a text; without a pattern as CAST writes it."""
        pattern = self._pattern(of)
        if not pattern:
            return formats.write(value, of)
        if isinstance(value, datetime.time):
            return write_time(value, pattern)
        moment = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
        return write_pattern(moment, pattern)

    def _pattern(self, of: Type) -> str:
        match of:
            case t.TimestampNtz():
                return self.timestamp_ntz
            case t.Timestamp():
                return self.timestamp
            case t.Time():
                return self.time
        return self.date
