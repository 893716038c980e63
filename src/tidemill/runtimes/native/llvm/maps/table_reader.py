"""Reads the rows of a table that several stages share: looked up by chained indexes, or scanned.

A *handle* of such a reader has the addresses of the columns that a stage reads, and of the indexes by which it looks
rows up (``table.column_store`` makes them). A row is its number, an i64. The code of a stage only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, count_up, number
from tidemill.runtimes.native.llvm.codegen.layout import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    NullableValue,
    StructLayout,
    cell_type,
    size_of,
)
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.containers.chained_index import ChainedIndex, element, load_cell
from tidemill.runtimes.native.llvm.containers.hash_table import hash_of
from tidemill.runtimes.native.llvm.containers.key_cells import any_null

IndexColumns = tuple[str, ...]
"""An index: the columns that rows are looked up by, in the order of the table."""


class TableReader:
    """The code that reads one table: the columns of ``map_``, and some indexes over them."""

    def __init__(self, map_: Map, indexes: Sequence[IndexColumns]) -> None:
        self.map = map_
        self.indexes = tuple(indexes)
        self._places = {f.name: place for place, f in enumerate(map_.keys)}
        self._types = [cell_type(f.type) for f in map_.keys]
        self.layout = StructLayout()
        self.layout.field("rows", PTR)
        self.layout.field("deleted", PTR)
        for i in range(len(map_.keys)):
            self.layout.field(f"values{i}", PTR)
            self.layout.field(f"nulls{i}", PTR)
        for i in range(len(self.indexes)):
            self.layout.field(f"heads{i}", PTR)
            self.layout.field(f"links{i}", PTR)
            self.layout.field(f"shift{i}", I64)

    def key(self, builder: ir.IRBuilder, handle: IRValue, row: IRValue, place: int) -> NullableValue:
        """The cell of a column of a row."""
        value = load_cell(builder, self.layout.load(builder, handle, f"values{place}"), row, self._types[place])
        if not self.map.keys[place].nullable:
            return NullableValue(value)
        flags = self.layout.load(builder, handle, f"nulls{place}")
        return NullableValue(value, builder.trunc(builder.load(element(builder, flags, row, I8), typ=I8), I1))

    def loop(
        self,
        builder: ir.IRBuilder,
        handle: IRValue,
        columns: IndexColumns,
        keys: Sequence[NullableValue],
        body: Callable[[IRValue], None],
    ) -> None:
        """Run ``body`` for every row that has ``keys`` in ``columns``, or for all rows where there are no columns.

        A NULL among ``keys`` finds nothing.
        """
        if not columns:
            self._scan(builder, handle, body)
            return
        null = any_null(builder, keys)
        with builder.if_then(number(1, I1) if null is None else builder.not_(null)):
            index = self._index(builder, handle, columns)
            with index.rows(builder, [key.value for key in keys], self._loader(builder, handle, columns)) as (row, _):
                body(row)

    def _scan(self, builder: ir.IRBuilder, handle: IRValue, body: Callable[[IRValue], None]) -> None:
        rows = builder.load(self.layout.load(builder, handle, "rows"), typ=I64)
        deleted = self.layout.load(builder, handle, "deleted")
        with count_up(builder, number(0), rows) as row:
            flag = builder.load(element(builder, deleted, row, I8), typ=I8)
            with builder.if_then(builder.icmp_unsigned("==", flag, number(0, I8))):
                body(row)

    def _loader(
        self, builder: ir.IRBuilder, handle: IRValue, columns: IndexColumns
    ) -> Callable[[IRValue], list[IRValue]]:
        places = [self._places[name] for name in columns]
        arrays = [self.layout.load(builder, handle, f"values{place}") for place in places]
        types = [self._types[place] for place in places]
        return lambda row: [load_cell(builder, array, row, kind) for array, kind in zip(arrays, types, strict=True)]

    def _index(self, builder: ir.IRBuilder, handle: IRValue, columns: IndexColumns) -> ChainedIndex:
        place = self.indexes.index(columns)
        parts = (self.layout.load(builder, handle, f"{part}{place}") for part in ("heads", "links", "shift"))
        return ChainedIndex(*parts)

    @property
    def pointers(self) -> int:
        """The greatest number of pointers that ``prefetch`` follows."""
        return len(self.indexes) * (1 + len(self.map.keys))

    def prefetch(
        self, builder: ir.IRBuilder, handle: IRValue, cells: Mapping[str, NullableValue], prefetcher: Prefetcher
    ) -> None:
        """Request the memory that looking rows up by these columns will touch: heads, then the last row of a chain."""
        for columns in self.indexes:
            if not cells.keys() >= set(columns):
                continue
            index = self._index(builder, handle, columns)
            head = index.head(builder, hash_of(builder, [cells[name].value for name in columns]))
            prefetcher.request(head, 4)
            arrays = [(index.links, I32)]
            arrays += [
                (self.layout.load(builder, handle, f"values{place}"), kind) for place, kind in enumerate(self._types)
            ]
            for array, kind in arrays:
                # Heads count rows from 1.
                prefetcher.request_later(head, element(builder, array, number(-1), kind), size_of(kind))


@dataclass(frozen=True, slots=True)
class TableGlobal:
    """A shared table in a module: its reader, and the global that will hold the address of its handle."""

    code: TableReader
    place: ir.GlobalVariable

    @property
    def map(self) -> Map:
        """The columns that are read, as keys of a map."""
        return self.code.map

    def handle(self, builder: ir.IRBuilder) -> IRValue:
        """The handle of the reader."""
        return builder.load(self.place, typ=PTR)
