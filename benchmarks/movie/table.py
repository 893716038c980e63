"""The figures beside those of the paper: queries, updates, Figure 11, goals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.graphivm.goals import goals_table, told
from benchmarks.movie.figures import ViewComplexity
from benchmarks.movie.goals import GOALS
from benchmarks.movie.paper import PAPER
from benchmarks.movie.results import (
    CELLS,
    DUCKDB,
    INCREMENTAL,
    MATERIALIZED,
    PER_QUERY,
    READS,
    REMATERIALIZED,
    SPARK,
    SPEEDUP,
    VIRTUAL,
)
from benchmarks.tables import numbers
from tidemill.serving.cli.bench_runner import Figure

QUERY_COLUMNS = {MATERIALIZED: "MV, ms", VIRTUAL: "virtual, ms", SPEEDUP: "times", DUCKDB: "DuckDB, ms"}
QUERY_COLUMNS |= {SPARK: "Spark, ms"}
UPDATE_COLUMNS = {
    INCREMENTAL: "kept, ms",
    REMATERIALIZED: "recomputed, ms",
    SPEEDUP: "times",
    PER_QUERY: "a query",
    READS: "reads",
}
ELEMENT_COLUMNS = {"ms": "an epoch, ms"}
BESIDE = (SPEEDUP, PER_QUERY)
"""The metrics of which the paper tells something."""

Cases = dict[str, dict[str, float]]


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """What was measured, and the paper's figure after it where its text has one."""
    cases: Cases = {}
    for figure in figures:
        if "/" in figure.case and not figure.case.startswith("selfmaintainable"):
            cases.setdefault(figure.case, {})[figure.metric] = figure.value
    queries = {name: found for name, found in cases.items() if name.startswith("query/")}
    elements = {name: found for name, found in cases.items() if name.startswith("collection")}
    updates = {name: found for name, found in cases.items() if name not in queries and name not in elements}
    parts = [
        _arranged("queries", queries, QUERY_COLUMNS),
        _arranged("propagated updates", updates, UPDATE_COLUMNS),
        _arranged("one element of a collection", elements, ELEMENT_COLUMNS),
        _entries(figures),
        goals_table(figures, GOALS),
    ]
    return Group(*(part for part in parts if part.row_count))


def _arranged(title: str, cases: Cases, columns: dict[str, str]) -> Table:
    table = numbers(title, [heading for metric in columns for heading in _headings(metric, columns)])
    for name, found in cases.items():
        table.add_row(name, *(text for metric in columns for text in _texts(name, metric, found)))
    return table


def _headings(metric: str, columns: dict[str, str]) -> list[str]:
    return [columns[metric], "paper"] if metric in BESIDE else [columns[metric]]


def _texts(name: str, metric: str, found: dict[str, float]) -> list[str]:
    value = told(found[metric]) if metric in found else ""
    return [value, PAPER.get((name, metric), "")] if metric in BESIDE else [value]


def _entries(figures: Sequence[Figure]) -> Table:
    """Figure 11 with the base rows that were read in the place of plans, where a cell has two for both."""
    rows: dict[str, dict[str, list[str]]] = {}
    title = "Figure 11: base rows read"
    for figure in figures:
        if figure.case.startswith("selfmaintainable/"):
            _, number, view, _ = figure.case.split("/")
            row = f"{number} {figure.baseline.partition(':')[0]}"
            rows.setdefault(row, {}).setdefault(view, []).append(f"{figure.value:,.0f}")
        elif figure.metric == CELLS:
            title += f"; none for {figure.value:.0f} {figure.baseline}"
    table = numbers(title, [view.name.lower() for view in ViewComplexity])
    for row, cells in rows.items():
        table.add_row(row, *(" + ".join(cells.get(view.name.lower(), ["NA"])) for view in ViewComplexity))
    return table
