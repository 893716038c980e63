"""A day's changes to a lake, and what it takes until eight Delta tables show them; answers are compared first."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.lake.answers import check, rows_of, same_rows
from benchmarks.lake.baselines import overwrite_by_spark
from benchmarks.lake.lakes import LAKES, DeltaLake, Lake, lake_of, plain_tables
from benchmarks.lake.pipelines import TidemillPipeline, run_by_spark
from benchmarks.lake.refresh import Refresh, Refresher, bytes_below, bytes_of
from benchmarks.tpch.data import Changes, generate
from benchmarks.tpch.views import VIEWS
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

PERCENTS = (0.1,)
"""Share of the orders that change on a day."""

REPEATS = 3

WARM_UP = 3
"""Refreshes after the first that load what it looked up in files, and are not among the days that are measured."""


def run(options: BenchmarkOptions, *, baselines: bool = True) -> Iterator[Figure]:
    """All figures of each format of the lake, one after the other."""
    scale = options.scale or (0.01 if options.quick else 1.0)
    base = plain_tables(options.folder, scale)
    names = options.runtimes or tuple(LAKES)
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as work, _session(baselines) as session:
        for number, name in enumerate(names):
            options.progress(number / len(names), name)
            yield from _of_lake(options, _Days(options, scale, name, Path(work, name), base, session))


def _of_lake(options: BenchmarkOptions, days: _Days) -> Iterator[Figure]:
    """The figures of one format. What it holds in memory is gone before the next begins."""
    for percent in options.changes or PERCENTS:
        yield from days.measure(percent)
    days.close()


@contextmanager
def _session(wanted: bool) -> Iterator[Any]:
    """A Spark session with two cores, if it is wanted."""
    if not wanted:
        yield None
        return
    from tidemill.runtimes.spark.sessions.session import start_session

    session = start_session("local[2]")
    try:
        yield session
    finally:
        session.stop()


class _Days:
    """One format of the lake: days of changes, and each side's way to bring eight tables up to date."""

    def __init__(
        self, options: BenchmarkOptions, scale: float, name: str, work: Path, base: Path, session: Any
    ) -> None:
        self._say = partial(self._tell, options, name)
        self._scale, self._name, self._work, self._session = scale, name, work, session
        self._repeats = 1 if options.quick else REPEATS
        self._warm_up = 1 if options.quick else WARM_UP
        work.mkdir()
        self._changes = Changes(generate(options.folder, scale))
        self._lake: Lake = lake_of(name, work / "lake", base)
        start = time.perf_counter()
        self._refresher = Refresher(self._lake, work)
        self._say(f"eight tables taken, eight views filled and published in {time.perf_counter() - start:.1f} s")

    @staticmethod
    def _tell(options: BenchmarkOptions, name: str, line: str) -> None:
        options.say(f"{name}: {line}")

    def measure(self, percent: float) -> Iterator[Figure]:
        """Refresh after days with changes of ``percent``, once more by a command, and recompute by both baselines."""
        first, *warm_up = (self._refresh_after_a_day(percent) for _ in range(1 + self._warm_up))
        days, rows, size, merging = [], 0, 0, 0.0
        for _ in range(self._repeats):
            rows, size, merging = self._day(percent)
            days.append(self._refresh())
        self._day(percent)
        command = self._refresher.refresh_by_command()
        self._say(f"tidemill sync took {command:.2f} s")
        check(self._refresher.published, self._lake)
        figure = partial(Figure, "lake", f"scale{self._scale:g}/change{percent:g}/{self._name}")
        yield from _costs(figure, days, rows, size, merging)
        yield figure("first_s", first.seconds, "s", "the first refresh of a process")
        loading = sum(refresh.seconds for refresh in warm_up)
        yield figure("warm_up_s", loading, "s", f"the next {len(warm_up)}, which load what the first looked up")
        yield figure("command_s", command, "s", "tidemill sync, from the start of its process")
        if self._session is not None:
            whole = yield from self._against(figure, _median(days, "seconds"), command)
            if isinstance(self._lake, DeltaLake):
                yield from self._pipelines(self._lake, percent, whole)

    def _day(self, percent: float) -> tuple[int, int, float]:
        """Change the lake; returns the changed rows, their bytes, and the seconds of the MERGEs."""
        change = self._changes.draw(percent)
        rows, size = sum(table.num_rows for table in change.values()), bytes_of(change, self._work / "change")
        start = time.perf_counter()
        for name, table in change.items():
            self._lake.merge(name, table)
        taken = time.perf_counter() - start
        self._say(f"{rows} rows, {size:,} bytes, merged into the lake in {taken:.2f} s")
        return rows, size, taken

    def _refresh_after_a_day(self, percent: float) -> Refresh:
        self._day(percent)
        return self._refresh()

    def _refresh(self) -> Refresh:
        found = self._refresher.refresh()
        phases = f"read {found.read:.2f}, epoch {found.epoch:.2f}, published {found.publish:.2f}"
        self._say(f"refreshed in {found.seconds:.2f} s ({phases}), {found.stored:,} and {found.published:,} bytes")
        return found

    def _against(self, figure: Any, refresh: float, command: float) -> Generator[Figure, None, float]:
        """The figures of both baselines; returns the seconds of ``spark-pipelines run``."""
        times = [overwrite_by_spark(self._session, self._lake, self._work / "spark") for _ in range(2)]
        self._say(f"Spark overwrote eight tables in {', '.join(f'{taken:.2f}' for taken in times)} s")
        self._compare_with(self._work / "spark")
        whole, alone = run_by_spark(self._lake, self._work / "project")
        self._compare_with(self._work / "project" / "spark-warehouse")
        self._say(f"spark-pipelines run took {whole:.2f} s, of which {alone:.2f} are its run")
        yield figure("spark_s", min(times), "s", "Spark in an open session, eight tables overwritten")
        yield figure("speedup", min(times) / refresh, "x", "Spark in an open session")
        yield figure("pipelines_s", whole, "s", f"spark-pipelines run, of which its run {alone:.2f} s")
        yield figure("bytes_spark", bytes_below(self._work / "spark"), "B", "eight tables overwritten by Spark")
        yield figure("speedup_command", whole / command, "x", "spark-pipelines run beside tidemill sync")
        return whole

    def _pipelines(self, lake: DeltaLake, percent: float, whole: float) -> Iterator[Figure]:
        """The figures of ``tidemill pipelines run``, which took ``whole`` seconds by ``spark-pipelines run``."""
        pipeline = TidemillPipeline(lake, self._work / "pipeline")
        first, runs = pipeline.run(), []
        for _ in range(self._repeats):
            self._day(percent)
            runs.append(pipeline.run())
        self._refresh()
        self._compare_with(pipeline.tables)
        run = statistics.median(runs)
        self._say(f"tidemill pipelines run took {run:.2f} s, the first one {first:.2f} s")
        figure = partial(Figure, "lake", f"pipelines/change{percent:g}/{self._name}")
        yield figure("first_s", first, "s", "the first tidemill pipelines run, which makes all tables")
        yield figure("run_s", run, "s", "tidemill pipelines run after a day of changes")
        yield figure("spark_s", whole, "s", "spark-pipelines run")
        yield figure("speedup", whole / run, "x", "spark-pipelines run beside tidemill pipelines run")

    def _compare_with(self, tables: Path) -> None:
        """Answers of Spark and of pipelines have the same types, so decimals are compared digit by digit."""
        for view in VIEWS:
            if not same_rows(rows_of(self._refresher.published[view]), pq.read_table(tables / view)):
                raise AssertionError(f"published table {view} differs from that in {tables}")

    def close(self) -> None:
        self._refresher.close()


def _costs(figure: Any, days: Sequence[Refresh], rows: int, size: int, merging: float) -> Iterator[Figure]:
    """Seconds and bytes of the refreshes: medians, beside the last day's change."""
    stored, published = _median(days, "stored"), _median(days, "published")
    yield figure("rows", rows, "rows", "deleted and inserted in the lake")
    yield figure("merge_s", merging, "s", "MERGE into the lake, by whoever writes it")
    for metric in ("seconds", "read", "epoch", "publish"):
        yield figure("refresh_s" if metric == "seconds" else f"{metric}_s", _median(days, metric), "s")
    yield figure("bytes_changed", size, "B", "the changed rows as Parquet")
    yield figure("bytes_stored", stored, "B", "by the warehouse")
    yield figure(
        "bytes_published", published, "B", "data files and logs of eight Delta tables, and of the table of epochs"
    )
    yield figure("bytes_ratio", (stored + published) / size, "x", "bytes stored and published, to those changed")


def _median(days: Sequence[Refresh], metric: str) -> float:
    return float(statistics.median(getattr(day, metric) for day in days))
