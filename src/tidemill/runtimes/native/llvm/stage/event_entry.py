"""One event from Python in a tenth of a microsecond: a built-in function that is made while the program runs.

``entry(weight, *values)`` is machine code for one relation, called as CPython calls its own. It reads whole numbers,
floats and texts straight from the Python objects, hands anything else to a converter written in Python, and runs the
triggers of every stage that reads the relation. All is as fresh when it returns as after an epoch.

What it took in is also written to an *event buffer*. An event that fails may have done half of its work by then: so the
stages go back to where the epoch began, everything on the event buffer before it is played again, and the event alone
is refused.
"""

from __future__ import annotations

import ctypes
import datetime
import decimal
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.model import types as t
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue
from tidemill.model.schema import Table
from tidemill.model.types import Field, Type
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.jit import load
from tidemill.runtimes.native.llvm.codegen.layout import F64, I128, cell_type
from tidemill.runtimes.native.llvm.io.event_code import EventEntryCode
from tidemill.runtimes.native.llvm.io.python_objects import dates_are_known
from tidemill.runtimes.native.llvm.scalars.conversions import inner_number
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
from tidemill.runtimes.runtime import MachineCode

EVENT_BUFFER_BYTES = 16 * 1024 * 1024
"""A full event buffer ends the epoch: this is how much may have to be played again, or be lost in a crash."""

_FASTCALL = 0x80


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("document", ctypes.c_char_p),
    )


class EventBuffer:
    """The events since the last commit, in order: the number of an entry, then a record for each of its stages."""

    def __init__(self, size: int = EVENT_BUFFER_BYTES) -> None:
        self._buffer = ctypes.create_string_buffer(size)
        self._state = (ctypes.c_int64 * 3)(ctypes.addressof(self._buffer), 0, size)
        self.address = ctypes.addressof(self._state)
        self.entries: list[EventEntry] = []

    @property
    def used(self) -> int:
        """The bytes that are written; 0 where there are no events."""
        return int(self._state[1])

    def rewind(self, used: int = 0) -> None:
        """Forget what comes after the first ``used`` bytes."""
        self._state[1] = used

    def close_until_epoch(self) -> None:
        """Forget everything, and have no room: the next event must first let an epoch begin."""
        self._state[1] = self._state[2] = 0

    def open(self) -> None:
        """Have room again."""
        self._state[2] = len(self._buffer)

    def write(self, form: struct.Struct, offset: int, *words: float) -> None:
        """Write into the event under way."""
        form.pack_into(self._buffer, self.used + offset, *words)

    def read(self, place: int) -> bytes:
        """The bytes from ``place`` on."""
        return self._buffer.raw[place : self.used]

    def replay(self, until: int) -> None:
        """Run every event up to ``until`` again; each has succeeded once."""
        place = 0
        while place < until:
            (number,) = struct.unpack_from("<q", self._buffer, place)
            entry = self.entries[number]
            entry.replay(ctypes.addressof(self._buffer) + place)
            place += entry.size

    def relations(self) -> set[str]:
        """The relations that have events on the event buffer."""
        found, place = set(), 0
        while place < self.used:
            (number,) = struct.unpack_from("<q", self._buffer, place)
            found.add(self.entries[number].table.name)
            place += self.entries[number].size
        return found


