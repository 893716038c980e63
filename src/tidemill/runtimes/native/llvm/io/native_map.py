"""Maps at run time, as Python sees them: memory that emitted code works on, and Arrow tables in and out."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, OutOfBudget
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.runtimes.native.llvm.codegen.jit import Library
from tidemill.runtimes.native.llvm.codegen.layout import MapRecord, Status, StructLayout
from tidemill.runtimes.native.llvm.codegen.memory import VECTOR, Memory
from tidemill.runtimes.native.llvm.io.arrow_columns import (
    NullFlags,
    cells_of,
    column_of,
    column_of_sums,
    integers,
    nulls_of,
    one_chunk,
    sums_of,
    values_of,
)
from tidemill.runtimes.native.llvm.io.few_records import RecordReader, Records
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.journal import LARGE_JOURNAL
from tidemill.runtimes.native.llvm.maps.map_code import MapCode
from tidemill.runtimes.native.llvm.maps.multiset_index import ENDS, MultisetIndexCode
from tidemill.runtimes.native.llvm.maps.secondary_indexes import counter_of
from tidemill.runtimes.native.state import double_sums

FEW_RECORDS = 16
"""Record count up to which records are read one by one."""

_POINTER, _COUNT, _STATUS = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "create": (_STATUS, _POINTER, _POINTER),
    "destroy": (None, _POINTER),
    "count": (_COUNT, _POINTER),
    "bytes": (_COUNT, _POINTER),
    "drop_empty": (_STATUS, _POINTER),
    "absorb": (_STATUS, _POINTER, _POINTER, _COUNT),
    "collect": (_COUNT, _POINTER, _POINTER),
}

_JOURNAL_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "touched": (_COUNT, _POINTER, _POINTER, _POINTER),
    "net": (_COUNT, _POINTER, _POINTER),
    "settle": (None, _POINTER),
    "rollback": (_STATUS, _POINTER),
}

_BRIEF = {"count", "bytes", "drop_empty", "touched", "net", "settle"}
"""Functions that every epoch calls, and that take at most some nanoseconds for each entry that it has touched."""


class _RecordPair:
    """Records as they were and as they are."""

    def __init__(self, old: Records, new: Records) -> None:
        self.old, self.new = old, new
        self.addresses = old.ctypes.data, new.ctypes.data


class NativeMap:
    """One map: its handle, and what the runtime asks of it. ``address`` is what emitted code takes as a handle."""

    def __init__(self, code: MapCode, library: Library, memory: Memory, strings: StringDictionary) -> None:
        """``library`` is the loaded module of ``code``; ``memory`` counts the bytes; ``strings`` interns."""
        self.map = code.map
        self._record, self._strings = code.changing.record, strings
        self._reader = RecordReader(self.map, self._record, strings)
        self._ordered = code.changing.ordered
        self._functions = _functions(code, library)
        self._layout = code.changing.handle
        self._few = _RecordPair(*(self.make_records(FEW_RECORDS) for _ in range(2)))
        self._handle = (ctypes.c_int64 * (code.changing.handle.size // 8))()
        self._journal, self._limbo = (_count_slot(code.changing.handle, name) for name in ("journal", "limbo"))
        self.address = ctypes.addressof(self._handle)
        self._free = weakref.finalize(self, _destroy, self._functions["destroy"], self._handle, (library, memory))
        raise_status(self._functions["create"](self.address, memory.address), self.map)

    def __len__(self) -> int:
        return self._count("count")

    @property
    def bytes(self) -> int:
        """The memory that the map has taken."""
        return self._count("bytes")

    def restore(self, stored: pa.Table) -> None:
        """Add stored changes (``map_fields`` and ``_weight``), oldest first. Not journaled."""
        records = to_records(stored, self.map, self._record, self._strings)
        raise_status(self._functions["absorb"](self.address, records.ctypes.data, len(records)), self.map)

    def entries(self) -> pa.Table:
        """All entries: ``map_fields`` and ``_weight``."""
        self.sweep()
        records = self.make_records(len(self))
        return self._table(records[: self._functions["collect"](self.address, records.ctypes.data)])

    def rows(self, fields: tuple[Field, ...]) -> ChangeSet:
        """All entries of a map of rows with these columns."""
        if len(self) > FEW_RECORDS:
            return ChangeSet.of_arrow(self.entries(), fields)
        self.sweep()
        few = self._few.old[: self._functions["collect"](self.address, self._few.addresses[0])]
        return ChangeSet(fields, pairs=self._reader.stored_rows(few))

    @property
    def touches(self) -> int:
        """The number of entries that the epoch has touched; one that has left and come again counts twice."""
        return self._handle[self._journal]

    def touched_cells(self, place: int) -> npt.NDArray[Any]:
        """A key column of all entries that the epoch has touched, as it lies in the journal; one that has left and come
        again is there twice. To be read at once: the next change overwrites it."""
        if not self.touches:
            return self.make_records(0)[f"key{place}"]
        data = self._handle[self._journal - 1]
        memory = (ctypes.c_uint8 * (self.touches * self._record.payload)).from_address(data)
        return self._record.view(np.ctypeslib.as_array(memory))[f"key{place}"]

    def negatives(self, value: str) -> int:
        """The number of entries with a negative ``value`` (or ``_weight``), which must be guarded."""
        return self._handle[self._layout.offset(counter_of(value)) // 8]

    def changes(self) -> ChangeSet:
        """The epoch's net change, new minus old, in the form in which it is stored."""
        self.sweep()
        most = 2 * self._handle[self._journal]
        if most <= FEW_RECORDS:
            few = self._few.old[: self._functions["net"](self.address, self._few.addresses[0])]
            return ChangeSet(map_fields(self.map), pairs=self._reader.stored_rows(few))
        records = self.make_records(most)
        net = records[: self._functions["net"](self.address, records.ctypes.data)]
        if len(net) <= FEW_RECORDS:
            return ChangeSet.of(self._reader.stored_rows(net), map_fields(self.map))
        return ChangeSet.of_arrow(self._table(net), map_fields(self.map))

    def touched(self) -> Iterator[tuple[Row, Any, Any]]:
        """Each key that the epoch has touched, with its entry before and now, as ``finish`` functions take them.

        An entry that is not there is None. A map without values has plain weights for entries.
        """
        old, new = self._touched()
        if len(old) <= FEW_RECORDS:
            return self._reader.touched(old, new)
        return zip(self.keys_of(old), self.entries_of(old), self.entries_of(new), strict=True)

    def keys_of(self, records: Records) -> list[Row]:
        """The keys of records."""
        if len(records) <= FEW_RECORDS:
            return self._reader.keys(records)
        if not self.map.keys:
            return [()] * len(records)
        columns = [
            values_of(records[f"key{i}"], self._nulls(records, i), key.type, self._strings)
            for i, key in enumerate(self.map.keys)
        ]
        return list(zip(*columns, strict=True))

    def _nulls(self, records: Records, place: int) -> NullFlags | None:
        return nulls_at(records, place) if self._record.nulls and self.map.keys[place].nullable else None

    def entries_of(self, records: Records) -> list[Any]:
        """The entries of records, as ``finish`` functions take them."""
        if len(records) <= FEW_RECORDS:
            return self._reader.entries(records)
        return entries_of(records, self.map, self._record)

    def make_ends(self, count: int) -> Records:
        """An array for the ends of ``count`` groups of a multiset."""
        assert isinstance(self._ordered, MultisetIndexCode)
        return np.empty(count, self._ordered.version.dtype(("there", *ENDS)))

    def values_at(self, ends: Records, end: str) -> list[Any]:
        """The value at one end of each multiset, None where it is empty."""
        return values_of(ends[end], ends["there"] == 0, self.map.keys[-1].type, self._strings)

    def settle(self) -> None:
        """Take the entries as they are for the state from which the next epoch starts."""
        if self._handle[self._limbo]:
            self.sweep()
        count, capacity = self._handle[self._journal : self._journal + 2]
        if count or capacity * self._record.payload > LARGE_JOURNAL:
            self._functions["settle"](self.address)

    def rollback(self) -> None:
        """Put every touched entry back."""
        raise_status(self._functions["rollback"](self.address), self.map)

    def free(self) -> None:
        """Give the memory back. The map is not to be used any more."""
        self._free()

    def _touched(self) -> tuple[Records, Records]:
        self.sweep()
        most = self._handle[self._journal]
        pair = self._few if most <= FEW_RECORDS else _RecordPair(self.make_records(most), self.make_records(most))
        count = self._functions["touched"](self.address, *pair.addresses) if most else 0
        return pair.old[:count], pair.new[:count]

    def sweep(self) -> None:
        """Drop the entries that were left with weight 0, at the end of a change."""
        if self._handle[self._limbo]:
            raise_status(self._functions["drop_empty"](self.address), self.map)

    def _count(self, name: str) -> int:
        return int(self._functions[name](self.address))

    def make_records(self, count: int) -> Records:
        """An array for ``count`` records."""
        return np.empty(count, self._record.columns)

    def _table(self, records: Records) -> pa.Table:
        return to_table(records, self.map, self._record, self._strings)


