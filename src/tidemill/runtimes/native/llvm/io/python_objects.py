"""Python objects as machine code sees them: by CPython's C API, and where their layout is known, in place.

What is read here is of exactly the type that is expected. A subclass may mean something else by it, so it is left to
Python, like everything that is wrong.
"""

from __future__ import annotations

import ctypes
import datetime
from functools import lru_cache

from llvmlite import ir

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.control_flow import Local, external, loop_while, number
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I32, I64, NULL_POINTER, PTR, at
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode
from tidemill.runtimes.native.llvm.scalars.conversions import DAY
from tidemill.runtimes.native.llvm.scalars.dates import ERA, TO_MARCH

DATE_BYTES = 16 + 8 + 1
"""The offset of year, month and day in a date: after its head, its hash and the flag of its time zone."""


@lru_cache(maxsize=1)
def dates_are_known() -> bool:
    """True if dates lie in memory as CPython's header says, which is looked at once."""
    shown = datetime.datetime(2024, 2, 29, 13, 14, 15, 0x010203)
    found = ctypes.string_at(id(shown) + DATE_BYTES, 10)
    return found == bytes([2024 >> 8, 2024 & 255, 2, 29, 13, 14, 15, 1, 2, 3])


class PythonObjectReader:
    """Emits what reads Python objects. What the code must be told is stored in globals when it is linked."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder) -> None:
        self._module = module
        self._builder = builder

    def _variable(self, type_: ir.Type) -> ir.Value:
        with self._builder.goto_entry_block():
            return self._builder.alloca(type_)

    def _load(self, name: str, type_: ir.Type) -> ir.Value:
        """The value that was stored under ``name`` when the module was linked."""
        if name not in self._module.globals:
            place = ir.GlobalVariable(self._module, I64, name)
            place.initializer = ir.Constant(I64, 0)
        return self._builder.load(self._module.globals[name], typ=type_)

    def _object(self, name: str) -> ir.Value:
        """A static object of the interpreter."""
        if name not in self._module.globals:
            ir.GlobalVariable(self._module, I8, name)
        return self._module.globals[name]

    def _is_a(self, given: ir.Value, type_: str) -> ir.Value:
        """True if an object is exactly of that type, which stands behind its reference count."""
        kind = self._builder.load(at(self._builder, given, 8), typ=PTR)
        return self._builder.icmp_unsigned("==", kind, self._object(type_))

    def _call_python(self, name: str, *arguments: ir.Value) -> ir.Value:
        builder = self._builder
        function = self._load(name, PTR)
        if not arguments:
            return builder.call(external(self._module, "PyObject_CallNoArgs", PTR, [PTR]), [function])
        call = external(self._module, "PyObject_CallOneArg", PTR, [PTR, PTR])
        return builder.call(call, [function, *arguments])

    def _known(self, answer: ir.Value) -> ir.Value:
        """The answer of a call; where it raised, so does the entry."""
        builder = self._builder
        with builder.if_then(builder.icmp_unsigned("==", answer, NULL_POINTER), likely=False):
            builder.ret(NULL_POINTER)
        return answer

    def _release(self, answer: ir.Value) -> None:
        self._builder.call(external(self._module, "Py_DecRef", ir.VoidType(), [PTR]), [answer])

    def _none(self) -> ir.Value:
        none = self._object("_Py_NoneStruct")
        self._builder.call(external(self._module, "Py_IncRef", ir.VoidType(), [PTR]), [none])
        return none

    def _integer(self, given: ir.Value, type_: Type) -> tuple[ir.Value, ir.Value]:
        """A whole number, and whether it is in the range of ``type_``; the converter complains where it is not."""
        builder = self._builder
        beyond = self._variable(I32)
        convert = external(self._module, "PyLong_AsLongLongAndOverflow", I64, [PTR, PTR])
        number = builder.call(convert, [given, beyond])
        fits = builder.icmp_signed("==", builder.load(beyond, typ=I32), ir.Constant(I32, 0))
        assert isinstance(type_, t.Integral)
        if type_.bits < 64:
            kept = builder.sext(builder.trunc(number, ir.IntType(type_.bits)), I64)
            fits = builder.and_(fits, builder.icmp_signed("==", kept, number))
        return number, fits

    def _between(self, number: ir.Value, limit: int) -> ir.Value:
        """True if a number is below ``limit`` and above its negative."""
        builder = self._builder
        low = builder.icmp_signed(">", number, ir.Constant(I64, -limit))
        return builder.and_(low, builder.icmp_signed("<", number, ir.Constant(I64, limit)))

    def _digits(self, text: ir.Value, type_: Type) -> tuple[ir.Value, ir.Value]:
        """The scaled number that a text spells, and whether it does so plainly and fits."""
        assert isinstance(type_, t.Decimal)
        builder = self._builder
        size, value = self._variable(I64), self._variable(I64)
        data = builder.call(external(self._module, "PyUnicode_AsUTF8AndSize", PTR, [PTR, PTR]), [text, size])
        with builder.if_then(builder.icmp_unsigned("==", data, NULL_POINTER), likely=False):
            builder.call(external(self._module, "PyErr_Clear", ir.VoidType(), []), [])
            builder.store(ir.Constant(I64, 0), size)
        scale = ir.Constant(I64, type_.scale)
        arguments = [data, builder.load(size, typ=I64), scale, value]
        plain = builder.call(_reading(self._module), arguments)
        found = builder.load(value, typ=I64)
        return found, builder.and_(plain, self._between(found, 10**type_.precision))

    def _is_known(self, given: ir.Value, name: str) -> ir.Value:
        """True if an object is exactly of the type whose address was stored under ``name``."""
        kind = self._builder.load(at(self._builder, given, 8), typ=PTR)
        return self._builder.icmp_unsigned("==", kind, self._load(name, PTR))

    def _byte(self, given: ir.Value, place: int) -> ir.Value:
        byte = self._builder.load(at(self._builder, given, DATE_BYTES + place), typ=I8)
        return self._builder.zext(byte, I64)

    def _joined(self, given: ir.Value, first: int, count: int) -> ir.Value:
        """A number of several bytes, the highest first."""
        builder = self._builder
        found = self._byte(given, first)
        for place in range(first + 1, first + count):
            found = builder.or_(builder.shl(found, number(8)), self._byte(given, place))
        return found

    def _days(self, given: ir.Value) -> ir.Value:
        """The days from 1970 to a date: years begin in March, so that a leap day is the last of its year."""
        builder = self._builder
        year, month, day = self._joined(given, 0, 2), self._byte(given, 2), self._byte(given, 3)
        early = builder.icmp_unsigned("<=", month, number(2))
        year = builder.sub(year, builder.zext(early, I64))
        since_march = builder.add(month, builder.select(early, number(9), number(-3)))
        day_of_year = builder.udiv(builder.add(builder.mul(since_march, number(153)), number(2)), number(5))
        day_of_year = builder.add(day_of_year, builder.sub(day, number(1)))
        era = builder.udiv(year, number(400))
        of_era = builder.sub(year, builder.mul(era, number(400)))
        days = builder.add(builder.mul(of_era, number(365)), builder.udiv(of_era, number(4)))
        days = builder.add(builder.sub(days, builder.udiv(of_era, number(100))), day_of_year)
        return builder.sub(builder.add(days, builder.mul(era, number(ERA))), number(TO_MARCH))

    def _microseconds(self, given: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The microseconds from 1970 to a moment, and whether it is one without a time zone."""
        builder = self._builder
        clock = self._byte(given, 4)
        for place in (5, 6):
            clock = builder.add(builder.mul(clock, number(60)), self._byte(given, place))
        micros = builder.add(builder.mul(clock, number(1_000_000)), self._joined(given, 7, 3))
        total = builder.add(builder.mul(self._days(given), number(DAY)), micros)
        return total, builder.icmp_unsigned("==", self._byte(given, -1), number(0))


