"""The experiments as SVG, arranged as the thesis's Figures 9.3 to 9.11."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.graphivm.case import SERVES, STRATEGIES, Case, Outcome
from benchmarks.graphivm.experiments import LOOKAHEADS
from benchmarks.graphivm.queries import SIMPLE
from benchmarks.graphivm.workload import MODIFICATIONS
from benchmarks.svg import drawn

PALETTE = ("#2b8a4b", "#d98c1f", "#3a7fb8", "#8c8c8c")
COLORS = dict(zip(STRATEGIES, PALETTE, strict=True))
LOOKAHEAD_COLORS = dict(zip(LOOKAHEADS, PALETTE[3:0:-1], strict=True))
SCENARIOS = dict(zip(SERVES, ("publish-subscribe", "warehouse"), strict=True))

Value = Callable[[Outcome], float]


def draw(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """A plot for each experiment that has outcomes; gives their files."""
    by_name = {
        name: [outcome for outcome in outcomes if outcome.case.experiment == name]
        for name in {outcome.case.experiment for outcome in outcomes}
    }
    plots: list[tuple[str, str, Callable[[list[Outcome], Path], None]]] = [
        ("simple", "figure9.3", _draw_bars),
        ("lazy", "figure9.4", _draw_bars),
        ("fanout", "figure9.5", _draw_fanout),
        ("joins", "figure9.6", _draw_joins),
        ("retweets", "figure9.7", _draw_joins),
        ("lookahead", "figure9.8", _draw_lookahead),
        ("modifications", "figure9.9", _draw_modifications),
        ("fanout", "figure9.10", _draw_reading),
        ("joins", "figure9.11", _draw_memory),
        ("subscribers", "subscribers", _draw_subscribers),
    ]
    files = []
    for experiment, name, plot in plots:
        shown = by_name.get(experiment, [])
        if plot in (_draw_lookahead, _draw_reading, _draw_memory):  # of machine code alone
            shown = [outcome for outcome in shown if outcome.case.backend == "llvm"]
        if shown:
            files.append(folder / f"{name}.svg")
            plot(shown, files[-1])
    return files


def _rate(outcome: Outcome) -> float:
    return outcome.rate


def _system(case: Case) -> str:
    return case.strategy if case.backend == "llvm" else f"{case.strategy}, {case.backend}"


def _serving(outcomes: Sequence[Outcome], serve: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.case.serve in (serve, "both")]


def _draw_lines(axis: Axes, outcomes: Sequence[Outcome], value: Value, along: str) -> None:
    """A line for each strategy and back end over what is varied, with marks where it was measured."""
    lines: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case.at):
        lines.setdefault(_system(outcome.case), []).append(outcome)
    for label, points in lines.items():
        case = points[0].case
        places, values = [point.case.at for point in points], [value(point) for point in points]
        style = "o-" if case.backend == "llvm" else "o:"
        axis.plot(places, values, style, color=COLORS[case.strategy], linewidth=1.2, markersize=3, label=label)
    places = sorted({outcome.case.at for outcome in outcomes})
    axis.set_xlabel(along)
    axis.set_yscale("log")
    if places[-1] > 10 * places[0]:
        axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:g}" for place in places])
    axis.minorticks_off()


def _draw_scenarios(panels: Sequence[tuple[str, Sequence[Outcome]]], along: str, file: Path) -> None:
    """Events a second in both scenarios, a row for each panel."""
    with drawn(file, 7, 2.8 * len(panels)) as canvas:
        axes = canvas.subplots(len(panels), 2, squeeze=False, sharey="row")
        for row, (title, outcomes) in zip(axes, panels, strict=True):
            for axis, (serve, scenario) in zip(row, SCENARIOS.items(), strict=True):
                _draw_lines(axis, _serving(outcomes, serve), _rate, along)
                axis.set_title(f"{scenario}{title}")
            row[0].set_ylabel("events/s")
        _legend(canvas, axes.flat)


def _draw_fanout(outcomes: list[Outcome], file: Path) -> None:
    last = [outcome for outcome in outcomes if not outcome.case.word]
    first = [outcome for outcome in outcomes if outcome.case.word]
    panels = ((", paths part last", last), (", paths part first", first))
    _draw_scenarios([panel for panel in panels if panel[1]], "fan-out", file)


def _draw_joins(outcomes: list[Outcome], file: Path) -> None:
    _draw_scenarios([("", outcomes)], "joins", file)


def _draw_bars(outcomes: list[Outcome], file: Path) -> None:
    """Events a second of each simple query in both scenarios."""
    with drawn(file, 9, 3) as canvas:
        axes = canvas.subplots(1, 2, squeeze=False, sharey="row")
        for axis, (serve, scenario) in zip(axes[0], SCENARIOS.items(), strict=True):
            chosen = _serving(outcomes, serve)
            _draw_groups(axis, chosen, tuple(SIMPLE), lambda case: case.query, _system)
            axis.set_title(scenario)
        axes[0][0].set_ylabel("events/s")
        _legend(canvas, axes.flat)


def _draw_modifications(outcomes: list[Outcome], file: Path) -> None:
    with drawn(file, 9, 3) as canvas:
        axes = canvas.subplots(1, 2, squeeze=False)
        for axis, backend in zip(axes[0], ("python", "llvm"), strict=True):
            chosen = [outcome for outcome in outcomes if outcome.case.backend == backend]
            _draw_groups(axis, chosen, tuple(SIMPLE), lambda case: case.query, lambda case: case.word)
            axis.set_title(backend)
        axes[0][0].set_ylabel("events/s")
        _legend(canvas, axes.flat)


def _draw_groups(
    axis: Axes,
    outcomes: Sequence[Outcome],
    groups: Sequence[str],
    group: Callable[[Case], str],
    bar: Callable[[Case], str],
) -> None:
    """Bars in groups: one bar of each kind in every group."""
    kinds = sorted({bar(outcome.case) for outcome in outcomes}, key=_rank)
    shown = [name for name in groups if any(group(outcome.case) == name for outcome in outcomes)]
    width = 0.8 / max(len(kinds), 1)
    for place, kind in enumerate(kinds):
        chosen = [outcome for outcome in outcomes if bar(outcome.case) == kind]
        places = [shown.index(group(outcome.case)) + place * width for outcome in chosen]
        axis.bar(places, [outcome.rate for outcome in chosen], width, label=kind, **_look(kind, place))
    axis.set_xticks([place + 0.4 - width / 2 for place in range(len(shown))], shown)
    axis.set_yscale("log")


def _rank(kind: str) -> tuple[int, str]:
    """Modifications and kinds of look-ahead in their own order, strategies by name."""
    order = (*MODIFICATIONS, *LOOKAHEADS)
    return (order.index(kind) if kind in order else -1, kind)


def _look(kind: str, place: int) -> dict[str, Any]:
    """Interpreted bars have the color of compiled ones, and are hatched."""
    strategy, _, backend = kind.partition(", ")
    color = LOOKAHEAD_COLORS.get(kind) or COLORS.get(strategy, PALETTE[place % len(PALETTE)])
    return {"color": color, "alpha": 0.5, "hatch": "///"} if backend else {"color": color}


def _draw_lookahead(outcomes: list[Outcome], file: Path) -> None:
    """Both chains by their length, and all other queries."""
    with drawn(file, 10, 2.8) as canvas:
        axes = canvas.subplots(1, 3, width_ratios=(1, 1, 2))
        for axis, chain in zip(axes, ("retweets", "joins"), strict=False):
            for word, color in LOOKAHEAD_COLORS.items():
                own = [o for o in outcomes if o.case.word == word and o.case.query.startswith(chain)]
                points = sorted((outcome.case.at, outcome.rate) for outcome in own)
                places, rates = [at for at, _ in points], [rate for _, rate in points]
                axis.plot(places, rates, "o-", color=color, linewidth=1.2, markersize=3, label=word)
            axis.set_title(chain)
            axis.set_xlabel("joins")
            axis.set_ylim(bottom=0)
        others = [o for o in outcomes if not o.case.at]
        _draw_groups(axes[2], others, _queries(others), lambda case: case.query, lambda case: case.word)
        axes[2].set_title("other queries")
        axes[0].set_ylabel("events/s")
        _legend(canvas, axes[:2])


def _queries(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(outcome.case.query for outcome in outcomes))


def _draw_reading(outcomes: list[Outcome], file: Path) -> None:
    chosen = [o for o in outcomes if not o.case.word and o.case.serve != "subscribe"]
    with drawn(file, 4.5, 3) as canvas:
        axis = canvas.subplots()
        _draw_lines(axis, chosen, lambda outcome: outcome.read_s, "fan-out")
        axis.set_ylabel("seconds to read all rows")
        axis.legend(frameon=False)


def _draw_memory(outcomes: list[Outcome], file: Path) -> None:
    """Memory of the maps over the rows of the view, with what as many rows take beside."""
    chosen = [outcome for outcome in outcomes if outcome.state and outcome.case.serve != "subscribe"]
    with drawn(file, 4.5, 3) as canvas:
        axis = canvas.subplots()
        for strategy, color in COLORS.items():
            points = sorted((o.rows, (o.state or 0) / 1e6) for o in chosen if o.case.strategy == strategy)
            if points:
                rows, sizes = [point[0] for point in points], [point[1] for point in points]
                axis.plot(rows, sizes, "o-", color=color, linewidth=1.2, markersize=3, label=strategy)
        axis.set_yscale("log")
        axis.set_xlabel("rows of the view, 2 to 5 joins")
        axis.set_ylabel("MB in maps")
        axis.legend(frameon=False)


def _draw_subscribers(outcomes: list[Outcome], file: Path) -> None:
    with drawn(file, 4.5, 3) as canvas:
        axis = canvas.subplots()
        _draw_lines(axis, outcomes, _rate, "subscribers")
        axis.set_ylabel("events/s")
        axis.set_ylim(bottom=1)


def _legend(canvas: Canvas, axes: Iterable[Axes]) -> None:
    """One legend for all panels."""
    lines: dict[str, Artist] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        lines.update(zip(labels, handles, strict=True))
    canvas.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=4, frameon=False)
