"""``window(time, '10 minutes')``: rows by the windows of time that they fall into.

Without overlap the window is a column of each row. With a slide smaller than the size a row is in several windows and
is repeated for each. As in Spark, rows without a time are dropped, and the column is called ``window``. A late row
corrects the windows that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Named, Scalar, column
from tidemill.algebra.functions.datetime.time_windows import WINDOW
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Unnest
from tidemill.algebra.values.coercion import fits
from tidemill.compiler.frontends.sql.expressions.intervals import interval_of, microseconds_of
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, STRING, TIMESTAMP, Field, Struct

WINDOW_COLUMN = "window"
WINDOW_QUALIFIER = "window()"
"""The qualifier of the column of windows, which no query can write."""


@dataclass(frozen=True)
class TimeWindows:
    """Windows over ``time``, their numbers in microseconds."""

    time: Scalar
    size: int
    slide: int
    offset: int

    def applied_to(self, relation: Relation, alias: str) -> Relation:
        """The rows of ``relation`` that have a time, each with every window that it is in."""
        numbers = (self.size, self.offset) if self.slide == self.size else (self.size, self.slide, self.offset)
        arguments = (self.time, *(Literal(number, BIGINT) for number in numbers))
        timed = Filter(relation, call("is_not_null", self.time))
        if self.slide == self.size:
            return Project(
                timed, (*all_columns(relation), Named(f"{alias}.{WINDOW_COLUMN}", call("time_window", *arguments)))
            )
        return Unnest(
            timed, call("time_windows", *arguments), (Field(f"{alias}.{WINDOW_COLUMN}", WINDOW, nullable=False),)
        )


def with_time_windows(
    relation: Relation, rows: ExpressionTranslator, parts: Sequence[exp.Expr], aliases: NameAllocator
) -> tuple[Relation, Scope]:
    """``relation`` with the windows in ``parts``, the expressions of a SELECT; ``rows`` translates over its rows."""
    calls = [node for part in parts for node in calls_of(WINDOW_COLUMN, part)]
    if not calls:
        return relation, rows.scope
    found = {_windows(rows, node): node for node in calls}
    if len(found) > 1:
        raise Unsupported(
            "a SELECT has one window of time",
            where=rows.source.place(list(found.values())[1]),
            detail="Rows would be multiplied by the windows of both.",
            hint="Use a subquery for each of them.",
        )
    (windows,) = found
    relation = windows.applied_to(relation, aliases.take(WINDOW_COLUMN))
    window = Binding(WINDOW_QUALIFIER, WINDOW_COLUMN, column(relation.fields[-1]), hidden=True)
    return relation, rows.scope + Scope((window,))


def calls_of(name: str, node: exp.Expr) -> Iterator[exp.Anonymous]:
    """The calls of a function in an expression, but for those in subqueries."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Anonymous) and node.name.lower() == name:
        yield node
        return
    for child in node.iter_expressions():
        yield from calls_of(name, child)


def from_time_window(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """The column of ``window(...)``."""
    found = expressions.scope.find([WINDOW_QUALIFIER, WINDOW_COLUMN])
    if found is None:
        raise Unsupported(
            "window() belongs to GROUP BY or the SELECT list",
            where=expressions.source.head(node),
            hint="Use a subquery that makes the windows, and refer to its column.",
        )
    return found[0]


def from_window_time(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``window_time(window)``: the last instant of a window."""
    if len(node.expressions) != 1:
        raise TypeMismatch("WINDOW_TIME takes one argument")
    return last_instant(expressions.scalar(node.expressions[0]))


def _windows(expressions: ExpressionTranslator, node: exp.Anonymous) -> TimeWindows:
    with expressions.source.locating(node):
        if not 2 <= len(node.expressions) <= 4:
            raise TypeMismatch("window() takes a time, a size, and perhaps a slide and a start")
        time, *spans = node.expressions
        size, *rest = (duration_of(span, expressions.source) for span in spans)
        slide, offset = (*rest, *(size, 0)[len(rest) :])
        if size <= 0 or not 0 < slide <= size:
            raise TypeMismatch(
                "the size and the slide of a window are positive, and it slides by no more than its size"
            )
        if abs(offset) >= slide:
            raise TypeMismatch("windows start less than one slide away from midnight of 1970-01-01")
        return TimeWindows(_time(expressions.scalar(time)), size, slide, offset)


def _time(scalar: Scalar) -> Scalar:
    if scalar.type == WINDOW:
        return last_instant(scalar)
    if not fits(scalar.type, TIMESTAMP):
        raise TypeMismatch(f"window() takes a TIMESTAMP, not {scalar.type}")
    return convert(scalar, TIMESTAMP)


def last_instant(window: Scalar) -> Scalar:
    """The last instant of a window, a microsecond before its end."""
    if not isinstance(window.type, Struct) or window.type != WINDOW:
        raise TypeMismatch(f"a window of time was expected, not {window.type}")
    return call("add_microseconds", call("get_field", window, Literal("end", STRING)), Literal(-1, BIGINT))


def duration_of(node: exp.Expr, source: SqlText) -> int:
    """A duration in microseconds, from a text or a whole number of microseconds; months have no fixed length."""
    if isinstance(node, exp.Literal) and node.is_string:
        mark_translated(node)
        return microseconds_of(interval_of(str(node.this)))
    number = node.this if isinstance(node, exp.Cast) and node.to.this == exp.DType.BIGINT else node
    if isinstance(number, exp.Literal) and str(number.this).isdecimal():
        mark_translated(*node.walk())
        return int(number.this)
    raise TypeMismatch(
        "a duration is a constant string, such as '10 minutes', or a number of microseconds",
        where=source.place(node),
        hint="As in Spark it is no INTERVAL: write '10 minutes' for INTERVAL 10 MINUTES.",
    )
