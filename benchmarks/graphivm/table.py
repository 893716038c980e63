"""The figures as the thesis arranges them: a line for each query, a column for each strategy and scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.graphivm.case import BACKENDS, SERVES, STRATEGIES
from benchmarks.graphivm.experiments import LOOKAHEADS
from benchmarks.graphivm.goals import goals_table
from benchmarks.graphivm.workload import MODIFICATIONS
from benchmarks.tables import numbers, short
from tidemill.serving.cli.bench_runner import Figure

METRICS = {
    "plain_events/s": "events/s, rows written out in plain columns",
    "bytes": "bytes in maps",
    "memory_ratio": "memory_ratio, against viewlet",
    "view_rows": "rows of the view",
    "read_s": "seconds to read all rows",
}
"""What was measured beside events a second, and its title."""

Words = tuple[str, str, str, str, str]
"""Query, strategy, what for, what the query leaves open, and back end."""

Place = Callable[[Words], tuple[str, str] | None]
"""The line and the column of a case; None where it has no place in a table."""


def as_table(figures: Sequence[Figure]) -> RenderableType:
    """Events a second, then what else was measured, and at the end the goals."""
    parts = [_arranged(title, chosen, place) for title, chosen, place in sections(figures)]
    return Group(*(part for part in (*parts, _others(figures), goals_table(figures)) if part.row_count))


def sections(figures: Sequence[Figure]) -> Iterator[tuple[str, list[Figure], Place]]:
    """The tables: a title, the figures that it is about, and where they stand."""
    rates = [figure for figure in figures if figure.metric == "events/s"]
    yield "events/s, compiled (outerjoin: on a tenth of the data)", rates, _by_strategy("llvm")
    yield "events/s, interpreted, on a tenth of the data", rates, _by_strategy("python")
    yield "events/s by look-ahead", rates, _by_word(LOOKAHEADS)
    yield "events/s by modification of the join graph", rates, _by_word(MODIFICATIONS)
    for metric, title in METRICS.items():
        yield title, [figure for figure in figures if figure.metric == metric], _by_strategy("llvm")


def words_of(name: str) -> Words | None:
    """The words of a case's name; None for one that is no query of a strategy.

    >>> words_of("fanout100/joingraph/subscribe/first/python"), words_of("subscribers10")
    (('fanout100', 'joingraph', 'subscribe', 'first', 'python'), None)
    >>> words_of("q1/delta/read")
    ('q1', 'delta', 'read', '', 'llvm')
    """
    query, *words = name.split("/")
    if len(words) < 2 or words[0] not in STRATEGIES or words[1] not in SERVES:
        return None
    backend = "python" if words[-1] == "python" else "llvm"
    more = [word for word in words[2:] if word not in BACKENDS]
    return query, words[0], words[1], more[0] if more else "", backend


def _by_strategy(backend: str) -> Place:
    def place(words: Words) -> tuple[str, str] | None:
        query, strategy, serve, word, on = words
        if on != backend or word in (*LOOKAHEADS, *MODIFICATIONS):
            return None
        # Only a join graph tells the scenarios apart.
        return f"{query} {word}".rstrip(), f"{strategy}\n{serve if strategy == 'joingraph' else ''}"

    return place


def _by_word(known: Sequence[str]) -> Place:
    def place(words: Words) -> tuple[str, str] | None:
        query, _, _, word, backend = words
        return (f"{query} {backend}", word.replace("-", "\n")) if word in known else None

    return place


Cells = dict[str, dict[str, Figure]]
"""Figures by line and column, both in the order in which they came."""


def cells_of(figures: Sequence[Figure], place: Place) -> Cells:
    """The figures that have a place in a table, there."""
    cells: Cells = {}
    for figure in figures:
        words = words_of(figure.case)
        where = place(words) if words is not None else None
        if where is not None:
            cells.setdefault(where[0], {})[where[1]] = figure
    return cells


def columns_of(cells: Cells) -> list[str]:
    """The columns that some line has."""
    return list(dict.fromkeys(column for line in cells.values() for column in line))


def _arranged(title: str, figures: Sequence[Figure], place: Place) -> Table:
    cells = cells_of(figures, place)
    columns = columns_of(cells)
    table = numbers(title, columns)
    for name, line in cells.items():
        table.add_row(name, *(cell(line.get(column)) for column in columns))
    if any(cell(figure).endswith("*") for line in cells.values() for figure in line.values()):
        table.caption = "* the first part of the events: the time limit came before their end"
    return table


def cell(figure: Figure | None) -> str:
    """A figure as tables show it; a star where the time limit cut it, a dash where there is none."""
    if figure is None:
        return ""
    if figure.baseline.startswith("not run"):
        return "-"
    if figure.unit in ("s", "x"):
        return f"{figure.value:.3g}"
    return short(figure.value) + ("*" if figure.baseline.startswith("first") else "")


def _others(figures: Sequence[Figure]) -> Table:
    """What is not of a strategy: subscribers, recomputation, and why a case did not run."""
    table = Table("", "metric", "value", "", title="and", box=None, pad_edge=False)
    for figure in figures:
        if words_of(figure.case) is None:
            table.add_row(figure.case, figure.metric, f"{figure.value:,.3g} {figure.unit}", figure.baseline)
    for reason in dict.fromkeys(_reason(figure) for figure in figures if figure.baseline.startswith("not run")):
        table.add_row(*reason)
    return table


def _reason(figure: Figure) -> tuple[str, str, str, str]:
    words = words_of(figure.case)
    return (words[1] if words else figure.case, "", "-", figure.baseline)
