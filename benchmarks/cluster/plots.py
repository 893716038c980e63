"""Plots of ``tidemill bench cluster``: refreshing in each place, and beside recomputing, by the size of the change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.svg import drawn
from tidemill.serving.cli.bench_runner import Figure

COLORS = {"local2": "#8c8c8c", "workers1": "#3a7fb8", "workers2": "#2b8a4b"}


def draw(figures: Sequence[Figure], folder: Path) -> None:
    """One file with a panel for the seconds of a refresh, and one for how many times as long Spark recomputes."""
    with drawn(folder / "refresh.svg", 6.4, 2.8) as canvas:
        panels = canvas.subplots(1, 2)
        for panel, metric, label in zip(
            panels, ("refresh_s", "speedup"), ("refresh, seconds", "Spark recomputing : refresh"), strict=True
        ):
            for place, color in COLORS.items():
                points = _points(figures, place, metric)
                if points:
                    panel.plot(*zip(*points, strict=True), marker="o", markersize=3, label=place, color=color)
            panel.set(xscale="log", yscale="log", xlabel="percent changed", ylabel=label)
            panel.legend(fontsize=7)
        panels[1].axhline(1, color="black", linewidth=0.8, linestyle="--")


def _points(figures: Sequence[Figure], place: str, metric: str) -> list[tuple[float, float]]:
    """The percentages of changes in a place with the values of a metric, in order."""
    found = (figure for figure in figures if figure.metric == metric and figure.case.endswith(f"/{place}"))
    cases = [(figure.case.split("/")[1], figure.value) for figure in found]
    return sorted((float(case.removeprefix("change")), value) for case, value in cases if case.startswith("change"))
