"""A table or view of a warehouse as readers and writers of Spark use it; each call opens the warehouse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from tidemill.model.types import Field
from tidemill.runtimes.spark.data_source.options import SourceOptions
from tidemill.storage.filesystem.file_system import Access

__all__ = ["ReadPart", "WarehouseRelation"]


class ReadPart(Protocol):
    """A part of a relation that one task reads; it is pickled."""

    def tables(self) -> Iterator[pa.Table]:
        """The rows, as tables of any size."""


class WarehouseRelation(ABC):
    """A relation that is named by options, read and written by those who know how to open a warehouse."""

    options: Mapping[str, str]

    @property
    def parsed(self) -> SourceOptions:
        """The options, checked."""
        return SourceOptions.parse(self.options)

    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The columns of the relation."""

    @abstractmethod
    def access(self) -> Access | None:
        """Access for tasks, to open the files of the warehouse; None if they need the same disk."""

    @abstractmethod
    def row_parts(self, epoch: int | None) -> Sequence[ReadPart]:
        """The rows as of an epoch, by default the last, divided among tasks."""

    @abstractmethod
    def change_parts(self, since: int, until: int | None) -> Sequence[ReadPart]:
        """The changes of epochs in ``(since, until]``, with ``_weight`` and ``_epoch``, divided among tasks."""

    @abstractmethod
    def last_epoch(self) -> int:
        """The last epoch of the warehouse."""

    @abstractmethod
    def epoch_after(self, since: int, until: int | None, max_rows: int | None, max_epochs: int | None) -> int:
        """The last epoch that changes the relation, up to ``until``, with at most so many changes and epochs."""

    @abstractmethod
    def commit(self, rows: pa.Table, query: str | None, batch: int | None) -> None:
        """Commit rows as one epoch of a table, unless the query has committed this batch."""
