"""Memory of maps: every byte is asked for here, counted, and refused before the machine runs out."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import COLD, IRValue, define, external, number
from tidemill.runtimes.native.llvm.codegen.layout import I8, I32, I64, NULL_POINTER, PTR, Status, StructLayout, at
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode

UNLIMITED = 2**63 - 1

ACCOUNT = StructLayout()
"""An account of memory: the bytes in use, the limit, and why the last request was refused."""
for _name in ("used", "budget", "failure"):
    ACCOUNT.field(_name, I64)

VECTOR = StructLayout()
"""Elements behind each other, with room to grow."""
VECTOR.field("data", PTR)
VECTOR.field("count", I64)
VECTOR.field("capacity", I64)

FIRST_CAPACITY = 16

LARGE_PAGES_FROM = 4 << 20
"""Bytes from which large pages are requested: in small ones a random access misses the page tables too."""

SOON_FULL = 128 << 10
_PAGE, _MADV_HUGEPAGE, _MADV_POPULATE_WRITE = 4096, 14, 23


class Memory:
    """The memory that a runtime's maps share. ``address`` is the account that emitted code keeps.

    >>> Memory().used
    0
    """

    def __init__(self, budget: int | None = None) -> None:
        """``budget`` in bytes; growing beyond it is ``Status.BUDGET``."""
        self._account = (ctypes.c_int64 * 3)(0, UNLIMITED if budget is None else budget, 0)
        self.address = ctypes.addressof(self._account)
        self.moves = 0
        """Changes whenever rows that stages share have moved or are no longer there: then addresses are outdated."""

    def allow(self, room: int | None) -> None:
        """Allow ``room`` more bytes from now on, None for any number."""
        self._account[1] = UNLIMITED if room is None else self.used + room

    @contextmanager
    def unbounded(self) -> Iterator[None]:
        """No budget within: for the way back to a state that was there before, which must not be barred."""
        budget, self._account[1] = self.budget, UNLIMITED
        try:
            yield
        finally:
            self._account[1] = budget

    def charge(self, bytes_: int) -> None:
        """Count bytes that have come, or with a minus those that have gone, without being asked for here."""
        self._account[0] += bytes_

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._account[0]

    @property
    def budget(self) -> int:
        """Bytes that may be in use at most."""
        return self._account[1]


def resize(builder: ir.IRBuilder, account: IRValue, place: IRValue, old: IRValue, new: IRValue) -> IRValue:
    """``place`` of ``old`` bytes with ``new`` bytes instead, what is more not set; null where that is refused."""
    return builder.call(_resize(builder.module, zeroed=False), [account, place, old, new])


def enlarged(builder: ir.IRBuilder, needed: IRValue, large: int) -> IRValue:
    """The size to ask for where ``needed`` elements must fit, and more will come: half as many again.

    From ``large`` on an eighth more. The system makes large pieces larger without copying them.
    """
    is_large = builder.icmp_unsigned(">=", needed, number(large))
    return builder.add(needed, builder.lshr(needed, builder.select(is_large, number(3), number(1))))


def allocate_zeroed(builder: ir.IRBuilder, account: IRValue, bytes_: IRValue) -> IRValue:
    """Zeroed memory of that many bytes; null where it is refused."""
    return builder.call(_resize(builder.module, zeroed=True), [account, NULL_POINTER, number(0), bytes_])


def release(builder: ir.IRBuilder, account: IRValue, place: IRValue, bytes_: IRValue) -> None:
    """Give memory back."""
    builder.call(external(builder.module, "free", ir.VoidType(), [PTR]), [place])
    ACCOUNT.store(builder, account, "used", builder.sub(ACCOUNT.load(builder, account, "used"), bytes_))


def refused(builder: ir.IRBuilder, place: IRValue) -> IRValue:
    """An i1: whether a request gave nothing."""
    return builder.icmp_unsigned("==", place, NULL_POINTER)


def failure(builder: ir.IRBuilder, account: IRValue) -> IRValue:
    """The status that says why the last request was refused."""
    return builder.trunc(ACCOUNT.load(builder, account, "failure"), I32)


def check_granted(builder: ir.IRBuilder, account: IRValue, place: IRValue) -> None:
    """Return the status where a request was refused."""
    with builder.if_then(refused(builder, place), likely=False):
        builder.ret(failure(builder, account))


def append(builder: ir.IRBuilder, account: IRValue, vector: IRValue, size: int) -> IRValue:
    """The place of one more element at the end of a vector, not set; null where memory is refused."""
    return builder.call(_append(builder.module, size), [account, vector])


def element(builder: ir.IRBuilder, vector: IRValue, place: IRValue, size: int) -> IRValue:
    """An element of a vector."""
    return at(builder, VECTOR.load(builder, vector, "data"), builder.mul(place, number(size)))


def release_vector(builder: ir.IRBuilder, account: IRValue, vector: IRValue, size: int) -> None:
    """Give the memory of a vector back and leave it empty."""
    bytes_ = builder.mul(VECTOR.load(builder, vector, "capacity"), number(size))
    release(builder, account, VECTOR.load(builder, vector, "data"), bytes_)
    VECTOR.store(builder, vector, "data", NULL_POINTER)
    VECTOR.store(builder, vector, "count", number(0))
    VECTOR.store(builder, vector, "capacity", number(0))


def _resize(module: ir.Module, zeroed: bool) -> ir.Function:
    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        account, place, old, new = arguments
        used = builder.add(ACCOUNT.load(builder, account, "used"), builder.sub(new, old))
        beyond = builder.icmp_signed(">", used, ACCOUNT.load(builder, account, "budget"))
        with builder.if_then(beyond, likely=False):
            ACCOUNT.store(builder, account, "failure", number(Status.BUDGET))
            builder.ret(NULL_POINTER)
        if zeroed:
            found = builder.call(external(builder.module, "calloc", PTR, [I64, I64]), [number(1), new])
        else:
            found = builder.call(external(builder.module, "realloc", PTR, [PTR, I64]), [place, new])
        with builder.if_then(refused(builder, found), likely=False):
            ACCOUNT.store(builder, account, "failure", number(Status.MEMORY))
            builder.ret(found)
        ACCOUNT.store(builder, account, "used", used)
        if sys.platform == "linux":
            with builder.if_then(builder.icmp_unsigned(">=", new, number(LARGE_PAGES_FROM))):
                _advise(builder, found, new, _MADV_HUGEPAGE)
            if zeroed:
                # Hash tables are written all over: their pages come cheaper together than one by one.
                with builder.if_then(builder.icmp_unsigned(">=", new, number(SOON_FULL))):
                    _advise(builder, found, new, _MADV_POPULATE_WRITE)
        builder.ret(found)

    name = "memory.zeroed" if zeroed else "memory.resize"
    return _CODE.function(module, name, PTR, [PTR, PTR, I64, I64], body, *COLD)


def _emit(module: ir.Module) -> None:
    for zeroed in (False, True):
        _resize(module, zeroed)


_CODE = SharedCode("memory", _emit)


def _advise(builder: ir.IRBuilder, place: IRValue, bytes_: IRValue, advice: int) -> None:
    """Tell the system how memory will be used; a system that does not know of such advice does not take it.

    All pages are meant that it touches. A mapping of which only the inner pages bore the advice would be two to the
    system, which then cannot be made larger in their place: ``realloc`` would have to copy.
    """
    address = builder.ptrtoint(place, I64)
    start, end = (
        builder.and_(edge, number(-_PAGE))
        for edge in (address, builder.add(builder.add(address, bytes_), number(_PAGE - 1)))
    )
    advise = external(builder.module, "madvise", I32, [I64, I64, I32])
    builder.call(advise, [start, builder.sub(end, start), number(advice, I32)])


def _append(module: ir.Module, size: int) -> ir.Function:
    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        account, vector = arguments
        count, capacity = (VECTOR.load(builder, vector, name) for name in ("count", "capacity"))
        with builder.if_then(builder.icmp_unsigned("==", count, capacity), likely=False):
            doubled = builder.mul(capacity, number(2))
            more = builder.select(builder.icmp_unsigned("==", capacity, number(0)), number(FIRST_CAPACITY), doubled)
            old, new = (builder.mul(elements, number(size)) for elements in (capacity, more))
            data = resize(builder, account, VECTOR.load(builder, vector, "data"), old, new)
            with builder.if_then(refused(builder, data), likely=False):
                builder.ret(data)
            VECTOR.store(builder, vector, "data", data)
            VECTOR.store(builder, vector, "capacity", more)
        VECTOR.store(builder, vector, "count", builder.add(count, number(1)))
        builder.ret(element(builder, vector, count, size))

    return define(module, f"vector.append.{size}", PTR, [PTR, PTR], body)


def copy(builder: ir.IRBuilder, target: IRValue, source: IRValue, bytes_: int | IRValue) -> None:
    """Copy bytes between places that do not overlap."""
    _copy(builder, "llvm.memcpy.p0.p0.i64", target, source, bytes_)


def move(builder: ir.IRBuilder, target: IRValue, source: IRValue, bytes_: int | IRValue) -> None:
    """Copy bytes between places that may overlap."""
    _copy(builder, "llvm.memmove.p0.p0.i64", target, source, bytes_)


def fill(builder: ir.IRBuilder, target: IRValue, byte: int, bytes_: int | IRValue) -> None:
    """Set bytes."""
    size = number(bytes_) if isinstance(bytes_, int) else bytes_
    intrinsic = external(builder.module, "llvm.memset.p0.i64", ir.VoidType(), [PTR, I8, I64, ir.IntType(1)])
    builder.call(intrinsic, [target, number(byte, I8), size, number(0, ir.IntType(1))])


def _copy(builder: ir.IRBuilder, name: str, target: IRValue, source: IRValue, bytes_: int | IRValue) -> None:
    size = number(bytes_) if isinstance(bytes_, int) else bytes_
    intrinsic = external(builder.module, name, ir.VoidType(), [PTR, PTR, I64, ir.IntType(1)])
    builder.call(intrinsic, [target, source, size, number(0, ir.IntType(1))])
