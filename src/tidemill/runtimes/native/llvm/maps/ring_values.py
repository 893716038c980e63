"""The numbers of an entry: its weight and its ring values, in registers and in records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, all_zero, number
from tidemill.runtimes.native.llvm.codegen.layout import (
    F64,
    I1,
    I32,
    I64,
    I128,
    DoubleSum,
    MapRecord,
    RingValue,
    Status,
)
from tidemill.runtimes.native.llvm.containers.key_cells import equal
from tidemill.runtimes.native.llvm.scalars import double_sums

StatusCheck = tuple[IRValue, Status]
"""An i1 that says whether something went wrong, and what."""


@dataclass(frozen=True, slots=True)
class EntryNumbers:
    """A weight and ring values in registers."""

    weight: IRValue
    values: tuple[RingValue, ...]

    def flat(self) -> list[IRValue]:
        """All numbers, a DOUBLE as its five, in the order of a record."""
        return [self.weight, *self.flat_values()]

    def flat_values(self) -> list[IRValue]:
        """All numbers but the weight."""
        return [part for v in self.values for part in (v.parts() if isinstance(v, DoubleSum) else (v,))]

    def integers(self) -> tuple[IRValue, ...]:
        """The values that are not DOUBLE."""
        return tuple(value for value in self.values if not isinstance(value, DoubleSum))


class RingCode:
    """The code for the numbers of one map."""

    def __init__(self, map_: Map, record: MapRecord) -> None:
        self._map, self._record = map_, record
        self._doubles = [isinstance(value.type, t.Double) for value in map_.values]
        self._names = ["weight", *(name for names in record.values for name in names)]

    def types(self) -> list[ir.Type]:
        """The types of ``EntryNumbers.flat``."""
        found: list[ir.Type] = [I64]
        for is_double in self._doubles:
            found += [F64, F64, I64, I64, I64] if is_double else [I128]
        return found

    def value_types(self) -> list[ir.Type]:
        """For each value the type in which expressions see it."""
        return [F64 if is_double else I128 for is_double in self._doubles]

    def of_flat(self, numbers: Sequence[IRValue]) -> EntryNumbers:
        """Numbers from arguments of a function."""
        weight, *rest = numbers
        values: list[RingValue] = []
        for is_double in self._doubles:
            values.append(DoubleSum(*rest[:5]) if is_double else rest[0])
            rest = rest[5 if is_double else 1 :]
        return EntryNumbers(weight, tuple(values))

    def load(self, builder: ir.IRBuilder, record: IRValue) -> EntryNumbers:
        """The numbers of a record."""
        return self.of_flat([self._record.load(builder, record, name) for name in self._names])

    def load_value(self, builder: ir.IRBuilder, record: IRValue, place: int) -> RingValue:
        """One value of a record."""
        parts = [self._record.load(builder, record, name) for name in self._record.values[place]]
        return DoubleSum(*parts) if self._doubles[place] else parts[0]

    def store(self, builder: ir.IRBuilder, record: IRValue, numbers: EntryNumbers) -> None:
        """Put numbers into a record."""
        for name, value in zip(self._names, numbers.flat(), strict=True):
            self._record.store(builder, record, name, value)

    def none(self) -> EntryNumbers:
        """The numbers of an entry that is not there."""
        return self.of_flat([ir.Constant(type_, 0.0 if type_ == F64 else 0) for type_ in self.types()])

    def store_zero(self, builder: ir.IRBuilder, record: IRValue) -> None:
        """Set all numbers of a record to 0."""
        for name, type_ in zip(self._names, self.types(), strict=True):
            self._record.store(builder, record, name, ir.Constant(type_, 0.0 if type_ == F64 else 0))

    def plus(
        self, builder: ir.IRBuilder, one: EntryNumbers, other: EntryNumbers
    ) -> tuple[EntryNumbers, list[StatusCheck]]:
        """The sums, and what may have gone wrong with them."""
        weight = builder.sadd_with_overflow(one.weight, other.weight)
        faults: list[StatusCheck] = [(builder.extract_value(weight, 1), Status.WEIGHT_OVERFLOW)]
        values: list[RingValue] = []
        for a, b in zip(one.values, other.values, strict=True):
            if isinstance(a, DoubleSum) and isinstance(b, DoubleSum):
                values.append(double_sums.plus(builder, a, b))
                faults.append((builder.not_(double_sums.is_finite(builder, values[-1].high)), Status.DOUBLE_RANGE))
            else:
                added = builder.sadd_with_overflow(a, b)
                values.append(builder.extract_value(added, 0))
                faults.append((builder.extract_value(added, 1), Status.VALUE_OVERFLOW))
        return EntryNumbers(builder.extract_value(weight, 0), tuple(values)), faults

    def guarded(self, numbers: EntryNumbers, name: str) -> IRValue:
        """The number that a guard is about."""
        if name == WEIGHT:
            return numbers.weight
        return numbers.values[[value.name for value in self._map.values].index(name)]

    def is_zero(self, builder: ir.IRBuilder, numbers: EntryNumbers) -> IRValue:
        """An i1: whether there is nothing to add."""
        return all_zero(builder, numbers.flat())

    def same(self, builder: ir.IRBuilder, one: EntryNumbers, other: EntryNumbers) -> IRValue:
        """An i1: whether all numbers are the same."""
        return equal(builder, one.flat(), other.flat())


def return_status(builder: ir.IRBuilder, faults: Sequence[StatusCheck]) -> None:
    """Return the status of what went wrong, if anything did."""
    anything: IRValue = number(0, I1)
    for flag, _ in faults:
        anything = builder.or_(anything, flag)
    with builder.if_then(anything, likely=False):
        status: IRValue = number(0, I32)
        for flag, fault in faults:
            status = builder.select(flag, number(fault, I32), status)
        builder.ret(status)
