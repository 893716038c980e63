"""The figures of ``tidemill bench nexmark``: a line for each query, a column for each set of circumstances."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.nexmark.case import NAMES, RELATIONS, SIZES
from benchmarks.nexmark.published import DBSP, FLINK, GOALS
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

TITLES = {
    "events/s/core": "events/s a core",
    "events/s": "events/s by the clock",
    "p50_ms": "p50 of an epoch, ms",
    "p99_ms": "p99 of an epoch, ms",
    "state_bytes": "bytes of maps that tell them",
    "process_bytes": "bytes of the process",
}


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """A table for each metric over tables and over streams, then how flat rates are."""
    parts = [_metric(metric, relation, figures) for metric in TITLES for relation in RELATIONS]
    return Group(*(part for part in (*parts, _scaling(figures)) if part.row_count))


def _metric(metric: str, relation: str, figures: Sequence[Figure]) -> Table:
    cells: dict[str, dict[str, str]] = {}
    for figure in figures:
        query, _, circumstances = figure.case.partition("/")
        over, _, column = circumstances.partition("/")
        if figure.metric == metric and query in NAMES and over == relation:
            cells.setdefault(query, {})[column] = _cell(figure)
    columns = sorted({column for line in cells.values() for column in line}, key=_order)
    published = {"goal": GOALS, "Flink": FLINK, "DBSP": DBSP} if metric == "events/s/core" else {}
    table = numbers(f"{TITLES[metric]}, {relation}s", [*(column.replace("/", "\n") for column in columns), *published])
    for query, line in cells.items():
        others = (f"{rates[query]}K" if query in rates else "" for rates in published.values())
        table.add_row(query, *(line.get(column, "") for column in columns), *others)
    return table


def _order(column: str) -> tuple[str, int]:
    """By words, then by the size of an epoch."""
    size, *words = column.split("/")
    return "/".join(words), SIZES.index(int(size))


def _cell(figure: Figure) -> str:
    if figure.baseline.startswith("not run"):
        return "-"
    return f"{figure.value:.3g}" if figure.unit == "ms" else short(figure.value)


def _scaling(figures: Sequence[Figure]) -> Table:
    found = [figure for figure in figures if figure.case.startswith("scaling/")]
    marks = list(dict.fromkeys(figure.case.rpartition("/after")[2] for figure in found if "/after" in figure.case))
    table = numbers("events/s a core over growing tables", [*(f"after\n{int(mark):,}" for mark in marks), "ratio"])
    lines: dict[str, dict[str, str]] = {}
    for figure in found:
        name, _, mark = figure.case.removeprefix("scaling/").partition("/after")
        lines.setdefault(name, {})[mark] = f"{figure.value:.3g}" if figure.unit == "x" else short(figure.value)
    for name, line in lines.items():
        table.add_row(name, *(line.get(mark, "") for mark in marks), line.get("", ""))
    return table
