"""A function while it is emitted: where instructions go, how it fails, and what it knows by the time it runs.

Every emitted function returns a status: 0, or the number of the fault that stopped it. A fault is found by a branch
that is never taken in the common case; the numbers are given out by ``FaultTable``, which can say what each one means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.runtimes.native.llvm.codegen.layout import I1, I32, NULL_POINTER, PTR, NullableValue

FIRST_FAULT = 64
"""Faults of expressions are numbered from here; what lies below belongs to the maps."""


class NotCompiled(Exception):
    """A stage that stays with the Python back end; the message says what in it has no native form."""


@dataclass(frozen=True, slots=True)
class RowFault:
    """Why a row is refused, in the words of ``ArithmeticFault``."""

    what: str
    hint: str | None = None


@dataclass
class FaultTable:
    """The faults of a module, by their numbers."""

    known: list[RowFault] = field(default_factory=list)

    def number(self, fault: RowFault) -> int:
        """The status by which functions report ``fault``."""
        if fault not in self.known:
            self.known.append(fault)
        return FIRST_FAULT + self.known.index(fault)

    def find(self, status: int) -> RowFault | None:
        """The fault behind a status; None where it is not one of an expression."""
        place = status - FIRST_FAULT
        return self.known[place] if 0 <= place < len(self.known) else None


@dataclass
class TextConstants:
    """The text constants of a module. Their ids are known only once it is loaded, so each is a global to be filled."""

    module: ir.Module
    places: dict[object, ir.GlobalVariable] = field(default_factory=dict)
    held_in: ir.GlobalVariable | None = None
    """The global that will point to the dictionary of all texts, where one is looked into."""

    def dictionary(self) -> ir.GlobalVariable:
        """The global that will point to the dictionary of all texts."""
        if self.held_in is None:
            self.held_in = ir.GlobalVariable(self.module, PTR, "dictionary")
            self.held_in.initializer = NULL_POINTER
        return self.held_in

    def place(self, value: object) -> ir.GlobalVariable:
        """The global that will hold the id of ``value``."""
        if value not in self.places:
            place = ir.GlobalVariable(self.module, I32, f"constant.{len(self.places)}")
            place.initializer = ir.Constant(I32, 0)
            self.places[value] = place
        return self.places[value]


@dataclass(frozen=True, slots=True)
class PythonCall:
    """An expression over ``columns`` that Python computes. Each value is one or two ``words`` of 64 bits.

    ``nullable``: a word comes before them, whose bits tell which values are NULL.
    """

    expression: Scalar
    columns: tuple[Column, ...]
    words: tuple[int, ...]
    nullable: bool


@dataclass
class PythonCalls:
    """The expressions of a module that Python computes; each is a global that points to its ``PythonFunction``."""

    module: ir.Module
    places: dict[PythonCall, ir.GlobalVariable] = field(default_factory=dict)

    def place(self, call: PythonCall) -> ir.GlobalVariable:
        """The global that will point to the function of ``call``."""
        if call not in self.places:
            place = ir.GlobalVariable(self.module, PTR, f"python.{len(self.places)}")
            place.initializer = NULL_POINTER
            self.places[call] = place
        return self.places[call]


class FunctionFrame:
    """One function: ``builder`` stands where the next instruction goes."""

    def __init__(self, function: ir.Function, faults: FaultTable, texts: TextConstants, calls: PythonCalls) -> None:
        self.function = function
        self.module: ir.Module = function.module
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.faults = faults
        self.texts = texts
        self.calls = calls

    def refuse(self, condition: ir.Value, fault: RowFault) -> None:
        """Return with ``fault`` where ``condition`` holds."""
        with self.builder.if_then(condition, likely=False):
            self.builder.ret(ir.Constant(I32, self.faults.number(fault)))

    def check(self, status: ir.Value) -> None:
        """Return with ``status`` where it is not 0."""
        with self.builder.if_then(self.builder.icmp_unsigned("!=", status, ir.Constant(I32, 0)), likely=False):
            self.builder.ret(status)

    def done(self) -> None:
        """Return: all went well."""
        self.builder.ret(ir.Constant(I32, 0))

    def variable(self, type_: ir.Type, name: str = "") -> ir.Value:
        """A place on the stack that lives as long as the function, whichever loop asks for it."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(type_, name=name)

    def only_if(
        self, condition: ir.Value, compute: Callable[[], NullableValue], otherwise: NullableValue
    ) -> NullableValue:
        """The value of ``compute`` where ``condition`` holds, and only then computed; else ``otherwise``.

        Numbers of maps are wider than others of their type: the narrower of the two is widened.
        """
        builder = self.builder
        before = builder.block
        taken, after = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(condition, taken, after)
        builder.position_at_end(taken)
        found = compute()
        found = widened(builder, found, otherwise)
        last = builder.block
        builder.branch(after)
        builder.position_before(before.terminator)
        otherwise = widened(builder, otherwise, found)
        builder.position_at_end(after)
        value = builder.phi(found.value.type)
        value.add_incoming(found.value, last)
        value.add_incoming(otherwise.value, before)
        if found.is_null is None and otherwise.is_null is None:
            return NullableValue(value, None)
        null = builder.phi(I1)
        null.add_incoming(found.is_null or FALSE, last)
        null.add_incoming(otherwise.is_null or FALSE, before)
        return NullableValue(value, null)


def widened(builder: ir.IRBuilder, cell: NullableValue, other: NullableValue) -> NullableValue:
    """``cell``, as wide as ``other`` where that is wider."""
    kind, wanted = cell.value.type, other.value.type
    if kind == wanted or not isinstance(kind, ir.IntType) or kind.width > wanted.width:
        return cell
    return NullableValue(builder.sext(cell.value, wanted), cell.is_null)


FALSE = ir.Constant(I1, 0)
TRUE = ir.Constant(I1, 1)
