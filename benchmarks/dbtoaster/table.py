"""The figures as the paper arranges them: a line for each query, a column for each depth and back end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.dbtoaster.case import BACKENDS, DEPTHS
from benchmarks.dbtoaster.paper import DBTOASTER
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

Found = dict[tuple[str, str], Figure]
"""Figures by case and metric."""


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """Refreshes a second beside the paper's; below, what else was measured."""
    found = {(figure.case, figure.metric): figure for figure in figures}
    parts = [_rates(found), _costs(found), _elsewhere(figures)]
    return Group(*(part for part in parts if part.row_count))


def _rates(found: Found) -> Table:
    columns = {
        f"{depth}\n{backend}": [found.get((f"{query}/{depth}/{backend}", "refreshes/s")) for query in DBTOASTER]
        for depth, backend in product(DEPTHS, BACKENDS)
    }
    table = numbers("refreshes/s", ["paper", *(heading for heading, cells in columns.items() if any(cells))])
    table.caption = "* the first part of the stream: the time limit came before its end"
    for place, (query, published) in enumerate(DBTOASTER.items()):
        cells = [cells[place] for cells in columns.values() if any(cells)]
        if any(cells):
            table.add_row(query, short(published), *map(_rate, cells))
    return table


def _costs(found: Found) -> Table:
    """Compile time and bytes of an entry, of the optimized program."""
    wanted = list(product(("compile_s", "bytes/entry"), BACKENDS))
    table = numbers("at depth full", [f"{metric}\n{backend}" for metric, backend in wanted])
    for query in DBTOASTER:
        cells = [found.get((f"{query}/full/{backend}", metric)) for metric, backend in wanted]
        if any(cells):
            table.add_row(query, *(f"{cell.value:,.3g}" if cell is not None else "" for cell in cells))
    return table


def _elsewhere(figures: Sequence[Figure]) -> Table:
    """Cases with a word more than the three: other scales, other ways in."""
    table = numbers("and", ["metric", "value"])
    for figure in figures:
        if figure.case.count("/") > 2 and figure.metric.endswith("/s"):
            table.add_row(figure.case, figure.metric, _rate(figure))
    return table


def _rate(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return short(figure.value) + ("*" if "; first" in figure.baseline else "")
