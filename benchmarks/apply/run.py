"""All cases: each workload through each system, in each store, form and size; answers are compared before and after."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.apply.history import History
from benchmarks.apply.job import job
from benchmarks.apply.measure import BENCH, OWN, Case, measure
from benchmarks.apply.memory import memory
from benchmarks.apply.peers import DuckDB, NotInstalled, PgIvm, SQLite
from benchmarks.apply.profile import profile
from benchmarks.apply.subject import FORMS, Subject, Tidemill, recomputed
from benchmarks.apply.workloads import ROWS, WORKLOADS, Workload
from benchmarks.choices import chosen
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SECONDS, QUICK_SECONDS = 2.0, 0.1
"""How long a case runs."""

SIZES = (1, 1_000, 10_000, 100_000)
SMALLER = 5
"""A quick look has so many times fewer rows, and leaves the largest epochs out."""

THREADS = 8
SYSTEMS: dict[str, tuple[Callable[[Workload, str, Path], Subject], tuple[str, ...]]] = {
    "tidemill": (Tidemill, ("memory", "disk")),
    "duckdb": (DuckDB, ("memory",)),
    "sqlite": (SQLite, ("memory", "disk")),
    "pg_ivm": (PgIvm, ("disk",)),
}
"""Every system, and where it keeps its rows."""

OTHERS = ("job", "memory", "profile")
"""What is measured besides workloads."""


@dataclass(frozen=True)
class _Plan:
    """What was asked for."""

    workloads: tuple[str, ...]
    systems: tuple[str, ...]
    others: tuple[str, ...]
    rows: int
    sizes: tuple[int, ...]
    seconds: float

    @classmethod
    def of(cls, options: BenchmarkOptions) -> _Plan:
        parts = chosen("part", options.queries, (*WORKLOADS, *OTHERS))
        rows = int(ROWS * (options.scale or 1)) // (SMALLER if options.quick else 1)
        # An epoch updates and deletes some 60 percent of as many rows as it has.
        sizes = tuple(size for size in SIZES if size <= rows * 0.9)
        return cls(
            tuple(part for part in parts if part in WORKLOADS),
            chosen("system", options.runtimes, SYSTEMS),
            tuple(part for part in parts if part in OTHERS),
            rows,
            sizes,
            options.seconds or (QUICK_SECONDS if options.quick else SECONDS),
        )


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of all cases; ``queries`` choose workloads and what else is measured, ``runtimes`` systems."""
    plan = _Plan.of(options)
    places = [
        (WORKLOADS[name], system, store)
        for name in plan.workloads
        for system in plan.systems
        for store in SYSTEMS[system][1]
    ]
    options.folder.mkdir(parents=True, exist_ok=True)
    for number, (workload, system, store) in enumerate(places):
        options.progress(number / len(places), f"{workload.name} {system} {store}")
        with _folder(options) as folder:
            yield from _measure(workload, system, store, folder, plan, options)
    if "job" in plan.others:
        with _folder(options) as folder:
            yield from job(folder, options)
    if "memory" in plan.others:
        yield from memory(options)
    if "profile" in plan.others:
        with _folder(options) as folder:
            yield from profile(folder, plan.rows, plan.sizes[-1])


@contextmanager
def _folder(options: BenchmarkOptions) -> Iterator[Path]:
    """A new folder, deleted afterwards."""
    folder = Path(mkdtemp(prefix="apply-", dir=options.folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(
    workload: Workload, system: str, store: str, folder: Path, plan: _Plan, options: BenchmarkOptions
) -> Iterator[Figure]:
    """All cases of one system, over the same rows and with the same first changes as every other one."""
    name = f"{workload.name}/{system}/{store}"
    history = workload.history(plan.rows)
    try:
        subject = SYSTEMS[system][0](workload, store, folder)
    except NotInstalled as error:
        options.say(f"{name}: not run: {error}")
        yield Figure(BENCH, name, "rows/s", 0.0, "1/s", f"not run: {error}")
        return
    try:
        subject.fill(history.tables)
        _prefix(subject, history)
        _check(name, workload, subject, history)
        for case in cases(workload, system, store, plan.sizes):
            if isinstance(subject, Tidemill):
                subject.form = case.form
            outcome = measure(case, subject, history, plan.seconds)
            options.say(f"{case.name}: {outcome.rows / outcome.seconds:,.0f} rows/s")
            yield from outcome.figures()
        _check(name, workload, subject, history)
    finally:
        subject.close()


def cases(workload: Workload, system: str, store: str, sizes: tuple[int, ...]) -> Iterator[Case]:
    """The cases of a system, small epochs first: what large ones leave behind is not to be merged then."""
    for size in sizes:
        for form in FORMS if system == "tidemill" else (OWN,):
            yield Case(workload.name, system, store, form, size)
        if system == "tidemill" and store == "memory" and size > 1:
            yield Case(workload.name, system, store, "replay", size)
        if system == "tidemill" and store == "disk" and size == 1:
            yield Case(workload.name, system, store, "pairs", size, THREADS)


def _prefix(subject: Subject, history: History) -> None:
    """The first changes, the same for all: single rows and a few hundred."""
    for form in FORMS:
        if isinstance(subject, Tidemill):
            subject.form = form
        for epoch in (*history.singles(20), history.draw(200)):
            subject.apply(subject.prepare(epoch))


def _check(name: str, workload: Workload, subject: Subject, history: History) -> None:
    """Compare the view with its query over the tables as they are now."""
    expected, actual = recomputed(workload, history.tables), subject.rows()
    if actual != expected:
        missing, extra = list(expected - actual)[:3], list(actual - expected)[:3]
        raise WrongAnswer(f"{name} is wrong: missing {missing}, too many {extra}")
