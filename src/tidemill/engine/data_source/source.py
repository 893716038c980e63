"""The relations of a warehouse, opened by Spark's workers to read their columns, rows and changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from tidemill.engine.catalog.views.view import View, unpublished_error
from tidemill.engine.data_source.intake import commit_rows
from tidemill.engine.data_source.opened import ComputedRows, opened_engine, opened_store
from tidemill.engine.engine import Engine
from tidemill.engine.subscriptions.change_batches import require_reach
from tidemill.model.errors import EpochGone, Unsupported
from tidemill.model.schema import EPOCH, Table
from tidemill.model.types import Field
from tidemill.program.joingraph import Serve
from tidemill.runtimes.spark.data_source.relation import ReadPart
from tidemill.runtimes.spark.data_source.source import WarehouseSource
from tidemill.storage.filesystem.file_system import Access
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.scans.scan_parts import change_parts, row_parts

__all__ = ["TidemillSource"]


class TidemillSource(WarehouseSource):
    """Tables and views of a warehouse in a folder."""

    def fields(self) -> tuple[Field, ...]:
        """The columns of the relation."""
        with self._relation() as (_, relation):
            return relation.fields

    def access(self) -> Access | None:
        """Access for tasks, to open the files of the warehouse."""
        with opened_store(self.parsed.warehouse) as store:
            return store.access()

    def row_parts(self, epoch: int | None) -> Sequence[ReadPart]:
        """The rows as of an epoch, by default the last, divided among tasks."""
        with self._relation() as (engine, relation):
            _require_rows(relation, epoch)
            engine.tell([relation.name], epoch)
            with _store_of(engine).pin() as snapshot:
                if isinstance(relation, View) and relation.computed_on_read:
                    until = snapshot.epoch if epoch is None else epoch
                    return [ComputedRows(self.parsed.warehouse, relation.name, until)]
                return row_parts(snapshot, relation.name, relation.fields, epoch)

    def change_parts(self, since: int, until: int | None) -> Sequence[ReadPart]:
        """The changes of epochs in ``(since, until]``, divided among tasks."""
        with self._relation() as (engine, relation), _store_of(engine).pin() as snapshot:
            _require_changes(engine, relation, since)
            engine.tell([relation.name])
            return change_parts(snapshot, relation.name, relation.fields, since, until or snapshot.epoch)

    def last_epoch(self) -> int:
        """The last epoch of the warehouse."""
        with opened_store(self.parsed.warehouse) as store:
            return store.epoch

    def epoch_after(self, since: int, until: int | None, max_rows: int | None, max_epochs: int | None) -> int:
        """The last epoch that changes the relation, within the limits, of which one epoch may exceed that of rows."""
        with self._relation() as (engine, relation), _store_of(engine).pin() as snapshot:
            _require_changes(engine, relation, since)
            marks = snapshot.read(relation.name, (), since=since, until=until).column(EPOCH).to_numpy()
            epochs, rows = np.unique(marks, return_counts=True)
            if max_rows is not None:
                epochs = epochs[: max(int(np.searchsorted(rows.cumsum(), max_rows, "right")), 1)]
            epochs = epochs[:max_epochs]
            return int(epochs[-1]) if len(epochs) else since

    def commit(self, rows: pa.Table, query: str | None, batch: int | None) -> None:
        """Commit rows as one epoch of a table, unless the query has committed this batch."""
        commit_rows(self.parsed, rows, query, batch)

    @contextmanager
    def _relation(self) -> Iterator[tuple[Engine, Table | View]]:
        options = self.parsed
        with opened_engine(options.warehouse) as engine:
            catalog = engine.committed
            yield engine, catalog.views.get(options.relation.lower()) or catalog.table(options.relation)


def _store_of(engine: Engine) -> FolderStore:
    assert isinstance(engine.store, FolderStore)
    return engine.store


def _require_rows(relation: Table | View, epoch: int | None) -> None:
    if isinstance(relation, Table) and not relation.kept:
        raise Unsupported(
            f'the rows of the stream "{relation.name}" are not kept', hint="Read a view over it, or declare a TABLE."
        )
    if isinstance(relation, View) and epoch is not None and relation.created > epoch:
        raise EpochGone(
            f'view "{relation.name}" did not exist at epoch {epoch}', hint=f"It begins at {relation.created}."
        )
    if isinstance(relation, View) and epoch is not None and relation.columns_since > epoch:
        raise EpochGone(
            f'view "{relation.name}" had other columns at epoch {epoch}',
            detail="A frame has the columns of now.",
            hint=f"Read it from epoch {relation.columns_since} on, or by SQL: SELECT ... VERSION AS OF {epoch}.",
        )


def _require_changes(engine: Engine, relation: Table | View, since: int) -> None:
    if isinstance(relation, View):
        if relation.serve is Serve.READ:
            raise unpublished_error(relation.name, f'view "{relation.name}" has no changes to follow')
        require_reach(engine, relation, since)
