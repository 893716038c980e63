"""Reach: how far around a changed row the values of window functions may change.

A changed row is read by rows around it. Those lie in one interval that contains it, so that whatever a row within an
interval reads outside of it is the same before and after the epoch, but for its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.windows import RANKINGS, Frame, WindowCall
from tidemill.model import types as t
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled

MOVABLE = (t.Integral, t.Decimal, t.Date, t.Timestamp, t.AnsiInterval)
"""Types whose values can be moved by an offset and back again; a DOUBLE is rounded."""

MAX_OFFSET = 1 << 62
"""No number of rows that is compiled is larger."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The interval of rows around a changed one whose values may change.

    It has so many rows ``before`` it and ``after`` it (None: all), and all rows whose place in the order is at most the
    offsets of one of the ``ranges`` away. Where it is ``running`` it goes on until the next change unless all sums
    are what they were. Where one of the first ``head`` rows has changed, or with ``tail`` the last, it has all rows.
    """

    before: int | None = 0
    after: int | None = 0
    ranges: tuple[tuple[int, int], ...] = ()
    running: bool = False
    head: int = 0
    tail: bool = False

    def __or__(self, other: Reach) -> Reach:
        """The interval that contains both.

        >>> Reach(before=1, running=True) | Reach(before=3, after=None)
        Reach(before=3, after=None, ranges=(), running=True, head=0, tail=False)
        """
        return Reach(
            _larger(self.before, other.before),
            _larger(self.after, other.after),
            tuple(dict.fromkeys((*self.ranges, *other.ranges))),
            self.running or other.running,
            max(self.head, other.head),
            self.tail or other.tail,
        )


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


FOLDS = {"min": False, "max": True}
"""Aggregates that are no sums, and True for the greatest: all rows of a frame are read."""

EVERYTHING = Reach(None, None)
PEERS = Reach(ranges=((0, 0),))


def reach_of(call: WindowCall, window: Window) -> Reach:
    """The reach of ``call``; raises ``NotCompiled`` where an offset of its frame has no native form."""
    match call.function:
        case "row_number":
            return Reach(running=True)
        case "rank":
            return Reach(running=True) | PEERS
        case "lag" | "lead":
            away = row_offset(call)
            return _rows(away, away)
        case "first_value" | "last_value" | "nth_value":
            return _picked(call, window)
        case name if name in RANKINGS:
            return EVERYTHING
    return _folded(call.frame, window) if call.function in FOLDS else _framed(call.frame, window)


def row_offset(call: WindowCall) -> int:
    """The number of rows by which LAG and LEAD look away."""
    match call.arguments:
        case (_, Literal(value=int(offset)), *_) if abs(offset) < MAX_OFFSET:
            return -offset if call.function == "lag" else offset
    raise NotCompiled(f"{call.function.upper()} by an offset that is no constant")


def place_of(call: WindowCall) -> int:
    """The number, from 1 on, of the row of its frame that a function reads from its beginning."""
    if call.function == "first_value":
        return 1
    match call.arguments:
        case (_, Literal(value=int(place))) if 0 < place < MAX_OFFSET:
            return place
    raise NotCompiled("NTH_VALUE of a number that is no constant")


def end_units(end: Any, frame: Frame, window: Window) -> int | None:
    """An end of a frame: as rows, or as the distance of sort keys; None where there is none."""
    if end is None or not end:
        return None if end is None else 0
    if not frame.rows:
        return _key_units(end, window)
    if not isinstance(end, int) or abs(end) >= MAX_OFFSET:
        raise NotCompiled("a frame of very many rows")
    return end


def _key_units(offset: Any, window: Window) -> int:
    type_ = window.order[0].scalar.type
    if not isinstance(type_, MOVABLE):
        raise NotCompiled(f"a frame by a range of {type_}")
    scale = type_.scale if isinstance(type_, t.Decimal) else 0
    units = Decimal(offset).scaleb(scale)
    if units != int(units):
        raise NotCompiled("a frame by a range with more digits than the column")
    return int(units)


def _rows(start: int, end: int) -> Reach:
    """The reach of functions that read the rows from ``start`` to ``end`` away."""
    return Reach(max(end, 0), max(-start, 0))


def _framed(frame: Frame, window: Window) -> Reach:
    """The reach of sums over a frame: those over all rows before are known, however many these are."""
    start, end = (end_units(one, frame, window) for one in (frame.start, frame.end))
    if end is None:
        return EVERYTHING if start is None else _moved(frame, start, start) | Reach(before=None)
    if start is None:
        return _moved(frame, end, end) | Reach(running=True)
    return _moved(frame, start, end)


def _folded(frame: Frame, window: Window) -> Reach:
    """The reach of aggregates that are no sums."""
    start, end = (end_units(one, frame, window) for one in (frame.start, frame.end))
    found = _moved(frame, start or 0, end or 0)
    found |= Reach(after=None) if start is None else Reach()
    return found | (Reach(before=None) if end is None else Reach())


def _moved(frame: Frame, start: int, end: int) -> Reach:
    # At an end of the calendar, where nothing is farther away, rows read their peers.
    return _rows(start, end) if frame.rows else Reach(ranges=((min(-end, 0), max(-start, 0)),))


def _picked(call: WindowCall, window: Window) -> Reach:
    """The reach of a function that reads one row of its frame."""
    frame = call.frame
    start, end = (end_units(one, frame, window) for one in (frame.start, frame.end))
    if not frame.rows and any(one for one in (start, end)):
        return EVERYTHING  # rows of other values may be far away
    last = call.function == "last_value"
    read = 0 if last else place_of(call)
    found = Reach() if frame.rows else PEERS
    if start is None:
        found |= Reach() if last else Reach(head=read - min(end or 0, 0))
    if end is None:
        found |= Reach(tail=True) if last else Reach()
    if not frame.rows and start == 0 and end is None:
        found |= Reach(before=read)
    near = [one for one in (start, end) if one is not None]
    if frame.rows and near:
        found |= _rows(min(*near, 0), max(*near, 0) + read)
    return found
