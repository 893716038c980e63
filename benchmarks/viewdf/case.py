"""What is measured: a query, kept by a method, over partitions of a certain kind."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.viewdf.data import Losses

SUM, MAX, MEDIAN, PATTERN = "sum", "max", "median", "pattern"

DIRECT, DUCKDB, HAND = "direct", "duckdb", "hand"
"""The query run again for each slide, by the engine that is measured and by DuckDB; and a program written by hand."""

APPEND_ONLY = "append_only"
"""MAX of a stream that is declared APPEND ONLY, as the feeds of the thesis are: one value of each group is kept."""

NATIVE, SPARK, AUTO = "native", "spark", "auto"

METHODS = {
    SUM: (DIRECT, "panes", "prefix", "subtract", "intervals", HAND, DUCKDB),
    MAX: (DIRECT, "panes", APPEND_ONLY, "intervals", HAND, DUCKDB),
    MEDIAN: (DIRECT, "rolling", DUCKDB),
    PATTERN: (DIRECT, "union", "viewdf", "match", HAND, DUCKDB),
}
"""Those of each query, Direct first."""

OURS = {SUM: "subtract", MAX: "panes", MEDIAN: "rolling", PATTERN: "match"}
"""The method by which a view is kept whose user says nothing about methods."""

FIRST = "first"
"""The axis of Figure 5.5: the first window is what is timed, all its partitions at once."""

LARGE = "large"
"""The axis along which partitions become ten times as large, of windows that are short enough for memory."""

FULL = 4
"""A pattern needs so many partitions to be complete."""


@dataclass(frozen=True)
class Case:
    """``axis`` is what its figure of the thesis varies; ``window`` is the scope where the query is a pattern."""

    query: str
    axis: str
    method: str
    rows: int
    window: int
    selectivity: float = 0.1
    runtime: str = NATIVE

    @property
    def at(self) -> float:
        """Where it stands on its axis."""
        return {"window": self.window, "scope": self.window, "selectivity": self.selectivity}.get(self.axis, self.rows)

    @property
    def point(self) -> str:
        """Query, axis and place on it, and runtime: what cases have in common that are held beside each other."""
        return f"{self.query}/{self.axis}{self.at:.10g}/{self.runtime}"

    @property
    def name(self) -> str:
        """As figures call it.

        >>> Case("sum", "rows", "panes", 1_000_000, 10).name
        'sum/rows1000000/native/panes'
        """
        return f"{self.point}/{self.method}"

    @property
    def losses(self) -> Losses:
        """Patterns have one measurement of each pair in a partition, windows have ten."""
        return Losses(self.rows, 1 if self.query == PATTERN else 10, self.selectivity)

    @property
    def reruns(self) -> bool:
        """True if each slide reads the partitions of the window, and no others."""
        return self.method in (DIRECT, DUCKDB)

    @property
    def outside(self) -> bool:
        """Whether nothing is kept from one slide to the next, so that only slides that are timed need be made."""
        return self.method == DUCKDB or (self.method == DIRECT and self.runtime == SPARK)

    @property
    def reach(self) -> int | None:
        """To so many partitions an answer looks back; None for all: a pattern goes on from where it was."""
        return self.window if self.query != PATTERN or self.reruns else None

    @property
    def fill(self) -> int:
        """So many slides come before one is typical; the first window is one slide, and none comes before it."""
        if self.axis == FIRST:
            return 1
        if self.query == PATTERN and self.axis != "scope" and not self.reruns:
            return FULL
        return self.window


@dataclass(frozen=True)
class Outcome:
    """The median of the seconds that ``slides`` took; none where the case did not run, for ``reason``.

    ``cpu`` is the median of the CPU seconds of this process, which other jobs on the machine change less.
    """

    case: Case
    seconds: float = 0.0
    slides: int = 0
    reason: str = ""
    cpu: float = 0.0
