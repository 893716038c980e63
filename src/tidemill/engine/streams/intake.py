"""The batches of a stream as epochs of the warehouse, each once, with bad rows in tables of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.engine import Engine
from tidemill.engine.intake_counts import IntakeCounts
from tidemill.engine.streams.batch_rows import DELETED, BatchRows, Record, set_orphans_aside
from tidemill.engine.streams.options import ERROR_FIELDS, StreamOptions, errors_table
from tidemill.model.errors import DataError
from tidemill.model.schema import Table
from tidemill.runtimes.native.python.check_conditions import row_checker

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import DataFrame

__all__ = ["BatchPart", "StreamIntake"]

BatchPart = Callable[..., Any]
"""The part of a batch that one table takes: a frame of its changes, from the frame of the batch."""


@dataclass
class StreamIntake:
    """A stream into ``targets``, tables by name with their parts of a batch.

    ``read`` makes changes of frames. ``counts`` and ``batches`` are those since the stream was started.
    """

    engine: Engine
    name: str
    targets: Mapping[str, BatchPart]
    options: StreamOptions
    read: Callable[[Mapping[str, Any]], dict[str, ChangeSet]]
    counts: IntakeCounts = field(default_factory=IntakeCounts)
    batches: int = 0

    def prepare(self) -> None:
        """Refuse what cannot be taken so, and make the tables of bad rows."""
        for name in self.targets:
            table = self.engine.committed.table(name)
            self.options.require_fit(table)
            if self.options.sets_aside:
                made = errors_table(table, self.engine.committed.tables.get(f"{table.name}_errors"))
                if made.name not in self.engine.committed.tables:
                    self.engine.definitions.create_table(made)

    def take(self, batch: DataFrame, source: str, position: str) -> None:
        """Commit one batch as an epoch, with its ``position`` in the stream ``source``."""
        frames = {name: part(batch) for name, part in self.targets.items()}
        positions = {source: position}
        if not self.options.upserts:
            # Frames whose rows are all good need not be looked at row by row.
            with suppress(*([DataError] if self.options.sets_aside else [])):
                changes = self.read(frames)
                self.engine.apply(changes, positions)
                return self._count(sum(change.rows for change in changes.values()))
        rows = {name: self._rows(frame) for name, frame in frames.items()}
        return self.take_rows(rows, positions)

    def _rows(self, frame: DataFrame) -> pa.Table:
        from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow

        if self.options.delete_where is not None:
            frame = frame.selectExpr("*", f"coalesce(({self.options.delete_where}), false) AS {DELETED}")
        return rows_as_arrow(frame)

    def take_rows(self, given: Mapping[str, pa.Table], positions: Mapping[str, str]) -> None:
        """Commit the rows of a batch for each table as an epoch, looked at one by one."""
        with self.engine.settled():
            number = next((json.loads(position)["batch"] for position in positions.values()), 0)
            records = {
                name: rows.rename_columns([column.lower() for column in rows.column_names]).to_pylist()
                for name, rows in given.items()
            }
            changes, counts = self.judged(records, number)
            self.engine.apply(changes, positions)
        self._count(counts.rows, counts.rejected)

    def judged(self, given: Mapping[str, Sequence[Record]], number: int) -> tuple[dict[str, ChangeSet], IntakeCounts]:
        """The changes that rows make, looked at one by one, and in tables of bad rows those that cannot be taken.

        The caller holds the lock of the warehouse. ``number`` is that of their batch.
        """
        catalog = self.engine.committed
        tables = {name: catalog.table(name) for name in given}
        batch = {name: self._rows_of(tables[name], records) for name, records in given.items()}
        keys = [key for key in catalog.constraints.keys_of(given) if key.child.name in given]
        set_orphans_aside(batch, keys, self.engine.placement.lookup.find)
        changes = {name: ChangeSet.of(one.changes, tables[name].fields) for name, one in batch.items()}
        for name, one in batch.items():
            if one.bad:
                places = [number if bad.place is None else bad.place for bad in one.bad]
                rows = [((self.name, at, bad.reason, bad.text), 1) for at, bad in zip(places, one.bad, strict=True)]
                changes[f"{name}_errors"] = ChangeSet.of(rows, ERROR_FIELDS)
        rejected = sum(len(one.bad) for one in batch.values())
        return changes, IntakeCounts(rows=sum(len(one.changes) for one in batch.values()), rejected=rejected)

    def _rows_of(self, table: Table, records: Sequence[Record]) -> BatchRows:
        judge = row_checker(self.engine.committed.constraints.conditions_of(table.name))
        found = BatchRows(table, self.options, self.engine.placement.lookup.find, judge)
        found.take(records)
        return found

    def _count(self, rows: int, rejected: int = 0) -> None:
        self.batches += 1
        self.counts += IntakeCounts(rows=rows, rejected=rejected)
