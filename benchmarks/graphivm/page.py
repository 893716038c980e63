"""The figures of a run as Markdown: ``python -m benchmarks.graphivm.page graphivm.jsonl``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.graphivm.goals import judged, told
from benchmarks.graphivm.table import cell, cells_of, columns_of, sections, words_of
from tidemill.serving.cli.bench_runner import Figure


def page(figures: Sequence[Figure]) -> Iterator[str]:
    """The goals first, then every table that has figures, line by line."""
    goals = [(goal.what, goal.wanted, told(value), _verdict(met)) for goal, value, met in judged(figures)]
    yield from _table(("goal", "wanted", "value", ""), goals)
    for title, chosen, place in sections(figures):
        cells = cells_of(chosen, place)
        columns = columns_of(cells)
        if cells:
            yield from ("", f"**{title}**", "")
            headings = ("", *(column.replace("\n", " ").strip() for column in columns))
            lines = ((name, *(cell(line.get(column)) for column in columns)) for name, line in cells.items())
            yield from _table(headings, lines)
    others = [figure for figure in figures if words_of(figure.case) is None]
    if others:
        yield ""
        lines = ((f.case, f.metric, f"{f.value:,.3g} {f.unit}", f.baseline) for f in others)
        yield from _table(("", "metric", "value", ""), lines)


def _verdict(met: bool) -> str:
    return "met" if met else "missed"


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table as Markdown.

    >>> print(*_table(("", "a"), [("x", "1")]), sep="\\n")
    |  | a |
    |---|---|
    | x | 1 |
    """
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for line in lines:
        yield f"| {' | '.join(line)} |"


if __name__ == "__main__":
    (name,) = sys.argv[1:]
    read = Path(name).read_text(encoding="utf-8").splitlines()
    print(*page([Figure(**json.loads(line)) for line in read]), sep="\n")
