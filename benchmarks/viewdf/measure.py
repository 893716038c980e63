"""Runs one case: its window is filled, then slides are timed, and each is compared before its time counts."""

from __future__ import annotations

import statistics
import time
from contextlib import closing

import pyarrow as pa

from benchmarks.viewdf.case import FIRST, Case, Outcome
from benchmarks.viewdf.direct import DirectInDuckDB
from benchmarks.viewdf.subject import Subject, subject_of
from tidemill.model.errors import TidemillError

SLIDES = 5
"""So many are timed, if there is time."""

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
    while len(seconds) < SLIDES and (not seconds or time.perf_counter() - begin < limit):
        _bring([losses.partition(case.fill + len(seconds))], subject, oracle)
        seconds.append(_timed(subject))
        oracle.check(subject.answer(), case.name)
    return Outcome(case, statistics.median(seconds), len(seconds))


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