class EventEntry:
    """The way in for events of one table. ``call`` is the built-in function."""

    def __init__(
        self, table: Table, stages: Sequence[MachineCode], events: EventBuffer, full: Callable[[], None]
    ) -> None:
        """``full`` must end the epoch and rewind the event buffer; ``stages`` are all those that read the table."""
        if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise NotCompiled("events from this Python")
        self.table = table
        self._stages = own = tuple(map(_llvm, stages))
        self._events = events
        self._records = [stage.code.inputs[table.name].record for stage in own]
        self.size = 8 + sum(record.size for record in self._records)
        self._number = len(events.entries)
        events.entries.append(self)
        for stage in own:
            stage.prepare()
        self._kept: list[Any] = [full]
        code = EventEntryCode(table, self._used(), self._records, self._places(), self.size)
        self._library = load(code.emit())
        self._link(full)
        self._define()

    # -- what Python does --------------------------------------------------------------------------------------

    @property
    def stages(self) -> tuple[LlvmStage, ...]:
        """The stages that events go to."""
        return self._stages

    def retire(self, refuse: Callable[[], None]) -> None:
        """Refuse all further events: the next one calls ``refuse``, which raises, since the stages are gone."""
        shut = EventBuffer(0)
        self._kept += [shut, refuse]
        self._stages = ()
        self._store("events", shut.address)
        self._store("full", id(refuse))

    def replay(self, event: int) -> None:
        """Run an event that lies on the event buffer at address ``event``."""
        for place, stage in zip(self._places(), self._stages, strict=True):
            stage.event(self.table.name, event + place)

    def _places(self) -> list[int]:
        """The offset of the record of each stage in an event."""
        return [8 + sum(record.size for record in self._records[:i]) for i in range(len(self._records))]

    def _failed(self, status: int) -> None:
        """Refuse the event under way: as if it had never come."""
        number, code = divmod(status, 1 << 16)
        events = self._events
        until = events.used - self.size
        row = self._records[number].values(events.read(until + self._places()[number]), self._stages[number].strings)
        stages = {id(stage): stage for entry in events.entries for stage in entry._stages}
        with self._stages[number].memory.unbounded():  # what is played again had its place before
            for stage in stages.values():
                stage.rollback()
                stage.prepare()
            events.rewind(until)
            events.replay(until)
        raise self._stages[number].error(code, lambda: (self.table.name, row))

    def _arity(self) -> None:
        wanted = ", ".join(f.name for f in self.table.fields)
        raise BadValue(f"an event of {self.table.name} takes a weight and then {wanted}", where=self.table.name)

    def _unweighted(self, weight: object) -> None:
        raise BadValue(f"{weight!r} is not a weight", where=self.table.name, hint="An insert is +1, a delete -1.")

    def _converter(self, place: int, field: Field) -> Callable[[Any], bool]:
        """Writes a value that machine code does not read itself onto the event buffer; gives whether it is NULL."""
        coerce = row_coercer((field,), self.table.name)
        spots = [(base + offset, form) for base, offset, form in self._spots(field)]
        events = self._events
        intern = self._stages[0].strings.intern if self._stages else None

        def convert(value: Any) -> bool:
            (inner,) = coerce((value,))
            if inner is None:
                return True
            words = _words(inner, field.type, intern)
            for offset, form in spots:
                events.write(form, offset, *words)
            return False

        return convert

    def _spots(self, field: Field) -> list[tuple[int, int, struct.Struct]]:
        """The offsets of a column in the event: for each stage that uses it, its record, its cell, and its packing."""
        form = struct.Struct(_packing(field.type))
        found = []
        for base, record in zip(self._places(), self._records, strict=True):
            if field in record.fields:
                found.append((base, record.offset(record.fields.index(field)), form))
        return found

    # -- linking ------------------------------------------------------------------------------------------------

    def _used(self) -> list[tuple[int, Field]]:
        used = {f.name for record in self._records for f in record.fields}
        return [(place, f) for place, f in enumerate(self.table.fields) if f.name in used]

    def _link(self, full: Callable[[], None]) -> None:
        """Tell the code where the event buffer, the stages' functions and the Python helpers are."""
        self._store("events", self._events.address)
        self._store("full", id(full))
        self._store("number", self._number)
        for name, helper in (("failed", self._failed), ("arity", self._arity), ("unweighted", self._unweighted)):
            self._keep(name, helper)
        for place, f in self._used():
            self._keep(f"convert.{place}", self._converter(place, f))
        for number, stage in enumerate(self._stages):
            self._store(f"event.{number}", stage.event_address(self.table.name))
        used = [f.type for _, f in self._used()]
        if any(isinstance(type_, t.Decimal) and type_.precision <= 18 for type_ in used):
            self._store("decimal", id(decimal.Decimal))
        for type_, kind in ((t.DATE, datetime.date), (t.TIMESTAMP, datetime.datetime)):
            if type_ in used and dates_are_known():
                self._store(kind.__name__, id(kind))
        if any(isinstance(type_, t.String | t.Variant) for type_ in used):
            self._store("strings", self._stages[0].strings.address)

    def _keep(self, name: str, helper: Callable[..., Any]) -> None:
        self._kept.append(helper)
        self._store(name, id(helper))

    def _store(self, name: str, value: int) -> None:
        ctypes.c_int64.from_address(self._library.address(name)).value = value

    def _define(self) -> None:
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        document = f"Take in one event of {self.table.name}: a weight, then its columns."
        self._method = _Method(self.table.name.encode(), self._library.address("entry"), _FASTCALL, document.encode())
        # The function holds this object, and with it the code, the event buffer and the helpers.
        self.call: Callable[..., None] = make(ctypes.addressof(self._method), self, None)


def _llvm(code: MachineCode) -> LlvmStage:
    assert isinstance(code, LlvmStage), "there is no other machine code"
    return code


def _packing(type_: Type) -> str:
    kind = cell_type(type_)
    return "<Qq" if kind == I128 else "<d" if kind == F64 else "<q"


def _words(value: Any, type_: Type, intern: Callable[[Any], int] | None) -> Sequence[float]:
    if isinstance(type_, t.String | t.Variant):
        assert intern is not None
        return (intern(value),)
    number = inner_number(value, type_)
    if cell_type(type_) == I128:
        return int(number) & (1 << 64) - 1, int(number) >> 64
    return (number,)
