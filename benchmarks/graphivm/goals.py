"""What the figures must come to, and whether they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.tables import short
from tidemill.serving.cli.bench_runner import Figure

Found = Mapping[tuple[str, str], float]
"""Values by case and metric."""


@dataclass(frozen=True)
class Goal:
    """A value that figures give, and the least or the most that it may be; ``value`` fails where one is missing."""

    what: str
    value: Callable[[Found], float]
    least: float | None = None
    most: float | None = None

    def met(self, value: float) -> bool:
        """Whether ``value`` will do."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def wanted(self) -> str:
        """As people read it."""
        return f"at most {self.most:g}" if self.least is None else f"at least {told(self.least)}"


def told(value: float) -> str:
    """A value in few digits.

    >>> told(2e6), told(0.123), told(10)
    ('2.00M', '0.123', '10')
    """
    return short(value) if value >= 1000 else f"{value:.3g}"


def _rate(case: str) -> Callable[[Found], float]:
    return lambda found: found[case, "events/s"]


def _over(one: Callable[[Found], float], other: Callable[[Found], float]) -> Callable[[Found], float]:
    return lambda found: one(found) / other(found)


def _growth(metric: str, strategy: str = "joingraph") -> Callable[[Found], float]:
    return lambda found: found[f"joins5/{strategy}/read", metric] / found[f"joins2/{strategy}/read", metric]


GOALS = (
    Goal("fan-out 100, subscribe, compiled: events/s", _rate("fanout100/joingraph/subscribe"), least=2e6),
    Goal(
        "fan-out 100, subscribe: times delta",
        _over(_rate("fanout100/joingraph/subscribe"), _rate("fanout100/delta/subscribe")),
        least=10,
    ),
    Goal("5 joins: memory of viewlets", lambda found: found["joins5/joingraph/read", "memory_ratio"], most=0.2),
    Goal(
        "warehouse, fan-out 1: times fan-out 100",
        _over(_rate("fanout1/joingraph/read"), _rate("fanout100/joingraph/read")),
        most=2,
    ),
    Goal(
        "retweets, global look-ahead, 5 joins: times 2 joins",
        _over(_rate("retweets5/joingraph/subscribe/global"), _rate("retweets2/joingraph/subscribe/global")),
        least=1,
    ),
    Goal(
        "retweets, 5 joins: global over no look-ahead",
        _over(_rate("retweets5/joingraph/subscribe/global"), _rate("retweets5/joingraph/subscribe/none")),
        least=1,
    ),
    Goal(
        "5 over 2 joins: growth of memory over that of rows",
        _over(_growth("bytes"), _growth("view_rows")),
        most=1,
    ),
    Goal("1,000 subscribers: times the cost of one", lambda found: found["subscribers1000", "cost_ratio"], most=2),
)


def judged(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS) -> list[tuple[Goal, float, bool]]:
    """Of ``goals`` those that these figures decide, each with its value and whether it is met."""
    found = {(figure.case, figure.metric): figure.value for figure in figures if figure.value}
    decided = []
    for goal in goals:
        try:
            value = goal.value(found)
        except KeyError:
            continue
        decided.append((goal, value, goal.met(value)))
    return decided


def goals_table(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS) -> Table:
    """The goals that these figures decide, each with its value and whether it is met."""
    table = Table("goal", "wanted", "value", "", title="goals", box=None, pad_edge=False)
    for goal, value, met in judged(figures, goals):
        table.add_row(goal.what, goal.wanted, told(value), "met" if met else "missed")
    return table
