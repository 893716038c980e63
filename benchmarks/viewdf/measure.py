"""Runs one case: its window is filled, then slides are timed, and each is compared before its time counts."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from benchmarks.viewdf.case import FIRST, LARGE, MAX, MEDIAN, PATTERN, SUM, Case, Outcome
from benchmarks.viewdf.direct import DirectInDuckDB
from benchmarks.viewdf.subject import Subject, subject_of
from tidemill.model.errors import TidemillError

SLIDES, LARGE_SLIDES = 5, 2
"""Slides that are timed, if there is time; the fewer ones of partitions of more than a million rows."""

MANY_ROWS = 1_000_000

ROW_BYTES = {SUM: 150, MAX: 230, MEDIAN: 250, PATTERN: 330}
"""Memory for each row that has been taken in, in bytes, with its share of the state and the copy of DuckDB: measured at
a million rows a partition."""

WARM = 2
"""The slides up to this one compile as well, and tell nothing about those to come."""


def measure(case: Case, limit: float) -> Outcome:
    """The median slide of ``case``, which may take about ``limit`` seconds.

    A wrong answer ends everything with ``WrongAnswer``. What the engine refuses, or does not do in time, is an outcome
    with its reason.
    """
    try:
        if case.axis == FIRST:
            return _first(case)
        if case.axis == LARGE and (reason := does_not_fit(case, free_memory())):
            return Outcome(case, reason=reason)
        with closing(subject_of(case)) as subject, closing(DirectInDuckDB(case)) as oracle:
            return _slides(case, subject, oracle, limit)
    except TidemillError as error:
        return Outcome(case, reason=error.what)


def _slides(case: Case, subject: Subject, oracle: DirectInDuckDB, limit: float) -> Outcome:
    begin = time.perf_counter()
    losses = case.losses
    for number in range(case.fill):
        _bring([losses.partition(number)], subject, oracle)
        if not case.outside:
            subject.slide()
        took = time.perf_counter() - begin
        if took > limit or (number > WARM and took / (number + 1) * case.fill > 2 * limit):
            return Outcome(case, reason=f"of its window, {number + 1} of {case.fill} partitions took {took:.0f} s")
    seconds: list[float] = []
    cpu: list[float] = []
    while len(seconds) < _slides_of(case) and (not seconds or time.perf_counter() - begin < limit):
        _bring([losses.partition(case.fill + len(seconds))], subject, oracle)
        used = time.process_time()
        seconds.append(_timed(subject))
        cpu.append(time.process_time() - used)
        oracle.check(subject.answer(), case.name)
    return Outcome(case, statistics.median(seconds), len(seconds), cpu=statistics.median(cpu))


def _slides_of(case: Case) -> int:
    return SLIDES if case.rows <= MANY_ROWS else LARGE_SLIDES


def does_not_fit(case: Case, free: int) -> str:
    """Why ``case`` is not tried with so many bytes of free memory; empty if it is."""
    needed = case.rows * (case.fill + _slides_of(case)) * ROW_BYTES[case.query]
    if needed <= free:
        return ""
    return f"it takes about {needed / 1e9:.0f} GB of memory, and {free / 1e9:.0f} GB are free"


def free_memory() -> int:
    """Bytes of memory that the machine can give."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes) << 10


def _bring(partitions: list[pa.Table], *takers: Subject) -> None:
    for taker in takers:
        taker.bring(partitions)


def _first(case: Case) -> Outcome:
    """All partitions of the first window at once, of two beginnings the faster: the other one compiles as well."""
    partitions = case.losses.partitions(range(case.window))
    seconds = []
    for _ in range(2):
        with closing(subject_of(case)) as subject, closing(DirectInDuckDB(case)) as oracle:
            _bring(partitions, subject, oracle)
            seconds.append(_timed(subject))
            oracle.check(subject.answer(), case.name)
    return Outcome(case, min(seconds), len(seconds))


def _timed(subject: Subject) -> float:
    begin = time.perf_counter()
    subject.slide()
    return time.perf_counter() - begin