def raise_status(status: int, map_: Map) -> None:
    """Raise what a status means."""
    match status:
        case Status.OK:
            return
        case Status.BUDGET | Status.MEMORY:
            raise out_of_memory(f'map "{map_.name}"')
        case Status.DOUBLE_RANGE:
            raise ArithmeticFault("a sum of DOUBLE leaves the range of DOUBLE")
        case Status.WEIGHT_OVERFLOW:
            raise ArithmeticFault(f"a weight of {map_.name} does not fit 64 bits")
    raise ArithmeticFault(f"a sum of {map_.name} does not fit 128 bits", hint="Convert its argument to DOUBLE.")


def out_of_memory(where: str) -> OutOfBudget:
    """Why maps were refused more memory, by the budget or by the machine."""
    return OutOfBudget(
        "the maps of a view do not fit into the memory budget",
        where=where,
        detail="They were refused more memory; nothing of the epoch was kept.",
        hint='Apply the change in smaller parts, or give the warehouse more memory="...".',
    )


def to_records(table: pa.Table, map_: Map, record: MapRecord, strings: StringDictionary) -> Records:
    """Stored rows as records that can be added to a map."""
    records = np.zeros(table.num_rows, record.columns)
    records["weight"] = table.column(WEIGHT).to_numpy()
    for i, key in enumerate(map_.keys):
        column = one_chunk(table.column(key.name))
        records[f"key{i}"] = cells_of(column, key.type, strings)
        nulls = nulls_of(column)
        if nulls is not None:
            records["nulls"] |= nulls.astype(np.int64) << i
    stored = iter(map_fields(map_)[len(map_.keys) :])
    for names in record.values:
        for name in names:
            field = next(stored)
            column = one_chunk(table.column(field.name))
            records[name] = sums_of(column, field.type) if len(names) == 1 else column.to_numpy(zero_copy_only=False)
    return records


