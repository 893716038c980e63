"""Prefetching: cache lines that are requested before a row needs them."""

from __future__ import annotations

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    count_up,
    external,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, PTR, StructLayout, at

LINE = 64
"""The bytes of a cache line."""

POINTER = StructLayout()
"""A pointer: where its id is read, the array that the id indexes (``base``, ``size``), and the bytes to request."""
POINTER.field("id", PTR)
POINTER.field("base", PTR)
POINTER.field("size", I64)
POINTER.field("bytes", I64)


def prefetch(builder: ir.IRBuilder, place: IRValue) -> None:
    """Tell the machine that a cache line will be read; any address is allowed."""
    intrinsic = external(builder.module, "llvm.prefetch.p0", ir.VoidType(), [PTR, I32, I32, I32])
    reading, keep, data = number(0, I32), number(3, I32), number(1, I32)
    builder.call(intrinsic, [place, reading, keep, data])


def prefetch_lines(builder: ir.IRBuilder, place: IRValue, bytes_: IRValue) -> None:
    """Prefetch every cache line of memory that begins at ``place``."""
    asked = Local(builder, number(0))
    with loop_while(builder, lambda: builder.icmp_unsigned("<", asked.get(), bytes_)):
        prefetch(builder, at(builder, place, asked.get()))
        asked.set(builder.add(asked.get(), number(LINE)))


class Prefetcher:
    """Requests cache lines: at once, or those behind a pointer once that is in the cache."""

    def __init__(self, builder: ir.IRBuilder, most: int) -> None:
        """There is room for ``most`` pointers."""
        self._builder = builder
        self._pointers = on_stack(builder, max(most, 1) * POINTER.size)
        self._count = Local(builder, number(0))

    def request(self, place: IRValue, bytes_: int) -> None:
        """Request the first and the last line of the memory at ``place``."""
        for offset in {0, bytes_ - 1}:
            prefetch(self._builder, at(self._builder, place, offset))

    def request_later(self, id_: IRValue, base: IRValue, size: int, things: int = 1) -> None:
        """Request, once the i32 at ``id_`` is in the cache, the item with that id, or ``things`` items from it on."""
        builder = self._builder
        count = self._count.get()
        pointer = at(builder, self._pointers, builder.mul(count, number(POINTER.size)))
        numbers = ("size", number(size)), ("bytes", number(size * things))
        for name, value in (("id", id_), ("base", base), *numbers):
            POINTER.store(builder, pointer, name, value)
        self._count.set(builder.add(count, number(1)))

    def request_pointees(self) -> None:
        """Request what all pointers point to."""
        builder = self._builder
        with count_up(builder, number(0), self._count.get()) as place:
            pointer = at(builder, self._pointers, builder.mul(place, number(POINTER.size)))
            id_ = builder.load(POINTER.load(builder, pointer, "id"), typ=I32, align=4)
            offset = builder.mul(builder.zext(id_, I64), POINTER.load(builder, pointer, "size"))
            found = at(builder, POINTER.load(builder, pointer, "base"), offset)
            wanted = POINTER.load(builder, pointer, "bytes")
            prefetch_lines(builder, found, wanted)
            prefetch(builder, at(builder, found, builder.sub(wanted, number(1))))


class NearPrefetcher(Prefetcher):
    """Requests cache lines for one item at a time, in a loop over many: some items ahead what has an address, and fewer
    items ahead, when that is in the cache, what it points to."""

    def __init__(self, builder: ir.IRBuilder, *, pointees: bool) -> None:
        self._builder = builder
        self._pointees = pointees

    def request(self, place: IRValue, bytes_: int) -> None:
        """Request the memory at ``place``, unless it has been requested before."""
        if not self._pointees:
            super().request(place, bytes_)

    def request_later(self, id_: IRValue, base: IRValue, size: int, things: int = 1) -> None:
        """Request what the i32 at ``id_`` points to, if that is to be in the cache by now."""
        if self._pointees:
            offset = self._builder.mul(self._builder.zext(self._builder.load(id_, typ=I32, align=4), I64), number(size))
            super().request(at(self._builder, base, offset), size)
