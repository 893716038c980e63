"""Runs emitted expressions on single rows, so that they can be compared with the oracle."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.changes.arrow import NAN
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.frame import FaultTable, FunctionFrame, PythonCalls, TextConstants
from tidemill.runtimes.native.llvm.codegen.jit import load
from tidemill.runtimes.native.llvm.codegen.layout import I8, I32, I64, PTR, NullableValue, Status, cell_type
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.python_functions import PythonFunction
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored, inner_number, inner_value, to_stored
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions

SLOT = 32
"""Bytes between one cell and the next: sixteen for the value, then its NULL flag."""


def compiled(scalars: Sequence[Scalar], columns: Sequence[Column]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from the values of ``columns`` to the values of ``scalars``, or the fault that they raise."""
    module = ir.Module("expressions")
    faults, texts, calls = FaultTable(), TextConstants(module), PythonCalls(module)
    function = ir.Function(module, ir.FunctionType(I32, [PTR, PTR]), "compute")
    frame = FunctionFrame(function, faults, texts, calls)
    inputs = {column.name: _read(frame, function.args[0], place, column) for place, column in enumerate(columns)}
    expressions = LlvmExpressions(frame, inputs)
    for place, scalar in enumerate(scalars):
        _write(frame, function.args[1], place, expressions.cell(scalar), scalar.type)
    frame.done()
    library = load(module)
    strings = StringDictionary(Memory())
    strings.intern("no text of a test, so that the id 0 is none of theirs")
    for value, place in texts.places.items():
        ctypes.c_int32.from_address(library.address(place.name)).value = strings.intern(value)
    if texts.held_in is not None:
        ctypes.c_void_p.from_address(library.address(texts.held_in.name)).value = strings.address
    called = [PythonFunction(call, strings) for call in calls.places]
    for python, place in zip(called, calls.places.values(), strict=True):
        ctypes.c_void_p.from_address(library.address(place.name)).value = python.address
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(library.address("compute"))

    def compute(row: Sequence[Any]) -> list[Any]:
        given = b"".join(_packed(value, column.type, strings) for value, column in zip(row, columns, strict=True))
        out = ctypes.create_string_buffer(SLOT * len(scalars))
        status = run(ctypes.c_char_p(given), out)
        failures = [failure for python in called if (failure := python.take_failure()) is not None]
        assert bool(failures) == (status == Status.PYTHON_CALL)
        if failures:
            raise failures[0]
        if status:
            fault = faults.find(status)
            assert fault is not None
            raise ArithmeticFault(fault.what, hint=fault.hint)
        assert library is not None  # the code must live as long as the function
        return [_unpacked(out.raw[SLOT * i : SLOT * (i + 1)], s.type, strings) for i, s in enumerate(scalars)]

    return compute


def _slot(frame: FunctionFrame, base: ir.Value, place: int, offset: int) -> ir.Value:
    return frame.builder.gep(base, [ir.Constant(I64, SLOT * place + offset)], source_etype=I8)


def _read(frame: FunctionFrame, base: ir.Value, place: int, column: Column) -> NullableValue:
    value = frame.builder.load(_slot(frame, base, place, 0), typ=cell_type(column.type), align=1)
    null = frame.builder.load(_slot(frame, base, place, 16), typ=I8)
    is_null = frame.builder.icmp_unsigned("!=", null, ir.Constant(I8, 0)) if column.nullable else None
    return from_stored(frame.builder, NullableValue(value, is_null), column.type)


def _write(frame: FunctionFrame, base: ir.Value, place: int, cell: NullableValue, type_: Type) -> None:
    cell = to_stored(frame.builder, cell, type_)
    frame.builder.store(cell.value, _slot(frame, base, place, 0), align=1)
    null = ir.Constant(I8, 0) if cell.is_null is None else frame.builder.zext(cell.is_null, I8)
    frame.builder.store(null, _slot(frame, base, place, 16))


def _packed(value: Any, type_: Type, strings: StringDictionary) -> bytes:
    if value is None:
        return b"\x5a" * 16 + b"\1" + bytes(15)  # what lies beside NULL may be anything
    if isinstance(type_, t.String):
        data = strings.intern(value).to_bytes(16, "little")
    elif isinstance(type_, t.Double):
        data = struct.pack("<d8x", value)
    else:
        data = int(inner_number(value, type_)).to_bytes(16, "little", signed=True)
    return data + bytes(16)


def _unpacked(data: bytes, type_: Type, strings: StringDictionary) -> Any:
    if data[16]:
        return None
    if isinstance(type_, t.Double):
        (double,) = struct.unpack_from("<d", data)
        return NAN if double != double else double
    number = int.from_bytes(data[: cell_type(type_).width // 8], "little", signed=True)
    return inner_value(number, type_, strings.value)
