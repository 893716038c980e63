"""The figures as the thesis arranges them: a line for each point, a column for each method."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.graphivm.goals import goals_table
from benchmarks.tables import numbers
from benchmarks.viewdf.goals import GOALS
from tidemill.serving.cli.bench_runner import Figure

NAME = re.compile(r"(?P<query>\w+)/(?P<axis>[a-z]+)(?P<at>[\d.]+)/(?P<runtime>\w+)/(?P<method>\w+)")
"""A case, as ``Case.name`` writes it."""


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """Milliseconds of slides, ratios, goals, and why a case did not run."""
    parts = [*_slides(figures), _soaked(figures), _ratios(figures), goals_table(figures, GOALS), _reasons(figures)]
    return Group(*(part for part in parts if part.row_count))


def _slides(figures: Sequence[Figure]) -> list[Table]:
    found: dict[str, dict[str, dict[str, Figure]]] = {}
    for figure in figures:
        match = NAME.fullmatch(figure.case)
        if figure.metric == "slide_s" and match is not None:
            where = "Spark" if match["runtime"] != "native" else "this process"
            method = match["method"] if where != "Spark" else f"{match['method']}\n{match['runtime']}"
            table = found.setdefault(f"{match['query']} by {match['axis']}, in {where}: ms a slide", {})
            table.setdefault(match["at"], {})[method] = figure
    return [_arranged(title, lines) for title, lines in found.items()]


def _arranged(title: str, lines: dict[str, dict[str, Figure]]) -> Table:
    columns = list(dict.fromkeys(method for line in lines.values() for method in line))
    table = numbers(title, columns)
    for at, line in lines.items():
        table.add_row(at, *(milliseconds(line.get(column)) for column in columns))
    return table


def milliseconds(figure: Figure | None) -> str:
    """As tables show it: a dash where the case did not run."""
    if figure is None:
        return ""
    if figure.baseline.startswith("not run"):
        return "-"
    return f"{figure.value * 1e3:,.3g}" if figure.value * 1e3 < 999.5 else f"{figure.value * 1e3:,.0f}"


def _soaked(figures: Sequence[Figure]) -> Table:
    table = Table("", "metric", "value", "", title="a long life", box=None, pad_edge=False)
    for figure in figures:
        if figure.case.startswith("soak/"):
            table.add_row(figure.case, figure.metric, f"{figure.value:,.6g} {figure.unit}".strip(), figure.baseline)
    return table


def _ratios(figures: Sequence[Figure]) -> Table:
    table = Table("", "metric", "value", title="ratios", box=None, pad_edge=False)
    for figure in figures:
        if figure.unit == "x":
            table.add_row(figure.case, figure.metric, f"{figure.value:,.3g}")
    return table


def _reasons(figures: Sequence[Figure]) -> Table:
    table = Table("", "", title="not run", box=None, pad_edge=False)
    for figure in figures:
        if figure.baseline.startswith("not run"):
            table.add_row(figure.case, figure.baseline.removeprefix("not run: "))
    return table
