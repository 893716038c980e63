"""The figures of ``tidemill bench apply``: for each workload a line for who, where and how, a column for each size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.apply.measure import OWN
from benchmarks.apply.workloads import WORKLOADS
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

COLUMNS = {
    ("1", "epochs/s"): "1 row\nepochs/s",
    ("1", "p50_ms"): "\np50 ms",
    ("1", "p99_ms"): "\np99 ms",
    ("1000", "rows/s"): "1,000\nrows/s",
    ("10000", "rows/s"): "10,000\nrows/s",
    ("100000", "rows/s"): "100,000\nrows/s",
}
"""Rows an epoch and metric, and the heading."""


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """A table for each workload, then the job, memory and profiles."""
    parts = [*(_workload(name, figures) for name in WORKLOADS), _job(figures), _memory(figures), *_profiles(figures)]
    return Group(*(part for part in parts if part.row_count))


def _workload(name: str, figures: Sequence[Figure]) -> Table:
    table = numbers(name, list(COLUMNS.values()))
    lines: dict[str, dict[tuple[str, str], str]] = {}
    for figure in _of(name, figures):
        if figure.baseline.startswith("not run"):
            table.caption = f"{figure.case}: {figure.baseline}"
            continue
        _, system, store, form, size, *threads = figure.case.split("/")
        line = lines.setdefault(" ".join((system, store, *([form] if form != OWN else []), *threads)), {})
        line[size, figure.metric] = f"{figure.value:.3f}" if figure.unit == "ms" else short(figure.value)
    for who, cells in lines.items():
        table.add_row(who, *(cells.get(column, "") for column in COLUMNS))
    return table


def _job(figures: Sequence[Figure]) -> Table:
    """Each step beside DuckDB."""
    table = numbers("job", ["", "beside"])
    for figure in _of("job", figures):
        step = f"{figure.case.partition('/')[2]} {figure.metric}"
        table.add_row(step, f"{figure.value:,.4g} {figure.unit}", figure.baseline)
    return table


def _memory(figures: Sequence[Figure]) -> Table:
    """The largest map of each kind, and all that the process took."""
    table = numbers("memory", ["bytes an entry", "bytes of the process a row"])
    lines: dict[str, dict[str, float]] = {}
    for figure in _of("memory", figures):
        line = lines.setdefault(figure.case.partition("/")[2].replace("/", ", "), {})
        line[figure.metric] = max(figure.value, line.get(figure.metric, 0.0))
    for kind, cells in lines.items():
        values = (cells.get(metric) for metric in ("bytes/entry", "process_bytes/row"))
        table.add_row(kind, *("" if value is None else f"{value:,.0f}" for value in values))
    return table


def _profiles(figures: Sequence[Figure]) -> Iterator[Table]:
    found = _of("profile", figures)
    for case in dict.fromkeys(figure.case for figure in found):
        calls, milliseconds, *functions = (figure for figure in found if figure.case == case)
        title = f"{case}: {calls.value:,.0f} calls an epoch, {calls.baseline}; {milliseconds.value:,.3g} ms"
        table = numbers(title, ["ms", "calls"])
        for figure in functions:
            table.add_row(figure.metric, f"{figure.value:,.3g}", figure.baseline.removesuffix(" calls"))
        yield table


def _of(part: str, figures: Sequence[Figure]) -> list[Figure]:
    """The figures of a workload, of memory or of profiles."""
    return [figure for figure in figures if figure.case.split("/")[0] == part]
