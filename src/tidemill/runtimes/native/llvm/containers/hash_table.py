"""Hash tables: open addressing with linear probing, at most 5/8 full, and no tombstones.

A slot begins with a *tag*, the upper half of its hash with the last bit set; a tag of 0 is a free slot. A table is
indexed by the first bits of the hash, so the tag alone says where a slot belongs: growing and deleting never hash.
Slots are either whole records or a tag and the id of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    COLD,
    IRValue,
    Local,
    check,
    count_up,
    escape,
    forever,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import F64, I32, I64, I128, NULL_POINTER, PTR, StructLayout, at
from tidemill.runtimes.native.llvm.codegen.memory import allocate_zeroed, check_granted, copy, fill, refused, release
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode

TABLE = StructLayout()
"""``shift`` takes a hash to its place, ``limit`` is how many slots may be taken."""
TABLE.field("slots", PTR)
for _name in ("mask", "shift", "count", "limit"):
    TABLE.field(_name, I64)

FIRST_BITS = 3
SMALL = 64
SEED, FACTOR = 0x2D358DCCAA6C78A5, 0x9E3779B97F4A7C15


def hash_of(builder: ir.IRBuilder, words: Sequence[IRValue]) -> IRValue:
    """The hash of some cells: each is folded in by the two halves of a 128-bit product."""
    found: IRValue = number(SEED)
    for word in words:
        for part in _words(builder, word):
            product = builder.mul(builder.zext(builder.xor(found, part), I128), number(FACTOR, I128))
            upper = builder.trunc(builder.lshr(product, number(64, I128)), I64)
            found = builder.xor(upper, builder.trunc(product, I64))
    return found


def _words(builder: ir.IRBuilder, cell: IRValue) -> list[IRValue]:
    if cell.type == F64:
        return [builder.bitcast(cell, I64)]
    if cell.type == I128:
        return [builder.trunc(cell, I64), builder.trunc(builder.lshr(cell, number(64, I128)), I64)]
    return [cell if cell.type == I64 else builder.zext(cell, I64)]


def tag_of(builder: ir.IRBuilder, hash_: IRValue) -> IRValue:
    """The tag of a hash."""
    return builder.or_(builder.trunc(builder.lshr(hash_, number(32)), I32), number(1, I32))


def tag_at(builder: ir.IRBuilder, slot: IRValue) -> IRValue:
    """The tag of a slot."""
    return builder.load(slot, typ=I32, align=4)


def probe(
    builder: ir.IRBuilder, table: IRValue, hash_: IRValue, size: int, matches: Callable[[IRValue], IRValue]
) -> IRValue:
    """The slot with this hash for which ``matches`` holds, or null."""
    found = Local(builder, NULL_POINTER)
    tag = tag_of(builder, hash_)
    with _along(builder, table, hash_, size) as (slot, ended):
        seen = tag_at(builder, slot)
        escape(builder, builder.icmp_unsigned("==", seen, number(0, I32)), ended)
        with builder.if_then(builder.icmp_unsigned("==", seen, tag)), builder.if_then(matches(slot)):
            found.set(slot)
            builder.branch(ended)
    return found.get()


def is_taken(builder: ir.IRBuilder, slot: IRValue) -> IRValue:
    """An i1: whether a slot is not free."""
    return builder.icmp_unsigned("!=", tag_at(builder, slot), number(0, I32))


def slot_at(builder: ir.IRBuilder, table: IRValue, place: IRValue, size: int) -> IRValue:
    """The slot at a place."""
    return at(builder, TABLE.load(builder, table, "slots"), builder.mul(place, number(size)))


def home(builder: ir.IRBuilder, table: IRValue, hash_: IRValue, size: int) -> IRValue:
    """The slot at which the search for a hash begins."""
    return slot_at(builder, table, builder.lshr(hash_, TABLE.load(builder, table, "shift")), size)


def claim(builder: ir.IRBuilder, table: IRValue, hash_: IRValue, size: int) -> IRValue:
    """A free slot for a hash, now taken. There must be room: see ``reserve``."""
    found = Local(builder, NULL_POINTER)
    with _along(builder, table, hash_, size) as (slot, ended):
        is_free = builder.icmp_unsigned("==", tag_at(builder, slot), number(0, I32))
        with builder.if_then(is_free):
            found.set(slot)
            builder.branch(ended)
    slot = found.get()
    builder.store(tag_of(builder, hash_), slot, align=4)
    TABLE.store(builder, table, "count", builder.add(TABLE.load(builder, table, "count"), number(1)))
    return slot


@contextmanager
def _along(builder: ir.IRBuilder, table: IRValue, hash_: IRValue, size: int) -> Iterator[tuple[IRValue, ir.Block]]:
    """For the slots from the place of a hash on, until what is emitted within branches to the block yielded."""
    slots, mask = (TABLE.load(builder, table, name) for name in ("slots", "mask"))
    place = Local(builder, builder.lshr(hash_, TABLE.load(builder, table, "shift")))
    with forever(builder) as ended:
        now = place.get()
        yield at(builder, slots, builder.mul(now, number(size))), ended
        place.set(builder.and_(builder.add(now, number(1)), mask))


@contextmanager
def each_slot(builder: ir.IRBuilder, table: IRValue, size: int) -> Iterator[IRValue]:
    """Run what is emitted within for every slot that is taken."""
    slots = TABLE.load(builder, table, "slots")
    capacity = builder.add(TABLE.load(builder, table, "mask"), number(1))
    with count_up(builder, number(0), capacity) as place:
        slot = at(builder, slots, builder.mul(place, number(size)))
        with builder.if_then(builder.icmp_unsigned("!=", tag_at(builder, slot), number(0, I32))):
            yield slot


def create(builder: ir.IRBuilder, account: IRValue, table: IRValue, size: int) -> None:
    """Make an empty table, or return the status of the failure."""
    check(builder, builder.call(_allocate(builder.module, size), [account, table, number(FIRST_BITS)]))


def destroy(builder: ir.IRBuilder, account: IRValue, table: IRValue, size: int) -> None:
    """Give the memory of a table back, if it has any."""
    release(builder, account, TABLE.load(builder, table, "slots"), bytes_of(builder, table, size))
    TABLE.store(builder, table, "slots", NULL_POINTER)


def clear(builder: ir.IRBuilder, account: IRValue, table: IRValue, size: int) -> None:
    """Forget all slots. A table that has grown large becomes small again, so that this costs what is in it."""
    slots, mask = (TABLE.load(builder, table, name) for name in ("slots", "mask"))
    with builder.if_else(builder.icmp_unsigned("<", mask, number(SMALL))) as (small, large):
        with small:
            fill(builder, slots, 0, bytes_of(builder, table, size))
            TABLE.store(builder, table, "count", number(0))
        with large:
            destroy(builder, account, table, size)
            create(builder, account, table, size)


def bytes_of(builder: ir.IRBuilder, table: IRValue, size: int) -> IRValue:
    """The memory of a table."""
    slots, mask = (TABLE.load(builder, table, name) for name in ("slots", "mask"))
    capacity = builder.select(refused(builder, slots), number(0), builder.add(mask, number(1)))
    return builder.mul(capacity, number(size))


def reserve(builder: ir.IRBuilder, account: IRValue, table: IRValue, size: int, more: int = 1) -> None:
    """Make room to claim ``more`` slots, or return the status of the failure."""

    def is_short() -> IRValue:
        count, limit = (TABLE.load(builder, table, name) for name in ("count", "limit"))
        return builder.icmp_unsigned(">", builder.add(count, number(more)), limit)

    with loop_while(builder, is_short):
        check(builder, builder.call(_grow(builder.module, size), [account, table]))


def vacate(builder: ir.IRBuilder, table: IRValue, slot: IRValue, size: int) -> None:
    """Free a slot; slots behind it move up, so that no probe ever meets a gap."""
    builder.call(_vacate(builder.module, size), [table, slot])


def _allocate(module: ir.Module, size: int) -> ir.Function:
    """``allocate(account, table, bits)``: give the table free slots, ``2 ** bits`` of them."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        account, table, bits = arguments
        capacity = builder.shl(number(1), bits)
        slots = allocate_zeroed(builder, account, builder.mul(capacity, number(size)))
        check_granted(builder, account, slots)
        TABLE.store(builder, table, "slots", slots)
        TABLE.store(builder, table, "mask", builder.sub(capacity, number(1)))
        TABLE.store(builder, table, "shift", builder.sub(number(64), bits))
        TABLE.store(builder, table, "count", number(0))
        TABLE.store(builder, table, "limit", builder.lshr(builder.mul(capacity, number(5)), number(3)))
        builder.ret(number(0, I32))

    return _code(size).function(module, f"table.allocate.{size}", I32, [PTR, PTR, I64], body, *COLD)


