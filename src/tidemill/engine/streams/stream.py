"""A running stream, as users see it: its figures, its end, and the error that has stopped it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemill.engine.boundary import public_class
from tidemill.engine.intake_counts import IntakeCounts
from tidemill.engine.streams.debezium_intake import DebeziumIntake
from tidemill.engine.streams.intake import StreamIntake

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.ingest import StreamBatches
    from tidemill.runtimes.spark.execution.spark_types import StreamingQuery

__all__ = ["Stream", "StreamFigures"]


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """Batches and rows of a stream since it was started, rows a second over that time, and how it is triggered."""

    batches: int
    counts: IntakeCounts
    rows_per_second: float
    trigger: str

    def __str__(self) -> str:
        """The figures as text.

        >>> print(StreamFigures(3, IntakeCounts(rows=1200, rejected=2), 400.0, "availableNow=True"))
        3 batches, 1,200 rows; 2 bad rows set aside, 400 rows/s, trigger availableNow=True
        """
        batches = f"{self.batches:,} {'batch' if self.batches == 1 else 'batches'}"
        return f"{batches}, {self.counts}, {self.rows_per_second:,.0f} rows/s, trigger {self.trigger}"


@public_class
class Stream:
    """A streaming query whose batches are epochs. It has the methods of PySpark's ``StreamingQuery``.

    ``query`` is Spark's own object. An error that stops the stream is raised as the warehouse has raised it.
    """

    def __init__(
        self,
        query: StreamingQuery,
        intake: StreamIntake | DebeziumIntake,
        batches: StreamBatches,
        trigger: Mapping[str, Any],
    ) -> None:
        self.query = query
        self._intake, self._batches = intake, batches
        self._trigger = ", ".join(f"{key}={value}" for key, value in trigger.items()) or "as soon as possible"
        self._started = time.monotonic()

    @property
    def name(self) -> str:
        """The name under which the warehouse remembers the position of the stream."""
        return self._intake.name

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the stream changes."""
        return tuple(self._intake.targets)

    @property
    def figures(self) -> StreamFigures:
        """Batches, rows, bad rows, rows a second, and the trigger."""
        counts, seconds = self._intake.counts, time.monotonic() - self._started
        return StreamFigures(self._intake.batches, counts, counts.rows / max(seconds, 1e-9), self._trigger)

    @property
    def isActive(self) -> bool:
        """True while the stream is running."""
        return bool(self.query.isActive)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end of the stream, at most ``timeout`` seconds; then returns if it has ended."""
        with self._batches.raising_errors():
            ended: bool | None = self.query.awaitTermination(timeout)
            return ended

    def processAllAvailable(self) -> None:
        """Wait until everything that has arrived is committed."""
        with self._batches.raising_errors():
            self.query.processAllAvailable()

    def exception(self) -> Exception | None:
        """The error that has stopped the stream, if one has."""
        found: Exception | None = self.query.exception()
        return found and (self._batches.error or found)

    def stop(self) -> None:
        """Stop the stream. It goes on from there when it is started again."""
        self.query.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    def __repr__(self) -> str:
        return f"<stream {self.name} into {', '.join(self.tables)}: {self.figures}>"
