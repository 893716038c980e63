"""Distance before a change to which window functions and top-k look, along the time that orders the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.matching.resets import taken_rows
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK, Window
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, SESSION, VALUES, WindowCall
from tidemill.model.types import Date
from tidemill.program.expiry.time_bounds import Path, path_of
from tidemill.program.expiry.time_functions import DAY


@dataclass(frozen=True, slots=True)
class RowReach:
    """The rows of a partition that a change at a time can concern.

    Values change of rows up to ``rows_back`` rows, or ``back`` microseconds, before it. These read up to ``rows`` rows,
    or ``span`` microseconds, before themselves.
    """

    rows_back: int = 0
    back: int = 0
    rows: int = 0
    span: int = 0

    @property
    def all_rows(self) -> int:
        """The number of rows before a change that matter."""
        return self.rows_back + self.rows

    @property
    def all_span(self) -> int:
        """The time before a change that matters, beyond those rows."""
        return self.back + self.span

    def joined(self, other: RowReach) -> RowReach:
        """The reach of both."""
        return RowReach(
            max(self.rows_back, other.rows_back),
            max(self.back, other.back),
            max(self.rows, other.rows),
            max(self.span, other.span),
        )


def order_path(rows: TopK | Window | Match) -> Path | None:
    """The column that orders the rows of a partition first."""
    return path_of(rows.order[0].scalar) if rows.order else None


class SessionColumn(NamedTuple):
    """The column of a window function that has the session of each row, and the gap between sessions."""

    name: str
    gap: int


def session_of(rows: TopK | Window | Match) -> SessionColumn | None:
    """The sessions in the order of time, if they are all that is computed; None otherwise."""
    match rows:
        case Window(order=(order, *_), calls=(WindowCall(function=call, arguments=(time, Literal(value=int(gap)))),)):
            if call == SESSION and time == order.scalar and not order.descending:
                return SessionColumn(rows.calls[0].name, gap)
    return None


def reach_of(rows: TopK | Window | Match) -> RowReach | str:
    """The reach along the first term of the order, which is a time; or the reason why there is no limit."""
    if isinstance(rows, Match):
        taken = taken_rows(rows)
        descends = bool(rows.order) and rows.order[0].descending
        return taken if isinstance(taken, str) else "its rows are in the other order" if descends else RowReach()
    if isinstance(rows, TopK):
        if rows.limit is None:
            return "the rows after an offset are all rows"
        kept = rows.offset + rows.limit
        return RowReach(rows_back=kept)
    if not rows.order:
        return "its rows are in no order"
    reach = RowReach()
    for call in rows.calls:
        found = _of_call(call, rows.order)
        if isinstance(found, str):
            return found
        reach = reach.joined(found)
    if reach.all_rows and reach.back:
        return "some functions count rows, and some read rows that follow in time"
    return reach


def _of_call(call: WindowCall, order: tuple[SortOrder, ...]) -> RowReach | str:
    name, descending = call.function.upper(), order[0].descending
    if call.function in RANKINGS or call.function == SESSION:
        return f"{name} depends on all rows of the partition"
    if call.function in OFFSETS:
        # The default is a constant, or a value of the row itself.
        steps = _steps(call)
        if call.ignore_nulls or steps is None:
            return f"{name} looks for a row that may be anywhere"
        ahead = (call.function == "lead") == (steps >= 0)
        return _of_rows(0 if ahead else abs(steps), abs(steps) if ahead else 0, descending)
    if call.function in VALUES and call.ignore_nulls:
        return f"{name} looks for a row that may be anywhere"
    start, end = call.frame.start, call.frame.end
    if start is None or end is None:
        return f"the frame of {name} has no limit"
    if call.frame.rows:
        return _of_rows(max(-start, 0), max(end, 0), descending)
    if len(order) > 1 or not (isinstance(start, int) and isinstance(end, int)):
        return f"the frame of {name} is not one of times"
    unit = DAY if isinstance(order[0].scalar.type, Date) else 1
    before, after = max(-start, 0) * unit, max(end, 0) * unit
    return RowReach(back=before, span=after) if descending else RowReach(back=after, span=before)


def _steps(call: WindowCall) -> int | None:
    """The number of rows that LAG or LEAD look back or ahead."""
    if len(call.arguments) < 2:
        return 1
    value = getattr(call.arguments[1], "value", None)
    return value if isinstance(value, int) else None


def _of_rows(before: int, after: int, descending: bool) -> RowReach:
    return RowReach(rows_back=before, rows=after) if descending else RowReach(rows_back=after, rows=before)
