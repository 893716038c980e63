"""Windows of time: the stretch from ``start`` to just before ``end`` that an instant falls into, or all of them.

Windows of one size begin every ``slide`` microseconds, counted from ``offset`` after 1970. Where they slide by less
than their size they overlap, and an instant is in several.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidemill.algebra.casts import microseconds, timestamp_of
from tidemill.algebra.functions.function import Function, takes
from tidemill.model import types as t
from tidemill.model.types import Field

WINDOW = t.Struct((Field("start", t.TIMESTAMP), Field("end", t.TIMESTAMP)))
"""The type of a window of time."""

Stretch = tuple[datetime, datetime]


def time_window(instant: datetime, size: int, offset: int) -> Stretch:
    """The window of windows without gaps that ``instant`` is in.

    >>> [str(end) for end in time_window(datetime(2024, 1, 1, 12, 7), 600_000_000, 0)]
    ['2024-01-01 12:00:00', '2024-01-01 12:10:00']
    """
    return time_windows(instant, size, size, offset)[0]


def time_windows(instant: datetime, size: int, slide: int, offset: int) -> tuple[Stretch, ...]:
    """All windows that ``instant`` is in, the last one first.

    >>> [str(start) for start, _ in time_windows(datetime(2024, 1, 1, 12, 7), 600_000_000, 300_000_000, 0)]
    ['2024-01-01 12:05:00', '2024-01-01 12:00:00']
    """
    moment = microseconds(instant)
    last = moment - (moment - offset) % slide
    return tuple((timestamp_of(start), timestamp_of(start + size)) for start in range(last, moment - size, -slide))


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
)
