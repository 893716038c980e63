"""Cases as they run: small ones of each kind, compared on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.graphivm import run
from benchmarks.graphivm.case import Case
from benchmarks.graphivm.data import SMALL, social
from benchmarks.graphivm.measure import EPOCHS, measure
from benchmarks.graphivm.oracle import Oracle
from benchmarks.graphivm.workload import MODIFICATIONS, Workload, fanout, modifications, simple
from tidemill.serving.cli.bench_runner import BenchmarkOptions

DATA = social(SMALL.scaled(0.02))
EVENTS = 120


@pytest.fixture(autouse=True)
def no_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case collects garbage so that its figures are its own; here that would be what thousands of tests left."""
    monkeypatch.setattr("benchmarks.graphivm.subject.gc", Mock())


@pytest.mark.parametrize(
    ("strategy", "serve"), [("joingraph", "subscribe"), ("joingraph", "read"), ("delta", "both"), ("viewlet", "both")]
)
def test_every_strategy_comes_to_the_same_rows(strategy: str, serve: str) -> None:
    workload = fanout(3, "last", DATA, EVENTS)
    case = Case("fanout", "fanout3", strategy, serve, "python")
    with Oracle(workload) as oracle:
        (outcome,) = measure(case, workload, oracle, limit=60)
        assert outcome.rows == oracle.answer(EVENTS)[0]
    assert outcome.complete and outcome.events == EVENTS - EVENTS // EPOCHS and outcome.seconds > 0
    assert (outcome.stored > 0) == (strategy != "joingraph")


def test_compiled_maps_know_their_memory() -> None:
    workload = fanout(3, "first", DATA, EVENTS)
    with Oracle(workload) as oracle:
        (outcome,) = measure(Case("fanout", "fanout3", "joingraph", "read"), workload, oracle, limit=60)
    assert outcome.state and outcome.state > 8 * 2 * DATA["follower"].num_rows


def test_what_plain_rows_cost_besides_is_told() -> None:
    workload = fanout(20, "last", DATA, EVENTS)
    case = Case("fanout", "fanout20", "joingraph", "subscribe")
    with Oracle(workload) as oracle:
        (outcome,) = measure(case, workload, oracle, limit=60)
    assert case.encodes and 0 < outcome.plain_rate < outcome.rate


def test_a_time_limit_cuts_and_says_so() -> None:
    workload = fanout(3, "last", DATA, 1500)
    with Oracle(workload) as oracle:
        (outcome,) = measure(Case("fanout", "fanout3", "delta", "both", "python"), workload, oracle, limit=1e-9)
    step = 1500 // EPOCHS
    assert (outcome.events, outcome.stream, outcome.complete) == (step, 1500 - step, False)


def test_all_events_at_once() -> None:
    workload = simple("q3agg", DATA, EVENTS)
    with Oracle(workload) as oracle:
        (outcome,) = measure(Case("lazy", "q3agg", "delta", "both", "python", "lazy"), workload, oracle, limit=60)
    assert outcome.events == EVENTS


def test_each_kind_of_modification_is_an_outcome() -> None:
    workload = modifications("q3", DATA, 30)
    with Oracle(workload) as oracle:
        outcomes = measure(Case("modifications", "q3", "joingraph", "read", "python"), workload, oracle, limit=60)
    assert [outcome.case.word for outcome in outcomes] == list(MODIFICATIONS)
    assert {outcome.events for outcome in outcomes} == {30}


def test_subscribers_get_what_changed_at_their_keys() -> None:
    workload = simple("q2", DATA, EVENTS)
    case = Case("subscribers", "subscribers50", "joingraph", "subscribe", "python", at=50)
    with Oracle(workload) as oracle:
        (outcome,) = measure(case, workload, oracle, limit=60)
    assert outcome.rows > 0 and outcome.complete


def test_a_strategy_that_is_not_there_is_an_outcome_with_its_reason() -> None:
    workload = fanout(3, "last", DATA, EVENTS)
    with Oracle(workload) as oracle:
        (outcome,) = measure(Case("fanout", "fanout3", "magic", "both", "python"), workload, oracle, limit=60)
    assert not outcome.events and "magic" in outcome.reason


def test_a_wrong_answer_ends_everything() -> None:
    workload = fanout(3, "last", DATA, EVENTS)
    with Oracle(_without_a_follower(workload)) as oracle, pytest.raises(WrongAnswer):
        measure(Case("fanout", "fanout3", "delta", "both", "python"), workload, oracle, limit=60)


def test_a_run_gives_figures_and_plots(tmp_path: Path) -> None:
    options = BenchmarkOptions(quick=True, queries=("lazy",), folder=tmp_path, scale=0.1, seconds=0.01)
    found = {figure.case: figure.value for figure in run(options)}
    assert found["q2/joingraph/subscribe/lazy"] > 0 and found["q3agg/viewlet/read/lazy"] > 0
    assert (tmp_path / "graphivm" / "quick" / "figure9.4.svg").exists()


def _without_a_follower(workload: Workload) -> Workload:
    """The same with one row less in the middle of a path."""
    users = workload.base["follower"]["userid"].to_pylist()
    author = workload.events.tables["tweet"]["userid"][0].as_py()
    place = users.index(author)
    table = workload.base["follower"]
    rest = table.take([i for i in range(table.num_rows) if i != place])
    return replace(workload, base={**workload.base, "follower": rest})
