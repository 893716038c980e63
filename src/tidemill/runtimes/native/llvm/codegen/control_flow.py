"""Control flow for emitted code: variables, loops and functions, so that what is emitted reads like what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.layout import I1, I32, I64

IRValue: TypeAlias = ir.Value

EmitBody = Callable[[ir.IRBuilder, tuple[IRValue, ...]], object]
"""Emits the instructions of a function, given its arguments."""

PER_EPOCH = ("noinline", "optnone")
"""Attributes of functions that run once an epoch for each touched key, and are not optimized."""

COLD = (*PER_EPOCH, "cold")
"""Attributes of functions that run seldom: to optimize them would take longer than they ever will."""

INLINE = "alwaysinline"
"""Attribute of short functions that are called for every row; the compiler inlines no others."""


class Local:
    """A variable of the function under way. LLVM keeps it in a register."""

    def __init__(self, builder: ir.IRBuilder, initial: IRValue) -> None:
        self._builder = builder
        self.type: ir.Type = initial.type
        with builder.goto_entry_block():
            self.place = builder.alloca(initial.type)
        self.set(initial)

    def get(self) -> IRValue:
        """The value of the variable."""
        return self._builder.load(self.place, typ=self.type)

    def set(self, value: IRValue) -> None:
        """Set the variable to ``value``."""
        self._builder.store(value, self.place)


def on_stack(builder: ir.IRBuilder, bytes_: int) -> IRValue:
    """Memory that lasts as long as the function, aligned for anything."""
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(I64, -(-bytes_ // 8)))
        place.align = 16
        place.type = ir.PointerType()  # llvmlite would let only whole arrays be stored there
        return place


def number(value: int, type_: ir.Type = I64) -> IRValue:
    """A constant."""
    return ir.Constant(type_, value)


@contextmanager
def loop_while(builder: ir.IRBuilder, condition: Callable[[], IRValue]) -> Iterator[ir.Block]:
    """Run what is emitted within as long as ``condition`` holds; yields the block to branch to for an early end."""
    head, body, done = (builder.append_basic_block(name) for name in ("while", "do", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    builder.cbranch(condition(), body, done)
    builder.position_at_end(body)
    yield done
    if not builder.block.is_terminated:
        builder.branch(head)
    builder.position_at_end(done)


@contextmanager
def forever(builder: ir.IRBuilder) -> Iterator[ir.Block]:
    """Run what is emitted within until it branches to the block that is yielded."""
    body, done = builder.append_basic_block("again"), builder.append_basic_block("done")
    builder.branch(body)
    builder.position_at_end(body)
    yield done
    if not builder.block.is_terminated:
        builder.branch(body)
    builder.position_at_end(done)


@contextmanager
def count_up(builder: ir.IRBuilder, start: IRValue, stop: IRValue) -> Iterator[IRValue]:
    """Run what is emitted within for each number from ``start`` until before ``stop``."""
    place = Local(builder, start)
    with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), stop)):
        now = place.get()
        yield now
        if not builder.block.is_terminated:
            place.set(builder.add(now, number(1, now.type)))


@contextmanager
def in_blocks(builder: ir.IRBuilder, count: IRValue, size: int) -> Iterator[tuple[IRValue, IRValue]]:
    """Run what is emitted within for each block of ``size`` numbers below ``count``: from where to where."""
    place = Local(builder, number(0))
    with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), count)):
        start = place.get()
        end = builder.add(start, number(size))
        stop = builder.select(builder.icmp_unsigned("<", end, count), end, count)
        yield start, stop
        place.set(stop)


def escape(builder: ir.IRBuilder, condition: IRValue, block: ir.Block, likely: bool | None = None) -> None:
    """Branch to ``block`` where ``condition`` holds, else go on."""
    with builder.if_then(condition, likely=likely):
        builder.branch(block)


def check(builder: ir.IRBuilder, status: IRValue) -> None:
    """Return ``status`` where it is not 0."""
    with builder.if_then(builder.icmp_unsigned("!=", status, number(0, I32)), likely=False):
        builder.ret(status)


def all_zero(builder: ir.IRBuilder, values: Sequence[IRValue]) -> IRValue:
    """An i1: whether every number is 0."""
    result: IRValue = number(1, I1)
    for value in values:
        if isinstance(value.type, ir.DoubleType):
            zero = builder.fcmp_ordered("==", value, ir.Constant(value.type, 0.0))
        else:
            zero = builder.icmp_unsigned("==", value, number(0, value.type))
        result = builder.and_(result, zero)
    return result


class _Names:
    """Names of values and blocks, numbered: llvmlite would look each of them up among all others."""

    def __init__(self) -> None:
        self._count = 0

    def register(self, name: str, deduplicate: bool = False) -> str:
        self._count += 1
        return f"{name or 'v'}.{self._count}"


def new_function(module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    """A function without instructions as yet."""
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    function.scope = _Names()
    return function


def define(
    module: ir.Module,
    name: str,
    result: ir.Type,
    arguments: Sequence[ir.Type],
    body: EmitBody,
    *attributes: str,
    exported: bool = False,
) -> ir.Function:
    """The function called ``name``, whose instructions ``body`` emits when it is first asked for."""
    if name in module.globals:
        return module.globals[name]
    function = new_function(module, name, result, arguments)
    if not exported:
        function.linkage = "internal"
    for attribute in ("nounwind", *attributes):
        function.attributes.add(attribute)
    body(ir.IRBuilder(function.append_basic_block("entry")), tuple(function.args))
    return function


def is_cold(function: ir.Function) -> bool:
    """True if a function is marked as ``COLD``."""
    return all(attribute in function.attributes for attribute in COLD)


def external(module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    """A function of the C library."""
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(result, arguments), name)
