"""Machine code that sorts the rows of a change of a table by what they do, and refuses a change that is not plain."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, count_up, define, number
from tidemill.runtimes.native.llvm.codegen.jit import Library, load
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, PTR
from tidemill.runtimes.native.llvm.containers.chained_index import DELETED, element, load_cell

RowNumbers = npt.NDArray[np.int64]

_NOT_PLAIN = -1


@dataclass(frozen=True, slots=True)
class SiftedRows:
    """Places of rows of a change, and the numbers that the table's rows under their keys have.

    ``leaving`` have ``left``, and ``updates`` ``kept``: they come in place of a row that leaves. ``comes`` are all that
    come.
    """

    leaving: RowNumbers
    left: RowNumbers
    updates: RowNumbers
    kept: RowNumbers
    comes: RowNumbers


def sift(weights: RowNumbers, found: RowNumbers, links: npt.NDArray[np.uint32]) -> SiftedRows | None:
    """Tell rows apart by their weights; ``found`` has the number of the row under each key, and -1 where there is none.

    None where that is not plain: a row leaves that is not there, or twice, or stays under a key that comes. Else the
    rows that leave are marked as deleted in ``links``.

    >>> links = np.zeros(3, np.uint32)
    >>> rows = sift(np.array([-1, 1, 1]), np.array([2, -1, 2]), links)
    >>> rows.left.tolist(), rows.updates.tolist(), rows.comes.tolist(), (links >> 31).tolist()
    ([2], [2], [1, 2], [0, 0, 1])
    >>> sift(np.array([-1, -1]), np.array([0, 0]), links), (links >> 31).tolist()
    (None, [0, 0, 1])
    """
    places = np.empty((5, len(weights)), np.int64)
    counts = np.empty(3, np.int64)
    given = [np.ascontiguousarray(weights).ctypes.data, found.ctypes.data, links.ctypes.data]
    code, _ = _loaded_sift()
    if code(len(weights), *given, *[row.ctypes.data for row in places], counts.ctypes.data) == _NOT_PLAIN:
        return None
    leave, update, come = counts.tolist()
    leaving, left, updates, kept, comes = places
    return SiftedRows(leaving[:leave], left[:leave], updates[:update], kept[:update], comes[:come])


@lru_cache(maxsize=1)
def _loaded_sift() -> tuple[Any, Library]:
    """The function, and the library that has to stay loaded for it."""
    module = ir.Module("sift")
    define(module, "sift", I64, [I64, *[PTR] * 9], _emit_sift, exported=True)
    library = load(module)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 9)
    return kind(library.address("sift")), library


def _emit_sift(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
    """``(count, weights, found, links, leaving, left, updates, kept, comes, counts)``."""
    count, weights, found, links, leaving, left, updates, kept, comes, counts = arguments
    gone, updated, come = (Local(builder, number(0)) for _ in range(3))
    refused = builder.append_basic_block("refused")
    with count_up(builder, number(0), count) as place:
        weight, row = (load_cell(builder, array, place, I64) for array in (weights, found))
        there = builder.icmp_signed(">=", row, number(0))
        with builder.if_else(builder.icmp_signed("==", weight, number(-1))) as (leaves, stays):
            with leaves:
                _refuse_unless(builder, there, refused)
                link = element(builder, links, row, I32)
                before = builder.load(link, typ=I32, align=4)
                _refuse_unless(builder, builder.icmp_signed(">=", before, number(0, I32)), refused)
                builder.store(builder.or_(before, number(DELETED, I32)), link, align=4)
                _append(builder, gone, {leaving: place, left: row})
            with stays:
                _refuse_unless(builder, builder.icmp_signed("==", weight, number(1)), refused)
                _append(builder, come, {comes: place})
                with builder.if_then(there):
                    _append(builder, updated, {updates: place, kept: row})
    with count_up(builder, number(0), updated.get()) as place:
        link = element(builder, links, load_cell(builder, kept, place, I64), I32)
        deleted = builder.icmp_signed("<", builder.load(link, typ=I32, align=4), number(0, I32))
        _refuse_unless(builder, deleted, refused)
    for place, total in enumerate((gone, updated, come)):
        builder.store(total.get(), element(builder, counts, number(place), I64))
    builder.ret(number(0))
    builder.position_at_end(refused)
    with count_up(builder, number(0), gone.get()) as place:
        link = element(builder, links, load_cell(builder, left, place, I64), I32)
        builder.store(builder.and_(builder.load(link, typ=I32, align=4), number(DELETED - 1, I32)), link, align=4)
    builder.ret(number(_NOT_PLAIN))


def _refuse_unless(builder: ir.IRBuilder, condition: IRValue, refused: ir.Block) -> None:
    with builder.if_then(builder.not_(condition), likely=False):
        builder.branch(refused)


def _append(builder: ir.IRBuilder, total: Local, values: dict[IRValue, IRValue]) -> None:
    """Append a value to each of some arrays with so many elements."""
    for array, value in values.items():
        builder.store(value, element(builder, array, total.get(), I64))
    total.set(builder.add(total.get(), number(1)))
