"""Commits of published tables: the rows of a view, or its changes since an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema
from tidemill.engine.catalog.views.view import View
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.program.maps import Map
from tidemill.sources.lake.publication.lake_publication import LakePublication, Written
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["PublishedChange", "appended", "merged", "replaced", "replaced_changes"]


@dataclass(frozen=True)
class PublishedChange:
    """One commit of a lake table: ``rows`` replace all others or are added, in a merge after those of ``gone`` keys."""

    epoch: int
    kind: Literal["replace", "append", "merge"]
    rows: pa.Table
    gone: pa.Table

    def commit(self, table: LakePublication) -> Written | None:
        """Make the commit; None if rows that a merge deletes are not there.

        An epoch without a change is a commit too: the table shows it.
        """
        fault("lake-write")
        if self.kind == "replace":
            written: Written | None = table.replace(self.rows, self.epoch)
        elif self.kind == "merge" and (self.rows.num_rows or self.gone.num_rows):
            written = table.merge(self.gone, self.rows, self.epoch)
        else:
            written = table.append(self.rows, self.epoch)
        fault("lake-written")
        return written


def merged(batches: Sequence[ChangeBatch], view: View, key: Sequence[int], epoch: int) -> PublishedChange:
    """The net change of batches: the keys of rows that go, and the rows that come."""
    parts = [arrow_schema(view.fields).empty_table(), *(batch.arrow() for batch in batches)]
    net = _summed(pa.concat_tables(parts), view)
    goes = pc.less(net.column(WEIGHT), 0)
    rows = net.drop_columns([WEIGHT])
    gone = rows.filter(goes).select([view.fields[place].name for place in key])
    return PublishedChange(epoch, "merge", rows.filter(pc.invert(goes)), gone)


def appended(batches: Sequence[ChangeBatch], view: View, epoch: int) -> PublishedChange:
    """The changes of batches, each with its epoch."""
    parts = [_at_epoch(batch.arrow(), batch.epoch) for batch in batches]
    empty = _at_epoch(arrow_schema(view.fields).empty_table(), epoch)
    return _without_gone(epoch, "append", pa.concat_tables([empty, *parts]))


def replaced(contents: pa.Table, view: View, epoch: int) -> PublishedChange:
    """The rows of a view, each as often as it is there."""
    summed = _summed(contents, view)
    places = np.repeat(np.arange(summed.num_rows), summed.column(WEIGHT).to_numpy())
    return _without_gone(epoch, "replace", summed.drop_columns([WEIGHT]).take(pa.array(places)))


def replaced_changes(contents: pa.Table, view: View, epoch: int) -> PublishedChange:
    """The rows of a view, each once, as the first of its changes."""
    return _without_gone(epoch, "replace", _at_epoch(_summed(contents, view), epoch))


def _without_gone(epoch: int, kind: Literal["replace", "append"], rows: pa.Table) -> PublishedChange:
    return PublishedChange(epoch, kind, rows, rows.slice(0, 0))


def _summed(rows: pa.Table, view: View) -> pa.Table:
    """Weighted rows, each once; those that cancel are left out."""
    return difference(rows.slice(0, 0), rows, Map(view.name, view.fields))


def _at_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    return rows.append_column(EPOCH, pa.repeat(pa.scalar(epoch, pa.int64()), rows.num_rows))
