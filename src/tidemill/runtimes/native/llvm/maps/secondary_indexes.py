"""Secondary indexes of a map, kept in step with its entries: ordered indexes, orders of groups, counts of negatives."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, DoubleSum, StructLayout
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrderCode
from tidemill.runtimes.native.llvm.maps.ordered_index import OrderedIndexCode
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers, RingCode


class SecondaryIndexes:
    """The ordered indexes of a map, the order of its groups, and for each of ``guarded`` how many are negative."""

    def __init__(
        self,
        handle: StructLayout,
        keys: KeyCode,
        rings: RingCode,
        orders: Sequence[OrderedIndexCode],
        ordered: GroupOrderCode | None,
        guarded: Sequence[str],
    ) -> None:
        """``handle`` has a counter for each of ``guarded``, as ``add_counters`` has laid them out."""
        self._handle, self._keys, self._rings = handle, keys, rings
        self._orders, self._ordered = orders, ordered
        self._guarded = guarded

    def negatives(self, builder: ir.IRBuilder, handle: IRValue, name: str) -> IRValue:
        """The number of entries with a negative number of that name."""
        return self._handle.load(builder, handle, counter_of(name))

    def reserve(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Make room for one more entry, or return the status of the failure."""
        for order in self._orders:
            order.reserve(builder, handle)
        if self._ordered is not None:
            self._ordered.reserve(builder, handle)

    def follow(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        keys: KeyCells,
        old: EntryNumbers | None,
        new: EntryNumbers | None,
        addend: EntryNumbers | None = None,
    ) -> IRValue:
        """Follow an entry from its ``old`` numbers to the ``new`` ones, which differ by ``addend``; gives a status."""
        for name in self._guarded:
            self._count_negatives(builder, handle, name, old, new)
        status = self._add_to_orders(builder, handle, keys, old, new, addend)
        if self._ordered is None:
            return status
        weights = [None if numbers is None else numbers.weight for numbers in (old, new)]
        found = self._ordered.move(builder, handle, keys, *weights)
        return builder.select(builder.icmp_unsigned("==", found, number(0, I32)), status, found)

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> None:
        """Forget all entries."""
        assert self._ordered is None, "a map with an order of groups is never cleared"
        for order in self._orders:
            order.clear(builder, handle)
        for name in self._guarded:
            self._handle.store(builder, handle, counter_of(name), number(0))

    def _count_negatives(
        self, builder: ir.IRBuilder, handle: IRValue, name: str, old: EntryNumbers | None, new: EntryNumbers | None
    ) -> None:
        count = self.negatives(builder, handle, name)
        for numbers, step in ((old, builder.sub), (new, builder.add)):
            if numbers is not None:
                found = self._rings.guarded(numbers, name)
                negative = builder.icmp_signed("<", found, number(0, found.type))
                count = step(count, builder.zext(negative, I64))
        self._handle.store(builder, handle, counter_of(name), count)

    def _add_to_orders(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        keys: KeyCells,
        old: EntryNumbers | None,
        new: EntryNumbers | None,
        addend: EntryNumbers | None,
    ) -> IRValue:
        status: IRValue = number(0, I32)
        for order in self._orders:
            if order.present:
                found = order.add(builder, handle, keys, _difference(builder, *_present(builder, old, new)))
                status = builder.select(builder.icmp_unsigned("!=", found, number(0, I32)), found, status)
                continue
            addend = addend or _difference(builder, old, new)
            null = self._keys.has_null(builder, keys, order.places)
            result = Local(builder, number(0, I32))
            with builder.if_then(number(1, ir.IntType(1)) if null is None else builder.not_(null)):
                result.set(order.add(builder, handle, keys, addend))
            failed = builder.icmp_unsigned("!=", result.get(), number(0, I32))
            status = builder.select(failed, result.get(), status)
        return status


def add_counters(handle: StructLayout, guarded: Sequence[str]) -> None:
    """Lay out the counters of negative numbers in the handle of a map."""
    for name in guarded:
        handle.field(counter_of(name), I64)


def counter_of(name: str) -> str:
    """The field of a handle that counts entries with a negative number of that name."""
    return f"negative {name}"


def _present(
    builder: ir.IRBuilder, old: EntryNumbers | None, new: EntryNumbers | None
) -> tuple[EntryNumbers, EntryNumbers]:
    """The numbers of an entry, or zeros where its weight is not positive. One of them is given."""
    known = old or new
    assert known is not None

    def seen(numbers: EntryNumbers | None) -> EntryNumbers:
        none = EntryNumbers(number(0), tuple(number(0, value.type) for value in known.integers()))
        if numbers is None:
            return none
        there = builder.icmp_signed(">", numbers.weight, number(0))
        pairs = zip(numbers.integers(), none.integers(), strict=True)
        values = tuple(builder.select(there, value, zero) for value, zero in pairs)
        return EntryNumbers(builder.select(there, numbers.weight, none.weight), values)

    return seen(old), seen(new)


def _difference(builder: ir.IRBuilder, old: EntryNumbers | None, new: EntryNumbers | None) -> EntryNumbers:
    """The difference that ordered indexes take in when an entry is set or goes; DOUBLE values are not in them."""
    assert old is not None
    if new is None:
        values = [v if isinstance(v, DoubleSum) else builder.neg(v) for v in old.values]
        return EntryNumbers(builder.neg(old.weight), tuple(values))
    pairs = zip(old.values, new.values, strict=True)
    values = [a if isinstance(a, DoubleSum) else builder.sub(b, a) for a, b in pairs]
    return EntryNumbers(builder.sub(new.weight, old.weight), tuple(values))
