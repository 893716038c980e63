"""Windows of time: the stretch from ``start`` to just before ``end`` that an instant falls into, or all of them.

Windows of one size begin every ``slide`` microseconds, counted from ``offset`` after 1970. Where they slide by less
than their size they overlap, and an instant is in several. A *partition* is such a window by its number: partition
``n`` of ``every`` microseconds begins ``n * every`` after 1970, and of months with a month
(``model.partition_lengths``).
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from tidemill.algebra.functions.function import Function, never, takes
from tidemill.algebra.values.casts import microseconds, timestamp_of
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.partition_lengths import period_number, period_start
from tidemill.model.types import Field

WINDOW = t.Struct((Field("start", t.TIMESTAMP), Field("end", t.TIMESTAMP)))
"""The type of a window of time."""

TimeInterval = tuple[datetime, datetime]


def time_window(instant: datetime, size: int, offset: int) -> TimeInterval:
    """The window of windows without gaps that ``instant`` is in.

    >>> [str(end) for end in time_window(datetime(2024, 1, 1, 12, 7), 600_000_000, 0)]
    ['2024-01-01 12:00:00', '2024-01-01 12:10:00']
    """
    return time_windows(instant, size, size, offset)[0]


def time_windows(instant: datetime, size: int, slide: int, offset: int) -> tuple[TimeInterval, ...]:
    """All windows that ``instant`` is in, the last one first.

    >>> [str(start) for start, _ in time_windows(datetime(2024, 1, 1, 12, 7), 600_000_000, 300_000_000, 0)]
    ['2024-01-01 12:05:00', '2024-01-01 12:00:00']
    """
    moment = microseconds(instant)
    last = moment - (moment - offset) % slide
    return tuple((timestamp_of(start), timestamp_of(start + size)) for start in range(last, moment - size, -slide))


def window_from(start: datetime, length: int) -> TimeInterval:
    """The window that begins at ``start`` and is ``length`` microseconds long.

    >>> [str(end) for end in window_from(datetime(2024, 1, 1, 12, 7), 600_000_000)]
    ['2024-01-01 12:07:00', '2024-01-01 12:17:00']
    """
    return start, timestamp_of(microseconds(start) + length)


def partition_number(instant: datetime, every: int) -> int:
    """The number of the partition that ``instant`` is in.

    >>> partition_number(datetime(1970, 1, 1, 0, 7), 60_000_000), partition_number(datetime(1969, 12, 31), 60_000_000)
    (7, -1440)
    """
    return period_number(microseconds(instant), every)


@lru_cache(maxsize=1024)
def partition_start(number: int, every: int) -> datetime:
    """The first instant of a partition: of all its rows the same one.

    >>> str(partition_start(7, 60_000_000))
    '1970-01-01 00:07:00'
    """
    return timestamp_of(period_start(number, every))


def partition_time(instant: datetime | None, number: int, every: int) -> datetime:
    """``instant``, which must lie in partition ``number``: others that read by partitions look for the row there."""
    if instant is None or partition_number(instant, every) != number:
        raise ArithmeticFault(
            f"a row of the partition from {partition_start(number, every)} on has the time {instant or 'NULL'}",
            hint="A view that is made by partitions gives each row a time within its partition, or none at all.",
        )
    return instant


_LAST = "unix_micros({0}) - pmod(unix_micros({0}) - {offset}, {slide})"


def _window(start: str, size: str) -> str:
    return f"named_struct('start', timestamp_micros({start}), 'end', timestamp_micros({start} + {size}))"


def _spell_window(arguments: Any, types: Any, of: Any) -> str:
    instant, size, offset = arguments
    start = _LAST.format(instant, offset=offset, slide=size)
    # A struct of NULLs is no NULL, and an instant that is NULL is in no window.
    return f"IF({instant} IS NULL, NULL, {_window(start, size)})"


def _spell_windows(arguments: Any, types: Any, of: Any) -> str:
    instant, size, slide, offset = arguments
    last = _LAST.format(instant, offset=offset, slide=slide)
    starts = f"sequence({last}, unix_micros({instant}) - {size} + 1L, -{slide})"
    inside = f"{last} > unix_micros({instant}) - {size}"
    empty = "CAST(array() AS ARRAY<BIGINT>)"
    return f"transform(IF({inside}, {starts}, {empty}), start -> {_window('start', size)})"


def _spell_window_from(arguments: Any, types: Any, of: Any) -> str:
    start, length = arguments
    # A struct of NULLs is no NULL, and what begins at no instant is no window.
    return f"IF({start} IS NULL OR {length} IS NULL, NULL, {_window(f'unix_micros({start})', length)})"


_FIXED = "((unix_micros({0}) - pmod(unix_micros({0}), {1})) div {1})"
_MONTHS = "(year({0}) * 12L + month({0}) - 23641L)"
_CALENDAR = f"(({_MONTHS} - pmod({_MONTHS}, {{1}})) div {{1}})"


def _months_of(every: str) -> str:
    """The months of a length that is spelled in SQL; empty for microseconds."""
    length = every.strip("()")
    return length.removeprefix("-") if length.startswith("-") else ""


def _spell_number(arguments: Any, types: Any, of: Any) -> str:
    instant, every = arguments
    months = _months_of(every)
    return _CALENDAR.format(instant, months) if months else _FIXED.format(instant, every)


def _spell_start(arguments: Any, types: Any, of: Any) -> str:
    number, every = arguments
    if months := _months_of(every):
        return f"CAST(add_months(DATE'1970-01-01', CAST({number} * {months} AS INT)) AS TIMESTAMP)"
    return f"timestamp_micros({number} * {every})"


def _spell_time(arguments: Any, types: Any, of: Any) -> str:
    instant, number, every = arguments
    inside = f"coalesce({_spell_number((instant, every), types, of)} = {number}, false)"
    # A text that is no timestamp is Spark's way to say that a value is wrong.
    wrong = f"concat(coalesce(CAST({instant} AS STRING), 'NULL'), ' outside partition ', CAST({number} AS STRING))"
    return f"IF({inside}, {instant}, CAST({wrong} AS TIMESTAMP))"


TIME_WINDOWS = (
    Function(
        "time_window",
        takes(t.TIMESTAMP, t.BIGINT, t.BIGINT, gives=WINDOW),
        time_window,
        "",
        spelling=_spell_window,
    ),
    Function(
        "time_windows",
        takes(t.TIMESTAMP, t.BIGINT, t.BIGINT, t.BIGINT, gives=t.Array(WINDOW)),
        time_windows,
        "",
        spelling=_spell_windows,
    ),
    Function(
        "window_from",
        takes(t.TIMESTAMP, t.BIGINT, gives=WINDOW),
        window_from,
        "",
        spelling=_spell_window_from,
    ),
    Function(
        "partition_number",
        takes(t.TIMESTAMP, t.BIGINT, gives=t.BIGINT),
        partition_number,
        "",
        spelling=_spell_number,
    ),
    Function(
        "partition_start",
        takes(t.BIGINT, t.BIGINT, gives=t.TIMESTAMP),
        partition_start,
        "",
        spelling=_spell_start,
    ),
    Function(
        "partition_time",
        takes(t.TIMESTAMP, t.BIGINT, t.BIGINT, gives=t.TIMESTAMP),
        partition_time,
        "",
        strict=False,
        null_when=never,
        spelling=_spell_time,
    ),
)
