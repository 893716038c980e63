"""Which points are measured: costs against C, k and J, one at a time and the others as in Table 1 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.eca.formulas import FORMULAS, Parameters
from benchmarks.eca.outcomes import Outcome
from benchmarks.eca.simulate import MEASURED, measure

AXES: Mapping[str, Sequence[int]] = {
    "c": (12, 20, 40, 60, 80, 100),
    "k": (3, 6, 9, 12, 18, 24, 30, 36, 48, 60, 90, 102, 120),
    "j": (2, 4, 10, 20),
}
QUICK_AXES: Mapping[str, Sequence[int]] = {"c": (12, 40, 100), "k": (3, 6, 9, 12, 24, 36), "j": (2, 4)}


def outcomes(axis: str, at: int) -> Iterator[Outcome]:
    """All that is counted at one point, for every algorithm."""
    p = Parameters().at(axis, at)
    for algorithm in MEASURED:
        for what, measured in measure(algorithm, p).items():
            yield Outcome(what, algorithm, axis, at, measured, FORMULAS[what](p).get(algorithm))


@dataclass(frozen=True)
class Crossover:
    """From where on recomputing the view once is cheaper than ``algorithm``, as measured and by the formulas."""

    what: str
    axis: str
    algorithm: str
    paper: str

    def formula(self) -> float:
        """Where the formulas are equal, by bisection."""

        def ahead(at: float) -> float:
            costs = FORMULAS[self.what](Parameters().at(self.axis, at))
            return costs[self.grows] - costs[self.other]

        low, high = 0.5, 10_000.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (low, middle) if ahead(middle) >= 0 else (middle, high)
        return high

    def measured(self, found: Sequence[Outcome]) -> float | None:
        """Where the lines through the measured points cross; None where they do not reach so far."""
        grows, other = (_curve(found, self.what, self.axis, name) for name in (self.grows, self.other))
        both = sorted(grows.keys() & other.keys())
        if not both:
            return None
        # Without updates, or without rows, nothing costs anything.
        before, lead = 0.0, -other[both[0]]
        for at in both:
            now = grows[at] - other[at]
            if now >= 0:
                return before + (at - before) * lead / (lead - now)
            before, lead = at, now
        return None

    @property
    def grows(self) -> str:
        """The algorithm whose cost grows along the axis: with k that of ECA, with C that of the view."""
        return self.algorithm if self.axis == "k" else "rv-best"

    @property
    def other(self) -> str:
        """The one whose cost does not."""
        return "rv-best" if self.axis == "k" else self.algorithm


def _curve(found: Sequence[Outcome], what: str, axis: str, algorithm: str) -> dict[float, float]:
    return {one.at: one.measured for one in found if (one.what, one.axis, one.algorithm) == (what, axis, algorithm)}


CROSSOVERS = (
    Crossover("bytes", "k", "eca-best", "100"),
    Crossover("bytes", "k", "eca-worst", "30"),
    Crossover("bytes", "c", "eca-worst", "about 5"),
    Crossover("pages-indexed", "k", "eca-best", "3"),
    Crossover("pages-indexed", "k", "eca-worst", "3"),
    Crossover("pages-looped", "k", "eca-best", "8"),
    Crossover("pages-looped", "k", "eca-worst", "5"),
)
"""The crossovers that the paper names; of scenario 2 it says 5 < k < 8."""

Progress = Callable[[float, str], None]


def measure_all(axes: Mapping[str, Sequence[int]], progress: Progress) -> Iterator[Outcome]:
    """Every point of the axes."""
    points = [(axis, at) for axis, some in axes.items() for at in some]
    for number, (axis, at) in enumerate(points):
        progress(number / len(points), f"{axis} = {at}")
        yield from outcomes(axis, at)
