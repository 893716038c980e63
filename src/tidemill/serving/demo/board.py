"""Display of the demo while it runs: a live board on a terminal, plain lines in a pipe."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from tidemill.engine.results import EpochCosts

__all__ = ["Board", "DemoStatistics", "WorkDone", "board_for", "work_table"]


@dataclass
class WorkDone:
    """The work for one kind of change: CPU seconds of this process, and what Spark did.

    >>> done = WorkDone()
    >>> done.note(40, 0.5, 0.1, EpochCosts(2, 0, 0, tasks=3, task_seconds=0.25))
    >>> done.row("small changes")
    ('small changes', '1', '40', '0.50', '0.10', '2', '3', '0.25')
    """

    epochs: int = 0
    rows: int = 0
    seconds: float = 0.0
    process_seconds: float = 0.0
    jobs: int = 0
    tasks: int = 0
    task_seconds: float = 0.0

    def note(self, rows: int, seconds: float, process_seconds: float, costs: EpochCosts) -> None:
        """Record an epoch."""
        self.epochs += 1
        self.rows += rows
        self.seconds += seconds
        self.process_seconds += process_seconds
        self.jobs += costs.jobs
        self.tasks += costs.tasks
        self.task_seconds += costs.task_seconds

    def row(self, kind: str) -> tuple[str, ...]:
        """The figures, as a row of the table that ``work_table`` gives."""
        seconds = (f"{self.seconds:,.2f}", f"{self.process_seconds:,.2f}")
        return (
            kind,
            f"{self.epochs:,}",
            f"{self.rows:,}",
            *seconds,
            f"{self.jobs:,}",
            f"{self.tasks:,}",
            (f"{self.task_seconds:,.2f}"),
        )


@dataclass
class DemoStatistics:
    """Measurements so far. Times are seconds."""

    views: Sequence[str]
    runtime: str
    seconds: float
    elapsed: float = 0.0
    epoch: int = 0
    taken: int = 0
    refreshes: list[float] = field(default_factory=list)
    recomputes: dict[str, list[float]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    work: dict[str, WorkDone] = field(default_factory=dict)

    def note(self, view: str, changed: int, grown: int) -> None:
        """Record that an epoch changed ``changed`` rows of ``view``, which grew by ``grown``."""
        self.last[view] = changed
        self.changed[view] = self.changed.get(view, 0) + changed
        self.rows[view] = self.rows.get(view, 0) + grown

    def note_recompute(self, seconds: Mapping[str, float]) -> None:
        """Record the seconds that each engine took to recompute all views."""
        for engine, taken in seconds.items():
            self.recomputes.setdefault(engine, []).append(taken)

    @property
    def refresh(self) -> float:
        """The median refresh, which ignores slow epochs such as the first."""
        return statistics.median(self.refreshes) if self.refreshes else 0.0

    @property
    def comparison(self) -> str:
        """Refresh against the median recomputation of each engine, in words.

        >>> figures = DemoStatistics((), "spark", 60, refreshes=[0.02])
        >>> figures.note_recompute({"spark": 1.0, "DuckDB": 0.01})
        >>> figures.comparison
        'refresh 20 ms, recompute 1,000 ms on spark: 50.0 times faster; 10 ms on DuckDB: 2.0 times slower'
        """
        told = f"refresh {self.refresh * 1000:,.0f} ms"
        if not self.recomputes or not self.refreshes:
            return told
        beside = (self._beside(engine, statistics.median(taken)) for engine, taken in self.recomputes.items())
        return f"{told}, recompute {'; '.join(beside)}"

    def _beside(self, engine: str, seconds: float) -> str:
        ratio = seconds / self.refresh
        verdict = f"{ratio:,.1f} times faster" if ratio >= 1 else f"{1 / ratio:,.1f} times slower"
        return f"{seconds * 1000:,.0f} ms on {engine}: {verdict}"


class Board:
    """Plain lines at intervals, for a pipe or a log."""

    def __init__(self, output: Console, every: float = 5.0) -> None:
        self._output = output
        self._every = every
        self._next = 0.0

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._output.print(line, highlight=False, markup=False)

    def show(self, table: Table) -> None:
        """Print a table that stays."""
        self._output.print(table)

    def update(self, figures: DemoStatistics) -> None:
        """Show the current figures."""
        if figures.elapsed >= self._next:
            self._next = figures.elapsed + self._every
            changed = sum(figures.changed.values())
            self.say(
                f"{figures.elapsed:5.0f} s  epoch {figures.epoch:>5}  {figures.taken:>7,} row changes in, "
                f"{changed:>7,} out  {figures.comparison}"
            )


class LiveBoard(Board):
    """A board that is redrawn in place."""

    def __init__(self, output: Console, screen: Live) -> None:
        super().__init__(output)
        self._screen = screen

    def update(self, figures: DemoStatistics) -> None:
        """Draw the current figures."""
        self._screen.update(
            Panel(
                Group(_views(figures), work_table(figures), _summary(figures)), title=f"tidemill on {figures.runtime}"
            )
        )


@contextmanager
def board_for(output: Console) -> Iterator[Board]:
    """The board that suits ``output``."""
    if not output.is_terminal:
        yield Board(output)
        return
    with Live(console=output, refresh_per_second=8) as screen:
        yield LiveBoard(output, screen)


def work_table(figures: DemoStatistics) -> Table:
    """The work of this process and of Spark side by side, for each kind of change."""
    table = Table(box=SIMPLE_HEAD, expand=False)
    table.add_column("")
    for heading in ("epochs", "rows", "seconds", "this process, CPU s", "Spark: jobs", "tasks", "task s"):
        table.add_column(heading, justify="right")
    for kind, done in figures.work.items():
        table.add_row(*done.row(kind))
    return table


def _views(figures: DemoStatistics) -> Table:
    table = Table(box=SIMPLE_HEAD, expand=True)
    table.add_column("view")
    for heading in ("rows", "changed now", "changed in all"):
        table.add_column(heading, justify="right")
    for view in figures.views:
        counts = (figures.rows.get(view, 0), figures.last.get(view, 0), figures.changed.get(view, 0))
        table.add_row(view, *(f"{count:,}" for count in counts))
    return table


def _summary(figures: DemoStatistics) -> str:
    return (
        f"epoch {figures.epoch:,}   {figures.taken:,} row changes taken in   "
        f"{figures.elapsed:.0f} of {figures.seconds:.0f} seconds\n{figures.comparison}"
    )
