"""Functions that emitted code calls back in Python, for expressions that have no native form."""

from __future__ import annotations

import ctypes
import decimal
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tidemill.algebra.expressions.scalars import Call, Column, Scalar
from tidemill.algebra.functions.function import USER_FUNCTION_MARK
from tidemill.algebra.relational.walk import walk
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.frame import PythonCall
from tidemill.runtimes.native.llvm.codegen.layout import F64, I128, cell_type, is_interned, is_object
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.scalars.conversions import inner_number, inner_value
from tidemill.runtimes.native.llvm.scalars.python_calls import FUNCTION, NULL, RESULT, SLOTS, VALUE
from tidemill.runtimes.native.python.scalar_functions import compile_scalar

WORD = 2**64


class PythonFunction:
    """One expression, and the results that are remembered. ``address`` is what its global in emitted code holds."""

    def __init__(self, call: PythonCall, strings: StringDictionary) -> None:
        self._compute = _exact(call.expression, call.columns)
        self._read = _reader(call, strings)
        self._write = _writer(call.expression.type, strings)
        words = sum(call.words) + call.nullable
        self._slot_size = RESULT.size + 8 * words
        self._arguments = np.zeros(8 * words, np.uint8)
        self._slots = np.zeros(SLOTS * self._slot_size, np.uint8)
        self._slot_bytes = self._slots.data
        self._failure: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(self._call)
        held = {
            "call": ctypes.cast(self._callback, ctypes.c_void_p).value or 0,
            "arguments": self._arguments.ctypes.data,
            "slots": self._slots.ctypes.data,
            "words": words,
            "remembers": not _is_registered(call.expression),
        }
        self._function = (ctypes.c_int64 * len(held))()
        for name, value in held.items():
            self._function[FUNCTION.offset(name) // 8] = value
        self.address = ctypes.addressof(self._function)

    def take_failure(self) -> BaseException | None:
        """The exception of the last call, if it raised one; the next call of this gives None."""
        failure, self._failure = self._failure, None
        return failure

    def _call(self, slot: int) -> int:
        """Write the result for the arguments into a slot; returns 1, or 0 if the expression failed."""
        try:
            arguments = self._arguments.tobytes()
            result = self._write(self._compute(*self._read(arguments)))
            start = slot * self._slot_size
            self._slot_bytes[start : start + self._slot_size] = result + arguments
        except BaseException as failure:  # no exception can pass through emitted code
            self._failure = failure
            return 0
        return 1


def _is_registered(expression: Scalar) -> bool:
    """True if a function that a user registered is called, who may register another one under its name."""
    return any(isinstance(part, Call) and USER_FUNCTION_MARK in part.function for part in walk(expression))


def _exact(expression: Scalar, columns: Sequence[Column]) -> Callable[..., Any]:
    """The function of an expression, computing decimals exactly."""
    compute = compile_scalar(expression, [column.name for column in columns])
    if not any(isinstance(part.type, t.Decimal) for part in walk(expression)):
        return compute

    def exact(*values: Any) -> Any:
        with decimal.localcontext(EXACT):
            return compute(*values)

    return exact


def _reader(call: PythonCall, strings: StringDictionary) -> Callable[[bytes], list[Any]]:
    """From the words of the arguments to their values."""
    formats = [_format(column.type, wide=words > 1) for column, words in zip(call.columns, call.words, strict=True)]
    packed = struct.Struct("<" + "q" * call.nullable + "".join(formats))
    decoders = [
        (1 << place, words > 1, _decoder(column.type, strings))
        for place, (column, words) in enumerate(zip(call.columns, call.words, strict=True))
    ]

    def read(arguments: bytes) -> list[Any]:
        numbers = iter(packed.unpack(arguments))
        nulls = next(numbers) if call.nullable else 0
        values = []
        for bit, wide, decode in decoders:
            number = next(numbers)
            if wide:
                number += next(numbers) * WORD
            values.append(None if nulls & bit else decode(number))
        return values

    return read


def _writer(type_: Type, strings: StringDictionary) -> Callable[[Any], bytes]:
    """From a value to the head of its slot."""
    wide = cell_type(type_) == I128
    packed = struct.Struct("<" + _format(type_, wide=wide) + ("q" if wide else "8xq"))
    null = struct.pack("<16xq", NULL)
    is_text = is_interned(type_)

    def write(value: Any) -> bytes:
        if value is None:
            return null
        number = strings.intern(value) if is_text else inner_number(value, type_)
        if wide:
            return packed.pack(number % WORD, number // WORD, VALUE)
        return packed.pack(canonical_double(number) if isinstance(number, float) else number, VALUE)

    return write


def _format(type_: Type, *, wide: bool) -> str:
    return "Qq" if wide else "d" if cell_type(type_) == F64 else "q"


def _decoder(type_: Type, strings: StringDictionary) -> Callable[[Any], Any]:
    """From the number in a cell to its value."""
    match type_:
        case t.Integral() | t.Floating():
            return lambda number: number
        case t.String() | t.Variant():
            return strings.value
        case _ if is_object(type_):
            return strings.nested
    return lambda number: inner_value(number, type_, strings.value)
