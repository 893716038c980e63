"""Bulk changes checked in tasks: each takes the rows of some keys, and writes those that its table can take to a file.

All rows of a key are in one part, so a task sees whatever its rows have to be compared with. A file counts once the
driver has its name from the one attempt of a task whose result Spark returns: what other attempts have written stays in
the staging folder until that is deleted.
"""

from __future__ import annotations

import decimal
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import integer_array, to_stream
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.hashing import hash_columns
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Table
from tidemill.runtimes.spark.lookup.key_check import only_new_keys, rows_in_doubt
from tidemill.runtimes.spark.tasks.run_files import require_files
from tidemill.storage.filesystem.durable_files import translate_os_errors
from tidemill.storage.runs import write_table
from tidemill.storage.segments import with_epoch
from tidemill.storage.shared_staging import SharedStaging
from tidemill.storage.store import RunFile

_FULL_HINT = "Make room for it, or give the change in several epochs. Nothing was committed."


@dataclass(frozen=True)
class CheckedChange:
    """The change of a table that tasks check in parts: its rows are in ``given`` files, Arrow's or Parquet's.

    ``starts`` are the values of the first key column with which the parts after the first begin, in ascending order;
    without them rows are divided by hashes of their keys. Files go to ``folder``, or to a place that is ``shared`` with
    other machines, as rows of ``epoch``.
    """

    table: Table
    given: tuple[os.PathLike[str], ...]
    rows: int
    stored: tuple[RunFile, ...]
    starts: tuple[int, ...] | None
    folder: Path
    epoch: int
    shared: SharedStaging | None = None


class CheckedPart(NamedTuple):
    """The answer of a task for a part of a change: the file with the rows that are fine, and how many these are.

    The file is a pickled name in the folder, or a ``StagedRun`` of the shared place. Rows in doubt, with their places
    in the change as last column, have to be compared with stored rows: both are Arrow streams, as ``fault`` is a
    pickled error, and empty where there are none.
    """

    name: str
    file: bytes
    rows: int
    doubtful: int
    unsure: bytes
    held: bytes
    fault: bytes


def check_part(change: CheckedChange, part: int, parts: int, most: int) -> CheckedPart:
    """Check a part of a change. Of more than ``most`` rows in doubt only their number is told."""
    name = change.table.name
    try:
        with decimal.localcontext(EXACT):
            return _check_part(change, part, parts, most)
    except TidemillError as error:
        return CheckedPart(name, b"", 0, 0, b"", b"", pickle.dumps(error))


def _check_part(change: CheckedChange, part: int, parts: int, most: int) -> CheckedPart:
    table, rows = change.table, _given_rows(change)
    places = np.flatnonzero(_parts_of(rows, change, parts) == part)
    mine = rows.filter(_mask(places, len(rows))).combine_chunks()
    if change.starts is not None:
        order = np.argsort(_first_keys(mine, table), kind="stable")
        mine, places = mine.take(integer_array(order)), places[order]
    mine_alone = ChangeSet.of_arrow(mine, table.fields)
    if not len(mine) or only_new_keys(table, mine_alone, change.stored):
        return CheckedPart(table.name, _write(mine, change), len(mine), 0, b"", b"", b"")
    doubted, held = rows_in_doubt(table, mine_alone, change.stored)
    count = int(doubted.sum())
    if not count:
        return CheckedPart(table.name, _write(mine, change), len(mine), 0, b"", b"", b"")
    if count > most:
        return CheckedPart(table.name, b"", 0, count, b"", b"", b"")
    unsure = mine.filter(doubted).append_column("place", integer_array(places[doubted]))
    # Others that have the same hash may be with another part, too.
    held = held.filter(pa.array(_parts_of(held, change, parts) == part))
    mine = mine.filter(~doubted)
    return CheckedPart(table.name, _write(mine, change), len(mine), count, to_stream(unsure), to_stream(held), b"")


def _given_rows(change: CheckedChange) -> pa.Table:
    require_files(change.given)
    first = Path(change.given[0])
    if first.suffix == ".arrow":
        return pa.ipc.open_file(pa.memory_map(str(first))).read_all()
    return ChangeSet.of_files(change.given, change.table.fields, change.rows).arrow()


def _parts_of(rows: pa.Table, change: CheckedChange, parts: int) -> npt.NDArray[np.intp]:
    """The part that each row is in."""
    if change.starts is not None:
        return np.searchsorted(np.array(change.starts), _first_keys(rows, change.table), side="right")
    hashes = hash_columns([rows.column(name) for name in change.table.primary_key])
    return (hashes % np.uint64(parts)).astype(np.intp)


def _first_keys(rows: pa.Table, table: Table) -> npt.NDArray[np.int64]:
    return first_keys(rows.column(table.primary_key[0]))


def first_keys(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The values of a first key column of whole numbers, 0 for NULL."""
    found: npt.NDArray[np.int64] = pc.fill_null(column, 0).to_numpy().astype(np.int64, copy=False)
    return found


def _mask(places: npt.NDArray[np.intp], rows: int) -> pa.Array:
    mask = np.zeros(rows, dtype=bool)
    mask[places] = True
    return pa.array(mask)


def _write(rows: pa.Table, change: CheckedChange) -> bytes:
    """Write rows to a file that no other attempt of this task writes to; returns it, or nothing for no rows."""
    if not len(rows):
        return b""
    stored = with_epoch(rows, change.epoch)
    if change.shared is not None:
        return pickle.dumps(change.shared.write([stored], stored.schema))
    file = change.folder / f"{uuid4().hex}.parquet"
    with translate_os_errors("write the rows of a change", file, _FULL_HINT):
        write_table(stored, file)
    return pickle.dumps(file.name)
