"""Experiments 1 to 3 of the paper: what is varied, and what stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.movie.case import U1, U2, U3, Case
from benchmarks.movie.data import SIZES
from benchmarks.movie.views import COMPLEX, DB_SIZE, SELECTIVITIES


@dataclass(frozen=True)
class Line:
    """Cases beside each other: ``places`` is where each stands on the axis ``axis``."""

    experiment: str
    title: str
    axis: str
    places: tuple[str, ...]
    cases: tuple[Case, ...]


def _numbered(name: str, numbers: Iterable[int], update: str, title: str) -> Line:
    chosen = tuple(numbers)
    places = tuple(f"{SELECTIVITIES[number - 1]:g}" for number in chosen)
    cases = tuple(Case(f"{name}_{number}", "db3", (update,)) for number in chosen)
    return Line("selectivity", title, "selectivity", places, cases)


def _lines(numbers: tuple[int, ...], sizes: tuple[str, ...]) -> tuple[Line, ...]:
    return (
        _numbered("selview", numbers, U1, "selView_i, db3"),
        _numbered("joinselview", numbers, U2, "joinSelView_i, db3"),
        Line(
            "complexity",
            "complexView1 to 4, db3",
            "view",
            tuple(view.name.removeprefix("complexview") for view in COMPLEX),
            tuple(Case(view.name, "db3", (U1,)) for view in COMPLEX),
        ),
        Line("size", "dbSizeView", "database", sizes, tuple(Case(DB_SIZE.name, size, (U2, U3)) for size in sizes)),
    )


LINES = _lines((1, 2, 3, 4, 5), tuple(SIZES))
QUICK_LINES = _lines((1, 3, 5), ("db1", "db3"))
"""A quick look is at fewer points; its databases have no connections, which no view reads."""

SELF_MAINTAINABLE, COLLECTION, SPARK = "selfmaintainable", "collection", "spark"

NAMES = (*dict.fromkeys(line.experiment for line in LINES), SELF_MAINTAINABLE, COLLECTION, SPARK)
"""What can be asked for."""


def by_size(lines: Iterable[Line]) -> dict[str, list[Case]]:
    """The cases of each database, smallest first: it is loaded once for all of them."""
    cases = [case for line in lines for case in line.cases]
    return {size: found for size in SIZES if (found := [case for case in cases if case.size == size])}
