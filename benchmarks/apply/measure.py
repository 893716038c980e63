"""Epochs one after the other by wall clock, or from several threads at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.apply.history import Epoch, History, size_of
from benchmarks.apply.subject import Subject
from tidemill.serving.cli.bench_runner import Figure

BENCH = "apply"
OWN = "own"
"""The form of who has but one."""

BLOCK = 100
"""So many epochs of one row are drawn, and prepared, at a time."""

MOST = 5_000
"""No case has more epochs."""


@dataclass(frozen=True)
class Case:
    """How changes come: to whom, kept where, in which form, so many rows an epoch, from so many threads."""

    workload: str
    system: str
    store: str
    form: str
    size: int
    threads: int = 1

    @property
    def name(self) -> str:
        """The words of the case."""
        words = (self.workload, self.system, self.store, self.form, str(self.size))
        return "/".join((*words, *([f"threads{self.threads}"] if self.threads > 1 else [])))


@dataclass(frozen=True)
class Outcome:
    """Rows and epochs that were applied, the seconds that this took, and those of each epoch."""

    case: Case
    rows: int
    seconds: float
    each: tuple[float, ...]

    def figures(self) -> Iterator[Figure]:
        """Rates by wall clock; of epochs of one row also how long one takes."""
        name, epochs = self.case.name, len(self.each)
        about = f"{epochs:,} epochs in {self.seconds:.2f} s; answers compared"
        yield Figure(BENCH, name, "rows/s", self.rows / self.seconds, "1/s", about)
        yield Figure(BENCH, name, "epochs/s", epochs / self.seconds, "1/s", about)
        if self.case.size == 1:
            for percent in (50, 99):
                milliseconds = 1e3 * float(np.percentile(self.each, percent))
                yield Figure(BENCH, name, f"p{percent}_ms", milliseconds, "ms", f"{epochs:,} epochs")


def measure(case: Case, subject: Subject, history: History, limit: float) -> Outcome:
    """Apply epochs for about ``limit`` seconds, at least one block of them, after one that is not timed."""
    for epoch in block(history, case):
        subject.apply(subject.prepare(epoch))
    rows, seconds, each = 0, 0.0, list[float]()
    with ThreadPoolExecutor(case.threads) as pool:

        def timed(prepared: Any) -> float:
            begin = time.perf_counter()
            subject.apply(prepared)
            return time.perf_counter() - begin

        while seconds < limit and len(each) < MOST:
            epochs = block(history, case)
            prepared = [subject.prepare(epoch) for epoch in epochs]
            begin = time.perf_counter()
            each += pool.map(timed, prepared) if case.threads > 1 else map(timed, prepared)
            seconds += time.perf_counter() - begin
            rows += sum(map(size_of, epochs))
    return Outcome(case, rows, seconds, tuple(each))


def block(history: History, case: Case) -> list[Epoch]:
    """The next epochs of a case."""
    return history.singles(BLOCK * case.threads) if case.size == 1 else [history.draw(case.size)]
