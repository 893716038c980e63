"""The way of a Spark user without Tidemill: the extents as Parquet files, and the view rewritten from them."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.movie.oo7 import OO7, READ
from benchmarks.movie.views import VIEWS
from tidemill.runtimes.spark.sessions.session import local_session

MADE = ("selview_3", "joinselview_3", "complexview4", "dbsizeview")
"""The views that are made."""

WARM, TIMED = 2, 5


def made_by_spark(oo7: OO7) -> Iterator[tuple[str, float, int]]:
    """Each view with the seconds that it takes, by the clock, and its rows."""
    spark = local_session()
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
        for extent in READ:
            file = Path(folder) / f"{extent}.parquet"
            pq.write_table(oo7.db.extent(extent).arrow(), file)
            spark.read.parquet(str(file)).createOrReplaceTempView(extent)
        for name in MADE:
            made = Path(folder) / name
            query = VIEWS[name].sql.replace("UNNEST", "EXPLODE")
            seconds = []
            for _ in range(WARM + TIMED):
                begin = time.perf_counter()
                spark.sql(query).write.mode("overwrite").parquet(str(made))
                seconds.append(time.perf_counter() - begin)
            rows = pq.read_table(made).num_rows
            if rows != len(oo7.db.query(VIEWS[name].oql).rows()):
                raise WrongAnswer(f"Spark finds {rows} rows of {name}")
            yield name, statistics.median(seconds[WARM:]), rows
