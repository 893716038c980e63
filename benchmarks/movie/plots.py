"""Figures 17 to 19 as SVG: queries, maintenance, and updates for the time of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.movie.case import Asked, Case, Propagated
from benchmarks.movie.experiments import Line
from benchmarks.svg import drawn

QUERIES = (("virtual", "#b8433a"), ("materialized", "#2b8a4b"), ("duckdb", "#8c8c8c"))
RECOMPUTED, KEPT = ("re-materialized", "#b8433a"), ("incremental", "#2b8a4b")
COLORS = ("#3a7fb8", "#d98c1f")

Points = Sequence[tuple[str, float]]


def draw(
    lines: Sequence[Line], asked: Mapping[Case, Asked], propagated: Mapping[str, Propagated], folder: Path
) -> Iterator[Path]:
    """A file for each line: its queries, each of its updates, and how many updates a query is worth."""
    for line in lines:
        updates = line.cases[0].updates
        file = folder / f"{line.experiment}-{line.cases[0].view.split('_')[0]}.svg"
        with drawn(file, 3.4 * (len(updates) + 2), 3) as canvas:
            panels = canvas.subplots(1, len(updates) + 2, squeeze=False)[0]
            _queries(panels[0], line, asked)
            for update, panel in zip(updates, panels[1:], strict=False):
                _maintenance(panel, line, update, propagated)
            _worth(panels[-1], line, asked, propagated)
            for panel in panels:
                panel.set_xlabel(line.axis)
                panel.legend(fontsize=7)
            canvas.suptitle(line.title)
        yield file


def _queries(panel: Axes, line: Line, asked: Mapping[Case, Asked]) -> None:
    for name, color in QUERIES:
        times = [getattr(asked[case], name) * 1e3 for case in line.cases]
        _plot(panel, list(zip(line.places, times, strict=True)), name, color)
    panel.set(yscale="log", ylabel="ms a query", title="query answering")


def _maintenance(panel: Axes, line: Line, update: str, propagated: Mapping[str, Propagated]) -> None:
    found = [propagated[case.name(update)] for case in line.cases]
    for (name, color), times in (
        (RECOMPUTED, [one.rematerialization for one in found]),
        (KEPT, [one.incremental for one in found]),
    ):
        _plot(panel, [(at, seconds * 1e3) for at, seconds in zip(line.places, times, strict=True)], name, color)
    panel.set(yscale="log", ylabel="ms an update", title=f"maintenance, {update.upper()}")


def _worth(panel: Axes, line: Line, asked: Mapping[Case, Asked], propagated: Mapping[str, Propagated]) -> None:
    for update, color in zip(line.cases[0].updates, COLORS, strict=False):
        ratios = [asked[case].virtual / propagated[case.name(update)].incremental for case in line.cases]
        _plot(panel, list(zip(line.places, ratios, strict=True)), update.upper(), color)
    panel.set(ylim=(0, None), ylabel="updates", title="updates for a virtual query")


def _plot(panel: Axes, points: Points, label: str, color: str) -> None:
    panel.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=label, color=color)
