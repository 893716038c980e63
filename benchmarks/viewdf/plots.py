"""Figures 5.1 to 5.8 and the others as SVG: a line for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.svg import drawn
from benchmarks.viewdf.case import APPEND_ONLY, DUCKDB, HAND, NATIVE, Outcome
from benchmarks.viewdf.experiments import Experiment

COLORS = {
    "direct": "#b8433a",
    "panes": "#d98c1f",
    "prefix": "#8a5fb0",
    APPEND_ONLY: "#2b8a4b",
    "subtract": "#2b8a4b",
    "intervals": "#3a7fb8",
    "rolling": "#2b8a4b",
    "union": "#d98c1f",
    "viewdf": "#2b8a4b",
    "match": "#3a7fb8",
    HAND: "#8c8c8c",
    DUCKDB: "#8c8c8c",
}
DASHED = (HAND, DUCKDB)
AXES = {"rows": "rows a partition", "first": "rows a partition", "window": "partitions of the window"}
AXES |= {"scope": "scope, partitions", "selectivity": "selectivity"}


def draw(name: str, experiment: Experiment, outcomes: Sequence[Outcome], folder: Path) -> Path | None:
    """The plot of a figure; None where it has no line to draw."""
    shown = [one for one in outcomes if not one.reason and one.case.runtime == NATIVE]
    if len({one.case.at for one in shown}) < 2:
        return None
    file = folder / f"figure{name}.svg"
    with drawn(file, 4.6, 3.2) as canvas:
        _draw(canvas.subplots(), name, experiment, shown)
    return file


def _draw(axes: Axes, name: str, experiment: Experiment, outcomes: Sequence[Outcome]) -> None:
    for method in dict.fromkeys(one.case.method for one in outcomes):
        points = [(one.case.at, one.seconds) for one in outcomes if one.case.method == method]
        (line,) = axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=method)
        line.set_color(COLORS[method])
        if method in DASHED:
            line.set_linestyle(":" if method == HAND else "--")
    axes.set_yscale("log")
    if experiment.base.axis in ("rows", "first"):
        axes.set_xscale("log")
    axes.set_xlabel(AXES[experiment.base.axis])
    axes.set_ylabel("seconds a slide")
    axes.set_title(f"Figure {name}: {experiment.title}" if name[0].isdigit() else experiment.title)
    axes.legend(fontsize=7)