def _grow(module: ir.Module, size: int) -> ir.Function:
    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        account, table = arguments
        old = on_stack(builder, TABLE.size)
        copy(builder, old, table, TABLE.size)
        bits = builder.sub(number(65), TABLE.load(builder, table, "shift"))
        check(builder, builder.call(_allocate(module, size), [account, table, bits]))
        with each_slot(builder, old, size) as slot:
            hash_ = builder.shl(builder.zext(tag_at(builder, slot), I64), number(32))
            copy(builder, claim(builder, table, hash_, size), slot, size)
        destroy(builder, account, old, size)
        builder.ret(number(0, I32))

    return _code(size).function(module, f"table.grow.{size}", I32, [PTR, PTR], body, "noinline", "cold")


def _vacate(module: ir.Module, size: int) -> ir.Function:
    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        table, slot = arguments
        slots, mask, shift = (TABLE.load(builder, table, name) for name in ("slots", "mask", "shift"))
        distance = builder.sub(builder.ptrtoint(slot, I64), builder.ptrtoint(slots, I64))
        hole = Local(builder, builder.udiv(distance, number(size)))
        place = Local(builder, hole.get())
        with forever(builder) as ended:
            place.set(builder.and_(builder.add(place.get(), number(1)), mask))
            now = place.get()
            found = at(builder, slots, builder.mul(now, number(size)))
            tag = tag_at(builder, found)
            escape(builder, builder.icmp_unsigned("==", tag, number(0, I32)), ended)
            home = builder.lshr(builder.shl(builder.zext(tag, I64), number(32)), shift)
            from_home = builder.and_(builder.sub(now, home), mask)
            from_hole = builder.and_(builder.sub(now, hole.get()), mask)
            with builder.if_then(builder.icmp_unsigned(">=", from_home, from_hole)):
                copy(builder, at(builder, slots, builder.mul(hole.get(), number(size))), found, size)
                hole.set(now)
        builder.store(number(0, I32), at(builder, slots, builder.mul(hole.get(), number(size))), align=4)
        TABLE.store(builder, table, "count", builder.sub(TABLE.load(builder, table, "count"), number(1)))
        builder.ret_void()

    return _code(size).function(module, f"table.vacate.{size}", ir.VoidType(), [PTR, PTR], body, "noinline")


def _code(size: int) -> SharedCode:
    """The functions of all tables with slots of that size."""

    def emit(module: ir.Module) -> None:
        for function in (_allocate, _grow, _vacate):
            function(module, size)

    return SharedCode(f"table.{size}", emit)
