"""Figures 6.2 to 6.5 of the paper as SVG: formulas are lines, what was measured are the points on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from benchmarks.eca.experiments import CROSSOVERS
from benchmarks.eca.formulas import ALGORITHMS, FORMULAS, Parameters
from benchmarks.eca.outcomes import Outcome
from benchmarks.svg import drawn

COLORS = dict(zip(ALGORITHMS, ("#d98c1f", "#b8433a", "#2b8a4b", "#3a7fb8"), strict=True))
LABELS = {"rv-best": "RV best", "rv-worst": "RV worst", "eca-best": "ECA best", "eca-worst": "ECA worst"}
PACKED = "eca-worst/packed"


@dataclass(frozen=True)
class Plot:
    """A figure of the paper: what against which axis, up to where; recomputing each time is far above the others."""

    name: str
    what: str
    axis: str
    most: float
    title: str
    unit: str


PLOTS = (
    Plot("figure6.2", "bytes", "c", 100, "B versus C, three updates", "bytes"),
    Plot("figure6.3", "bytes", "k", 120, "B versus k, C = 100", "bytes"),
    Plot("figure6.4", "pages-indexed", "k", 12, "IO versus k, scenario 1: indexes", "pages"),
    Plot("figure6.5", "pages-looped", "k", 12, "IO versus k, scenario 2: nested loops", "pages"),
    Plot("join-factor", "bytes", "j", 20, "B versus J, three updates, C = 100", "bytes"),
)


def draw(found: Sequence[Outcome], folder: Path) -> list[Path]:
    """A plot for each figure that has points; gives their files."""
    files = []
    for plot in PLOTS:
        points = [one for one in found if one.what == plot.what and one.axis == plot.axis and one.at <= plot.most]
        if points:
            files.append(folder / f"{plot.name}.svg")
            with drawn(files[-1], 4.6, 3.2) as canvas:
                _draw(canvas.subplots(), plot, points)
    return files


def _draw(axes: Axes, plot: Plot, points: Sequence[Outcome]) -> None:
    reach = np.linspace(min(one.at for one in points), min(plot.most, max(one.at for one in points)), 200)
    for name in ALGORITHMS:
        costs = [FORMULAS[plot.what](Parameters().at(plot.axis, float(at)))[name] for at in reach]
        axes.plot(reach, costs, color=COLORS[name], linewidth=1, label=LABELS[name])
        _dots(axes, points, name, COLORS[name], "o")
    if plot.axis == "k":
        _dots(axes, points, PACKED, COLORS["eca-worst"], "x", label="ECA worst, terms summed")
    for one in CROSSOVERS:
        if (one.what, one.axis) == (plot.what, plot.axis) and reach[0] <= one.formula() <= reach[-1]:
            axes.axvline(one.formula(), color="#8c8c8c", linewidth=0.6, linestyle=":")
    axes.set_yscale("log")
    axes.set_xlabel({"c": "C, rows of a relation", "k": "k, updates", "j": "J, join factor"}[plot.axis])
    axes.set_ylabel(plot.unit)
    axes.set_title(plot.title)
    axes.legend(fontsize=7)


def _dots(axes: Axes, points: Sequence[Outcome], name: str, color: str, marker: str, label: str | None = None) -> None:
    shown = [(one.at, one.measured) for one in points if one.algorithm == name]
    if shown:
        axes.plot(*zip(*shown, strict=True), marker, color=color, markersize=4, label=label)
