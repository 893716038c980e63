"""Runs one case: its first events are compared before anything is timed, all it published and its rows at the end."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.graphivm import outerjoin
from benchmarks.graphivm.case import Case, Outcome
from benchmarks.graphivm.oracle import Fingerprint, Oracle
from benchmarks.graphivm.recompute import recompute
from benchmarks.graphivm.subject import Subject, TooSlow
from benchmarks.graphivm.subscribers import serve_many
from benchmarks.graphivm.workload import MODIFICATIONS, Workload
from tidemill.model.errors import OutOfBudget, TidemillError

EPOCHS = 5
"""The events come in so many epochs, in which the view follows each by itself.

The first comes before the clock starts: what it publishes is compared, the code that it runs is compiled then, and
memory is there that later ones use again.
"""


def measure(case: Case, workload: Workload, oracle: Oracle, limit: float) -> list[Outcome]:
    """Run ``case`` for at most about ``limit`` seconds of events.

    A wrong answer ends everything with ``WrongAnswer``. What a strategy does not do, or not within memory, is an
    outcome with its reason.
    """
    try:
        if case.experiment == "recompute":
            return [recompute(case, workload, oracle)]
        with outerjoin.declared(), Subject(case, workload) as subject:
            if case.experiment == "modifications":
                return _by_kind(case, workload, oracle, subject)
            if case.experiment == "subscribers":
                return [serve_many(case, workload, subject)]
            if case.word == "lazy":
                return [_lazily(case, workload, oracle, subject)]
            return [_eagerly(case, workload, oracle, subject, limit)]
    except OutOfBudget:
        return [Outcome(case, len(workload.events), reason="out of memory")]
    except TooSlow as error:
        return [Outcome(case, len(workload.events), reason=str(error))]
    except TidemillError as error:
        return [Outcome(case, len(workload.events), reason=error.what)]


def _eagerly(case: Case, workload: Workload, oracle: Oracle, subject: Subject, limit: float) -> Outcome:
    """One event at a time; publishing an epoch of them is part of the time."""
    count = len(workload.events)
    step = _step(count)
    published = _begin(case, oracle, subject, step)
    seconds, plain, done = 0.0, 0.0, step
    while done < count and seconds < limit:
        stop = min(done + step, count)
        seconds += subject.replay(done, stop)
        published = oracle.add(subject.published(), published)
        plain += subject.decode()
        done = stop
    _check(case, oracle, published, done)
    outcome = Outcome(case, count - step, done - step, seconds, plain_s=plain)
    return _end(case, oracle, subject, outcome, done)


def _step(count: int) -> int:
    """How many of so many events are in an epoch."""
    return max(count // EPOCHS, 1)


def _begin(case: Case, oracle: Oracle, subject: Subject, events: int) -> Fingerprint:
    """The first events, published to somebody where that is what the view is for."""
    if case.publishes:
        subject.follow()
    subject.replay(0, events)
    published = oracle.add(subject.published())
    _check(case, oracle, published, events)
    return published


def _check(case: Case, oracle: Oracle, published: Fingerprint, events: int) -> None:
    if case.publishes:
        oracle.check_changes(events, published, case.name)


def _lazily(case: Case, workload: Workload, oracle: Oracle, subject: Subject) -> Outcome:
    """All events at once."""
    count = len(workload.events)
    if case.publishes:
        subject.follow()
    seconds = subject.apply()
    _check(case, oracle, oracle.add(subject.published()), count)
    return _end(case, oracle, subject, Outcome(case, count, count, seconds), count)


def _by_kind(case: Case, workload: Workload, oracle: Oracle, subject: Subject) -> list[Outcome]:
    """One outcome for each way to change a join graph; it is compared when it is fullest, and at the end."""
    count = len(workload.events) // len(MODIFICATIONS)
    outcomes = []
    for place, kind in enumerate(MODIFICATIONS, 1):
        start, stop = (place - 1) * count, place * count
        step = _step(count)
        seconds = sum(subject.replay(begin, min(begin + step, stop)) for begin in range(start, stop, step))
        outcomes.append(Outcome(replace(case, word=kind), count, count, seconds, state=subject.state()))
        if place % 2 == 0:
            oracle.check(stop, subject.rows()[0], case.name)
    return outcomes


def _end(case: Case, oracle: Oracle, subject: Subject, outcome: Outcome, done: int) -> Outcome:
    """Compare all rows after the last event, and look what is held."""
    state = subject.state()
    rows, read_s = subject.rows()
    oracle.check(done, rows, case.name)
    stored = rows.nbytes if case.stores else 0
    return replace(outcome, rows=rows.num_rows, state=state, stored=stored, read_s=read_s)
