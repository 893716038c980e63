"""The cost of an epoch on Spark: jobs, tasks, exchanges and bytes, from Spark's own stage metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemill.runtimes.spark.sessions.session import is_remote

_numbers = count(1)

_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True, slots=True)
class Counters:
    """The cost of one epoch. ``bytes_written`` is what Spark wrote; small results are written by the store.

    ``task_seconds`` is the sum over tasks, several of which may run at the same time. An exchange is a stage whose rows
    are read by another one.
    """

    jobs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    tasks: int = 0
    task_seconds: float = 0.0
    exchanges: int = 0
    bytes_exchanged: int = 0


class Meter:
    """Marks the jobs of an epoch with a tag. Tags add to what users set on their own jobs and do not replace it.

    A session of Spark Connect marks its jobs as well, but does not say what they cost.
    """

    def __init__(self, session: SparkSession) -> None:
        self._tagged = session if is_remote(session) else session.sparkContext
        self._tag = f"tidemill-epoch-{next(_numbers)}"

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the jobs that this thread starts in the block."""
        tagged = self._tagged
        add, remove = (
            (tagged.addJobTag, tagged.removeJobTag)
            if isinstance(tagged, SparkContext)
            else (tagged.addTag, tagged.removeTag)
        )
        add(self._tag)
        try:
            yield
        finally:
            remove(self._tag)

    def read(self) -> Counters:
        """The cost so far. Waits until Spark has recorded what has run."""
        if not isinstance(self._tagged, SparkContext):
            return Counters()
        java = self._tagged._jsc.sc()
        java.listenerBus().waitUntilEmpty()
        tracker, store = java.statusTracker(), java.statusStore()
        jobs = list(tracker.getJobIdsForTag(self._tag))
        stages = {
            stage for job in jobs if (info := tracker.getJobInfo(job)).isDefined() for stage in info.get().stageIds()
        }
        figures = [found for stage in stages if (found := _attempt(store, stage)) is not None]
        exchanged = [written for f in figures if (written := f.shuffleWriteBytes())]
        return Counters(
            len(jobs),
            sum(f.inputBytes() for f in figures),
            sum(f.outputBytes() for f in figures),
            sum(f.numCompleteTasks() for f in figures),
            sum(f.executorRunTime() for f in figures) / 1000,
            len(exchanged),
            sum(exchanged),
        )


def _attempt(store: Any, stage: int) -> Any:
    """Spark's metrics of a stage; None if it was skipped because its output existed."""
    try:
        return store.lastStageAttempt(stage)
    except Py4JJavaError:
        return None


@contextmanager
def described(session: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs that this thread starts in the block, as Spark's own pages show them; what a user has set is
    set again. Spark Connect takes no descriptions."""
    if is_remote(session):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, description)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)