def to_table(records: Records, map_: Map, record: MapRecord, strings: StringDictionary) -> pa.Table:
    """Records as stored rows."""
    columns = key_columns(records, map_, record, strings)
    for value, names in zip(map_.values, record.values, strict=True):
        for name in names:
            part = records[name]
            columns.append(
                column_of_sums(part, value.type) if len(names) == 1 else pa.array(np.ascontiguousarray(part))
            )
    columns.append(pa.array(np.ascontiguousarray(records["weight"])))
    return pa.Table.from_arrays(columns, schema=arrow_schema(map_fields(map_)))


def key_columns(records: Records, map_: Map, record: MapRecord, strings: StringDictionary) -> list[pa.Array]:
    """The keys of records as Arrow columns."""
    columns = []
    some = int(np.bitwise_or.reduce(records["nulls"])) if record.nulls and len(records) else 0
    for i, key in enumerate(map_.keys):
        nulls = nulls_at(records, i) if some >> i & 1 else None
        columns.append(column_of(records[f"key{i}"], nulls, key.type, strings))
    return columns


def nulls_at(records: Records, place: int) -> NullFlags | None:
    """Marks of the records that have NULL as that key; None where none has."""
    found: NullFlags = (records["nulls"] >> place & 1).astype(np.bool_)
    return found if found.any() else None


def entries_of(records: Records, map_: Map, record: MapRecord) -> list[Any]:
    """The entries of records in the form of ``state.maps``; None where the weight is 0."""
    weights = records["weight"].tolist()
    if not map_.values:
        return [weight or None for weight in weights]
    columns: list[Sequence[Any]] = [weights]
    for value, names in zip(map_.values, record.values, strict=True):
        if len(names) > 1:
            counts = zip(*(records[name].tolist() for name in names[2:]), strict=True)
            columns += [
                records[names[0]].tolist(),
                records[names[1]].tolist(),
                [double_sums.pack(*three) for three in counts],
            ]
        elif isinstance(value.type, t.Decimal):
            scale = value.type.scale
            columns.append([_decimal(number, scale) for number in integers(records[names[0]])])
        else:
            columns.append(integers(records[names[0]]))
    return [entry if entry[0] else None for entry in zip(*columns, strict=True)]


def _decimal(number: int, scale: int) -> Decimal:
    """``number / 10 ** scale``, exactly, whatever the precision of the context."""
    digits = tuple(map(int, str(abs(number))))
    return Decimal((number < 0, digits, -scale))


def _functions(code: MapCode, library: Library) -> dict[str, Callable[..., Any]]:
    signatures = _SIGNATURES | (_JOURNAL_SIGNATURES if code.changing.journaled else {})
    return {
        name: library.function(f"{code.changing.symbol}.{name}", *signature, brief=name in _BRIEF)
        for name, signature in signatures.items()
    }


def _count_slot(handle: StructLayout, vector: str) -> int:
    """The index of a vector's count, before its capacity, among the 64-bit words of a handle."""
    return (handle.offset(vector) + VECTOR.offset("count")) // 8


def _destroy(destroy: Callable[[int], None], handle: Any, needed: object) -> None:
    destroy(ctypes.addressof(handle))
    del needed  # the code and the account, which had to live until now
