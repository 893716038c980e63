"""The values that measures read of a run, as code: each is kept in a few words and goes on by one row at a time.

Aggregates that are computed from sums are kept as these sums, MIN and MAX as sort keys, FIRST and LAST as cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, finalize, partial_sums
from tidemill.algebra.expressions.scalars import Case, Column, Scalar
from tidemill.algebra.relational.match import Match, Navigation
from tidemill.model import types as t
from tidemill.model.types import BIGINT
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I64, I128, NullableValue, StructLayout, cell_type
from tidemill.runtimes.native.llvm.containers.column_buffer import null_flag, value_or_zero
from tidemill.runtimes.native.llvm.containers.sort_keys import from_sort_key, key_bits, to_sort_key
from tidemill.runtimes.native.llvm.maps.ordered_index import UNORDERED
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, from_stored, to_stored
from tidemill.runtimes.native.llvm.scalars.exact_numbers import out_of_range
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions, may_fail

MAX_DIGITS = 20
"""Digits of a DECIMAL whose sums are kept: those of 2 ** 63 such numbers have fewer than 128 bits."""

EXTREMES = {"min": False, "max": True}
"""Aggregates that are no sums, and True for the greatest."""


@dataclass(frozen=True, slots=True)
class KeptValue(ABC):
    """A value that is kept of the rows of ``variables`` (without any, of all rows)."""

    variables: tuple[str, ...]

    def sees(self, variable: str) -> bool:
        """True if rows of that variable count."""
        return not self.variables or variable in self.variables

    @abstractmethod
    def fields(self) -> Sequence[ir.Type]:
        """The types of its words, which are zeros before the first row."""

    @abstractmethod
    def add(self, builder: ir.IRBuilder, row: LlvmExpressions, old: Sequence[IRValue]) -> Sequence[IRValue]:
        """Its words after one more row."""


@dataclass(frozen=True, slots=True)
class RowCount(KeptValue):
    """The number of rows."""

    def fields(self) -> Sequence[ir.Type]:
        return (I64,)

    def add(self, builder: ir.IRBuilder, row: LlvmExpressions, old: Sequence[IRValue]) -> Sequence[IRValue]:
        return (builder.add(old[0], number(1)),)


@dataclass(frozen=True, slots=True)
class RunningSum(KeptValue):
    """A partial sum of an aggregate. Those of numbers of 32 bits fit a word."""

    part: PartialSum

    def fields(self) -> Sequence[ir.Type]:
        argument = self.part.argument
        is_narrow = isinstance(argument, Case) or isinstance(argument.type, t.TinyInt | t.SmallInt | t.Int)
        return (I64 if is_narrow and not isinstance(argument.type, t.Decimal) else I128,)

    def add(self, builder: ir.IRBuilder, row: LlvmExpressions, old: Sequence[IRValue]) -> Sequence[IRValue]:
        cell, type_ = row.cell(self.part.argument), old[0].type
        wide = cell.value if cell.value.type == type_ else builder.sext(cell.value, type_)
        addend = wide if cell.is_null is None else builder.select(cell.is_null, number(0, type_), wide)
        return (builder.add(old[0], addend),)


@dataclass(frozen=True, slots=True)
class PickedValue(KeptValue):
    """The argument in the first or the last row."""

    argument: Scalar
    first: bool

    def fields(self) -> Sequence[ir.Type]:
        return (cell_type(self.argument.type), I8, I8)

    def add(self, builder: ir.IRBuilder, row: LlvmExpressions, old: Sequence[IRValue]) -> Sequence[IRValue]:
        cell = to_stored(builder, row.cell(self.argument), self.argument.type)
        new = (value_or_zero(builder, cell), null_flag(builder, cell), number(1, I8))
        if not self.first:
            return new
        is_there = builder.icmp_unsigned("!=", old[2], number(0, I8))
        return [builder.select(is_there, one, other) for one, other in zip(old, new, strict=True)]

    def value(self, builder: ir.IRBuilder, words: Sequence[IRValue]) -> NullableValue:
        """The value, NULL where there is no such row."""
        known = builder.and_(
            builder.icmp_unsigned("==", words[1], number(0, I8)), builder.icmp_unsigned("!=", words[2], number(0, I8))
        )
        return from_stored(builder, NullableValue(words[0], builder.not_(known)), self.argument.type)


@dataclass(frozen=True, slots=True)
class Extreme(KeptValue):
    """The least or the greatest argument that is not NULL, as a sort key."""

    argument: Scalar
    greatest: bool

    def fields(self) -> Sequence[ir.Type]:
        return (ir.IntType(key_bits(cell_type(self.argument.type))), I8)

    def add(self, builder: ir.IRBuilder, row: LlvmExpressions, old: Sequence[IRValue]) -> Sequence[IRValue]:
        cell = to_stored(builder, row.cell(self.argument), self.argument.type)
        key = to_sort_key(builder, cell.value)
        first = builder.icmp_unsigned("==", old[1], number(0, I8))
        better = builder.icmp_unsigned(">" if self.greatest else "<", key, old[0])
        taken = builder.or_(first, better)
        if cell.is_null is not None:
            taken = builder.and_(taken, builder.not_(cell.is_null))
        return builder.select(taken, key, old[0]), builder.select(taken, number(1, I8), old[1])

    def value(self, builder: ir.IRBuilder, words: Sequence[IRValue]) -> NullableValue:
        """The value, NULL where there is none."""
        cell = from_sort_key(builder, words[0], cell_type(self.argument.type))
        none = builder.icmp_unsigned("==", words[1], number(0, I8))
        return from_stored(builder, NullableValue(cell, none), self.argument.type)


@dataclass
class RunValues:
    """All values that the measures of ``match`` need, and the layout of a run: their words, one after the other."""

    match: Match
    kept: list[KeptValue] = field(default_factory=list)
    layout: StructLayout = field(default_factory=StructLayout)

    def __post_init__(self) -> None:
        for navigation in self.match.measures:
            for value in _kept_for(navigation):
                if value not in self.kept:
                    self.kept.append(value)
        for number_, value in enumerate(self.kept):
            for place, type_ in enumerate(value.fields()):
                self.layout.field(f"value {number_}.{place}", type_)

    def sees(self, variable: str) -> int:
        """A bit for each value that counts rows of a variable."""
        return sum(1 << place for place, value in enumerate(self.kept) if value.sees(variable))

    def take(
        self, builder: ir.IRBuilder, row: LlvmExpressions, source: IRValue, target: IRValue, sees: IRValue
    ) -> None:
        """Write the values of the run at ``source`` with one more row to ``target``; ``sees`` has a bit for each."""
        for place, value in enumerate(self.kept):
            old = self._words(builder, source, place)
            bit = builder.trunc(builder.lshr(sees, number(place)), I1)
            for part, (before, after) in enumerate(zip(old, value.add(builder, row, old), strict=True)):
                self.layout.store(builder, target, f"value {place}.{part}", builder.select(bit, after, before))

    def measured(self, frame: FunctionFrame, run: IRValue) -> dict[str, NullableValue]:
        """The values of the measures, by their names."""
        return {navigation.name: self._measure(frame, run, navigation) for navigation in self.match.measures}

    def _measure(self, frame: FunctionFrame, run: IRValue, navigation: Navigation) -> NullableValue:
        builder = frame.builder
        (first, *others) = _kept_for(navigation)
        words = self._words(builder, run, self.kept.index(first))
        if isinstance(first, PickedValue | Extreme):
            return first.value(builder, words)
        weight = Column("weight", BIGINT, nullable=False)
        bound = {weight.name: NullableValue(words[0])}
        columns: list[Scalar] = []
        for kept in others:
            assert isinstance(kept, RunningSum)
            column = Column(f"sum {len(columns)}", kept.part.of, nullable=False)
            columns.append(column)
            (word,) = self._words(builder, run, self.kept.index(kept))
            bound[column.name] = NullableValue(word if word.type == I128 else builder.sext(word, I128))
        value = finalize(_call(navigation), columns, weight)
        narrow, misfit = as_key(builder, LlvmExpressions(frame, bound).cell(value), value.type, navigation.of)
        if misfit is not None:
            known = misfit if narrow.is_null is None else builder.and_(misfit, builder.not_(narrow.is_null))
            frame.refuse(known, out_of_range(navigation.of))
        return narrow

    def _words(self, builder: ir.IRBuilder, run: IRValue, place: int) -> list[IRValue]:
        count = len(self.kept[place].fields())
        return [self.layout.load(builder, run, f"value {place}.{part}") for part in range(count)]


def _call(navigation: Navigation) -> AggregateCall:
    return AggregateCall(navigation.name, navigation.function, navigation.argument, navigation.of)


def _kept_for(navigation: Navigation) -> Iterator[KeptValue]:
    """Values of a run that a measure needs; raises ``NotCompiled`` where it has no native form."""
    argument, variables = navigation.argument, navigation.variables
    if navigation.distinct:
        raise NotCompiled("a measure over DISTINCT values")
    if navigation.step or navigation.offset:
        raise NotCompiled("measures of a pattern that read rows around the first or the last one")
    if argument is not None and may_fail(argument):
        raise NotCompiled("arguments of a measure that may be an error")
    if navigation.function in ("first", "last"):
        assert argument is not None
        yield PickedValue(variables, argument, navigation.function == "first")
    elif navigation.function in EXTREMES:
        assert argument is not None
        if isinstance(argument.type, UNORDERED):
            raise NotCompiled(f"the order of a {argument.type}")
        yield Extreme(variables, argument, EXTREMES[navigation.function])
    else:
        yield RowCount(variables)
        yield from (RunningSum(variables, part) for part in _parts(navigation))


def _parts(navigation: Navigation) -> Iterator[PartialSum]:
    function = AGGREGATE_FUNCTIONS.get(navigation.function)
    if function is None or function.sums is None or function.sums.reads_low:
        raise NotCompiled(f"the measure {navigation.function.upper()} of a pattern")
    for part in partial_sums(_call(navigation)):
        of = part.argument.type
        if isinstance(of, t.Double):
            raise NotCompiled("a sum of DOUBLE over the rows of a match")
        if isinstance(of, t.Decimal) and of.precision > MAX_DIGITS:
            raise NotCompiled(f"a sum of {of} over the rows of a match")
        if may_fail(part.argument):
            raise NotCompiled("arguments of a measure that may be an error")
        yield part
