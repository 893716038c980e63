"""Updates of entries: added to, inserted, removed at weight 0, or set; indexes and journal are kept in step.

Whatever an entry is changed by, its old state is in the journal first, all memory that may be needed is there, and
nothing has been written when a fault is found. So a change that fails can always be rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen import memory
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    COLD,
    INLINE,
    EmitBody,
    IRValue,
    Local,
    check,
    count_up,
    define,
    loop_while,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, NULL_POINTER, PTR, MapRecord, StructLayout
from tidemill.runtimes.native.llvm.codegen.memory import VECTOR
from tidemill.runtimes.native.llvm.codegen.prefetch import LINE
from tidemill.runtimes.native.llvm.codegen.shared_code import CodeHome, OwnCode, SharedCode
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells, KeyCode
from tidemill.runtimes.native.llvm.maps.adjacency_store import AdjacencyStore
from tidemill.runtimes.native.llvm.maps.clustered_store import ClusteredStore
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder, GroupOrderCode
from tidemill.runtimes.native.llvm.maps.match_rows import MatchRowsCode
from tidemill.runtimes.native.llvm.maps.multiset_index import MultisetIndexCode
from tidemill.runtimes.native.llvm.maps.ordered_index import OrderedIndexCode
from tidemill.runtimes.native.llvm.maps.record_items import RecordItems
from tidemill.runtimes.native.llvm.maps.record_store import InlineStore, PooledStore, RecordStore
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers, RingCode, return_status
from tidemill.runtimes.native.llvm.maps.secondary_indexes import SecondaryIndexes, add_counters
from tidemill.runtimes.native.llvm.maps.top_rows import TopRowsCode
from tidemill.runtimes.native.llvm.maps.window_rows import WindowRowsCode


def _shape(
    map_: Map,
    indexes: Sequence[tuple[str, ...]],
    orders: Sequence[tuple[tuple[str, ...], str]],
    guarded: Sequence[str],
    journaled: bool,
) -> str:
    """The signature of the code of a map: types and positions, but no names.

    >>> from tidemill.model.types import BIGINT, Field
    >>> from tidemill.program.maps import RingField
    >>> _shape(Map("m", (Field("k", BIGINT),), (RingField("s", BIGINT),)), [("k",)], [], ["s"], True)
    'map[BIGINT?][BIGINT] by (0) over () guarding (0)'
    """
    keys = [f.name for f in map_.keys]
    values = [value.name for value in map_.values]

    def places(names: Sequence[str], among: Sequence[str]) -> str:
        return ".".join(str(among.index(name)) if name in among else name for name in names)

    kinds = ", ".join(f"{f.type}{'?' if f.nullable else ''}" for f in map_.keys)
    rings = ", ".join(str(value.type) for value in map_.values)
    by = " ".join(f"({places(index, keys)})" for index in indexes) or "()"
    over = " ".join(f"({places((*prefix, column), keys)})" for prefix, column in orders) or "()"
    guarding = f"({places(guarded, values)})"
    noted = "" if journaled else " without journal"
    return f"map[{kinds}][{rings}] by {by} over {over} guarding {guarding}{noted}"


class UpdateCode:
    """The functions of one map that change it, under names that begin with ``symbol``.

    The functions take the map as an argument, so maps of the same shape share them.
    """

    def __init__(
        self,
        map_: Map,
        indexes: Sequence[tuple[str, ...]],
        orders: Sequence[tuple[tuple[str, ...], str]],
        guarded: Sequence[str],
        journaled: bool,
        entered: ir.Function | None,
        group_order: GroupOrder | None,
        present: tuple[tuple[str, ...], str] | None,
        assigned: bool,
        addends: ir.Function | None,
        emit: Callable[[ir.Module], None],
    ) -> None:
        """``emit`` emits all functions of the map. One that is ``assigned`` to by events has optimized code for that.

        ``present`` is an order of the entries of positive weight. ``addends`` gives what rows add to the sums of a
        ``group_order``.

        With ``entered`` slices are arrays, and that function is called with each entry that is new. With
        ``group_order`` the entries of each group are in that order.
        """
        self.map, self.journaled = map_, journaled
        self.symbol = _shape(map_, indexes, orders, guarded, journaled)
        if entered is not None:
            self.symbol += f" as {entered.name}"
        if group_order is not None:
            self.symbol += f" with {group_order}"
        if present is not None:
            self.symbol += f" with {len(present[0])} before the order of those present"
        if assigned:
            self.symbol += " assigned to"
        self._entered = entered
        self._seldom = ("noinline",) if assigned else COLD
        """The attributes of functions that run seldom unless the map is assigned to."""
        # What ``entered`` and ``addends`` do is known to one stage alone.
        own = entered is not None or addends is not None
        self.code: CodeHome = OwnCode() if own else SharedCode(self.symbol, emit)
        self.record, self.handle = MapRecord(map_), StructLayout()
        self.handle.field("account", PTR)
        self.handle.field("epoch", I32)
        self.handle.field("recording", I32)
        self.handle.part("journal", VECTOR)
        self.handle.part("limbo", VECTOR)
        self.guarded = tuple(guarded)
        add_counters(self.handle, self.guarded)
        self.keys, self.rings = KeyCode(map_, self.record), RingCode(map_, self.record)
        # An index on all keys is the table itself.
        slices = [places for places in map(self.keys.places, indexes) if len(places) < len(map_.keys)]
        spans = [self.keys.places((*prefix, column)) for prefix, column in orders]
        clustered = next((i for i, places in enumerate(spans) if not slices and self._clusters(places)), None)
        self.orders = [self._make_order(f"order{i}", places, i == clustered) for i, places in enumerate(spans)]
        self.present: OrderedIndexCode | None = None
        if present is not None:
            prefix, column = present
            places = self.keys.places((*prefix, column))
            self.present = OrderedIndexCode(self.code, map_, self.handle, "present", places, present=True)
            self.orders.append(self.present)
        self.ordered: GroupOrderCode | None = None
        if group_order is not None:
            self.ordered = self._make_groups(group_order, addends)
        self._indexes = SecondaryIndexes(self.handle, self.keys, self.rings, self.orders, self.ordered, self.guarded)
        self.store: RecordStore
        if slices and entered is not None:
            distinct = list(dict.fromkeys(slices))
            self.store = AdjacencyStore(map_, self.record, self.handle, self.keys, distinct)
        elif slices or (clustered is None and self.record.payload > LINE):
            # A table of large records costs two cache misses as well, and copies them all when it grows.
            self.store = PooledStore(self.record, self.handle, self.keys, list(dict.fromkeys(slices)))
        elif clustered is not None:
            self.store = ClusteredStore(self.record, self.handle, self.keys, self.orders[clustered])
        else:
            self.store = InlineStore(self.record, self.handle, self.keys)

    def _clusters(self, places: Sequence[int]) -> bool:
        """True if records can lie by the columns of an order: it has all of them, none is NULL, and all sums are exact.

        (A DOUBLE is not in the sums of a tree, which must be empty when its last record goes.)
        """
        keys, values = self.map.keys, self.map.values
        whole = 1 < len(places) == len(keys) and not any(key.nullable for key in keys)
        return whole and not any(isinstance(value.type, t.Double) for value in values)

    def _make_order(self, name: str, places: tuple[int, ...], clustered: bool) -> OrderedIndexCode:
        items = RecordItems(self.symbol, self.record, self.rings, places[-1]) if clustered else None
        return OrderedIndexCode(self.code, self.map, self.handle, name, places, items)

    def _make_groups(self, order: GroupOrder, addends: ir.Function | None) -> GroupOrderCode:
        if order.sums is not None:
            rows = MatchRowsCode if order.beside else WindowRowsCode
            return rows(self.code, self.symbol, self.map, self.handle, order, addends)
        kind = MultisetIndexCode if order.first is None else TopRowsCode
        return kind(self.code, self.symbol, self.map, self.handle, order)

    def account(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """The account of the map's memory."""
        return self.handle.load(builder, handle, "account")

    def function(
        self,
        module: ir.Module,
        name: str,
        result: ir.Type,
        types: Sequence[ir.Type],
        body: EmitBody,
        *attributes: str,
    ) -> ir.Function:
        """A function of this map, for calls from ``module``; ``body`` emits its instructions."""
        return self.code.function(module, f"{self.symbol}.{name}", result, types, body, *attributes)

    def emit(self, module: ir.Module) -> None:
        """Define the functions that stages call in the module of the map's code."""
        self._add(module)
        self._sweep(module)
        if not self.journaled and self.ordered is None:
            self._clear(module)
        if self.ordered is not None:
            self.ordered.emit(module)

    # ----------------------------------------------------------------------------------------------------- finding

    def find(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells) -> IRValue:
        """The entry of a key, NULLs being equal, or null."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, *cells = arguments
            builder.ret(self._locate(builder, handle, self.keys.of_arguments(cells))[0])

        name, types = f"{self.symbol}.find", [PTR, *self.keys.types()]
        function = define(builder.module, name, PTR, types, body, INLINE)
        return builder.call(function, [handle, *keys.arguments()])

    def find_record(self, builder: ir.IRBuilder, handle: IRValue, record: IRValue) -> IRValue:
        """The entry with the key of a record, or null."""
        return self.find(builder, handle, self.keys.of_record(builder, record))

    def _locate(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells) -> tuple[IRValue, IRValue]:
        hash_ = keys.hash(builder)
        return self.store.locate(builder, handle, hash_, keys), hash_

    # ------------------------------------------------------------------------------------------------------ adding

    def add(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, numbers: EntryNumbers) -> IRValue:
        """Add to an entry; gives a status."""
        return builder.call(self._add(builder.module), [handle, *keys.arguments(), *numbers.flat()])

    def add_record(self, builder: ir.IRBuilder, handle: IRValue, record: IRValue) -> IRValue:
        """Add the numbers of a record to the entry with its key; gives a status."""
        return self.add(builder, handle, self.keys.of_record(builder, record), self.rings.load(builder, record))

    def _add(self, module: ir.Module) -> ir.Function:
        types = [PTR, *self.keys.types(), *self.rings.types()]
        return self.function(module, "add", I32, types, self._emit_add)

    def _emit_add(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        handle, *rest = arguments
        split = len(self.keys.types())
        keys, addend = self.keys.of_arguments(rest[:split]), self.rings.of_flat(rest[split:])
        self._make_room(builder, handle, keys, addend.weight)
        entry, hash_ = self._locate(builder, handle, keys)
        with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER), likely=True):
            self._remember(builder, handle, entry)
            self._indexes.reserve(builder, handle)
            old = self.rings.load(builder, entry)
            new, faults = self.rings.plus(builder, old, addend)
            return_status(builder, faults)
            self.rings.store(builder, entry, new)
            self._reweigh(builder, handle, entry, new.weight)
            status = self._indexes.follow(builder, handle, keys, old, new, addend)
            with builder.if_then(builder.icmp_unsigned("==", new.weight, number(0)), likely=False):
                check(builder, builder.call(self._leave(builder.module), [handle, entry]))
            builder.ret(status)
        with builder.if_then(self.rings.is_zero(builder, addend), likely=False):
            builder.ret(number(0, I32))
        record = on_stack(builder, self.record.payload)
        self.keys.write(builder, record, keys)
        self.rings.store(builder, record, addend)
        builder.ret(builder.call(self._enter(builder.module), [handle, hash_, record]))

    def _make_room(self, builder: ir.IRBuilder, handle: IRValue, keys: KeyCells, weight: IRValue) -> None:
        """Where only some entries of a group are kept: return if a new one is not needed, and let go of one for it.

        While a state is restored or undone, entries come and go as they are.
        """
        if self.ordered is None or not self.ordered.keeps_some:
            return
        with self._if_recording(builder, handle):
            found = self.ordered.displaced(builder, handle, keys, weight, self.keys)
            with builder.if_then(found.refused):
                builder.ret(number(0, I32))
            with builder.if_then(found.goes):
                gone = on_stack(builder, self.record.payload)
                self.keys.write(builder, gone, found.held)
                self.rings.store_zero(builder, gone)
                check(builder, self.put(builder, handle, gone))

    def _enter(self, module: ir.Module) -> ir.Function:
        """``enter(handle, hash, record)``: take in an entry whose key is not there."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, hash_, record = arguments
            numbers, keys = self.rings.load(builder, record), self.keys.of_record(builder, record)
            if self.journaled:
                with self._if_recording(builder, handle):
                    absent = self.append(builder, handle, "journal", record)
                    self.rings.store_zero(builder, absent)
            self._indexes.reserve(builder, handle)
            self.store.reserve(builder, handle)
            if isinstance(self.store, AdjacencyStore):
                self.store.reserve_items(builder, handle, record)
            self.record.store(builder, record, "stamp", self.handle.load(builder, handle, "epoch"))
            entry = self.store.insert(builder, handle, hash_, record)
            if self._entered is not None:
                builder.call(self._entered, [entry])
            status = self._indexes.follow(builder, handle, keys, None, numbers, numbers)
            with builder.if_then(builder.icmp_unsigned("==", numbers.weight, number(0)), likely=False):
                self.append(builder, handle, "limbo", record)
            builder.ret(status)

        return self.function(module, "enter", I32, [PTR, I64, PTR], body, "noinline")

    def _leave(self, module: ir.Module) -> ir.Function:
        """``leave(handle, entry)``: an entry of weight 0 goes, at once where nothing is left of its values."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, entry = arguments
            with builder.if_else(self.rings.is_zero(builder, self.rings.load(builder, entry))) as (gone, waiting):
                with gone:
                    builder.call(self._erase(builder.module), [handle, entry])
                with waiting:
                    self.append(builder, handle, "limbo", entry)
            builder.ret(number(0, I32))

        return self.function(module, "leave", I32, [PTR, PTR], body, "noinline")

    def sweep(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Drop what is in limbo and still has weight 0; gives a status."""
        status = Local(builder, number(0, I32))
        limbo = self.handle.address(builder, handle, "limbo")
        waiting = builder.icmp_unsigned("!=", VECTOR.load(builder, limbo, "count"), number(0))
        with builder.if_then(waiting, likely=False):
            status.set(builder.call(self._sweep(builder.module), [handle]))
        return status.get()

    def _sweep(self, module: ir.Module) -> ir.Function:
        """``sweep(handle)``: drop what is in limbo and still has weight 0."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            (handle,) = arguments
            limbo = self.handle.address(builder, handle, "limbo")
            with loop_while(
                builder, lambda: builder.icmp_unsigned("!=", VECTOR.load(builder, limbo, "count"), number(0))
            ):
                last = builder.sub(VECTOR.load(builder, limbo, "count"), number(1))
                entry = self.find_record(builder, handle, memory.element(builder, limbo, last, self.record.payload))
                with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
                    weight = self.record.load(builder, entry, "weight")
                    with builder.if_then(builder.icmp_unsigned("==", weight, number(0))):
                        check(builder, self._drop(builder, handle, entry))
                VECTOR.store(builder, limbo, "count", last)
            builder.ret(number(0, I32))

        return self.function(module, "sweep", I32, [PTR], body, *COLD)

    def _drop(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> IRValue:
        """Remove an entry that may still have values; gives a status."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, entry = arguments
            self._indexes.reserve(builder, handle)
            old, keys = self.rings.load(builder, entry), self.keys.of_record(builder, entry)
            status = self._indexes.follow(builder, handle, keys, old, None)
            builder.call(self._erase(builder.module), [handle, entry])
            builder.ret(status)

        return builder.call(
            self.function(builder.module, "drop", I32, [PTR, PTR], body, *self._seldom), [handle, entry]
        )

    def _erase(self, module: ir.Module) -> ir.Function:
        """``erase(handle, entry)``: take an entry out of the store."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            self.store.erase(builder, *arguments)
            builder.ret_void()

        return self.function(module, "erase", ir.VoidType(), [PTR, PTR], body, "noinline")

    # ----------------------------------------------------------------------------------------------------- setting

    def put(self, builder: ir.IRBuilder, handle: IRValue, record: IRValue) -> IRValue:
        """Set the entry with the key of a record to its numbers; weight 0 removes it. Gives a status."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, record = arguments
            keys, new = self.keys.of_record(builder, record), self.rings.load(builder, record)
            entry, hash_ = self._locate(builder, handle, keys)
            leaves = builder.icmp_unsigned("==", new.weight, number(0))
            with builder.if_then(builder.icmp_unsigned("==", entry, NULL_POINTER)):
                with builder.if_then(leaves):
                    builder.ret(number(0, I32))
                builder.ret(builder.call(self._enter(builder.module), [handle, hash_, record]))
            self._remember(builder, handle, entry)
            with builder.if_then(leaves):
                builder.ret(self._drop(builder, handle, entry))
            self._indexes.reserve(builder, handle)
            old = self.rings.load(builder, entry)
            self.rings.store(builder, entry, new)
            self._reweigh(builder, handle, entry, new.weight)
            builder.ret(self._indexes.follow(builder, handle, keys, old, new))

        return builder.call(
            self.function(builder.module, "put", I32, [PTR, PTR], body, *self._seldom), [handle, record]
        )

    def assign(self, builder: ir.IRBuilder, handle: IRValue, other: UpdateCode, scratch: IRValue) -> IRValue:
        """Hold what ``scratch`` holds, and empty it; gives a status."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, scratch = arguments
            check(builder, other.sweep(builder, scratch))
            check(builder, self.sweep(builder, handle))
            # An entry must not leave while all are gone through, so those that have to leave wait in limbo.
            with self.store.each(builder, handle) as entry:
                kept = other.find_record(builder, scratch, entry)
                with builder.if_then(builder.icmp_unsigned("==", kept, NULL_POINTER)):
                    self.rings.store_zero(builder, self.append(builder, handle, "limbo", entry))
            with other.store.each(builder, scratch) as entry:
                check(builder, self._put_if_new(builder, handle, entry))
            limbo = self.handle.address(builder, handle, "limbo")
            with count_up(builder, number(0), VECTOR.load(builder, limbo, "count")) as place:
                check(builder, self.put(builder, handle, memory.element(builder, limbo, place, self.record.payload)))
            VECTOR.store(builder, limbo, "count", number(0))
            builder.ret(other.clear(builder, scratch))

        function = define(builder.module, f"{self.symbol}.assign.{other.symbol}", I32, [PTR, PTR], body, "noinline")
        return builder.call(function, [handle, scratch])

    def _put_if_new(self, builder: ir.IRBuilder, handle: IRValue, record: IRValue) -> IRValue:
        """``put`` a record unless an equal entry is there."""
        held = self.find_record(builder, handle, record)
        differs = Local(builder, builder.icmp_unsigned("==", held, NULL_POINTER))
        with builder.if_then(builder.not_(differs.get())):
            same = self.rings.same(builder, self.rings.load(builder, held), self.rings.load(builder, record))
            differs.set(builder.not_(same))
        status = Local(builder, number(0, I32))
        with builder.if_then(differs.get()):
            # Another map's record must not change when it is taken in.
            copied = on_stack(builder, self.record.payload)
            memory.copy(builder, copied, record, self.record.payload)
            status.set(self.put(builder, handle, copied))
        return status.get()

    def clear(self, builder: ir.IRBuilder, handle: IRValue) -> IRValue:
        """Forget all entries; gives a status."""
        return builder.call(self._clear(builder.module), [handle])

    def _clear(self, module: ir.Module) -> ir.Function:
        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            (handle,) = arguments
            self._indexes.clear(builder, handle)
            for name in ("journal", "limbo"):
                VECTOR.store(builder, self.handle.address(builder, handle, name), "count", number(0))
            self.store.clear(builder, handle)
            builder.ret(number(0, I32))

        return self.function(module, "clear", I32, [PTR], body, *COLD)

    # -------------------------------------------------------------------------------------------- keeping in step

    def negatives(self, builder: ir.IRBuilder, handle: IRValue, name: str) -> IRValue:
        """The number of entries with a negative number of that name."""
        return self._indexes.negatives(builder, handle, name)

    def append(self, builder: ir.IRBuilder, handle: IRValue, vector: str, record: IRValue) -> IRValue:
        """Put a copy of a record at the end of the journal or limbo, or return the status of the failure."""
        account, place = self.account(builder, handle), self.handle.address(builder, handle, vector)
        copied = memory.append(builder, account, place, self.record.payload)
        memory.check_granted(builder, account, copied)
        memory.copy(builder, copied, record, self.record.payload)
        return copied

    def _remember(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue) -> None:
        """Write an entry down before the epoch first changes it."""
        if not self.journaled:
            return

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            handle, entry = arguments
            with self._if_recording(builder, handle):
                self.append(builder, handle, "journal", entry)
            self.record.store(builder, entry, "stamp", self.handle.load(builder, handle, "epoch"))
            builder.ret(number(0, I32))

        function = self.function(builder.module, "remember", I32, [PTR, PTR], body, "noinline")
        stamp, epoch = self.record.load(builder, entry, "stamp"), self.handle.load(builder, handle, "epoch")
        with builder.if_then(builder.icmp_unsigned("!=", stamp, epoch)):
            check(builder, builder.call(function, [handle, entry]))

    @contextmanager
    def _if_recording(self, builder: ir.IRBuilder, handle: IRValue) -> Iterator[None]:
        recording = self.handle.load(builder, handle, "recording")
        with builder.if_then(builder.icmp_unsigned("!=", recording, number(0, I32)), likely=True):
            yield

    def _reweigh(self, builder: ir.IRBuilder, handle: IRValue, entry: IRValue, weight: IRValue) -> None:
        """Tell the arrays that an entry is in its weight."""
        store = self.store
        if not isinstance(store, AdjacencyStore):
            return

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            store.set_weight(builder, *arguments)
            builder.ret_void()

        function = self.function(builder.module, "reweigh", ir.VoidType(), [PTR, PTR, I64], body, "noinline")
        builder.call(function, [handle, entry, weight])
