"""Measurements as figures: seconds of a slide, how they grow, and how they compare with running the query again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.viewdf.case import APPEND_ONLY, DIRECT, DUCKDB, LARGE, NATIVE, OURS, PATTERN, SPARK, Case, Outcome
from benchmarks.viewdf.experiments import GROWING
from tidemill.serving.cli.bench_runner import Figure

BENCH = "viewdf"


def figure_of(outcome: Outcome) -> Figure:
    """The seconds of a slide, or why there are none."""
    case = outcome.case
    about = f"{case.rows:,} rows, {'scope' if case.query == PATTERN else 'window'} {case.window}"
    if outcome.reason:
        return Figure(BENCH, case.name, "slide_s", 0.0, "s", f"not run: {outcome.reason}")
    return Figure(BENCH, case.name, "slide_s", outcome.seconds, "s", f"{about}; {outcome.slides} slides, compared")


def slide_costs(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """CPU seconds of a slide by the method that a view has unless told otherwise, by rows of a partition; and how they
    grow from partitions of some rows to such of ten times as many."""
    measured = [one for one in outcomes if not one.reason and _is_kept_here(one.case)]
    # Of partitions that were measured with two windows the longer one counts.
    for outcome in {_of_rows(one.case): one for one in sorted(measured, key=_window)}.values():
        case = outcome.case
        about = f"CPU; {case.method}, window {case.window}, {outcome.slides} slides, compared"
        yield Figure(BENCH, _of_rows(case), "seconds_per_slide", outcome.cpu, "s", about)
    for query in OURS:
        large = sorted((one for one in measured if (one.case.query, one.case.axis) == (query, LARGE)), key=_rows)
        if len(large) > 1:
            first, last = large[0], large[-1]
            about = (
                f"CPU, window {first.case.window}: {first.case.rows:,} rows {first.cpu:.3g} s, {last.case.rows:,} rows"
            )
            ratio = last.cpu / first.cpu
            yield Figure(BENCH, _of_rows(last.case), "growth_ratio", ratio, "x", f"{about} {last.cpu:.3g} s")


def _is_kept_here(case: Case) -> bool:
    return case.axis in ("rows", LARGE) and case.runtime == NATIVE and case.method in (OURS[case.query], APPEND_ONLY)


def _of_rows(case: Case) -> str:
    """``sum/rows1000000``: what is kept, and the rows of a partition."""
    declared = f"/{APPEND_ONLY}" if case.method == APPEND_ONLY else ""
    return f"{case.query}{declared}/rows{case.rows}"


def _rows(outcome: Outcome) -> int:
    return outcome.case.rows


def _window(outcome: Outcome) -> int:
    return outcome.case.window


def ratios(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """Growth along the axes on which a slide should cost the same, then speedups."""
    measured = {outcome.case: outcome.seconds for outcome in outcomes if not outcome.reason}
    yield from _growths(measured)
    for case, seconds in measured.items():
        if case.method == OURS[case.query]:
            yield from _speedups(case, seconds, measured)


def _growths(measured: dict[Case, float]) -> Iterator[Figure]:
    lines: dict[tuple[str, str, str, str], list[Case]] = {}
    for case in measured:
        if case.axis in GROWING:
            lines.setdefault((case.query, case.axis, case.runtime, case.method), []).append(case)
    for (query, axis, runtime, method), cases in lines.items():
        first, last = min(cases, key=_at), max(cases, key=_at)
        if first == last:
            continue
        name = f"{query}/{axis}/{runtime}"
        about = f"{method}: {axis} {first.at:g} {measured[first]:.3g} s, {last.at:g} {measured[last]:.3g} s"
        ratio = measured[last] / measured[first]
        yield Figure(BENCH, f"{name}/{method}", "growth_ratio", ratio, "x", about)
        if method == OURS[query]:
            yield Figure(BENCH, name, "growth_ratio", ratio, "x", about)


def _at(case: Case) -> float:
    return case.at


def _speedups(case: Case, seconds: float, measured: dict[Case, float]) -> Iterator[Figure]:
    """Against Direct, where that was measured at the same point; on Spark that is Spark's, whoever keeps the view."""
    for other, taken in measured.items():
        alike = (other.query, other.axis, other.at, other.rows) == (case.query, case.axis, case.at, case.rows)
        if not alike:
            continue
        about = f"{other.method} {taken:.3g} s, {case.method} {seconds:.3g} s"
        # A Direct on Spark is what views in folders are held against; one in this process is for those in memory.
        if other.method == DIRECT and (other.runtime == case.runtime or (_on_disk(case) and other.runtime == SPARK)):
            yield Figure(BENCH, _short(case), "speedup", taken / seconds, "x", about)
        if other.method == DUCKDB and other.runtime == case.runtime:
            yield Figure(BENCH, _short(case), "speedup_duckdb", taken / seconds, "x", about)


def _on_disk(case: Case) -> bool:
    return case.runtime != NATIVE


def _short(case: Case) -> str:
    """``window60/spark`` for windows on Spark, else the point."""
    return case.point if not _on_disk(case) else case.point.removeprefix(f"{case.query}/")
