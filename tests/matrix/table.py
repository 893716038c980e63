"""How many cases of the golden matrix a run has seen, for the table at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.ways import AGAIN, MOVING, NATIVE, SPARK, STORED

STRATEGIES = ("delta", "viewlet", "joingraph", "lineage", "recompute", "partition", "auto")
FORMS = ("whole", "rows")
COLUMNS = {"run": 7, "shared": 8, "gaps": 6, "failed": 8, "left": 6}


@dataclass
class Cases:
    """The cases of one strategy on one way of a runtime, by form."""

    whole: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    stages: int = 0
    compiled: int = 0

    def of(self, form: str) -> Counter[str]:
        counter: Counter[str] = getattr(self, form)
        return counter


@dataclass
class Table:
    """Cases by strategy and way."""

    cases: dict[tuple[str, str], Cases] = field(default_factory=dict)

    def at(self, strategy: str, way: str) -> Cases:
        return self.cases.setdefault((strategy, way), Cases())

    def figures(self) -> list[tuple[str, str, dict[str, int], dict[str, int], int, int]]:
        """All figures in plain types, for another process."""
        return [
            (strategy, way, dict(cases.whole), dict(cases.rows), cases.stages, cases.compiled)
            for (strategy, way), cases in self.cases.items()
        ]

    def add(self, figures: Iterable[tuple[str, str, dict[str, int], dict[str, int], int, int]]) -> None:
        """Count what another process has seen."""
        for strategy, way, whole, rows, stages, compiled in figures:
            cases = self.at(strategy, way)
            cases.whole.update(whole)
            cases.rows.update(rows)
            cases.stages += stages
            cases.compiled += compiled

    def lines(self) -> Iterator[str]:
        """The table: cases of each form, and of both how many ran, shared a run with an equal program, or are gaps.

        Those that are left are not among the cases: `make fuzz` runs them.

        >>> table = Table()
        >>> table.at("delta", "llvm").whole.update(run=290, gaps=5)
        >>> table.at("delta", "llvm").stages, table.at("delta", "llvm").compiled = 600, 480
        >>> print(*table.lines(), sep="\\n")
        strategy    way      whole   rows    run  shared  gaps  failed  left  stages compiled
        delta       llvm       295      0    290       0     5       0     0       480 of 600
        all                    295      0    290       0     5       0     0
        """
        titles = f"{'whole':>6}{'rows':>7}" + "".join(f"{what:>{width}}" for what, width in COLUMNS.items())
        yield f"{'strategy':<12}{'way':<8}{titles}  stages compiled"
        total = Cases()
        for (strategy, way), cases in sorted(self.cases.items(), key=_place):
            total.whole += cases.whole
            total.rows += cases.rows
            compiled = f"{cases.compiled} of {cases.stages}" if cases.stages else ""
            yield f"{strategy:<12}{way:<8}{_figures(cases)}{compiled:>17}".rstrip()
        yield f"{'all':<20}{_figures(total)}"


def _place(item: tuple[tuple[str, str], Cases]) -> tuple[int, int]:
    strategy, way = item[0]
    return (*NATIVE, *STORED, *AGAIN, *MOVING, *SPARK).index(way), STRATEGIES.index(strategy)


def _figures(cases: Cases) -> str:
    both = cases.whole + cases.rows
    figures = "".join(f"{both[what]:>{width}}" for what, width in COLUMNS.items())
    return f"{_seen(cases.whole):>6}{_seen(cases.rows):>7}{figures}"


def _seen(cases: Counter[str]) -> int:
    return cases.total() - cases["left"]


TABLE = Table()
"""What this process has seen."""
