"""The figures as the paper arranges them: a line for each point, a column for each algorithm; then PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.eca.formulas import ALGORITHMS
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

TITLES = {
    "messages": "messages M",
    "bytes": "bytes B (Figures 6.2 and 6.3)",
    "pages-indexed": "pages IO, scenario 1: indexes (Figure 6.4)",
    "pages-looped": "pages IO, scenario 2: nested loops (Figure 6.5)",
}
PACKED = "eca-worst/packed"
GOALS = {"relative_error": ("bytes beside the formulas", 0.1), "bytes_ratio": ("ECA's bytes beside recompute's", 0.001)}


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """Costs beside formulas, crossovers, PostgreSQL, goals."""
    parts = [_costs(what, figures) for what in TITLES]
    return Group(
        *(
            part
            for part in (*parts, _crossovers(figures), _postgres(figures), _seconds(figures), _goals(figures))
            if part.row_count
        )
    )


def _costs(what: str, figures: Sequence[Figure]) -> Table:
    """What was measured; in brackets how far it is from the formula, where it is not exactly that."""
    values = {figure.case: figure for figure in figures if figure.metric == what.partition("-")[0]}
    errors = {figure.case: figure.value for figure in figures if figure.metric == "relative_error"}
    points = dict.fromkeys(case.rpartition("/")[2] for case in values if case.startswith(f"{what}/"))
    table = numbers(TITLES[what], [*(name.replace("-", "\n") for name in ALGORITHMS), "ECA worst\nterms summed"])
    for point in points:
        cases = [*(f"{what}/formula/{name}/{point}" for name in ALGORITHMS), f"{what}/tidemill/{PACKED}/{point}"]
        table.add_row(point, *(_cell(values.get(case), errors.get(case, 0.0)) for case in cases))
    return table


def _cell(figure: Figure | None, error: float) -> str:
    if figure is None:
        return ""
    return short(figure.value) + (f" ({error:.1%})" if error else "")


def _crossovers(figures: Sequence[Figure]) -> Table:
    table = Table("", "measured", "", title="cheaper to recompute once from", box=None, pad_edge=False)
    for figure in figures:
        if figure.case.startswith("crossover/"):
            name = figure.case.removeprefix("crossover/")
            table.add_row(name, f"{figure.metric} = {figure.value:.3g}", figure.baseline)
    return table


def _postgres(figures: Sequence[Figure]) -> Table:
    """A line for each protocol and timing."""
    found = {(figure.case, figure.metric): figure for figure in figures if figure.case.startswith("postgres/")}
    table = numbers("PostgreSQL", ["bytes an\nupdate", "of recompute", "shown after"])
    for case in dict.fromkeys(case for case, _ in found):
        delay = found.get((case, "delay_ms")) or found[case, "burst_ms"]
        bytes_, ratio = found[case, "bytes/update"], found[case, "bytes_ratio"]
        table.add_row(
            case.removeprefix("postgres/"), short(bytes_.value), f"{ratio.value:.2g}", f"{delay.value:,.1f} ms"
        )
    return table


def _seconds(figures: Sequence[Figure]) -> Table:
    """How long a warehouse takes to fetch rows, and to take in a backlog."""
    table = Table("", "seconds", "", title="a warehouse over PostgreSQL", box=None, pad_edge=False)
    for figure in figures:
        if figure.metric == "seconds":
            table.add_row(figure.case, f"{figure.value:.2f}", figure.baseline)
    return table


def judged(figures: Sequence[Figure]) -> Iterator[tuple[str, float, float]]:
    """The goals that these figures decide: what, the most that it may be, and the worst that was found."""
    for metric, (what, most) in GOALS.items():
        prefix = "bytes/formula/" if metric == "relative_error" else "postgres/eca/"
        values = [figure.value for figure in figures if figure.metric == metric and figure.case.startswith(prefix)]
        if values:
            yield what, most, max(values)


def _goals(figures: Sequence[Figure]) -> Table:
    table = Table("goal", "at most", "found", "", title="goals", box=None, pad_edge=False)
    for what, most, found in judged(figures):
        table.add_row(what, f"{most:g}", f"{found:.2g}", "met" if found <= most else "missed")
    return table
