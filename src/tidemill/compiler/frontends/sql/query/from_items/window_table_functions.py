"""Windowing table functions: ``FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE))``.

Each row of the table is shown with each window that its time falls into, in further columns: ``window_start``,
``window_end``, and ``window_time``, the last instant of the window. The windows are those of ``window(ts, ...)`` and
``session_window(ts, gap)``, and rows without a time are in none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Literal, Named, Scalar, column
from tidemill.algebra.functions.datetime.time_windows import WINDOW
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Unnest, Window
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.relational.windows import SESSION, WindowCall
from tidemill.algebra.values.coercion import fits
from tidemill.compiler.frontends.sql.expressions.intervals import interval_of, microseconds_of
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.named_arguments import arguments_by_name
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.sql.grammar.window_function_grammar import PARTITION_BY
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.query.context import NamedRelation, QueryContext
from tidemill.compiler.frontends.sql.windows.time_windows import WINDOW_COLUMN, TimeWindows, last_instant
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, STRING, TIMESTAMP, DayTimeInterval, Field

ADDED = ("window_start", "window_end", "window_time")


@dataclass(frozen=True, slots=True)
class WindowedRows:
    """The rows of the table, the translator over them, its arguments, and the alias of what is added."""

    relation: Relation
    expressions: ExpressionTranslator
    time: Scalar
    arguments: Mapping[str, exp.Expr]
    alias: str

    def length(self, name: str, default: int | None = None) -> int:
        """An argument that is a length of time, in microseconds."""
        node = self.arguments.get(name)
        if node is None:
            if default is None:
                raise TypeMismatch(
                    f"the argument {name.upper()} is missing", hint=f"Write {name.upper()} => INTERVAL '1' HOUR."
                )
            return default
        scalar = self.expressions.scalar(node)
        value = None if columns_in(scalar) else evaluate_scalar(scalar, {})
        if value is not None and isinstance(scalar.type, DayTimeInterval):
            return int(value)
        if isinstance(value, str):
            return microseconds_of(interval_of(value))
        raise TypeMismatch(
            f"{name.upper()} is a constant interval of days and less, such as INTERVAL '10' MINUTES",
            where=self.expressions.source.place(node),
        )

    def in_windows(self, size: int, slide: int) -> Relation:
        """The rows with the windows of a size, each a slide after the one before, as the last column."""
        offset = self.length("offset", 0)
        if size <= 0 or not 0 < slide <= size:
            raise TypeMismatch(
                "the size and the slide of a window are positive, and it slides by no more than its size"
            )
        if abs(offset) >= slide:
            raise TypeMismatch("windows are offset by less than one slide")
        return TimeWindows(self.time, size, slide, offset).applied_to(self.relation, self.alias)


def from_windowing_function(context: QueryContext, node: exp.Anonymous, alias: str) -> NamedRelation:
    """The rows of the table in a call, each with every window that it is in."""
    parameters, windowed = WINDOWING[node.name.lower()]
    partition = [one for one in node.expressions if isinstance(one, exp.Kwarg) and one.this.name == PARTITION_BY]
    given = arguments_by_name(
        node.name.upper(), ("data", "timecol", *parameters), [one for one in node.expressions if one not in partition]
    )
    mark_translated(node)
    data, descriptor = (given.pop(name, None) for name in ("data", "timecol"))
    if not isinstance(data, exp.Subquery):
        raise TypeMismatch(f"{node.name.upper()} takes a table first", hint="Write TABLE s, or TABLE(SELECT ...).")
    refuse_unsupported_arguments(data, context.source)
    mark_translated(data)
    rows = replace(context, prefix=f"{alias}.").rows(data.this)
    expressions = context.row_expressions(rows.scope(_name_of(data) or alias))
    time = _time(expressions, descriptor)
    found = windowed(
        WindowedRows(rows.relation, expressions, time, given, context.aliases.take(WINDOW_COLUMN)),
        _keys(expressions, partition, node),
    )
    return NamedRelation(_with_ends(rows.relation, found, context.aliases.take(WINDOW_COLUMN)), (*rows.names, *ADDED))


def _name_of(data: exp.Subquery) -> str:
    """The name by which columns of the table can be qualified within the call; that of a query is its alias."""
    first = data.this.args.get("from_") if isinstance(data.this, exp.Select) else None
    return str(data.alias or (first.this.alias_or_name if first is not None else "")).lower()


def _keys(expressions: ExpressionTranslator, partition: list[exp.Kwarg], node: exp.Anonymous) -> tuple[Scalar, ...]:
    """The columns of PARTITION BY."""
    if partition and node.name.lower() != "session":
        raise Unsupported(
            f"PARTITION BY in {node.name.upper()}",
            detail="Its windows depend on the time of a row alone.",
            hint="Leave it out, and name the columns in GROUP BY.",
        )
    for one in partition:
        mark_translated(one, one.this, one.expression)
    parts = (expressions.scalar(part) for one in partition for part in one.expression.expressions)
    return tuple(dict.fromkeys(parts))


def _time(expressions: ExpressionTranslator, descriptor: exp.Expr | None) -> Scalar:
    """The column that DESCRIPTOR names."""
    named = descriptor.expressions if isinstance(descriptor, exp.Anonymous) else ()
    if descriptor is None or descriptor.name.lower() != "descriptor" or len(named) != 1:
        raise TypeMismatch("the time of a row is given as DESCRIPTOR(ts)")
    mark_translated(descriptor)
    time = expressions.scalar(named[0])
    if not fits(time.type, TIMESTAMP):
        raise TypeMismatch(f"DESCRIPTOR takes a TIMESTAMP, not {time.type}", where=expressions.source.place(named[0]))
    return convert(time, TIMESTAMP)


def _with_ends(rows: Relation, windowed: Relation, alias: str) -> Relation:
    """``rows`` with the ends of the window that is the last column of ``windowed``, and its last instant."""
    window = column(windowed.fields[-1])
    start, end = (call("get_field", window, Literal(name, STRING)) for name in ("start", "end"))
    values = zip(ADDED, (start, end, last_instant(window)), strict=True)
    return Project(windowed, (*all_columns(rows), *(Named(f"{alias}.{name}", value) for name, value in values)))


# ----------------------------------------------------------------------------------------------------------- functions


def _tumble(rows: WindowedRows, keys: tuple[Scalar, ...]) -> Relation:
    size = rows.length("size")
    return rows.in_windows(size, size)


def _hop(rows: WindowedRows, keys: tuple[Scalar, ...]) -> Relation:
    return rows.in_windows(rows.length("size"), rows.length("slide"))


def _cumulate(rows: WindowedRows, keys: tuple[Scalar, ...]) -> Relation:
    """Windows with one start that grow by a step up to their size, from the first one that a row is in."""
    size, step = rows.length("size"), rows.length("step")
    if step <= 0 or size % step:
        raise TypeMismatch("the step of CUMULATE is positive, and divides its size")
    whole = rows.in_windows(size, size)
    start = call("get_field", column(whole.fields[-1]), Literal("start", STRING))
    since = call("subtract", call("unix_micros", rows.time), call("unix_micros", start))
    first = call("add", call("div", since, Literal(step, BIGINT)), Literal(1, BIGINT))
    steps = call("sequence", first, Literal(size // step, BIGINT), Literal(1, BIGINT))
    counted = Unnest(whole, steps, (Field(f"{rows.alias}.step", BIGINT, nullable=False),))
    length = call("multiply", column(counted.fields[-1]), Literal(step, BIGINT))
    grown = Named(f"{rows.alias}.grown", call("window_from", start, length))
    return Project(counted, (*all_columns(counted), grown))


def _session(rows: WindowedRows, keys: tuple[Scalar, ...]) -> Relation:
    gap = rows.length("gap")
    if gap <= 0:
        raise TypeMismatch("the gap between sessions is positive")
    found = WindowCall(f"{rows.alias}.{SESSION}", SESSION, (rows.time, Literal(gap, BIGINT)), WINDOW)
    timed = Filter(rows.relation, call("is_not_null", rows.time))
    return Window(timed, keys, (SortOrder(rows.time),), (found,))


WINDOWING: dict[str, tuple[tuple[str, ...], Callable[[WindowedRows, tuple[Scalar, ...]], Relation]]] = {
    "tumble": (("size", "offset"), _tumble),
    "hop": (("slide", "size", "offset"), _hop),
    "cumulate": (("step", "size", "offset"), _cumulate),
    "session": (("gap",), _session),
}
"""The parameters of each function after the table and its time, and what it does."""
