"""The figures of ``tidemill bench choose``: a line for each case, and how far ``auto`` is from the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.choose.measure import STRATEGIES
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

Cells = Mapping[str, Mapping[str, Figure]]
"""Figures by case and strategy."""


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """Work, then memory, then the summary."""
    work, held = _cells(figures, "us/row"), _cells(figures, "entries")
    parts = [_table("microseconds of CPU a changed row", work), _table("entries of maps", held)]
    return Group(*(part for part in parts if part.row_count), *summary(figures))


def summary(figures: Sequence[Figure]) -> Iterator[str]:
    """How ``auto`` compares with the best strategy, and with recomputing, in the mean and at worst."""
    work = _cells(figures, "us/row")
    best = {case: _ratio(line, [name for name in line if name != "auto"]) for case, line in work.items()}
    again = {case: _ratio(line, ["recompute"]) for case, line in work.items()}
    for title, found in (("the best strategy", best), ("recomputing", again)):
        ratios = {case: ratio for case, ratio in found.items() if ratio}
        if ratios:
            mean = exp(sum(map(log, ratios.values())) / len(ratios))
            worst = max(ratios, key=lambda case: ratios[case])
            yield f"auto takes {mean:.3g} times as long as {title} in the mean, {ratios[worst]:.3g} at worst ({worst})"


def _ratio(line: Mapping[str, Figure], others: Sequence[str]) -> float | None:
    """The figure of ``auto`` divided by the smallest of ``others``."""
    values = [line[name].value for name in others if name in line and line[name].value]
    return line["auto"].value / min(values) if values and "auto" in line and line["auto"].value else None


def _cells(figures: Sequence[Figure], metric: str) -> Cells:
    cells: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        case, _, strategy = figure.case.rpartition("/")
        if figure.metric == metric:
            cells.setdefault(case, {})[strategy] = figure
    return cells


def _table(title: str, cells: Cells) -> Table:
    strategies = [name for name in STRATEGIES if any(name in line for line in cells.values())]
    table = numbers(title, [*strategies, "auto is"])
    for case, line in cells.items():
        values = (short(line[name].value) if name in line and line[name].value else "-" for name in strategies)
        table.add_row(case, *values, line["auto"].baseline.rpartition("; ")[2] if "auto" in line else "")
    return table
