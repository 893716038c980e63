"""What was measured as figures: beside formulas, beside recomputation, and where curves cross."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.eca.experiments import CROSSOVERS
from benchmarks.eca.outcomes import APART, Kept, Outcome
from tidemill.serving.cli.bench_runner import Figure

BENCH = "eca"
UNITS = {"bytes": "B"}


def figures(outcome: Outcome) -> Iterator[Figure]:
    """A cost, and how far it is from the formula."""
    metric = outcome.what.partition("-")[0]
    unit = UNITS.get(metric, metric)
    if outcome.formula is None:
        case = f"{outcome.what}/tidemill/{outcome.algorithm}/{outcome.axis}{outcome.at:g}"
        yield Figure(BENCH, case, metric, outcome.measured, unit, "terms summed, as Tidemill asks")
        return
    case = f"{outcome.what}/formula/{outcome.algorithm}/{outcome.axis}{outcome.at:g}"
    yield Figure(BENCH, case, metric, outcome.measured, unit, f"formula {outcome.formula:,.6g}")
    against = f"measured {outcome.measured:,.6g}, formula {outcome.formula:,.6g}"
    yield Figure(BENCH, case, "relative_error", outcome.error, "", against)


def crossovers(found: Sequence[Outcome]) -> Iterator[Figure]:
    """From where on recomputing the view once is cheaper, where the measured curves reach so far."""
    for one in CROSSOVERS:
        at = one.measured(found)
        if at is not None:
            against = f"formula {one.formula():.3g}, the paper {one.paper}"
            yield Figure(BENCH, f"crossover/{one.what}/{one.algorithm}", one.axis, at, "", against)


def kept_figures(kept: Kept, recomputed: Kept) -> Iterator[Figure]:
    """What a protocol did on PostgreSQL, beside recomputing the view for every update."""
    case = f"postgres/{kept.protocol}/{kept.timing}"
    whole = f"recompute {recomputed.each:,.0f} B"
    yield Figure(BENCH, case, "bytes/update", kept.each, "B", f"{kept.updates} updates, {kept.queries} queries")
    yield Figure(BENCH, case, "bytes_ratio", kept.each / recomputed.each, "x", whole)
    if kept.timing == APART:
        yield Figure(BENCH, case, "delay_ms", kept.seconds * 1e3, "ms", f"recompute {recomputed.seconds * 1e3:,.0f} ms")
    else:
        yield Figure(BENCH, case, "burst_ms", kept.seconds * 1e3, "ms", f"{kept.updates} updates at once")
