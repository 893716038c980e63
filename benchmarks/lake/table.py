"""The figures of ``tidemill bench lake`` as a table: a line for each format and change."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

COLUMNS = {
    "rows": "rows",
    "first_s": "first",
    "read_s": "read",
    "epoch_s": "epoch",
    "publish_s": "publ",
    "refresh_s": "all",
    "spark_s": "Spark",
    "speedup": "x",
    "command_s": "sync",
    "pipelines_s": "SDP",
    "speedup_command": "x",
    "bytes_changed": "change",
    "bytes_stored": "stored",
    "bytes_published": "publ",
    "bytes_ratio": "x",
}
"""Headings by metric."""


def as_table(figures: Sequence[Figure]) -> Table:
    """The table: seconds by phase, those of Spark in a session, of both commands, and bytes."""
    lines: dict[str, dict[str, float]] = {}
    for figure in figures:
        _, change, lake = figure.case.split("/")
        lines.setdefault(f"{lake} {change.removeprefix('change')} %", {})[figure.metric] = figure.value
    table = numbers("tidemill bench lake", list(COLUMNS.values()))
    for case, found in lines.items():
        table.add_row(case, *(_shown(metric, found.get(metric)) for metric in COLUMNS))
    return table


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else short(value)
