"""Hash indexes over the rows of a column store: chains of row numbers through an array beside the columns.

``heads`` has for each hash the number of the last row with it, counted from 1, and 0 where there is none. ``links`` has
for each row the row before it in its chain. Rows are linked in ascending order and unlinked in descending order, so
both are O(1). A row that was deleted stays in its chain, with the bit ``DELETED`` in its link. A row with NULL in a key
column is in no chain: no lookup finds it.

===============  ===============================================================================================
``link``         link rows
``link_unique``  the same until a row has the key of another one; returns how far it came
``unlink``       unlink rows
``find``         the numbers of the rows under some keys, -1 where there is none
===============  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    count_up,
    define,
    in_blocks,
    loop_while,
    number,
)
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I32, I64, NULL_POINTER, PTR, size_of
from tidemill.runtimes.native.llvm.codegen.prefetch import prefetch
from tidemill.runtimes.native.llvm.containers.hash_table import hash_of
from tidemill.runtimes.native.llvm.containers.key_cells import equal

DELETED = 1 << 31
"""The bit of a link whose row was deleted; the other bits are the number of a row."""

MAX_ROWS = DELETED - 2
"""The greatest number of rows of a column store."""

ABSENT = -1
"""The number of no row."""

PREFETCH_ROWS = 32
"""Rows whose memory is requested before the first of them is looked up."""


@dataclass(frozen=True, slots=True)
class ChainedIndex:
    """The arrays of an index: heads, links, and the number of bits by which a hash is shifted to its place in heads."""

    heads: IRValue
    links: IRValue
    shift: IRValue

    def head(self, builder: ir.IRBuilder, hash_: IRValue) -> IRValue:
        """The address of the head of the chain of a hash."""
        return element(builder, self.heads, builder.lshr(hash_, self.shift), I32)

    def link(self, builder: ir.IRBuilder, row: IRValue) -> IRValue:
        """The address of the link of a row."""
        return element(builder, self.links, row, I32)

    @contextmanager
    def rows(
        self, builder: ir.IRBuilder, cells: Sequence[IRValue], load: Callable[[IRValue], Sequence[IRValue]]
    ) -> Iterator[tuple[IRValue, ir.Block]]:
        """Run what is emitted within for each row, an i64, that has ``cells``; ``load`` emits the key cells of a row.

        Yields the row, and the block to branch to for an early end.
        """
        head = self.head(builder, hash_of(builder, cells))
        following = Local(builder, builder.load(head, typ=I32, align=4))
        with loop_while(builder, lambda: builder.icmp_unsigned("!=", following.get(), number(0, I32))) as ended:
            row = builder.zext(builder.sub(following.get(), number(1, I32)), I64)
            link = builder.load(self.link(builder, row), typ=I32, align=4)
            following.set(builder.and_(link, number(DELETED - 1, I32)))
            there = builder.icmp_signed(">=", link, number(0, I32))
            with builder.if_then(builder.and_(there, equal(builder, load(row), cells))):
                yield row, ended


def element(builder: ir.IRBuilder, array: IRValue, place: IRValue, type_: ir.Type) -> IRValue:
    """The address of an element of an array."""
    return builder.gep(array, [place], source_etype=type_)


def load_cell(builder: ir.IRBuilder, array: IRValue, row: IRValue, type_: ir.Type) -> IRValue:
    """A cell of a column."""
    return builder.load(element(builder, array, row, type_), typ=type_, align=min(size_of(type_), 8))


@lru_cache(maxsize=64)
def emit_index(types: tuple[ir.Type, ...]) -> ir.Module:
    """The functions of an index over columns of these cell types."""
    return _IndexEmitter(types).emit()


class _IndexEmitter:
    """Emits the functions.

    Columns come as an array of their addresses, and so do their flags of NULL, with null for a column that has none.
    """

    def __init__(self, types: tuple[ir.Type, ...]) -> None:
        self._types = types
        self._module = ir.Module("chained index")

    def emit(self) -> ir.Module:
        rows, index = [I64, I64, PTR], [PTR, PTR, I64]
        define(self._module, "link", I64, [*rows, PTR, *index], self._emit_link, exported=True)
        define(self._module, "link_unique", I64, [*rows, *index], self._emit_link_unique, exported=True)
        define(self._module, "unlink", I64, [*rows, PTR, *index], self._emit_unlink, exported=True)
        define(self._module, "find", I64, [I64, PTR, PTR, PTR, *index], self._emit_find, exported=True)
        return self._module

    def _emit_link(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(start, stop, columns, nulls, heads, links, shift)``."""
        start, stop, columns, nulls, *parts = arguments
        index, load, flags = ChainedIndex(*parts), self._loader(builder, columns), self._addresses(builder, nulls)
        with self._blocks(builder, start, stop, index, load) as row, builder.if_then(_known(builder, flags, row)):
            self._link(builder, index, load(row), row)
        builder.ret(stop)

    def _emit_link_unique(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(start, stop, columns, heads, links, shift)``: for columns without NULL."""
        start, stop, columns, *parts = arguments
        index, load = ChainedIndex(*parts), self._loader(builder, columns)
        with self._blocks(builder, start, stop, index, load, rows=True) as row:
            with index.rows(builder, load(row), load):
                builder.ret(row)
            self._link(builder, index, load(row), row)
        builder.ret(stop)

    def _emit_unlink(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(start, stop, columns, nulls, heads, links, shift)``."""
        start, stop, columns, nulls, *parts = arguments
        index, load, flags = ChainedIndex(*parts), self._loader(builder, columns), self._addresses(builder, nulls)
        last = builder.sub(builder.add(start, stop), number(1))
        with count_up(builder, start, stop) as place:
            row = builder.sub(last, place)
            with builder.if_then(_known(builder, flags, row)):
                link = index.link(builder, row)
                before = builder.and_(builder.load(link, typ=I32, align=4), number(DELETED - 1, I32))
                builder.store(before, index.head(builder, hash_of(builder, load(row))), align=4)
                builder.store(number(0, I32), link, align=4)
        builder.ret(stop)

    def _emit_find(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(count, keys, columns, numbers, heads, links, shift)``."""
        count, keys, columns, numbers, *parts = arguments
        index, sought, load = ChainedIndex(*parts), self._loader(builder, keys), self._loader(builder, columns)
        with self._blocks(builder, number(0), count, index, sought, rows=True, columns=columns) as place:
            found = Local(builder, number(ABSENT))
            with index.rows(builder, sought(place), load) as (row, ended):
                found.set(row)
                builder.branch(ended)
            builder.store(found.get(), element(builder, numbers, place, I64))
        builder.ret(count)

    def _link(self, builder: ir.IRBuilder, index: ChainedIndex, cells: Sequence[IRValue], row: IRValue) -> None:
        head, link = index.head(builder, hash_of(builder, cells)), index.link(builder, row)
        deleted = builder.and_(builder.load(link, typ=I32, align=4), number(DELETED, I32))
        builder.store(builder.or_(deleted, builder.load(head, typ=I32, align=4)), link, align=4)
        builder.store(builder.trunc(builder.add(row, number(1)), I32), head, align=4)

    @contextmanager
    def _blocks(
        self,
        builder: ir.IRBuilder,
        start: IRValue,
        stop: IRValue,
        index: ChainedIndex,
        load: Callable[[IRValue], Sequence[IRValue]],
        *,
        rows: bool = False,
        columns: IRValue | None = None,
    ) -> Iterator[IRValue]:
        """Run what is emitted within for each number, after the heads of a block of them have been prefetched.

        With ``rows`` so are the rows that heads lead to, whose key is in ``columns``, if that is not where numbers are.
        """
        arrays = [] if columns is None else self._addresses(builder, columns)
        with in_blocks(builder, builder.sub(stop, start), PREFETCH_ROWS) as (begin, end):
            first, last = builder.add(begin, start), builder.add(end, start)
            with count_up(builder, first, last) as place:
                prefetch(builder, index.head(builder, hash_of(builder, load(place))))
            if rows:
                with count_up(builder, first, last) as place:
                    head = builder.load(index.head(builder, hash_of(builder, load(place))), typ=I32, align=4)
                    row = builder.sub(builder.zext(head, I64), number(1))
                    prefetch(builder, index.link(builder, row))
                    for array, type_ in zip(arrays, self._types, strict=bool(arrays)):
                        prefetch(builder, element(builder, array, row, type_))
            with count_up(builder, first, last) as place:
                yield place

    def _addresses(self, builder: ir.IRBuilder, array: IRValue) -> list[IRValue]:
        return [builder.load(element(builder, array, number(i), PTR), typ=PTR) for i in range(len(self._types))]

    def _loader(self, builder: ir.IRBuilder, columns: IRValue) -> Callable[[IRValue], list[IRValue]]:
        arrays = self._addresses(builder, columns)
        return lambda row: [
            load_cell(builder, array, row, type_) for array, type_ in zip(arrays, self._types, strict=True)
        ]


def _known(builder: ir.IRBuilder, flags: Sequence[IRValue], row: IRValue) -> IRValue:
    """An i1: true if no key column of a row is NULL."""
    found: IRValue = number(1, I1)
    for array in flags:
        null = Local(builder, number(0, I8))
        with builder.if_then(builder.icmp_unsigned("!=", array, NULL_POINTER)):
            null.set(builder.load(element(builder, array, row, I8), typ=I8))
        found = builder.and_(found, builder.icmp_unsigned("==", null.get(), number(0, I8)))
    return found
