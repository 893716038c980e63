"""Traces over the stream as SVG, arranged as the paper's Figures 8 to 11."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.dbtoaster.case import BACKENDS, DEPTHS, Outcome
from benchmarks.dbtoaster.paper import DBTOASTER
from benchmarks.svg import drawn

COLORS = dict(zip(DEPTHS, ("#8c8c8c", "#d98c1f", "#3a7fb8", "#2b8a4b"), strict=True))
LINES = dict(zip(BACKENDS, (":", "-"), strict=True))


def draw_traces(outcomes: Sequence[Outcome], queries: Sequence[str], file: Path) -> None:
    """For each query refreshes a second over the fraction of the stream, and memory below."""
    with drawn(file, 3.2 * len(queries), 5) as canvas:
        axes = canvas.subplots(2, len(queries), squeeze=False, sharex="col")
        for column, query in enumerate(queries):
            chosen = [outcome for outcome in outcomes if outcome.case.query == query]
            _draw_rates(axes[0][column], query, chosen)
            _draw_memory(axes[1][column], chosen)
        axes[0][0].set_ylabel("refreshes/s")
        axes[1][0].set_ylabel("MB in maps")
        lines = {line.get_label(): line for axis in axes[0] for line in axis.get_lines()}
        canvas.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), frameon=False)


def _draw_rates(axis: Axes, query: str, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        case, samples = outcome.case, outcome.samples
        places = [(a.events + b.events) / 2 / outcome.stream for a, b in pairwise(samples)]
        rates = [(b.events - a.events) / (b.seconds - a.seconds) for a, b in pairwise(samples)]
        label = f"{case.depth}, {case.backend}"
        axis.plot(places, rates, LINES[case.backend], color=COLORS[case.depth], linewidth=1.2, label=label)
    axis.axhline(DBTOASTER[query], color="black", linewidth=0.8, linestyle="--", label="DBToaster, mean (Figure 7)")
    axis.set_yscale("log")
    axis.set_xlim(0, 1)
    axis.set_title(query)


def _draw_memory(axis: Axes, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        places = [sample.events / outcome.stream for sample in outcome.samples]
        sizes = [sample.bytes / 1e6 for sample in outcome.samples]
        axis.plot(places, sizes, LINES[outcome.case.backend], color=COLORS[outcome.case.depth], linewidth=1.2)
    axis.set_xlabel("fraction of the stream")
    axis.set_ylim(bottom=0)


def draw_scaling(outcomes: Sequence[Outcome], file: Path) -> None:
    """Refreshes a second of each query over the scale of the data: flat where the working state does not matter."""
    rates: dict[str, dict[float, float]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case.scale):
        rates.setdefault(outcome.case.query, {})[outcome.case.scale] = outcome.rate
    with drawn(file, 5, 3.2) as canvas:
        axis = canvas.subplots()
        for query, by_scale in rates.items():
            axis.plot(list(by_scale), list(by_scale.values()), "o-", linewidth=1.2, markersize=3, label=query)
        axis.set_xscale("log")
        axis.set_yscale("log")
        scales = sorted({scale for by_scale in rates.values() for scale in by_scale})
        axis.set_xticks(scales, [f"{scale:g}" for scale in scales])
        axis.minorticks_off()
        axis.set_xlabel("TPC-H scale")
        axis.set_ylabel("refreshes/s")
        axis.legend(frameon=False, ncols=2)
