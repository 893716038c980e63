"""Expressions that have no native form, such as LIKE: Python computes them, once for values that come again and again.

Emitted code writes the values of the columns to the arguments of a function, as words of 64 bits, and looks for them
among the results that the function remembers: one slot for each hash, so that memory is bounded. Where they are not
there, it calls Python, which writes the slot (``io.python_functions``). A text is known by its id, so the length of
texts does not matter; a column of a few thousand texts is computed once for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column, Scalar, is_nullable
from tidemill.runtimes.native.llvm.codegen.control_flow import COLD, IRValue, Local, count_up, define, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, PythonCall
from tidemill.runtimes.native.llvm.codegen.layout import (
    F64,
    I32,
    I64,
    I128,
    NULL_POINTER,
    PTR,
    NullableValue,
    Status,
    StructLayout,
    at,
    cell_type,
)
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored

FUNCTION = StructLayout()
FUNCTION.field("call", PTR)
FUNCTION.field("arguments", PTR)
FUNCTION.field("slots", PTR)
FUNCTION.field("words", I64)
FUNCTION.field("remembers", I64)
"""Words are those of the arguments. A function that is not to be remembered is called every time."""

RESULT = StructLayout()
RESULT.field("low", I64)
RESULT.field("high", I64)
RESULT.field("state", I64)
"""The head of a slot; the words of the arguments follow. A value of less than 128 bits lies in the low word."""

EMPTY, VALUE, NULL = range(3)
"""The states of a slot."""

SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS
"""Results that a function remembers: more than the distinct values of most columns, and no more than a few MB."""

_MIX = 0x9E3779B97F4A7C15


def emit_call(
    frame: FunctionFrame, expression: Scalar, columns: Sequence[Column], cells: Sequence[NullableValue]
) -> NullableValue:
    """The value of an expression over ``columns``, whose values are ``cells``.

    Where Python raises an error, the function returns with ``Status.PYTHON_CALL``.
    """
    builder = frame.builder
    words = [_words(builder, cell) for cell in cells]
    mask = _mask(builder, [cell.is_null for cell in cells])
    call = PythonCall(expression, tuple(columns), tuple(map(len, words)), mask is not None)
    function = builder.load(frame.calls.place(call), typ=PTR)
    arguments = FUNCTION.load(builder, function, "arguments")
    given = [*([] if mask is None else [mask]), *(word for several in words for word in several)]
    for place, word in enumerate(given):
        builder.store(word, at(builder, arguments, 8 * place), align=8)
    slot = builder.call(_find(builder.module), [function])
    with builder.if_then(builder.icmp_unsigned("==", slot, NULL_POINTER), likely=False):
        builder.ret(number(Status.PYTHON_CALL, I32))
    value = builder.load(slot, typ=cell_type(expression.type), align=8)
    null: ir.Value | None = None
    if is_nullable(expression):
        null = builder.icmp_unsigned("==", RESULT.load(builder, slot, "state"), number(NULL))
    return from_stored(builder, NullableValue(value, null), expression.type)


def _words(builder: ir.IRBuilder, cell: NullableValue) -> list[IRValue]:
    """The words of a value; zeros where it is NULL, so that all NULLs are the same."""
    value = cell.value
    if value.type == F64:
        words = [builder.bitcast(value, I64)]
    elif value.type == I128:
        words = [builder.trunc(value, I64), builder.trunc(builder.lshr(value, number(64, I128)), I64)]
    else:
        assert value.type.width <= 64
        extend = builder.zext if value.type.width == 1 else builder.sext
        words = [value if value.type == I64 else extend(value, I64)]
    if cell.is_null is None:
        return words
    return [builder.select(cell.is_null, number(0), word) for word in words]


def _mask(builder: ir.IRBuilder, nulls: Sequence[ir.Value | None]) -> IRValue | None:
    """The bits of the values that are NULL; None where none can be."""
    mask: IRValue | None = None
    for place, null in enumerate(nulls):
        if null is not None:
            bit = builder.shl(builder.zext(null, I64), number(place))
            mask = bit if mask is None else builder.or_(mask, bit)
    return mask


def _find(module: ir.Module) -> ir.Function:
    """``find(function) -> slot``: the slot with the result for the arguments; a null pointer where Python failed."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        (function,) = arguments
        given, words = (FUNCTION.load(builder, function, name) for name in ("arguments", "words"))
        hash_ = Local(builder, number(0))
        with count_up(builder, number(0), words) as place:
            word = builder.load(at(builder, given, builder.shl(place, number(3))), typ=I64)
            mixed = builder.mul(builder.xor(hash_.get(), word), number(_MIX))
            hash_.set(builder.xor(mixed, builder.lshr(mixed, number(32))))
        spread = builder.mul(hash_.get(), number(_MIX))
        index = builder.lshr(spread, number(64 - SLOT_BITS))
        size = builder.add(number(RESULT.size), builder.shl(words, number(3)))
        slot = at(builder, FUNCTION.load(builder, function, "slots"), builder.mul(index, size))
        known = builder.icmp_unsigned("!=", RESULT.load(builder, slot, "state"), number(EMPTY))
        remembers = builder.icmp_unsigned("!=", FUNCTION.load(builder, function, "remembers"), number(0))
        same = Local(builder, builder.and_(known, remembers))
        with count_up(builder, number(0), words) as place:
            offset = builder.shl(place, number(3))
            wanted = builder.load(at(builder, given, offset), typ=I64)
            found = builder.load(at(builder, slot, builder.add(offset, number(RESULT.size))), typ=I64)
            same.set(builder.and_(same.get(), builder.icmp_unsigned("==", wanted, found)))
        with builder.if_then(same.get(), likely=True):
            builder.ret(slot)
        done = builder.call(_ask_python(builder.module), [function, index])
        failed = builder.icmp_unsigned("==", done, number(0, I32))
        builder.ret(builder.select(failed, NULL_POINTER, slot))

    return define(module, "python.find", PTR, [PTR], body, "noinline")


def _ask_python(module: ir.Module) -> ir.Function:
    """``ask(function, index)``: let Python write the slot with that number; 0 where it fails."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        function, index = arguments
        place = FUNCTION.address(builder, function, "call")
        call = builder.load(place, typ=ir.PointerType(ir.FunctionType(I32, [I64])))
        builder.ret(builder.call(call, [index]))

    return define(module, "python.ask", I32, [PTR, I64], body, *COLD)
