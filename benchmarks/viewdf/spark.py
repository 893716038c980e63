"""Windows on Spark: a view kept in a folder, and the query run again of the files of the last partitions."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tidemill
from benchmarks.viewdf.case import Case
from benchmarks.viewdf.subject import KeptView
from tidemill.runtimes.spark.sessions.session import local_session


class KeptOnSpark(KeptView):
    """A view in a warehouse on disk, whose epochs Spark and this process share as the engine sees fit."""

    def __init__(self, case: Case) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tidemill-bench-")
        super().__init__(case, tidemill.open(Path(self._folder.name) / "warehouse", runtime=case.runtime))

    def close(self) -> None:
        """Close the warehouse and remove its folder."""
        super().close()
        self._folder.cleanup()


class DirectOnSpark:
    """The way of a Spark user without Tidemill: a file a partition, and a query over the last ones into a file."""

    def __init__(self, case: Case) -> None:
        self._query = f"SELECT src, dest, {case.query}(loss) AS {case.query}_loss FROM recent GROUP BY src, dest"
        self._folder = tempfile.TemporaryDirectory(prefix="tidemill-bench-")
        self._recent: deque[Path] = deque(maxlen=case.window)
        self._brought = 0
        self._shown = Path(self._folder.name) / "shown"
        self._spark = local_session()

    def bring(self, partitions: Sequence[pa.Table]) -> None:
        """A file for each."""
        for partition in partitions:
            self._recent.append(Path(self._folder.name) / f"{self._brought}.parquet")
            pq.write_table(partition, self._recent[-1])
            self._brought += 1

    def slide(self) -> None:
        """Read, group, and write the answer."""
        self._spark.read.parquet(*map(str, self._recent)).createOrReplaceTempView("recent")
        self._spark.sql(self._query).write.mode("overwrite").parquet(str(self._shown))

    def answer(self) -> pa.Table:
        """What was written."""
        return pq.read_table(self._shown)

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()
