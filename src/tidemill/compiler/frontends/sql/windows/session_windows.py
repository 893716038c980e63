"""``GROUP BY session_window(time, '5 minutes')``: rows by the sessions that they belong to.

A session continues while the next row is no later than the gap after the last one, and ends a gap after that. The
session of a row depends on the rows around it with the same other keys, so it is a window function: a late row may
merge two sessions, and a deletion may split one. Rows without a time are in no session.

A gap may be an expression: each row continues its session for a gap of its own, and rows whose gap is NULL or not
positive are in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Scalar, column
from tidemill.algebra.functions.datetime.time_windows import WINDOW
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Window
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.relational.windows import SESSION, WindowCall
from tidemill.algebra.values.coercion import fits
from tidemill.compiler.frontends.sql.aggregation.grouping import SelectGrouping
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.windows.session_gaps import SessionGap, session_gap
from tidemill.compiler.frontends.sql.windows.time_windows import calls_of
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import TextLocation, TypeMismatch, Unsupported
from tidemill.model.types import TIMESTAMP

SESSION_QUALIFIER = "session_window()"
"""The qualifier of the column of sessions, which no query can write."""


@dataclass(frozen=True)
class SessionWindows:
    """The sessions of a SELECT: of rows by ``time``, ``gap`` apart, as column ``name``."""

    time: Scalar
    gap: SessionGap
    name: str
    place: TextLocation

    @property
    def call(self) -> WindowCall:
        """The window function that computes the session of a row."""
        return WindowCall(self.name, SESSION, (self.time, *self.gap.arguments(self.name)), WINDOW)

    @property
    def column(self) -> Column:
        """The column that holds the session of a row."""
        return column(self.call.field)

    @property
    def scope(self) -> Scope:
        """The scope in which the SELECT finds it."""
        return Scope((Binding(SESSION_QUALIFIER, SESSION, self.column, hidden=True),))

    def applied_to(self, relation: Relation, grouping: SelectGrouping) -> Relation:
        """``relation`` with the session of each row, among those that are equal in the other keys of ``grouping``."""
        keys = [key.scalar for key in grouping.keys]
        others = tuple(key for key in keys if self.name not in columns_in(key))
        if len(others) == len(keys) or grouping.sets is not None:
            raise ungrouped_session(self.place)
        seen = [*keys, self.time, *(scalar for aggregate in grouping.calls for scalar in aggregate.scalars)]
        timed = self.gap.applied_to(Filter(relation, call("is_not_null", self.time)), self.name, seen)
        return Window(timed, others, (SortOrder(self.time),), (self.call,))


def ungrouped_session(place: TextLocation) -> Unsupported:
    """The error for session_window() outside of GROUP BY."""
    return Unsupported(
        "session_window() is a key of a plain GROUP BY",
        where=place,
        detail="The session of a row depends on the rows with the same other keys.",
    )


def session_windows_of(
    rows: ExpressionTranslator, parts: Sequence[exp.Expr], aliases: NameAllocator
) -> SessionWindows | None:
    """The sessions in ``parts``, the expressions of a SELECT; None if there are none."""
    calls = [node for part in parts for node in calls_of(SESSION, part)]
    nodes = list(dict.fromkeys(calls))
    if not nodes:
        return None
    if len(nodes) > 1:
        raise Unsupported(
            "a SELECT has one kind of session",
            where=rows.source.place(nodes[1]),
            hint="Use a subquery for each of them.",
        )
    sessions = _sessions(rows, nodes[0], f"{aliases.take('session')}.{SESSION}")
    mark_translated(*(node for call_ in calls for node in call_.walk()))  # they are all alike
    return sessions


def _sessions(expressions: ExpressionTranslator, node: exp.Anonymous, name: str) -> SessionWindows:
    with expressions.source.locating(node):
        if len(node.expressions) != 2:
            raise TypeMismatch("session_window() takes a time and a gap")
        time = expressions.scalar(node.expressions[0])
        if not fits(time.type, TIMESTAMP):
            raise TypeMismatch(f"session_window() takes a TIMESTAMP, not {time.type}")
        time = convert(time, TIMESTAMP)
        gap = session_gap(expressions, node.expressions[1], time)
        return SessionWindows(time, gap, name, expressions.source.place(node))


def from_session_window(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """The column that holds the session."""
    found = expressions.scope.find([SESSION_QUALIFIER, SESSION])
    if found is None:
        raise ungrouped_session(expressions.source.head(node))
    return found[0]
