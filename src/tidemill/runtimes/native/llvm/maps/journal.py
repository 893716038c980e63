"""The exported functions of a map as a whole: create and destroy, begin, restore, the changes of an epoch, rollback.

These functions are exported, and ``io.native_map.NativeMap`` calls them; records go in and out as arrays. A key may
stand in the journal more than once, because an entry that left took its stamp along; the first record is the one that
counts, and all others say that the key was not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.model import types as t
from tidemill.runtimes.native.llvm.codegen import memory
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    COLD,
    PER_EPOCH,
    EmitBody,
    IRValue,
    Local,
    count_up,
    define,
    loop_while,
    number,
)
from tidemill.runtimes.native.llvm.codegen.layout import (
    I32,
    I64,
    I128,
    NULL_POINTER,
    PTR,
    DoubleSum,
    RingValue,
    Status,
    at,
)
from tidemill.runtimes.native.llvm.codegen.memory import VECTOR
from tidemill.runtimes.native.llvm.codegen.prefetch import NearPrefetcher
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers
from tidemill.runtimes.native.llvm.maps.updates import UpdateCode
from tidemill.runtimes.native.llvm.scalars import double_sums

VISITED = 1 << 31
"""The bit of a stamp that marks entries already visited."""

AHEAD = 16
"""Records of the journal by which entries are requested before they are read."""

LARGE_JOURNAL, IDLE = 1 << 20, 8
"""A journal of more than LARGE_JOURNAL bytes is given back after an epoch that used less than one in IDLE of them."""


class JournalCode:
    """The exported functions of one map."""

    def __init__(self, code: UpdateCode) -> None:
        self._code = code
        self._size = code.record.payload

    def emit(self, module: ir.Module) -> None:
        """Define all functions in a module."""
        code = self._code
        self._export(module, "create", I32, [PTR, PTR], self._create)
        self._export(module, "destroy", ir.VoidType(), [PTR], self._destroy)
        self._export(module, "count", I64, [PTR], lambda b, a: b.ret(code.store.count(b, a[0])))
        self._export(module, "bytes", I64, [PTR], self._bytes)
        self._export(module, "drop_empty", I32, [PTR], lambda b, a: b.ret(code.sweep(b, a[0])))
        self._export(module, "absorb", I32, [PTR, PTR, I64], self._absorb)
        self._export(module, "collect", I64, [PTR, PTR], self._collect)
        if code.journaled:
            self._export(module, "touched", I64, [PTR, PTR, PTR], self._touched, PER_EPOCH)
            self._export(module, "net", I64, [PTR, PTR], self._net, PER_EPOCH)
            self._export(module, "settle", ir.VoidType(), [PTR], self._settle)
            self._export(module, "rollback", I32, [PTR], self._rollback)

    def _export(
        self,
        module: ir.Module,
        name: str,
        result: ir.Type,
        types: Sequence[ir.Type],
        body: EmitBody,
        attributes: Sequence[str] = COLD,
    ) -> None:
        define(module, f"{self._code.symbol}.{name}", result, types, body, *attributes, exported=True)

    # --------------------------------------------------------------------------------------------- begin and end

    def _create(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """The handle is all zeros."""
        handle, account = arguments
        self._code.handle.store(builder, handle, "account", account)
        self._code.handle.store(builder, handle, "epoch", number(1, I32))
        self._code.handle.store(builder, handle, "recording", number(1, I32))
        self._code.store.create(builder, handle)
        for order in self._code.orders:
            order.create(builder, handle)
        if self._code.ordered is not None:
            self._code.ordered.create(builder, handle)
        builder.ret(number(0, I32))

    def _destroy(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        (handle,) = arguments
        code = self._code
        account = code.account(builder, handle)
        code.store.destroy(builder, handle)
        for order in code.orders:
            order.destroy(builder, handle)
        if code.ordered is not None:
            code.ordered.destroy(builder, handle)
        for name in ("journal", "limbo"):
            memory.release_vector(builder, account, code.handle.address(builder, handle, name), self._size)
        builder.ret_void()

    def _bytes(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        (handle,) = arguments
        code = self._code
        total = builder.add(code.store.bytes(builder, handle), number(code.handle.size))
        for order in code.orders:
            total = builder.add(total, order.bytes(builder, handle))
        if code.ordered is not None:
            total = builder.add(total, code.ordered.bytes(builder, handle))
        for name in ("journal", "limbo"):
            capacity = VECTOR.load(builder, code.handle.address(builder, handle, name), "capacity")
            total = builder.add(total, builder.mul(capacity, number(self._size)))
        builder.ret(total)

    # ------------------------------------------------------------------------------------------------- in and out

    def _absorb(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """Add records, and write nothing down."""
        handle, records, count = arguments
        code = self._code
        status = Local(builder, number(0, I32))
        code.handle.store(builder, handle, "recording", number(0, I32))
        place = Local(builder, number(0))

        def unfinished() -> IRValue:
            more = builder.icmp_unsigned("<", place.get(), count)
            return builder.and_(more, builder.icmp_unsigned("==", status.get(), number(0, I32)))

        with loop_while(builder, unfinished):
            status.set(code.add_record(builder, handle, self._element(builder, records, place.get())))
            place.set(builder.add(place.get(), number(1)))
        with builder.if_then(builder.icmp_unsigned("==", status.get(), number(0, I32))):
            status.set(code.sweep(builder, handle))
        code.handle.store(builder, handle, "recording", number(1, I32))
        # What came in bears the stamp of this epoch, though the journal knows nothing of it.
        builder.call(self._next_epoch(builder.module), [handle])
        builder.ret(status.get())

    def _collect(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """Copy all entries to an array."""
        handle, target = arguments
        count = Local(builder, number(0))
        with self._code.store.each(builder, handle) as entry:
            self._copy_out(builder, target, count.get(), entry)
            count.set(builder.add(count.get(), number(1)))
        builder.ret(count.get())

    # -------------------------------------------------------------------------------------------------- the epoch

    def _touched(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """Copy the entries of all touched keys, as they were and as they are, to two arrays."""
        handle, olds, news = arguments
        code = self._code
        count = Local(builder, number(0))

        def tell(old: IRValue, entry: IRValue | None) -> None:
            self._copy_out(builder, olds, count.get(), old)
            now = self._element(builder, news, count.get())
            memory.copy(builder, now, old if entry is None else entry, self._size)
            if entry is None:
                code.rings.store_zero(builder, now)
            count.set(builder.add(count.get(), number(1)))

        self.each_touched(builder, handle, tell)
        builder.ret(count.get())

    def each_touched(
        self, builder: ir.IRBuilder, handle: IRValue, tell: Callable[[IRValue, IRValue | None], None]
    ) -> None:
        """Emit ``tell`` for each touched key, with its entry as it was and as it is, None where there is none now.

        Visited entries have a mark until all are visited. The head of a record in the journal says nothing, so it
        holds the place of the entry in the meantime.
        """
        code = self._code
        journal = code.handle.address(builder, handle, "journal")
        count = VECTOR.load(builder, journal, "count")
        with count_up(builder, number(0), count) as place:
            self._prefetch(builder, handle, journal, place, count)
            old = memory.element(builder, journal, place, self._size)
            entry = code.find_record(builder, handle, old)
            builder.store(NULL_POINTER, old, align=4)
            with builder.if_else(builder.icmp_unsigned("==", entry, NULL_POINTER)) as (absent, present):
                with absent:
                    weight = code.record.load(builder, old, "weight")
                    with builder.if_then(builder.icmp_unsigned("!=", weight, number(0))):
                        tell(old, None)
                with present:
                    stamp = code.record.load(builder, entry, "stamp")
                    with builder.if_then(builder.icmp_signed(">=", stamp, number(0, I32))):
                        tell(old, entry)
                        code.record.store(builder, entry, "stamp", builder.or_(stamp, number(VISITED, I32)))
                        builder.store(entry, old, align=4)
        with count_up(builder, number(0), count) as place:
            entry = builder.load(memory.element(builder, journal, place, self._size), typ=PTR, align=4)
            with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
                stamp = code.record.load(builder, entry, "stamp")
                code.record.store(builder, entry, "stamp", builder.and_(stamp, number(VISITED - 1, I32)))

    def _prefetch(
        self, builder: ir.IRBuilder, handle: IRValue, journal: IRValue, place: IRValue, count: IRValue
    ) -> None:
        """Ask for the entries of records that are some places ahead in the journal: they lie anywhere in the map."""
        for ahead, pointees in ((AHEAD, False), (AHEAD // 2, True)):
            later = builder.add(place, number(ahead))
            with builder.if_then(builder.icmp_unsigned("<", later, count), likely=True):
                record = memory.element(builder, journal, later, self._size)
                hash_ = self._code.keys.of_record(builder, record).hash(builder)
                self._code.store.prefetch(builder, handle, hash_, NearPrefetcher(builder, pointees=pointees))

    @contextmanager
    def each_noted(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[IRValue]:
        """Run what is emitted within for every record of the journal: the keys that the epoch has touched, some of them
        more than once."""
        journal = self._code.handle.address(builder, handle, "journal")
        with count_up(builder, number(0), VECTOR.load(builder, journal, "count")) as place:
            yield memory.element(builder, journal, place, self._size)

    def _settle(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        (handle,) = arguments
        journal = self._code.handle.address(builder, handle, "journal")
        count, capacity = (VECTOR.load(builder, journal, name) for name in ("count", "capacity"))
        VECTOR.store(builder, journal, "count", number(0))
        large = builder.icmp_unsigned(">", capacity, number(LARGE_JOURNAL // self._size))
        idle = builder.icmp_unsigned("<", builder.mul(count, number(IDLE)), capacity)
        with builder.if_then(builder.and_(large, idle), likely=False):
            memory.release_vector(builder, self._code.account(builder, handle), journal, self._size)
        if self._code.ordered is not None:
            self._code.ordered.settle(builder, handle)
        builder.call(self._next_epoch(builder.module), [handle])
        builder.ret_void()

    def _rollback(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        (handle,) = arguments
        code = self._code
        status = Local(builder, number(0, I32))
        journal = code.handle.address(builder, handle, "journal")
        VECTOR.store(builder, code.handle.address(builder, handle, "limbo"), "count", number(0))
        code.handle.store(builder, handle, "recording", number(0, I32))
        count = VECTOR.load(builder, journal, "count")
        with count_up(builder, number(0), count) as place:
            latest = builder.sub(builder.sub(count, number(1)), place)
            result = code.put(builder, handle, memory.element(builder, journal, latest, self._size))
            # Sums that had overflowed do so once more on their way back; only memory can be short for good.
            short = builder.icmp_unsigned(">=", result, number(Status.BUDGET, I32))
            status.set(builder.select(short, result, status.get()))
        code.handle.store(builder, handle, "recording", number(1, I32))
        builder.call(builder.module.globals[f"{code.symbol}.settle"], [handle])
        builder.ret(status.get())

    def _net(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """For each touched key the record that leads from what was to what is, none where that is the same.

        Where no record does that exactly there are two: the old one taken back, and the new one.
        """
        handle, target = arguments
        rings = self._code.rings
        count = Local(builder, number(0))

        def write(like: IRValue, numbers: EntryNumbers) -> None:
            self._copy_out(builder, target, count.get(), like)
            rings.store(builder, self._element(builder, target, count.get()), numbers)
            count.set(builder.add(count.get(), number(1)))

        def tell(old_record: IRValue, entry: IRValue | None) -> None:
            old, new = rings.load(builder, old_record), rings.none()
            if entry is not None:
                new = rings.load(builder, entry)
            with builder.if_then(builder.not_(rings.same(builder, old, new))):
                change, exact = self._difference(builder, old, new)
                with builder.if_else(exact) as (one, two):
                    with one:
                        write(old_record, change)
                    with two:
                        write(old_record, _negated(builder, old))
                        if entry is not None:
                            write(old_record, new)

        self.each_touched(builder, handle, tell)
        builder.ret(count.get())

    def _difference(self, builder: ir.IRBuilder, old: EntryNumbers, new: EntryNumbers) -> tuple[EntryNumbers, IRValue]:
        pair = builder.ssub_with_overflow(new.weight, old.weight)
        exact = builder.not_(builder.extract_value(pair, 1))
        values: list[RingValue] = []
        for value, a, b in zip(self._code.map.values, old.values, new.values, strict=True):
            if isinstance(a, DoubleSum) and isinstance(b, DoubleSum):
                change, holds = double_sums.difference(builder, b, a)
                values.append(change)
            else:
                found = builder.ssub_with_overflow(b, a)
                values.append(builder.extract_value(found, 0))
                holds = builder.not_(builder.extract_value(found, 1))
                if isinstance(value.type, t.BigInt):
                    holds = builder.and_(holds, _fits(builder, values[-1]))
            exact = builder.and_(exact, holds)
        return EntryNumbers(builder.extract_value(pair, 0), tuple(values)), exact

    # ------------------------------------------------------------------------------------------------------- parts

    def _next_epoch(self, module: ir.Module) -> ir.Function:
        """``next_epoch(handle)``: from now on all entries count as untouched."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            (handle,) = arguments
            code = self._code
            following = builder.add(code.handle.load(builder, handle, "epoch"), number(1, I32))
            epoch = Local(builder, following)
            with builder.if_then(builder.icmp_signed("<", following, number(0, I32)), likely=False):
                # After two thousand million epochs stamps begin again, and no old one may look like a new one.
                with code.store.each(builder, handle) as entry:
                    code.record.store(builder, entry, "stamp", number(0, I32))
                epoch.set(number(1, I32))
            code.handle.store(builder, handle, "epoch", epoch.get())
            builder.ret_void()

        return self._code.function(module, "next_epoch", ir.VoidType(), [PTR], body, *COLD)

    def _element(self, builder: ir.IRBuilder, records: IRValue, place: IRValue) -> IRValue:
        return at(builder, records, builder.mul(place, number(self._size)))

    def _copy_out(self, builder: ir.IRBuilder, target: IRValue, place: IRValue, record: IRValue) -> None:
        memory.copy(builder, self._element(builder, target, place), record, self._size)


def _negated(builder: ir.IRBuilder, numbers: EntryNumbers) -> EntryNumbers:
    values = [double_sums.negated(builder, v) if isinstance(v, DoubleSum) else builder.neg(v) for v in numbers.values]
    return EntryNumbers(builder.neg(numbers.weight), tuple(values))


def _fits(builder: ir.IRBuilder, value: IRValue) -> IRValue:
    """An i1: whether an i128 is a BIGINT."""
    return builder.icmp_signed("==", builder.sext(builder.trunc(value, I64), I128), value)
