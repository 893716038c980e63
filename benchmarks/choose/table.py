"""The figures of ``tidemill bench choose``: a line for each case, and how far ``auto`` is from the best."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import exp, log

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.choose.measure import AGAIN, BENCH, OVER_BEST, OVER_RECOMPUTING, RECOMPUTING, STRATEGIES
from benchmarks.choose.mixes import COMPARED
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

ALL = "all"
"""The case of the figures over all queries."""

Cells = Mapping[str, Mapping[str, Figure]]
"""Figures by case and strategy."""


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """Work, then memory, then the summary."""
    work, held = _cells(figures, "us/row"), _cells(figures, "bytes")
    parts = [_table("microseconds of CPU a changed row", work), _table("bytes of maps", held)]
    return Group(*(part for part in parts if part.row_count), *summary(figures))


def ratios(figures: Sequence[Figure]) -> dict[str, float]:
    """The time of ``auto`` divided by that of the best other strategy, by case."""
    return _ratios(_cells(figures, "us/row"), [name for name in STRATEGIES if name not in ("auto", AGAIN)])


def recomputing(figures: Sequence[Figure]) -> dict[str, float]:
    """The time of ``auto`` divided by that of recomputing, by case."""
    return _ratios(_cells(figures, "us/row"), RECOMPUTING)


def goal_figures(figures: Sequence[Figure]) -> Iterator[Figure]:
    """How many times as long ``auto`` takes as the best strategy, and as recomputing: of each query, and of all."""
    regrets = {case: ratio for case, ratio in ratios(figures).items() if case.rpartition("/")[2] in COMPARED}
    again = recomputing(figures)
    for query in (*dict.fromkeys(case.rpartition("/")[0] for case in (*regrets, *again)), ALL):
        yield from _goals(query, _of(regrets, query), _of(again, query))


def _goals(query: str, regrets: Sequence[float], again: Sequence[float]) -> Iterator[Figure]:
    if regrets:
        yield Figure(BENCH, query, "regret_mean", _mean(regrets), "times", OVER_BEST)
        yield Figure(BENCH, query, "regret_max", max(regrets), "times", OVER_BEST)
    if again:
        yield Figure(BENCH, query, "recompute_ratio_max", max(again), "times", OVER_RECOMPUTING)


def _of(found: Mapping[str, float], query: str) -> list[float]:
    return [ratio for case, ratio in found.items() if query in (ALL, case.rpartition("/")[0])]


def _mean(found: Collection[float]) -> float:
    return exp(sum(map(log, found)) / len(found))


def summary(figures: Sequence[Figure]) -> Iterator[str]:
    """How ``auto`` compares with the best strategy, and with recomputing, in the mean and at worst."""
    work = {case: ratio for case, ratio in ratios(figures).items() if case.rpartition("/")[2] in COMPARED}
    shapes = {
        case: ratio for case, ratio in ratios(figures).items() if case.startswith("drift/") and case.endswith("/after")
    }
    fixed = [name for name in STRATEGIES if name not in ("auto", *RECOMPUTING)]
    held = _ratios(_cells(figures, "bytes"), fixed)
    for words, found in (
        ("takes {} times as long as the best strategy", work),
        ("takes {} times as long as recomputing", recomputing(figures)),
        ("keeps {} times the bytes of the strategy that keeps least", held),
        ("takes {} times as long as the best strategy where tables drift", shapes),
    ):
        if found:
            mean, worst = _mean(found.values()), max(found, key=lambda case: found[case])
            yield f"auto {words.format(f'{mean:.3g}')} in the mean, {found[worst]:.3g} at worst ({worst})"


def _ratios(cells: Cells, others: Sequence[str]) -> dict[str, float]:
    found = {case: _ratio(line, others) for case, line in cells.items()}
    return {case: ratio for case, ratio in found.items() if ratio is not None}


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
        table.add_row(case, *values, line["auto"].baseline if "auto" in line else "")
    return table