MAX_DIGITS = 18
"""Number of digits that never overflow 64 bits."""


def _reading(module: ir.Module) -> ir.Function:
    """``read_digits(text, size, scale, value) -> i1``: whether a text is a plain number, and its value, scaled.

    Plain is a sign, digits, a point and no more than ``scale`` digits: no exponent, no blanks, no infinity.
    """

    def body(builder: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        text, size, scale, value = arguments
        place, total, digits = (Local(builder, number(0)) for _ in range(3))
        after, seen = Local(builder, number(0)), Local(builder, number(0, I1))
        with builder.if_then(builder.icmp_signed("<=", size, number(0))):
            builder.ret(number(0, I1))
        first = builder.load(text, typ=I8)
        negative = builder.icmp_unsigned("==", first, number(ord("-"), I8))
        place.set(builder.zext(negative, I64))
        with loop_while(builder, lambda: builder.icmp_signed("<", place.get(), size)):
            byte = builder.load(at(builder, text, place.get()), typ=I8)
            point = builder.icmp_unsigned("==", byte, number(ord("."), I8))
            with builder.if_else(point) as (is_point, is_digit):
                with is_point:
                    with builder.if_then(seen.get()):
                        builder.ret(number(0, I1))
                    seen.set(number(1, I1))
                with is_digit:
                    digit = builder.zext(builder.sub(byte, number(ord("0"), I8)), I64)
                    with builder.if_then(builder.icmp_unsigned(">", digit, number(9))):
                        builder.ret(number(0, I1))
                    total.set(builder.add(builder.mul(total.get(), number(10)), digit))
                    digits.set(builder.add(digits.get(), number(1)))
                    after.set(builder.add(after.get(), builder.zext(seen.get(), I64)))
                    with builder.if_then(builder.icmp_signed(">", digits.get(), number(MAX_DIGITS))):
                        builder.ret(number(0, I1))
            place.set(builder.add(place.get(), number(1)))
        missing = builder.sub(scale, after.get())
        room = builder.icmp_signed("<=", builder.add(digits.get(), missing), number(MAX_DIGITS))
        enough = builder.icmp_signed(">", digits.get(), number(0))
        plain = builder.and_(builder.and_(room, enough), builder.icmp_signed(">=", missing, number(0)))
        with builder.if_then(builder.not_(plain)):
            builder.ret(number(0, I1))
        left = Local(builder, missing)
        with loop_while(builder, lambda: builder.icmp_signed(">", left.get(), number(0))):
            total.set(builder.mul(total.get(), number(10)))
            left.set(builder.sub(left.get(), number(1)))
        builder.store(builder.select(negative, builder.neg(total.get()), total.get()), value)
        builder.ret(number(1, I1))

    return _CODE.function(module, "read_digits", I1, [PTR, I64, I64, PTR], body)


_CODE = SharedCode("digits", _reading)
