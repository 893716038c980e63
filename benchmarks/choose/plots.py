"""Plots of ``tidemill bench choose``: ``auto`` beside the best strategy, and beside recomputing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.choose.mixes import COMPARED, MIXES
from benchmarks.choose.table import ratios, recomputing
from benchmarks.svg import drawn
from tidemill.serving.cli.bench_runner import Figure

COLORS = {"dbtoaster": "#d98c1f", "graphivm": "#3a7fb8", "tpch": "#2b8a4b", "viewdf": "#b04a8f", "oo7": "#8c8c8c"}
OTHERS = "#444444"


def draw(figures: Sequence[Figure], folder: Path) -> None:
    """Both plots; nothing of what was not measured."""
    best = {case: ratio for case, ratio in ratios(figures).items() if case.rpartition("/")[2] in COMPARED}
    _draw(folder / "best.svg", "auto : best strategy", {mix: _of(best, mix) for mix in COMPARED}, 1.5)
    again = recomputing(figures)
    _draw(folder / "recomputing.svg", "auto : recomputing", {mix: _of(again, mix) for mix in MIXES}, 1.1)


def _of(found: Mapping[str, float], mix: str) -> dict[str, float]:
    return {case: ratio for case, ratio in found.items() if case.endswith(f"/{mix}")}


def _draw(file: Path, label: str, by_mix: Mapping[str, Mapping[str, float]], goal: float) -> None:
    """The ratios of each mix in ascending order, a point for each case, and the goal for the worst of them."""
    with drawn(file, 2.2 * len(by_mix), 2.6) as canvas:
        axes = canvas.subplots(1, len(by_mix), squeeze=False, sharey=True)[0]
        for axis, (mix, found) in zip(axes, by_mix.items(), strict=True):
            cases = sorted(found, key=lambda case: found[case])
            colors = [COLORS.get(case.partition("/")[0], OTHERS) for case in cases]
            axis.scatter(range(len(cases)), [found[case] for case in cases], c=colors, s=6)
            axis.axhline(goal, color="black", linewidth=0.8, linestyle="--")
            axis.set_yscale("log")
            axis.set_title(mix)
            axis.set_xticks([])
        axes[0].set_ylabel(label)
