"""Run-end encoding: a value that consecutive rows share is stored once, with the row at which they end.

The change of a join repeats values: one tweet goes to a hundred followers. Arrow's run-end encoding stores each once,
and every reader of Arrow (DuckDB, pandas, another process) understands it. Row counts are those of the decoded table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def repeated(values: pa.Array, ends: pa.Array) -> pa.Array:
    """A column that repeats each of ``values`` up to its run end.

    >>> table = pa.table({"tweet": repeated(pa.array([7, 8]), pa.array([2, 5])), "reader": [1, 2, 1, 2, 3]})
    >>> decoded(table).to_pydict()
    {'tweet': [7, 7, 8, 8, 8], 'reader': [1, 2, 1, 2, 3]}
    """
    return pa.RunEndEncodedArray.from_arrays(ends, values)


def is_repeated(column: pa.Array | pa.ChunkedArray) -> bool:
    """True if a column is run-end encoded."""
    return bool(pa.types.is_run_end_encoded(column.type))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with a value for each row."""
    return pc.run_end_decode(column) if is_repeated(column) else column


def decoded(table: pa.Table) -> pa.Table:
    """The same rows in plain columns."""
    return pa.Table.from_arrays([plain(column) for column in table.columns], names=table.column_names)


def taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Some rows of a table, in plain columns: only these are decoded.

    >>> table = pa.table({"tweet": repeated(pa.array([7, 8]), pa.array([2, 5])), "reader": [1, 2, 1, 2, 3]})
    >>> taken(table, np.array([1, 4])).to_pydict()
    {'tweet': [7, 8], 'reader': [2, 3]}
    """
    places = pa.array(rows)
    runs: dict[int, pa.Array] = {}  # most columns share their ends
    columns = []
    for column in table.columns:
        if not is_repeated(column) or column.num_chunks != 1:
            columns.append(plain(column).take(places))
            continue
        chunk = column.chunk(0)
        ends = chunk.run_ends.buffers()[1].address
        if ends not in runs:
            runs[ends] = _runs(chunk, rows)
        columns.append(chunk.values.take(runs[ends]))
    return pa.Table.from_arrays(columns, names=table.column_names)


def _runs(column: Any, rows: npt.NDArray[np.int64]) -> pa.Array:
    """The run number of each of some rows of a column."""
    return pa.array(np.searchsorted(column.run_ends.to_numpy(), rows + column.offset, side="right"))
