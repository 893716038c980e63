"""The gap between sessions: a constant, or an expression that gives each row its own.

As in Spark the gap is a text such as ``'10 minutes'`` or an INTERVAL; intervals of days and less are taken as well. Of
an expression over CASE and its kind the longest gap is known, which tells how far apart rows of one session can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.names.projections import all_columns, project_to
from tidemill.compiler.frontends.sql.windows.time_windows import duration_of
from tidemill.model.errors import TidemillError, TypeMismatch, Unsupported
from tidemill.model.intervals import Calendar, read_units
from tidemill.model.types import BIGINT, CALENDAR_INTERVAL, CalendarInterval, DayTimeInterval, String

DAY = 86_400_000_000

LONGEST_MONTH, SHORTEST_MONTH = 31 * DAY, 28 * DAY


@dataclass(frozen=True, slots=True)
class SessionGap:
    """A gap in microseconds: a number, or an expression; ``longest`` is an upper bound, None if none is known."""

    value: int | Scalar
    longest: int | None = None

    def arguments(self, session: str) -> tuple[Scalar, ...]:
        """The arguments of the window function for the column ``session``, after the time."""
        if isinstance(self.value, int):
            return (Literal(self.value, BIGINT),)
        return Column(_gap_of(session), BIGINT), Literal(self.longest, BIGINT)

    def applied_to(self, rows: Relation, session: str, seen: Sequence[Scalar]) -> Relation:
        """``rows`` with the columns that ``seen`` reads, and those that are in a session with their gap."""
        shown = project_to(rows, seen)
        if isinstance(self.value, int):
            return shown
        names = {f.name for f in shown.fields}
        kept = (one for one in all_columns(rows) if one.name in names)
        gapped = Project(rows, (*kept, Named(_gap_of(session), self.value)))
        return Filter(gapped, call("gt", column(gapped.fields[-1]), Literal(0, BIGINT)))


def _gap_of(session: str) -> str:
    """The column with the gap of a row."""
    return f"{session}.gap"


def session_gap(expressions: ExpressionTranslator, node: exp.Expr, time: Scalar) -> SessionGap:
    """The gap that ``node`` is, for rows with a ``time``."""
    if node.is_string:
        return _constant(duration_of(node, expressions.source))
    given = expressions.scalar(node)
    if not isinstance(given.type, String | CalendarInterval | DayTimeInterval):
        raise TypeMismatch(
            f"the gap between sessions is a text such as '10 minutes' or an interval of days and less, no {given.type}"
        )
    if subqueries(given):
        raise Unsupported("a subquery in the gap between sessions", hint="Compute the gap in a subquery in FROM.")
    fixed = _constant_of(given)
    if fixed is not None and not fixed[0]:  # months differ in length
        return _constant(_longest(fixed))
    lasting = convert(given, CALENDAR_INTERVAL) if isinstance(given.type, String) else given
    until = call("add_interval", time, lasting)
    gap = call("subtract", call("unix_micros", until), call("unix_micros", time))
    return SessionGap(gap, longest_of(given))


def _constant(length: int) -> SessionGap:
    if length <= 0:
        raise TypeMismatch("the gap between sessions is positive")
    return SessionGap(length)


def longest_of(gap: Scalar) -> int | None:
    """An upper bound of a gap in microseconds; None if none is known."""
    match gap:
        case Case(branches=branches, default=default):
            parts = [*(value for _, value in branches), default]
        case Call("coalesce", arguments):
            parts = list(arguments)
        case Cast(input=inner) if isinstance(inner.type, String | CalendarInterval | DayTimeInterval):
            parts = [inner]
        case Literal(value=None):
            return 0
        case _:
            fixed = _constant_of(gap)
            return None if fixed is None else _longest(fixed)
    found = [longest_of(part) for part in parts]
    return None if None in found else max(one for one in found if one is not None)


def _longest(interval: Calendar) -> int:
    months, days, micros = interval
    return max(months * LONGEST_MONTH, months * SHORTEST_MONTH) + days * DAY + micros


def _constant_of(gap: Scalar) -> Calendar | None:
    """The months, days and microseconds of a constant gap; None for NULL, and for other gaps."""
    if columns_in(gap):
        return None
    try:
        value = evaluate_scalar(gap, {})
    except TidemillError:
        return None  # a branch that no row may take
    if isinstance(value, str):
        found = read_units(value)
        value = None if found is None else found[0]
    return (0, 0, value) if isinstance(value, int) else value
