"""Windows of time: the window that an instant is in, its start and end, and all windows where these overlap.

A window is a cell of 128 bits, its start in the low half and its end in the high half, each in microseconds from 1970.
So windows are computed, compared and hashed as numbers, and no window has to be interned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.model import types as t
from tidemill.runtimes.native.llvm.codegen.control_flow import count_up, number
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I64, I128, NO_INSTANT, NullableValue, is_window
from tidemill.runtimes.native.llvm.scalars import wide_integers
from tidemill.runtimes.native.llvm.scalars.conversions import floor_divided, instant
from tidemill.runtimes.native.llvm.scalars.exact_numbers import Outcome, any_of, from_cell
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

MAX_SPAN = 1 << 60
"""Largest size, slide or offset of windows: sums of these and of an instant fit 64 bits."""


def emit_window(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    """``time_window(instant, size, offset)``: fails where an end of the window lies outside the calendar."""
    size, offset = _spans(call)
    return _window(builder, _last_start(builder, values[0], size, offset), size)


def emit_window_from(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    """``window_from(start, length)``: fails where its end lies outside the calendar."""
    start, length = values
    end = instant(builder, wide_integers.plus(builder, WideInteger(start, 63), from_cell(length, t.BIGINT)))
    return Outcome(_cell(builder, start, end.value), end.failed, end.fault)


@contextmanager
def each_window(builder: ir.IRBuilder, array: Scalar, moment: ir.Value) -> Iterator[Outcome]:
    """Run what is emitted within for every window of ``time_windows(instant, size, slide, offset)``, the last first."""
    if not isinstance(array, Call) or array.function != "time_windows":
        raise NotCompiled("the elements of an array")
    size, slide, offset = _spans(array)
    last = _last_start(builder, moment, slide, offset)
    # The starts lie after ``moment - size``; the sum is positive, because ``last`` is after ``moment - slide``.
    room = builder.add(builder.sub(last, moment), number(size + slide - 1))
    with count_up(builder, number(0), builder.udiv(room, number(slide))) as place:
        yield _window(builder, builder.sub(last, builder.mul(place, number(slide))), size)


def emit_field(builder: ir.IRBuilder, call: Call, window: NullableValue) -> NullableValue:
    """``get_field`` of a window: its start or its end; in a window that a table holds, either may be NULL."""
    record, _, position = call.arguments
    if not is_window(record.type) or not isinstance(position, Literal):
        raise NotCompiled("the function get_field")
    half = builder.lshr(window.value, number(64, I128)) if position.value else window.value
    found = builder.trunc(half, I64)
    absent = builder.icmp_signed("==", found, number(NO_INSTANT))
    return NullableValue(found, any_of(builder, window.is_null, absent))


def _last_start(builder: ir.IRBuilder, moment: ir.Value, slide: int, offset: int) -> ir.Value:
    """The start of the last window that begins at or before ``moment``."""
    since = builder.sub(moment, number(offset))
    return builder.add(builder.mul(floor_divided(builder, since, slide), number(slide)), number(offset))


def _window(builder: ir.IRBuilder, start: ir.Value, size: int) -> Outcome:
    end = builder.add(start, number(size))
    ends = [instant(builder, WideInteger(moment, 63)) for moment in (start, end)]
    failed = any_of(builder, *(found.failed for found in ends))
    return Outcome(_cell(builder, start, end), failed, ends[0].fault)


def _cell(builder: ir.IRBuilder, start: ir.Value, end: ir.Value) -> ir.Value:
    """The cell of a window, given its ends."""
    low, high = builder.zext(start, I128), builder.shl(builder.zext(end, I128), number(64, I128))
    return builder.or_(low, high)


def _spans(call: Call) -> list[int]:
    """The constants after the instant."""
    found = [argument.value for argument in call.arguments[1:] if isinstance(argument, Literal)]
    if len(found) < len(call.arguments) - 1 or any(span is None or abs(span) > MAX_SPAN for span in found):
        raise NotCompiled(f"the function {call.function}")
    return found
