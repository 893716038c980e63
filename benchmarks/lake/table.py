"""The figures of ``tidemill bench lake`` as tables, of seconds and bytes: a line for each format and change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table

from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

SECONDS = {
    "first_s": "first",
    "warm_up_s": "warm-up",
    "read_s": "read",
    "epoch_s": "epoch",
    "publish_s": "publish",
    "refresh_s": "all",
    "spark_s": "Spark",
    "speedup": "times",
    "command_s": "sync",
    "pipelines_s": "SDP",
    "speedup_command": "times",
}
"""Headings of the first table, by metric."""

RUNS = {"first_s": "first", "run_s": "tidemill pipelines run", "spark_s": "spark-pipelines run", "speedup": "times"}
"""Headings of the last table, by metric."""

BYTES = {
    "rows": "rows",
    "bytes_changed": "changed",
    "bytes_stored": "stored",
    "bytes_published": "published",
    "bytes_ratio": "times",
    "bytes_spark": "Spark",
}
"""Headings of the second table, by metric."""


def as_table(figures: Sequence[Figure]) -> Group:
    """Seconds by phase, and those of Spark in a session and of commands; rows and bytes; seconds of pipelines."""
    runs = [figure for figure in figures if figure.case.startswith("pipelines/")]
    lines = _lines([figure for figure in figures if figure not in runs])
    tables = [_table("tidemill bench lake: seconds", SECONDS, lines), _table("bytes", BYTES, lines)]
    return Group(*tables, *([_table("pipelines: seconds", RUNS, _lines(runs))] if runs else ()))


def _lines(figures: Sequence[Figure]) -> dict[str, dict[str, float]]:
    """The figures of each line by metric."""
    lines: dict[str, dict[str, float]] = {}
    for figure in figures:
        _, change, lake = figure.case.split("/")
        lines.setdefault(f"{lake} {change.removeprefix('change')} %", {})[figure.metric] = figure.value
    return lines


def _table(title: str, headings: Mapping[str, str], lines: Mapping[str, Mapping[str, float]]) -> Table:
    table = numbers(title, list(headings.values()))
    for case, found in lines.items():
        table.add_row(case, *(_shown(found.get(metric)) for metric in headings))
    return table


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else short(value)
