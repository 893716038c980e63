"""How many cases of the golden matrix a run has seen, for the table at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.ways import AGAIN, MOVING, NATIVE, SPARK, STORED, TREES

STRATEGIES = ("delta", "viewlet", "joingraph", "lineage", "recompute", "partition", "auto")
FORMS = ("whole", "rows", "cut")
"""A block of changes as one epoch, as one for each row, or cut into epochs at random places."""

Figures = tuple[str, str, dict[str, dict[str, int]], int, int]
"""The cases of a strategy on a way, by form, and how many stages there were and were compiled."""

COLUMNS = {"run": 7, "shared": 8, "gaps": 6, "failed": 8, "left": 6}


@dataclass
class Cases:
    """The cases of one strategy on one way of a runtime, by form."""

    forms: dict[str, Counter[str]] = field(default_factory=lambda: {form: Counter() for form in FORMS})
    stages: int = 0
    compiled: int = 0


@dataclass
class Table:
    """Cases by strategy and way."""

    cases: dict[tuple[str, str], Cases] = field(default_factory=dict)

    def at(self, strategy: str, way: str) -> Cases:
        return self.cases.setdefault((strategy, way), Cases())

    def figures(self) -> list[Figures]:
        """All figures in plain types, for another process."""
        return [
            (strategy, way, {form: dict(counts) for form, counts in cases.forms.items()}, cases.stages, cases.compiled)
            for (strategy, way), cases in self.cases.items()
        ]

    def add(self, figures: Iterable[Figures]) -> None:
        """Count what another process has seen."""
        for strategy, way, forms, stages, compiled in figures:
            cases = self.at(strategy, way)
            for form, counts in forms.items():
                cases.forms[form].update(counts)
            cases.stages += stages
            cases.compiled += compiled

    def lines(self) -> Iterator[str]:
        """The table: cases of each form, and of all how many ran, shared a run with an equal program, or are gaps.

        Those that are left are not among the cases: `make fuzz` runs them.

        >>> table = Table()
        >>> table.at("delta", "llvm").forms["whole"].update(run=290, gaps=5)
        >>> table.at("delta", "llvm").stages, table.at("delta", "llvm").compiled = 600, 480
        >>> print(*table.lines(), sep="\\n")
        strategy    way      whole   rows    cut    run  shared  gaps  failed  left  stages compiled
        delta       llvm       295      0      0    290       0     5       0     0       480 of 600
        all                    295      0      0    290       0     5       0     0
        """
        titles = "".join(f"{form:>7}" for form in FORMS) + "".join(
            f"{what:>{width}}" for what, width in COLUMNS.items()
        )
        yield f"{'strategy':<12}{'way':<7}{titles}  stages compiled"
        total = Cases()
        for (strategy, way), cases in sorted(self.cases.items(), key=_place):
            for form, counts in cases.forms.items():
                total.forms[form] += counts
            compiled = f"{cases.compiled} of {cases.stages}" if cases.stages else ""
            yield f"{strategy:<12}{way:<7}{_figures(cases)}{compiled:>17}".rstrip()
        yield f"{'all':<19}{_figures(total)}"


def _place(item: tuple[tuple[str, str], Cases]) -> tuple[int, int]:
    strategy, way = item[0]
    return (*NATIVE, *STORED, *TREES, *AGAIN, *MOVING, *SPARK).index(way), STRATEGIES.index(strategy)


def _figures(cases: Cases) -> str:
    every = sum(cases.forms.values(), Counter[str]())
    figures = "".join(f"{every[what]:>{width}}" for what, width in COLUMNS.items())
    return "".join(f"{_seen(counts):>7}" for counts in cases.forms.values()) + figures


def _seen(cases: Counter[str]) -> int:
    return cases.total() - cases["left"]


TABLE = Table()
"""What this process has seen."""
