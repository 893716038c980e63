"""Results as Parquet folders and Delta tables, where Spark's session catalog keeps the tables of a pipeline.

A file of a Parquet folder has in its name who wrote it and the epochs that it holds, so a run that ended between two
files is known for what it is. Files are renamed into place when they are whole. Rows that only come are appended;
otherwise all rows are written, and then the files before are removed: Parquet folders have no commits, and a reader in
that moment sees both, as it does while Spark overwrites one. Delta tables have commits.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.engine.handles import TableHandle, ViewHandle
from tidemill.model.errors import EpochGone, NameTaken
from tidemill.model.schema import WEIGHT
from tidemill.sources.lake.publication.lake_publication import COPY_ON_WRITE, Place
from tidemill.sources.lake.registry import open_publication

__all__ = ["DeltaAppends", "ParquetFolder", "appended_rows"]

MOST_FILES = 50
"""Number of files that a folder of appended rows may have: then all rows are written as one."""

_OURS = re.compile(r"part-tidemill-(?P<owner>\w+)-(?P<since>\d+)-(?P<until>\d+)\.parquet")


def appended_rows(relation: TableHandle | ViewHandle, since: int) -> pa.Table | None:
    """Rows that came after an epoch, each as often as it did; None if some left, or the history is gone."""
    try:
        net = relation.net_changes(since)
    except EpochGone:
        return None
    weights = net.column(WEIGHT).to_numpy()
    if (weights < 0).any():
        return None
    places = pa.array([place for place, weight in enumerate(weights) for _ in range(weight)], pa.int64())
    return net.drop_columns([WEIGHT]).take(places)


@dataclass(frozen=True)
class ParquetFolder:
    """The folder of a table; ``owner`` tells files of this dataset from those of an earlier one of its name."""

    folder: Path
    owner: str

    @classmethod
    def at(cls, location: str, owner: str) -> ParquetFolder:
        """The folder at a location."""
        return cls(Path(location), owner)

    def epoch(self) -> int | None:
        """The epoch that the folder shows; None if this dataset was not written there."""
        found = [int(one["until"]) for one in self._ours()]
        return max(found, default=None)

    def require_free(self, dataset: str) -> None:
        """Refuse to append to files that somebody else has written."""
        if any(not _OURS.fullmatch(file.name) for file in self._files()):
            raise NameTaken(
                f'streaming table "{dataset}" has rows that were not written by Tidemill',
                where=str(self.folder),
                detail="Which rows of its sources they have is known to Spark alone.",
                hint=f"Make it anew from its sources: --full-refresh {dataset}",
            )

    def publish(self, relation: TableHandle | ViewHandle, epoch: int) -> bool:
        """Bring the folder to what a relation shows at an epoch; true if something was written."""
        shown = self.epoch()
        if shown is not None:
            self._clear(keep_from=self._begin())
            if shown == epoch:
                return False
            new = appended_rows(relation, shown) if len(self._ours()) < MOST_FILES else None
            if new is not None:
                if new.num_rows:
                    self._write(new, shown + 1, epoch)
                return bool(new.num_rows)
        self._write(relation.arrow(), 0, epoch)
        self._clear(keep_from=epoch)
        return True

    def remove(self) -> None:
        """Remove all files, of whoever wrote them."""
        for file in self._files():
            file.unlink()
        for log in ("_spark_metadata", "_SUCCESS"):
            path = self.folder / log
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _begin(self) -> int:
        """The last epoch at which all rows were written: files before it are left from a run that was cut short."""
        return max((int(one["until"]) for one in self._ours() if one["since"] == "0"), default=0)

    def _write(self, rows: pa.Table, since: int, until: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"part-tidemill-{self.owner}-{since}-{until}.parquet"
        hidden = self.folder / f".{name}"
        pq.write_table(rows, hidden, compression="snappy")
        with hidden.open("rb") as written:
            os.fsync(written.fileno())
        hidden.rename(self.folder / name)

    def _clear(self, keep_from: int) -> None:
        """Remove files that are not of this dataset, or that were replaced at an epoch."""
        for file in self._files():
            ours = _OURS.fullmatch(file.name)
            if ours is None or ours["owner"] != self.owner or int(ours["until"]) < keep_from:
                file.unlink()
        for log in ("_spark_metadata",):
            shutil.rmtree(self.folder / log, ignore_errors=True)

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [
            file for file in self.folder.iterdir() if file.suffix == ".parquet" and not file.name.startswith((".", "_"))
        ]

    def _ours(self) -> list[re.Match[str]]:
        found = (_OURS.fullmatch(file.name) for file in self._files())
        return [one for one in found if one is not None and one["owner"] == self.owner]


@dataclass(frozen=True)
class DeltaAppends:
    """The Delta table of a streaming table, to which rows are appended exactly once."""

    location: str
    name: str
    owner: str

    def publish(self, relation: TableHandle | ViewHandle, epoch: int) -> bool:
        """Bring the table to what a relation shows at an epoch; true if something was written."""
        place = Place("delta", self.location)
        table = open_publication(place, self.name, f"tidemill pipeline {self.owner}", COPY_ON_WRITE)
        seen = table.shown()
        shown = None if seen is None else seen.epoch
        if shown == epoch:
            return False
        new = None if shown is None else appended_rows(relation, shown)
        if new is None:
            table.replace(relation.arrow(), epoch)
        elif new.num_rows:
            table.append(new, epoch)
        return new is None or bool(new.num_rows)
