"""Frames: ROWS and RANGE BETWEEN, as offsets from a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.algebra.relational.windows import WHOLE, Frame
from tidemill.algebra.values.casts import can_cast
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.intervals import MICROSECONDS
from tidemill.model.types import (
    DATE,
    INT,
    INTERVAL_DAY,
    STRING,
    TIMESTAMP,
    AnsiInterval,
    Date,
    Int,
    SmallInt,
    Timestamp,
    TinyInt,
    Type,
    YearMonthInterval,
    is_numeric,
)

RUNNING_FRAME = Frame(False, None, 0)
"""From the first row of the partition to the last peer: the default with ORDER BY."""


def from_frame(node: exp.WindowSpec | None, order: Sequence[SortOrder], expressions: ExpressionTranslator) -> Frame:
    """The frame of ``node``; without one it is the whole partition, or where that is ordered, all up to the row."""
    if node is None:
        return RUNNING_FRAME if order else WHOLE
    place = expressions.source.place(node)
    if node.args.get("exclude"):
        raise Unsupported("a frame takes no EXCLUDE", where=place, hint="Subtract the value of the row itself.")
    kind = node.args.get("kind") or "RANGE"
    if kind not in ("ROWS", "RANGE"):
        raise Unsupported(f"a frame counts ROWS or a RANGE, not {kind}", where=place)
    start = _end(node.args["start"], node.args.get("start_side"), kind, order, expressions)
    end = _end(node.args.get("end") or "CURRENT ROW", node.args.get("end_side"), kind, order, expressions)
    if kind == "RANGE":
        _check_types(
            [node.args[side] for side in ("start", "end") if isinstance(node.args.get(side), exp.Expr)], expressions
        )
    frame = Frame(kind == "ROWS", start, end)
    _check(frame, node, expressions)
    return frame


def _check_types(ends: Sequence[exp.Expr], expressions: ExpressionTranslator) -> None:
    """Refuse two ends that are intervals of different types, as Spark does."""
    types = {expressions.scalar(end).type for end in ends}
    if len(types) > 1 and any(isinstance(type_, AnsiInterval) for type_ in types):
        raise TypeMismatch("the ends of a frame are intervals of different types", hint="Give them the same units.")


def _check(frame: Frame, node: exp.WindowSpec, expressions: ExpressionTranslator) -> None:
    """Refuse a frame that ends before it starts, as Spark does."""
    sides = node.args.get("start_side"), node.args.get("end_side")
    unbounded = node.args["start"] == "UNBOUNDED", node.args.get("end") == "UNBOUNDED"
    backwards = (unbounded[0] and sides[0] == "FOLLOWING") or (unbounded[1] and sides[1] == "PRECEDING")
    if backwards or (frame.start is not None and frame.end is not None and frame.start > frame.end):
        raise TypeMismatch("this frame ends before it starts", where=expressions.source.place(node))


def _end(end: Any, side: str | None, kind: str, order: Sequence[SortOrder], expressions: ExpressionTranslator) -> Any:
    """The offset at one end of a frame; None where it has no end."""
    if end == "UNBOUNDED":
        return None
    if end == "CURRENT ROW":
        return 0
    with expressions.source.locating(end):
        if end.find(exp.Anonymous) is not None:
            raise TypeMismatch("an end of a frame is a constant, which is known without calling a function")
        distance = _row_count(end, expressions) if kind == "ROWS" else _distance(end, order, expressions)
    return -distance if side == "PRECEDING" else distance


def _distance(node: exp.Expr, order: Sequence[SortOrder], expressions: ExpressionTranslator) -> Any:
    """An offset of RANGE: it is added to the one value that the rows are ordered by."""
    if len(order) != 1:
        raise TypeMismatch(f"RANGE with an offset takes one ORDER BY expression, and there are {len(order)}")
    of = order[0].scalar.type
    distance = expressions.scalar(node)
    if isinstance(distance.type, AnsiInterval):
        return _span(distance.type, _constant(distance, distance.type), of)
    if of == DATE:
        return _constant(distance, INT)
    if not is_numeric(of):
        raise TypeMismatch(f"RANGE cannot add a number to a value of type {of}", hint="Use ROWS, or an INTERVAL.")
    return _constant(distance, of)


def _row_count(node: exp.Expr, expressions: ExpressionTranslator) -> int:
    """An offset of ROWS; one below zero counts the other way."""
    scalar = expressions.scalar(node)
    if not isinstance(scalar.type, Int | SmallInt | TinyInt) or columns_in(scalar) or subqueries(scalar):
        raise TypeMismatch("an end of a frame of ROWS is a constant of type INT")
    value = evaluate_scalar(scalar, {})
    if value is None:
        raise TypeMismatch("an end of a frame is a number, not NULL")
    return int(value)


def _span(interval: AnsiInterval, value: int, of: Type) -> int:
    """An interval as what is added to values of type ``of``: days, months or microseconds."""
    if isinstance(of, AnsiInterval) and type(of) is type(interval):
        return value
    if isinstance(interval, YearMonthInterval) and isinstance(of, Date | Timestamp):
        raise Unsupported(
            "a frame spans days or less", detail="Months differ in length.", hint="Use INTERVAL '30' DAY."
        )
    if of == DATE and interval == INTERVAL_DAY:
        return value // MICROSECONDS["DAY"]
    if of != TIMESTAMP or isinstance(interval, YearMonthInterval):
        raise TypeMismatch(f"RANGE cannot add this interval to a value of type {of}")
    return value


def _count(node: exp.Expr, of: Type, expressions: ExpressionTranslator) -> Any:
    """The value of a constant expression that counts, as ``of``."""
    return _constant(expressions.scalar(node), of)


def _constant(scalar: Scalar, of: Type) -> Any:
    """The value of a constant that is not negative, as ``of``."""
    counts = is_numeric(scalar.type) or scalar.type in (of, STRING)
    if columns_in(scalar) or subqueries(scalar) or not can_cast(scalar.type, of) or not counts:
        raise TypeMismatch("an end of a frame is a constant number")
    value = evaluate_scalar(convert(scalar, of), {})
    if value is None or value < 0:
        raise TypeMismatch("an end of a frame is a number that is not negative")
    return value
