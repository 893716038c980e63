"""The figures of ``tidemill bench cluster`` as a table: a line for each change and place."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

COLUMNS = {
    "refresh_s": "s",
    "speedup": "Spark",
    "speedup_duckdb": "Duck",
    "jobs": "jobs",
    "exchanges": "exch",
    "task_s": "task",
    "bytes_read": "read",
    "bytes_written": "wrote",
    "bytes_exchanged": "moved",
    "workers_ratio": "1:2",
}
"""Headings by metric."""

COUNTS = ("jobs", "exchanges")


def as_table(figures: Sequence[Figure]) -> Table:
    """The table: seconds of a refresh, how many times as long Spark and DuckDB recompute, jobs, exchanges, bytes."""
    lines: dict[str, dict[str, float]] = {}
    for figure in figures:
        _, change, place = figure.case.split("/")
        name = f"{change.removeprefix('change')} % {place}" if change.startswith("change") else f"row {place}"
        lines.setdefault(name, {})[figure.metric] = figure.value
    table = numbers("tidemill bench cluster", list(COLUMNS.values()))
    for case, found in lines.items():
        table.add_row(case, *(_shown(metric, found.get(metric)) for metric in COLUMNS))
    return table


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:g}" if metric in COUNTS or not value else f"{value:.2f}" if value < 10 else short(value)
