"""The fields of a timestamp that patterns name, and the timestamp that fields make."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

from tidemill.algebra.values.datetime.zones import out_of_range

JULIAN_ORIGIN = datetime.date(1858, 11, 17).toordinal()
"""The day from which modified Julian days are counted."""

FIELDS: dict[str, Callable[[datetime.datetime], int]] = {
    "era": lambda instant: 1,
    "year": lambda instant: instant.year,
    "year_of_era": lambda instant: instant.year,
    "quarter": lambda instant: (instant.month + 2) // 3,
    "month": lambda instant: instant.month,
    "day": lambda instant: instant.day,
    "day_of_year": lambda instant: instant.timetuple().tm_yday,
    "weekday": datetime.datetime.isoweekday,
    "modified_julian_day": lambda instant: instant.toordinal() - JULIAN_ORIGIN,
    "half": lambda instant: instant.hour // 12,
    "hour": lambda instant: instant.hour,
    "clock_hour": lambda instant: instant.hour or 24,
    "hour_of_half": lambda instant: instant.hour % 12,
    "clock_hour_of_half": lambda instant: instant.hour % 12 or 12,
    "minute": lambda instant: instant.minute,
    "second": lambda instant: instant.second,
    "nano": lambda instant: instant.microsecond * 1000,
}
"""The fields, and their values in a timestamp."""

LIMITS = {
    "half": (0, 1), "hour": (0, 23), "clock_hour": (1, 24), "hour_of_half": (0, 11), "clock_hour_of_half": (1, 12),
    "minute": (0, 59), "second": (0, 59), "nano": (0, 999_999_999),
}  # fmt: skip


def resolve(values: Mapping[str, int]) -> datetime.datetime | None:
    """The local time of these fields, or None where one is not valid or contradicts another.

    What is missing is that of 1970-01-01 00:00:00, and an hour without its half of the day is in the morning.

    >>> resolve({"year": 2024, "day_of_year": 60, "clock_hour_of_half": 12, "half": 1})
    datetime.datetime(2024, 2, 29, 12, 0)
    """
    if any(not least <= values[name] <= most for name, (least, most) in LIMITS.items() if name in values):
        return None
    day = _day(values)
    hour = _hour(values)
    if day is None or hour is None:
        return None
    nano = values.get("nano", 0)
    time = datetime.time(hour, values.get("minute", 0), values.get("second", 0), nano // 1000)
    return datetime.datetime.combine(day, time)


def _hour(values: Mapping[str, int]) -> int | None:
    """The hour of the day; None where two fields say different ones."""
    half, of_day, of_half = values.get("half"), values.get("hour"), values.get("hour_of_half")
    if "clock_hour" in values:
        clock = values["clock_hour"] % 24
        if of_day not in (None, clock):
            return None
        of_day = clock
    if "clock_hour_of_half" in values:
        clock = values["clock_hour_of_half"] % 12
        if of_half not in (None, clock):
            return None
        of_half = clock
    if of_day is None:
        return of_half if of_half is not None and not half else (half or 0) * 12 + (of_half or 0)
    agrees = half in (None, of_day // 12) and of_half in (None, of_day % 12)
    return of_day if agrees else None


def _day(values: Mapping[str, int]) -> datetime.date | None:
    """The day; None where there is none, or where two fields say different ones."""
    if "modified_julian_day" in values:
        return _julian_day(values)
    year = _year(values)
    month, day, day_of_year = values.get("month"), values.get("day"), values.get("day_of_year")
    try:
        if day_of_year is None or (month is not None and day is not None):
            found = _date(year, 1 if month is None else month, 1 if day is None else day)
        else:
            found = _date(year, 1, 1) + datetime.timedelta(days=day_of_year - 1)
    except (ValueError, OverflowError):
        return None
    same = found.year == year and month in (None, found.month) and day in (None, found.day)
    return found if same and day_of_year in (None, found.timetuple().tm_yday) else None


def _date(year: int, month: int, day: int) -> datetime.date:
    if not 1 <= year <= 9999:
        datetime.date(2000 + year % 400, month, day)
        raise out_of_range()
    return datetime.date(year, month, day)


def _julian_day(values: Mapping[str, int]) -> datetime.date | None:
    """The day of a day number; None where another field contradicts it."""
    number = values["modified_julian_day"] + JULIAN_ORIGIN
    if not 1 <= number <= datetime.date.max.toordinal():
        raise out_of_range()
    found = datetime.datetime.fromordinal(number)
    named = (name for name in ("year", "month", "day", "day_of_year") if name in values)
    return found.date() if all(FIELDS[name](found) == values[name] for name in named) else None


def _year(values: Mapping[str, int]) -> int:
    if "year" in values:
        return values["year"]
    if "year_of_era" not in values or "era" not in values:
        return 1970
    return values["year_of_era"] if values["era"] else 1 - values["year_of_era"]
