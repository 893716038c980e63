"""A process whose free memory lies in holes of 8 KB, gigabytes apart, links a module with constants and calls it."""

from __future__ import annotations

import ctypes
import mmap

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.llvm.codegen.control_flow import define
from tidemill.runtimes.native.llvm.codegen.layout import I64

HOLE = 2 * mmap.PAGESIZE
APART = 3 << 30
HOLES = 40
NO_RESERVE = 0x4000
LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def mapped(size: int) -> int:
    """The address of a new map that nothing can be written to."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    address = LIBC.mmap(None, size, 0, flags, -1, 0)
    assert address not in (None, ctypes.c_void_p(-1).value)
    return int(address)


def scatter() -> None:
    """Leave holes in a large map, and fill those that there were until the system gives out the new ones."""
    start = mapped(APART * (HOLES + 1))
    for number in range(1, HOLES + 1):
        for near in range(20):
            LIBC.munmap(start + number * APART + 2 * near * HOLE, HOLE)
    while not start <= mapped(HOLE) < start + APART * (HOLES + 1):
        pass


def chosen() -> ir.Module:
    """A function that reads a table of constants and changes a global: code, constants and data in one module."""
    module = ir.Module("chosen")
    kind = ir.ArrayType(I64, 512)
    table = ir.GlobalVariable(module, kind, "table")
    table.initializer, table.global_constant, table.linkage = (
        ir.Constant(kind, [7 * n for n in range(512)]),
        True,
        "internal",
    )
    calls = ir.GlobalVariable(module, I64, "calls")
    calls.initializer = ir.Constant(I64, 0)

    def body(builder: ir.IRBuilder, arguments: list[ir.Value]) -> None:
        builder.store(builder.add(builder.load(calls), ir.Constant(I64, 1)), calls)
        builder.ret(builder.load(builder.gep(table, [ir.Constant(I64, 0), arguments[0]])))

    define(module, "chosen", I64, [I64], body, exported=True)
    return module


if __name__ == "__main__":
    jit._linker()
    scatter()
    libraries = [jit.load(chosen()) for _ in range(5)]
    print([library.function("chosen", ctypes.c_int64, ctypes.c_int64)(6) for library in libraries])
