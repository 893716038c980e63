"""What the figures must come to."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.graphivm.goals import Found, Goal

FLAT = 1.5
"""Growth up to which a line counts as flat, beside other jobs."""


LINEAR = 10 * 1.3
"""Growth up to which ten times the rows count as ten times the work; caches hold less of it."""

SLIDE = "seconds_per_slide"


def _value(case: str, metric: str) -> Callable[[Found], float]:
    return lambda found: found[case, metric]


GOALS = (
    Goal("SUM, longest over shortest window: flat", _value("sum/window/native", "growth_ratio"), most=FLAT),
    Goal("MAX, longest over shortest window", _value("max/window/native", "growth_ratio"), most=2),
    Goal("MEDIAN, longest over shortest window: logarithmic", _value("median/window/native", "growth_ratio"), most=2),
    Goal("pattern, longest over shortest history: flat", _value("pattern/scope/native", "growth_ratio"), most=FLAT),
    Goal("SUM, window 60, kept on Spark: times Direct on Spark", _value("window60/spark", "speedup"), least=5),
    Goal("SUM, window 60, runtime auto: times Direct on Spark", _value("window60/auto", "speedup"), least=10),
    Goal("SUM, 1,000,000 rows a partition: CPU seconds a slide", _value("sum/rows1000000", SLIDE), most=0.3),
    Goal("SUM, 10,000,000 rows over 1,000,000: linear", _value("sum/rows10000000", "growth_ratio"), most=LINEAR),
    Goal("MAX, 1,000,000 rows a partition: CPU seconds a slide", _value("max/rows1000000", SLIDE), most=0.5),
    Goal(
        "MAX, 1,000,000 rows a partition, APPEND ONLY: CPU seconds a slide",
        _value("max/append_only/rows1000000", SLIDE),
        most=0.5,
    ),
    Goal("MAX, 10,000,000 rows over 1,000,000: linear", _value("max/rows10000000", "growth_ratio"), most=LINEAR),
    Goal("MEDIAN, 1,000,000 rows a partition: CPU seconds a slide", _value("median/rows1000000", SLIDE), most=1),
    Goal("MEDIAN, 10,000,000 rows over 1,000,000: linear", _value("median/rows10000000", "growth_ratio"), most=LINEAR),
    Goal("windows: the chosen method over the best", _value("regret", "regret_ratio"), most=1.2),
    Goal("pattern, 1,000,000 rows a partition: CPU seconds a slide", _value("pattern/rows1000000", SLIDE), most=1),
    Goal(
        "pattern, 10,000,000 rows over 1,000,000: linear", _value("pattern/rows10000000", "growth_ratio"), most=LINEAR
    ),
    Goal("soak, state in the last quarter over the second: bounded", _value("soak", "growth_ratio"), most=FLAT),
)
