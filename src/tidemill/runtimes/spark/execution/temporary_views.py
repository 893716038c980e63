"""Weighted rows as temporary views of a Spark session: stored contents of relations and maps, and current changes."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.runtimes.runtime import FieldsOf
from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow
from tidemill.runtimes.spark.execution.job_settings import in_partitions
from tidemill.runtimes.spark.execution.parquet_files import read_files
from tidemill.runtimes.spark.execution.remote_files import fetch_files, read_fetched
from tidemill.runtimes.spark.lowering.sql_text import comma_list, no_rows_sql, quote, schema_sql
from tidemill.storage.filesystem.file_system import Access
from tidemill.storage.store import Store

VIEW_PREFIX = "tidemill: "
"""Prefix of our temporary views' names, which no table of a query has."""

_numbers = count()


class TemporaryViews:
    """The inputs of an epoch's queries. A state is the stored log of a map and the changes that it has absorbed since.

    Joins and sums are linear, so a state is never consolidated: its log is read as it is, in one scan of all its files.
    """

    def __init__(self, store: Store, fields_of: FieldsOf, session: Callable[[], SparkSession]) -> None:
        self._store = store
        self._fields_of = fields_of
        self._session = session
        # Several warehouses may share a session, and each has its own tables.
        self._prefix = f"{VIEW_PREFIX}{next(_numbers)}, "
        self._stored: dict[str, tuple[tuple[os.PathLike[str], ...], Access | None]] = {}
        self._changes: dict[int, tuple[str, ChangeSet]] = {}
        self._absorbed: dict[str, list[str | ChangeSet]] = defaultdict(list)

    @property
    def spark(self) -> SparkSession:
        """The session, started when it is first needed."""
        return self._session()

    def fields(self, relation: str) -> tuple[Field, ...]:
        """The columns of a relation or map as it is stored."""
        return self._fields_of(relation)

    def state(self, relation: str, fields: Sequence[Field] | None = None, stored: str | None = None) -> str:
        """The current weighted rows of a relation, as a FROM item.

        ``fields`` are the wanted columns, all if None; ``stored`` is a view with the needed stored rows, if not all are
        needed.
        """
        wanted = self.fields(relation) if fields is None else fields
        columns = comma_list(quote(name) for name in (*(f.name for f in wanted), WEIGHT))
        views = self._stored_view(relation, wanted) if stored is None else [stored]
        parts = [f"SELECT {columns} FROM {view}" for view in views]
        for rows in self._absorbed[relation]:
            parts.append(f"SELECT {columns} FROM {self.change(rows) if isinstance(rows, ChangeSet) else rows}")
        return f"({' UNION ALL '.join(parts) or no_rows_sql(wanted)})"

    def rows(self, relation: str) -> int:
        """Number of rows in the state of a relation, before summing."""
        absorbed = (rows for rows in self._absorbed[relation] if isinstance(rows, ChangeSet))
        return self._store.rows(relation) + sum(map(len, absorbed))

    def is_empty(self, relation: str) -> bool:
        """True if the state of a relation certainly has no rows: none are stored, and the epoch has added none."""
        return not self._absorbed[relation] and not self._store.rows(relation)

    def log(self, relation: str) -> str | None:
        """The stored rows of a relation with their epochs, without the current epoch; None if there are none."""
        return next(iter(self._stored_view(relation, self.fields(relation))), None)

    def change(self, change: ChangeSet) -> str:
        """The rows of a change, as a FROM item."""
        if id(change) not in self._changes:
            name = f"{self._prefix}change {len(self._changes)}"
            self.frame_of(change).createOrReplaceTempView(quote(name))
            # The change is kept with its name: an id is unique only while its object lives.
            self._changes[id(change)] = name, change
        return quote(self._changes[id(change)][0])

    def absorb(self, relation: str, rows: str | ChangeSet) -> None:
        """Add a change, or a FROM item, to the state of ``relation`` for the rest of the epoch."""
        self._absorbed[relation].append(rows)

    def frame_of(self, change: ChangeSet) -> DataFrame:
        """A change as a DataFrame of its fields and the weight."""
        if change.files:
            return self.read(change.files, change.fields)
        if not len(change):
            return self.spark.sql(no_rows_sql(change.fields))
        return in_partitions(frame_of_arrow(self.spark, change.arrow(), change.fields), len(change))

    def read(self, files: Sequence[os.PathLike[str]], fields: Sequence[Field]) -> DataFrame:
        """Parquet files of weighted rows, with an explicit schema."""
        if fetch_files(self.spark, self._store):
            return read_fetched(self.spark, self._store, files, fields)
        extra = (Field(WEIGHT, BIGINT), Field(EPOCH, BIGINT))
        return read_files(self.spark, files, schema_sql((*fields, *extra)))

    def forget_epoch(self) -> None:
        """Drop the changes of the epoch; views of stored contents stay."""
        for name, _ in self._changes.values():
            self.spark.catalog.dropTempView(name)
        self._changes.clear()
        self._absorbed.clear()

    def _stored_view(self, relation: str, wanted: Sequence[Field]) -> list[str]:
        """The view over the relation's files, created again only if the files have changed.

        Spark reads the columns that a query needs. Tasks that fetch files do not know it, so they get a view of the
        ``wanted`` columns.
        """
        files = tuple(run.file for run in self._store.runs(relation))
        if not files:
            return []
        fields, name = self.fields(relation), f"{self._prefix}contents of {relation}"
        # A view lasts longer than some credentials by which its tasks fetch files.
        access = self._store.access() if fetch_files(self.spark, self._store) else None
        if access is not None and len(wanted) < len(fields):
            fields, name = tuple(wanted), f"{name}: {', '.join(f.name for f in wanted)}"
        if self._stored.get(name) != (files, access):
            rows = in_partitions(self.read(files, fields), self._store.rows(relation))
            rows.createOrReplaceTempView(quote(name))
            self._stored[name] = files, access
        return [quote(name)]
