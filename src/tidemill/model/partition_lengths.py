"""Lengths of time partitions, and all arithmetic on their numbers: when a partition begins, and which one an instant is
in.

A length is an integer: so many microseconds, or, if negative, so many calendar months. Partitions are numbered from
1970 on, in UTC: number ``n`` of three months begins ``3 * n`` months after January 1970. Those of a fixed length agree
with each other on where they begin, and so do those of months. The sign cancels in the ratio of two lengths of one
kind.
"""

from __future__ import annotations

DAY = 86_400_000_000
"""A day in microseconds."""

MONTH = -1
"""The length of a calendar month."""

_MARCH = 719_468
"""The days from 1 March of the year 0 to 1 January 1970; years that begin in March end with their leap day."""

_ERA = 146_097
"""The days of 400 years."""


def is_calendar(every: int) -> bool:
    """True for a number of months."""
    return every < 0


def period_number(instant: int, every: int) -> int:
    """The number of the partition that an instant is in, given in microseconds since 1970.

    >>> period_number(7 * DAY, DAY), period_number(-1, MONTH), period_number(366 * DAY, 12 * MONTH)
    (7, -1, 1)
    """
    return instant // every if every > 0 else _month(instant // DAY) // -every


def period_start(number: int, every: int) -> int:
    """The first instant of a partition, in microseconds since 1970.

    >>> period_start(7, DAY) // DAY, period_start(2, MONTH) // DAY, period_start(-1, 12 * MONTH) // DAY
    (7, 59, -365)
    """
    return number * every if every > 0 else _first_day(number * -every) * DAY


def period_floor(instant: int, every: int) -> int:
    """The first instant of the partition that an instant is in.

    >>> period_floor(45 * DAY, MONTH) // DAY
    31
    """
    return period_start(period_number(instant, every), every)


def longest(every: int) -> int:
    """The greatest length of a partition, in microseconds.

    >>> longest(60), longest(MONTH) // DAY
    (60, 31)
    """
    return every if every > 0 else -every * 31 * DAY


def _month(day: int) -> int:
    """The months from January 1970 to the month of a day, which is counted from 1970 on."""
    era, day_of_era = divmod(day + _MARCH, _ERA)
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * day_of_year + 2) // 153
    return (era * 400 + year - 1970) * 12 + from_march + 2


def _first_day(month: int) -> int:
    """The first day of a month that is counted from January 1970 on."""
    years, from_march = divmod(month - 2, 12)
    era, year = divmod(years + 1970, 400)
    return era * _ERA + 365 * year + year // 4 - year // 100 + (153 * from_march + 2) // 5 - _MARCH
