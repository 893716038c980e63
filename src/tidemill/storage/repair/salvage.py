"""Salvage: the rows of a damaged run that are still intact.

A manifest has a checksum of each row group of a large run, and one of all bytes outside of them. A row group of a
damaged file is used only if both match: the first verifies its pages, the second the footer, which says where they are
and what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.model.errors import StorageError
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.storage.filesystem.row_group_checksums import row_group_checksums
from tidemill.storage.runs import RunSegment, open_run, translate_read_errors


@dataclass(frozen=True)
class SalvagedRows:
    """The intact rows of a damaged run, the number of lost rows, and the bounds of their values."""

    rows: pa.Table
    lost: int
    bounds: Mapping[str, tuple[Any, Any]]


def salvage(part: RunSegment) -> SalvagedRows | None:
    """The rows of a damaged run that are certainly intact; None if there are none."""
    try:
        if not part.run.groups or part.local.stat().st_size != part.run.bytes:
            return None
        with translate_read_errors(part.path), open_run(part.local) as parquet:
            found = row_group_checksums(part.local, parquet.metadata)
            if len(found) != len(part.run.groups) or found[-1] != part.run.groups[-1]:
                return None
            pairs = zip(found[:-1], part.run.groups[:-1], strict=True)
            good = [number for number, (is_, was) in enumerate(pairs) if is_ == was]
            bad = [number for number in range(len(found) - 1) if number not in good]
            rows = parquet.read_row_groups(good)
            return SalvagedRows(rows, part.run.rows - rows.num_rows, _bounds(parquet.metadata, bad)) if good else None
    except (StorageError, FileNotFoundError):
        return None


def _bounds(footer: pq.FileMetaData, groups: Sequence[int]) -> dict[str, tuple[Any, Any]]:
    """The least and the greatest value of each column in some row groups, if the footer has them."""
    found: dict[str, tuple[Any, Any]] = {}
    for place in range(footer.num_columns):
        figures = [footer.row_group(group).column(place).statistics for group in groups]
        name = footer.row_group(0).column(place).path_in_schema
        if name not in (WEIGHT, EPOCH) and all(figure is not None and figure.has_min_max for figure in figures):
            found[name] = min(figure.min for figure in figures), max(figure.max for figure in figures)
    return found
