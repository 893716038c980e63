"""The machine code of an entry for events: reads Python objects by the rules of CPython and runs triggers.

An object of just the type that a column expects is read in place. A DECIMAL may come as a whole number, as a
``decimal.Decimal`` or as text: the latter two are read digit by digit from their text. Anything else, and whatever is
wrong, is left to a converter in Python, which is slower and knows all the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.codegen.control_flow import external
from tidemill.runtimes.native.llvm.codegen.layout import F64, I32, I64, NULL_POINTER, PTR, StructLayout, at
from tidemill.runtimes.native.llvm.io.input_rows import InputRecord
from tidemill.runtimes.native.llvm.io.python_objects import PythonObjectReader, dates_are_known
from tidemill.runtimes.native.llvm.io.string_dictionary import declare_intern
from tidemill.runtimes.native.llvm.scalars.exact_numbers import canonical

EVENT_BUFFER = StructLayout()
"""The event buffer: its memory, the bytes in use, and its size."""
EVENT_BUFFER.field("base", PTR)
EVENT_BUFFER.field("used", I64)
EVENT_BUFFER.field("size", I64)


class _Callee:
    """A function whose address is known when the code runs. llvmlite asks a callee for its kind; a pointer has none."""

    def __init__(self, address: ir.Value, kind: ir.FunctionType) -> None:
        self._address = address
        self.type = address.type
        self.function_type = kind

    def get_reference(self) -> str:
        """The address as the IR spells it."""
        return str(self._address.get_reference())


class EventEntryCode(PythonObjectReader):
    """Emits the function of an entry."""

    def __init__(
        self,
        table: Table,
        used: Sequence[tuple[int, Field]],
        records: Sequence[InputRecord],
        places: Sequence[int],
        size: int,
    ) -> None:
        self._table = table
        self._used = used
        self._records = records
        self._places = places
        self._size = size
        module = ir.Module("entry")
        self._function = ir.Function(module, ir.FunctionType(PTR, [PTR, PTR, I64]), "entry")
        super().__init__(module, ir.IRBuilder(self._function.append_basic_block("entry")))

    def emit(self) -> ir.Module:
        """The whole module."""
        builder = self._builder
        _, arguments, count = self._function.args
        wrong = builder.icmp_signed("!=", count, ir.Constant(I64, 1 + len(self._table.fields)))
        with builder.if_then(wrong, likely=False):
            builder.ret(self._call_python("arity"))
        event = self._room()
        builder.store(self._load("number", I64), event)
        nulls = [builder.alloca(I64) for _ in self._records]
        for variable in nulls:
            builder.store(ir.Constant(I64, 0), variable)
        weight = self._weight(self._argument(arguments, 0))
        for base, record in zip(self._places, self._records, strict=True):
            builder.store(weight, record.place(builder, at(builder, event, base), "weight"))
        for place, field in self._used:
            self._take(event, nulls, place, field, self._argument(arguments, 1 + place))
        for variable, base, record in zip(nulls, self._places, self._records, strict=True):
            found = builder.load(variable, typ=I64)
            builder.store(found, record.place(builder, at(builder, event, base), "nulls"))
        self._advance()
        for stage, base in enumerate(self._places):
            self._run(stage, at(builder, event, base))
        builder.ret(self._none())
        return self._module

    # -- the event buffer ----------------------------------------------------------------------------------------

    def _room(self) -> ir.Value:
        """The place of a new event on the event buffer; where there is none left, the epoch ends first.

        Then everything is looked up again: the entry may have been retired, and no room is made for it.
        """
        builder = self._builder
        again, room = builder.append_basic_block("again"), builder.append_basic_block("room")
        builder.branch(again)
        builder.position_at_end(again)
        events = self._load("events", PTR)
        used, size = EVENT_BUFFER.load(builder, events, "used"), EVENT_BUFFER.load(builder, events, "size")
        end = builder.add(used, ir.Constant(I64, self._size))
        full = builder.append_basic_block("full")
        builder.cbranch(builder.icmp_signed("<=", end, size), room, full).set_weights([1000, 1])
        builder.position_at_end(full)
        self._release(self._known(self._call_python("full")))
        builder.branch(again)
        builder.position_at_end(room)
        return at(builder, EVENT_BUFFER.load(builder, events, "base"), used)

    def _advance(self) -> None:
        builder = self._builder
        events = self._load("events", PTR)
        used = EVENT_BUFFER.load(builder, events, "used")
        EVENT_BUFFER.store(builder, events, "used", builder.add(used, ir.Constant(I64, self._size)))

    def _run(self, stage: int, record: ir.Value) -> None:
        builder = self._builder
        function = _Callee(self._load(f"event.{stage}", PTR), ir.FunctionType(I32, [PTR]))
        status = builder.call(function, [record])
        with builder.if_then(builder.icmp_unsigned("!=", status, ir.Constant(I32, 0)), likely=False):
            code = builder.add(builder.zext(status, I64), ir.Constant(I64, stage << 16))
            told = builder.call(external(self._module, "PyLong_FromLongLong", PTR, [I64]), [code])
            builder.ret(self._call_python("failed", told))

    # -- values -------------------------------------------------------------------------------------------------

    def _argument(self, arguments: ir.Value, place: int) -> ir.Value:
        return self._builder.load(at(self._builder, arguments, 8 * place), typ=PTR)

    def _weight(self, given: ir.Value) -> ir.Value:
        """The weight of the event, which must be a whole number and nothing that passes for one."""
        builder = self._builder
        with builder.if_then(builder.not_(self._is_a(given, "PyLong_Type")), likely=False):
            builder.ret(self._call_python("unweighted", given))
        weight, fits = self._integer(given, t.BIGINT)
        with builder.if_then(builder.not_(fits), likely=False):
            builder.ret(self._call_python("unweighted", given))
        return weight

    def _take(self, event: ir.Value, nulls: Sequence[ir.Value], place: int, field: Field, given: ir.Value) -> None:
        """Bring one value into every record that has its column."""
        builder = self._builder
        done = builder.append_basic_block("taken")
        self._take_fast(event, field, given, done)
        answer = self._known(self._call_python(f"convert.{place}", given))
        null = builder.icmp_unsigned("==", answer, self._object("_Py_TrueStruct"))
        self._release(answer)
        with builder.if_then(null):
            for variable, record in zip(nulls, self._records, strict=True):
                if field in record.fields:
                    bit = ir.Constant(I64, 1 << record.fields.index(field))
                    builder.store(builder.or_(builder.load(variable, typ=I64), bit), variable)
        builder.branch(done)
        builder.position_at_end(done)

    def _take_fast(self, event: ir.Value, field: Field, given: ir.Value, done: ir.Block) -> None:
        """Read an object of the very type that is expected; anything else is left to the converter."""
        builder = self._builder
        match field.type:
            case t.Integral():
                with builder.if_then(self._is_a(given, "PyLong_Type"), likely=True):
                    number, fits = self._integer(given, field.type)
                    with builder.if_then(fits, likely=True):
                        self._put(event, field, number)
                        builder.branch(done)
            case t.Decimal(precision=precision, scale=scale) if precision <= 18:
                with builder.if_then(self._is_a(given, "PyLong_Type")):
                    number, fits = self._integer(given, t.BIGINT)
                    fits = builder.and_(fits, self._between(number, 10 ** (precision - scale)))
                    with builder.if_then(fits):
                        self._put(event, field, builder.mul(number, ir.Constant(I64, 10**scale)))
                        builder.branch(done)
                self._take_digits(event, field, given, done)
            case t.Double():
                with builder.if_then(self._is_a(given, "PyFloat_Type"), likely=True):
                    number = builder.call(external(self._module, "PyFloat_AsDouble", F64, [PTR]), [given])
                    self._put(event, field, canonical(builder, number))
                    builder.branch(done)
            case t.String():
                with builder.if_then(self._is_a(given, "PyUnicode_Type"), likely=True):
                    self._take_text(event, field, given, done)
            case t.Date() if dates_are_known():
                with builder.if_then(self._is_known(given, "date"), likely=True):
                    self._put(event, field, self._days(given))
                    builder.branch(done)
            case t.Timestamp() if dates_are_known():
                with builder.if_then(self._is_known(given, "datetime"), likely=True):
                    moment, naive = self._microseconds(given)
                    with builder.if_then(naive, likely=True):
                        self._put(event, field, moment)
                        builder.branch(done)

    def _take_text(self, event: ir.Value, field: Field, given: ir.Value, done: ir.Block) -> None:
        builder = self._builder
        size = self._variable(I64)
        data = builder.call(external(self._module, "PyUnicode_AsUTF8AndSize", PTR, [PTR, PTR]), [given, size])
        unreadable = builder.icmp_unsigned("==", data, NULL_POINTER)
        with builder.if_then(unreadable, likely=False):
            builder.call(external(self._module, "PyErr_Clear", ir.VoidType(), []), [])
        with builder.if_then(builder.not_(unreadable), likely=True):
            strings = self._load("strings", PTR)
            found = builder.call(declare_intern(self._module), [strings, data, builder.load(size, typ=I64)])
            with builder.if_then(builder.icmp_signed(">=", found, ir.Constant(I32, 0)), likely=True):
                self._put(event, field, builder.zext(found, I64))
                builder.branch(done)

    def _take_digits(self, event: ir.Value, field: Field, given: ir.Value, done: ir.Block) -> None:
        """A DECIMAL by its text: its own, or that of a ``decimal.Decimal``."""
        builder = self._builder
        with builder.if_then(self._is_known(given, "decimal")):
            text = self._known(builder.call(external(self._module, "PyObject_Str", PTR, [PTR]), [given]))
            value, fits = self._digits(text, field.type)
            self._release(text)
            with builder.if_then(fits, likely=True):
                self._put(event, field, value)
                builder.branch(done)
        with builder.if_then(self._is_a(given, "PyUnicode_Type")):
            value, fits = self._digits(given, field.type)
            with builder.if_then(fits, likely=True):
                self._put(event, field, value)
                builder.branch(done)

    def _put(self, event: ir.Value, field: Field, value: ir.Value) -> None:
        builder = self._builder
        for base, record in zip(self._places, self._records, strict=True):
            if field in record.fields:
                spot = at(builder, event, base + record.offset(record.fields.index(field)))
                builder.store(value, spot, align=8)
