"""A part of a partition before and after the epoch, laid out row by row.

A *version* is the partition as it was or as it is. An interval of its rows lies in a vector, each with its sort key and
the sums over all rows before it. What lies outside of the interval is looked up in the order as it is: there the
versions differ in the numbers of rows and in sums only, by what changes on that side have added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    EmitBody,
    IRValue,
    Local,
    count_up,
    define,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, I128, PTR, StructLayout
from tidemill.runtimes.native.llvm.codegen.memory import VECTOR, append, check_granted, element
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.group_cursor import GroupCursor, GroupReader
from tidemill.runtimes.native.llvm.maps.window_rows import EXCERPTS, WindowRowsCode


class PartitionCode:
    """Emits functions over one partition of the rows of ``index``.

    ``partition`` is the struct that they take: the map, the group of its rows (or null), that of its changes, and both
    versions. ``interval`` tells which rows are laid out: the numbers of the first and of the one after the last, as
    they are, and how many of them on both sides are there only to be read; the first and the last change among them;
    and what has changed before it, and until its end. ``folds`` is how many functions go through the rows of a version.
    """

    def __init__(self, index: WindowRowsCode, folds: int) -> None:
        self.index, self.key, self.sums = index, index.trees.key, index.sums
        self.reader = GroupReader(index.groups, index.items)
        self.version, self.partition, self.interval = StructLayout(), StructLayout(), StructLayout()
        self.version.field("vector", PTR)
        progress = [f"{name} {i}" for i in range(folds) for name in ("head", "tail", "next")]
        self.progress = ("rank", *progress)
        for name in ("base", "count", "total", "shift before", "shift after", *self.progress):
            self.version.field(name, I64)
        for name in ("total", "shift before", "shift after"):
            for i in range(self.sums):
                self.version.field(f"{name} {i}", I128)
        for name in ("handle", "group", "changes"):
            self.partition.field(name, PTR)
        for name in EXCERPTS:
            self.partition.part(name, self.version)
        for name in ("low", "high", "skipped", "behind", "before", "after"):
            self.interval.field(name, I64)
        for name in ("before", "after"):
            for i in range(self.sums):
                self.interval.field(f"{name} {i}", I128)
        for name in ("first", "last"):
            self.interval.field(name, self.key)

    # ------------------------------------------------------------------------------------------------- the partition

    def prefix(self, builder: ir.IRBuilder, partition: IRValue) -> list[IRValue]:
        """The cells that name the partition."""
        group, count = self.index.groups.group, len(self.index.prefix_types())
        changes = self.partition.load(builder, partition, "changes")
        return [group.load(builder, changes, f"cell{i}") for i in range(count)]

    def rows(self, builder: ir.IRBuilder, partition: IRValue) -> tuple[IRValue, IRValue]:
        """The memory of all groups, and the group of the partition's rows as they are."""
        handle = self.partition.load(builder, partition, "handle")
        return self.index.own(builder, handle), self.partition.load(builder, partition, "group")

    def changes(self, builder: ir.IRBuilder, partition: IRValue) -> tuple[IRValue, IRValue]:
        """The memory of all changes, and the group of those of the partition."""
        handle = self.partition.load(builder, partition, "handle")
        return self.index.changes(builder, handle), self.partition.load(builder, partition, "changes")

    def load_sums(self, builder: ir.IRBuilder, struct: StructLayout, place: IRValue, name: str) -> list[IRValue]:
        """The sums of that name in a struct."""
        return [struct.load(builder, place, f"{name} {i}") for i in range(self.sums)]

    def store_sums(
        self, builder: ir.IRBuilder, struct: StructLayout, place: IRValue, name: str, sums: Sequence[IRValue]
    ) -> None:
        """Store sums under that name."""
        for i, value in enumerate(sums):
            struct.store(builder, place, f"{name} {i}", value)

    def _call(
        self, builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[IRValue], body: EmitBody
    ) -> IRValue:
        types = [argument.type for argument in arguments]
        function = define(builder.module, f"window.{name}", result, types, body, "noinline")
        return builder.call(function, arguments)

    # --------------------------------------------------------------------------------------------- rows of a version

    def row(self, builder: ir.IRBuilder, version: IRValue, place: IRValue) -> IRValue:
        """A row of the interval, counted from its beginning; behind the last there is one that has only sums."""
        return element(builder, self.version.load(builder, version, "vector"), place, self.index.row.size)

    def row_key(self, builder: ir.IRBuilder, row: IRValue) -> IRValue:
        """The sort key of a row of the interval."""
        return self.index.row.load(builder, row, "key")

    def word(self, builder: ir.IRBuilder, row: IRValue, place: int) -> IRValue:
        """The address of a word that functions note beside a row of the interval."""
        return self.index.row.address(builder, row, f"word{place}")

    def row_sums(self, builder: ir.IRBuilder, row: IRValue) -> list[IRValue]:
        """The sums over all rows before a row of the interval."""
        return [self.index.row.load(builder, row, f"sum{i}") for i in range(self.sums)]

    def key_at(self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, place: IRValue) -> IRValue:
        """The sort key of the row of a version with that number; it must be there."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            partition, version, place, target = arguments
            inside = builder.sub(place, self.version.load(builder, version, "base"))
            count = self.version.load(builder, version, "count")
            with builder.if_then(builder.icmp_unsigned("<", inside, count)):
                builder.store(self.row_key(builder, self.row(builder, version, inside)), target, align=8)
                builder.ret_void()
            is_before = builder.icmp_signed("<", inside, number(0))
            shift = builder.select(is_before, *self._shifts(builder, version))
            key, _ = self.reader.select(builder, *self.rows(builder, partition), builder.add(place, shift))
            builder.store(key, target, align=8)
            builder.ret_void()

        target = on_stack(builder, self.key.width // 8)
        self._call(builder, "key_at", ir.VoidType(), [partition, version, place, target], body)
        return builder.load(target, typ=self.key, align=8)

    def _shifts(self, builder: ir.IRBuilder, version: IRValue) -> list[IRValue]:
        return [self.version.load(builder, version, name) for name in ("shift before", "shift after")]

    def first_keys(self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, place: IRValue) -> IRValue:
        """The sort key of one of the first rows of a version: changed ones are in the interval, or none is."""
        return self._end_key(builder, partition, version, place, lambda now: place)

    def last_key(self, builder: ir.IRBuilder, partition: IRValue, version: IRValue) -> IRValue:
        """The sort key of the last row of a version: a changed one is in the interval."""
        last = builder.sub(self.version.load(builder, version, "total"), number(1))
        return self._end_key(builder, partition, version, last, lambda now: builder.sub(now, number(1)))

    def _end_key(
        self,
        builder: ir.IRBuilder,
        partition: IRValue,
        version: IRValue,
        place: IRValue,
        outside: Callable[[IRValue], IRValue],
    ) -> IRValue:
        """The key of a row of the interval, or of the one that is ``outside`` of it in a partition of so many rows."""
        base, count = (self.version.load(builder, version, name) for name in ("base", "count"))
        inside, found = builder.sub(place, base), Local(builder, number(0, self.key))
        with builder.if_else(builder.icmp_unsigned("<", inside, count)) as (known, other):
            with known:
                found.set(self.row_key(builder, self.row(builder, version, inside)))
            with other:
                group = self.rows(builder, partition)
                now = self.version.load(builder, self.new(builder, partition), "total")
                found.set(self.reader.select(builder, *group, outside(now))[0])
        return found.get()

    def sums_before(self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, place: IRValue) -> list[IRValue]:
        """The sums over the first ``place`` rows of a version."""
        if not self.sums:
            return []

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            partition, version, place, target = arguments
            inside = builder.sub(place, self.version.load(builder, version, "base"))
            count = self.version.load(builder, version, "count")
            with builder.if_then(builder.icmp_unsigned("<=", inside, count)):
                sums = self.row_sums(builder, self.row(builder, version, inside))
                self._store_row(builder, target, number(0, self.key), sums)
                builder.ret_void()
            is_before = builder.icmp_signed("<", inside, number(0))
            shift = builder.select(is_before, *self._shifts(builder, version))
            found = self.current_sums(builder, partition, builder.add(place, shift))
            moved = [self.load_sums(builder, self.version, version, f"shift {name}") for name in ("before", "after")]
            sums = []
            for now, *both in zip(found, *moved, strict=True):
                sums.append(builder.sub(now, builder.select(is_before, *both)))
            self._store_row(builder, target, number(0, self.key), sums)
            builder.ret_void()

        target = on_stack(builder, self.index.row.size)
        self._call(builder, "sums_before", ir.VoidType(), [partition, version, place, target], body)
        return self.row_sums(builder, target)

    def current_sums(self, builder: ir.IRBuilder, partition: IRValue, place: IRValue) -> list[IRValue]:
        """The sums over the first ``place`` rows of the partition as it is."""
        if not self.sums:
            return []

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            partition, place, target = arguments
            group, new = self.rows(builder, partition), self.new(builder, partition)
            with builder.if_then(builder.icmp_signed(">=", place, self.version.load(builder, new, "total"))):
                total = self.load_sums(builder, self.version, new, "total")
                self._store_row(builder, target, number(0, self.key), total)
                builder.ret_void()
            key, before = self.reader.select(builder, *group, place)
            sums = [Local(builder, value) for value in before.values]
            more = builder.sub(place, before.weight)
            with builder.if_then(builder.icmp_unsigned("!=", more, number(0))):
                times = builder.sext(more, I128)
                for local, one in zip(sums, self._addends(builder, partition, key), strict=True):
                    local.set(builder.add(local.get(), builder.mul(times, one)))
            self._store_row(builder, target, key, [local.get() for local in sums])
            builder.ret_void()

        target = on_stack(builder, self.index.row.size)
        self._call(builder, "current_sums", ir.VoidType(), [partition, place, target], body)
        return self.row_sums(builder, target)

    def place_of(
        self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, key: IRValue, inclusive: bool
    ) -> IRValue:
        """The number of rows of a version before ``key`` (or with it)."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            partition, version, key = arguments
            base, count = (self.version.load(builder, version, name) for name in ("base", "count"))
            new = self.new(builder, partition)
            low, rows = (self.version.load(builder, new, name) for name in ("base", "count"))
            now = self.reader.sum_until(builder, *self.rows(builder, partition), key, inclusive).weight
            shifts = self._shifts(builder, version)
            with builder.if_then(builder.icmp_signed("<", now, low)):
                builder.ret(builder.sub(now, shifts[0]))
            with builder.if_then(builder.icmp_signed(">", now, builder.add(low, rows))):
                builder.ret(builder.sub(now, shifts[1]))
            builder.ret(builder.add(base, self._search(builder, version, count, key, inclusive)))

        name = f"place_of.{'through' if inclusive else 'before'}"
        return self._call(builder, name, I64, [partition, version, key], body)

    def _search(
        self, builder: ir.IRBuilder, version: IRValue, count: IRValue, key: IRValue, inclusive: bool
    ) -> IRValue:
        """The number of rows of the interval before ``key`` (or with it), by binary search."""
        low, high = Local(builder, number(0)), Local(builder, count)
        with loop_while(builder, lambda: builder.icmp_signed("<", low.get(), high.get())):
            middle = builder.lshr(builder.add(low.get(), high.get()), number(1))
            held = self.row_key(builder, self.row(builder, version, middle))
            passed = builder.icmp_unsigned("<=" if inclusive else "<", held, key)
            low.set(builder.select(passed, builder.add(middle, number(1)), low.get()))
            high.set(builder.select(passed, high.get(), middle))
        return low.get()

    # ------------------------------------------------------------------------------------------------- laying it out

    def old(self, builder: ir.IRBuilder, partition: IRValue) -> IRValue:
        """The version before the epoch."""
        return self.partition.address(builder, partition, EXCERPTS[0])

    def new(self, builder: ir.IRBuilder, partition: IRValue) -> IRValue:
        """The version after the epoch."""
        return self.partition.address(builder, partition, EXCERPTS[1])

    def begin(self, builder: ir.IRBuilder, partition: IRValue) -> None:
        """Set what both versions are as a whole."""
        handle = self.partition.load(builder, partition, "handle")
        now = self.reader.total(builder, *self.rows(builder, partition))
        moved = self.reader.total(builder, *self.changes(builder, partition))
        before = [builder.sub(a, b) for a, b in zip(now.numbers(), moved.numbers(), strict=True)]
        for name, version, numbers in zip(
            EXCERPTS, (self.old(builder, partition), self.new(builder, partition)), (before, now.numbers()), strict=True
        ):
            vector = self.index.handle.address(builder, handle, name)
            self.version.store(builder, version, "vector", vector)
            weight, *sums = numbers
            self.version.store(builder, version, "total", weight)
            self.store_sums(builder, self.version, version, "total", sums)

    def lay_out(self, builder: ir.IRBuilder, partition: IRValue, interval: IRValue) -> None:
        """Lay the rows of an interval out in both versions, or return the status of the failure."""
        for name, emit in (("lay_out_new", self._emit_new), ("lay_out_old", self._emit_old)):
            status = self._call(builder, name, I32, [partition, interval], emit)
            with builder.if_then(builder.icmp_unsigned("!=", status, number(0, I32)), likely=False):
                builder.ret(status)

    def _emit_new(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        partition, interval = arguments
        new = self.new(builder, partition)
        low, high = (self.interval.load(builder, interval, name) for name in ("low", "high"))
        self._begin_version(builder, new, low, [number(0)] * 2, [[number(0, I128)] * self.sums] * 2)
        own, group = self.rows(builder, partition)
        cursor = GroupCursor(builder, self.reader, own, group)
        running = [Local(builder, value) for value in self.current_sums(builder, partition, low)]
        left, skip = Local(builder, builder.sub(high, low)), Local(builder, number(0))

        def unfinished() -> IRValue:
            return builder.icmp_signed(">", left.get(), number(0))

        with builder.if_then(unfinished()):
            key, before = self.reader.select(builder, own, group, low)
            skip.set(builder.sub(low, before.weight))
            cursor.open(key)
        with loop_while(builder, unfinished):
            key, sums = cursor.item()
            rest = builder.sub(sums.weight, skip.get())
            times = builder.select(builder.icmp_signed("<", rest, left.get()), rest, left.get())
            self._repeat(builder, partition, new, key, times, running, self._each(builder, partition, key, sums))
            left.set(builder.sub(left.get(), times))
            skip.set(number(0))
            cursor.advance()
        self._end_version(builder, partition, new, running)

    def _emit_old(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """The rows as they are, less the changes of the interval."""
        partition, interval = arguments
        old, new = self.old(builder, partition), self.new(builder, partition)
        shifts = [self.interval.load(builder, interval, name) for name in ("before", "after")]
        moved = [self.load_sums(builder, self.interval, interval, name) for name in ("before", "after")]
        base = builder.sub(self.interval.load(builder, interval, "low"), shifts[0])
        self._begin_version(builder, old, base, shifts, moved)
        first_sums = self.row_sums(builder, self.row(builder, new, number(0)))
        running = [Local(builder, builder.sub(a, b)) for a, b in zip(first_sums, moved[0], strict=True)]
        cursor = GroupCursor(builder, self.reader, *self.changes(builder, partition))
        cursor.open(self.interval.load(builder, interval, "first"))
        last, count = self.interval.load(builder, interval, "last"), self.version.load(builder, new, "count")
        place = Local(builder, number(0))

        def is_change() -> IRValue:
            more = Local(builder, cursor.more())
            with builder.if_then(more.get()):
                more.set(builder.icmp_unsigned("<=", cursor.item()[0], last))
            return more.get()

        def unfinished() -> IRValue:
            return builder.or_(is_change(), builder.icmp_unsigned("<", place.get(), count))

        with loop_while(builder, unfinished):
            row = self.row(builder, new, place.get())
            here = Local(builder, is_change())
            with builder.if_then(builder.and_(here.get(), builder.icmp_unsigned("<", place.get(), count))):
                here.set(builder.icmp_unsigned("<=", cursor.item()[0], self.row_key(builder, row)))
            with builder.if_else(here.get()) as (changed, same):
                with changed:
                    key, sums = cursor.item()
                    start = place.get()
                    self._skip_key(builder, new, place, count, key)
                    times = builder.sub(builder.sub(place.get(), start), sums.weight)
                    addends = [Local(builder, one) for one in self._addends(builder, partition, key)]
                    self._repeat(builder, partition, old, key, times, running, addends)
                    cursor.advance()
                with same:
                    following = self.row(builder, new, builder.add(place.get(), number(1)))
                    pairs = zip(self.row_sums(builder, following), self.row_sums(builder, row), strict=True)
                    addends = [Local(builder, builder.sub(a, b)) for a, b in pairs]
                    self._repeat(builder, partition, old, self.row_key(builder, row), number(1), running, addends)
                    place.set(builder.add(place.get(), number(1)))
        self._end_version(builder, partition, old, running)

    def _skip_key(self, builder: ir.IRBuilder, new: IRValue, place: Local, count: IRValue, key: IRValue) -> None:
        """Go on behind the rows that have ``key``."""

        def has_key() -> IRValue:
            there = builder.icmp_unsigned("<", place.get(), count)
            held = self.row_key(builder, self.row(builder, new, place.get()))
            return builder.and_(there, builder.icmp_unsigned("==", held, key))

        with loop_while(builder, has_key):
            place.set(builder.add(place.get(), number(1)))

    def _begin_version(
        self,
        builder: ir.IRBuilder,
        version: IRValue,
        base: IRValue,
        shifts: Sequence[IRValue],
        moved: Sequence[Sequence[IRValue]],
    ) -> None:
        vector = self.version.load(builder, version, "vector")
        VECTOR.store(builder, vector, "count", number(0))
        self.version.store(builder, version, "base", base)
        self.version.store(builder, version, "count", number(0))
        for name, shift, sums in zip(("shift before", "shift after"), shifts, moved, strict=True):
            self.version.store(builder, version, name, shift)
            self.store_sums(builder, self.version, version, name, sums)

    def _end_version(
        self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, running: Sequence[Local]
    ) -> None:
        """Append the row that has only sums, and return."""
        vector = self.version.load(builder, version, "vector")
        self.version.store(builder, version, "count", VECTOR.load(builder, vector, "count"))
        self._append(builder, partition, version, number(0, self.key), running)
        builder.ret(number(0, I32))

    def _each(self, builder: ir.IRBuilder, partition: IRValue, key: IRValue, sums: NodeSums) -> list[Local]:
        """The number that one row of an entry adds to each sum."""
        found = [Local(builder, value) for value in sums.values]
        if found:
            with builder.if_then(builder.icmp_unsigned("!=", sums.weight, number(1)), likely=False):
                for local, one in zip(found, self._addends(builder, partition, key), strict=True):
                    local.set(one)
        return found

    def _addends(self, builder: ir.IRBuilder, partition: IRValue, key: IRValue) -> list[IRValue]:
        return self.index.addends(builder, self.prefix(builder, partition), key)

    def _repeat(
        self,
        builder: ir.IRBuilder,
        partition: IRValue,
        version: IRValue,
        key: IRValue,
        times: IRValue,
        running: Sequence[Local],
        addends: Sequence[Local],
    ) -> None:
        """Append so many rows of an entry."""
        with count_up(builder, number(0), times):
            self._append(builder, partition, version, key, running)
            for total, one in zip(running, addends, strict=True):
                total.set(builder.add(total.get(), one.get()))

    def _append(
        self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, key: IRValue, sums: Sequence[Local]
    ) -> None:
        account = self.index.account(builder, self.partition.load(builder, partition, "handle"))
        place = append(builder, account, self.version.load(builder, version, "vector"), self.index.row.size)
        check_granted(builder, account, place)
        self._store_row(builder, place, key, [total.get() for total in sums])

    def _store_row(self, builder: ir.IRBuilder, place: IRValue, key: IRValue, sums: Sequence[IRValue]) -> None:
        self.index.row.store(builder, place, "key", key)
        for i, value in enumerate(sums):
            self.index.row.store(builder, place, f"sum{i}", value)
