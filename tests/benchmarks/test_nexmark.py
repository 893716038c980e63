"""The Nexmark benchmark: events are of the official mix and sizes, answers are DuckDB's, figures have agreed names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from rich.console import Console

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.nexmark import as_table, events, measure, run, scaling
from benchmarks.nexmark.case import NAMES, RELATIONS, SIZES, STRATEGIES, Case
from benchmarks.nexmark.events import nexmark
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.run import plan
from tests.nexmark.queries import QUERIES
from tidemill.model.errors import SetupError, UnknownName
from tidemill.model.schema import WEIGHT
from tidemill.serving.cli.bench_runner import BenchmarkOptions

STREAM = nexmark(6_000)


def test_events_are_of_the_official_mix_and_the_same_each_time() -> None:
    counts = {name: table.num_rows for name, table in STREAM.tables.items()}
    assert counts == {"person": 120, "auction": 360, "bid": 5_520}
    assert all(table == nexmark(6_000).tables[name] for name, table in STREAM.tables.items())
    assert STREAM.turns[:6].tolist() == [0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("name", "bytes_"), [("person", 200), ("auction", 500), ("bid", 100)])
def test_rows_have_the_official_sizes(name: str, bytes_: int) -> None:
    table = STREAM.tables[name].drop_columns([WEIGHT])
    if name == "bid":
        table = table.drop_columns(["channel", "url"])
    texts = [pc.binary_length(column) for column in table.columns if column.type == "string"]
    average = sum(pc.mean(lengths).as_py() for lengths in texts) + 8 * (table.num_columns - len(texts))
    assert average == pytest.approx(bytes_, rel=0.05)


def test_ids_point_to_rows_that_are_there_or_soon_will_be() -> None:
    people, auctions, bids = (STREAM.tables[name] for name in ("person", "auction", "bid"))
    assert people["id"].to_pylist() == list(range(1_000, 1_120))
    assert auctions["id"].to_pylist() == list(range(1_000, 1_360))
    places = np.flatnonzero(STREAM.turns == 2)
    last = 1_000 + places // 50 * 3 + 2
    ahead = bids["auction"].to_numpy() - last
    assert ahead.max() <= events.LEAD and ahead.min() >= -max(events.IN_FLIGHT, events.HOT)
    hot = (bids["auction"].to_numpy() % 100 == 0).mean()
    assert hot == pytest.approx(0.5, abs=0.03)
    assert pc.all(pc.greater(auctions["expires"], auctions["at"])).as_py()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("query", NAMES)
def test_every_query_gives_the_answers_of_duckdb(query: str, relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "PREFIX", 3_000)
    with Oracle(STREAM) as oracle:
        outcome = measure.measure(Case(query, relation, 1_000, subscribed=True), STREAM, oracle, limit=60)
        assert outcome.reason == "" and outcome.complete and outcome.rows > 0
        assert outcome.events == 3_000 and len(outcome.each) == 3


def test_queries_have_short_names() -> None:
    assert list(NAMES)[:3] == ["q0", "q1", "q2"] and set(NAMES.values()) == set(QUERIES)


def test_single_events_are_measured_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "PREFIX", 3_000)
    with Oracle(STREAM) as oracle:
        outcome = measure.measure(Case("q2", size=1), STREAM.cut(0, 3_300), oracle, limit=60)
    assert outcome.events == len(outcome.each) == 100
    assert {figure.metric for figure in outcome.figures()} >= {"events/s", "events/s/core", "p50_ms", "p99_ms"}


def test_a_wrong_answer_ends_everything() -> None:
    with Oracle(STREAM) as oracle:
        right = oracle.answer("q2_selection", 1_000)
        assert oracle.check("q2_selection", 1_000, right, "right") == right.num_rows > 0
        with pytest.raises(WrongAnswer, match="missing"):
            oracle.check("q2_selection", 1_000, right.slice(1), "short")


def test_growing_tables_are_held_against_the_first_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "LEG", 2_000)
    with Oracle(STREAM) as oracle:
        found = list(scaling.scaling(Case("q1", size=1_000), STREAM, oracle, limit=60))
    cases = [figure.case.removeprefix("scaling/q1/table/1000") for figure in found]
    assert cases == ["/after2000", "/after6000", ""]
    assert found[-1].metric == "flat_ratio" and found[-1].value > 0
    console = Console(record=True, width=120)
    console.print(as_table(found))
    assert "6,000" in console.export_text()


def test_all_cases_are_planned() -> None:
    assert len(plan(BenchmarkOptions())) == len(NAMES) * len(RELATIONS) * len(SIZES) * 2
    compared = plan(BenchmarkOptions(depths=("auto", "delta"), queries=("q3",), runtimes=("table",)))
    assert [case.name for case in compared] == ["q3/table/10000", "q3/table/10000/delta"]
    assert {case.strategy for case in plan(BenchmarkOptions(depths=STRATEGIES))} == set(STRATEGIES)
    assert {case.size for case in plan(BenchmarkOptions(quick=True))} == {1, 10_000}
    with pytest.raises(UnknownName, match="query"):
        plan(BenchmarkOptions(queries=("q99",)))
    with pytest.raises(SetupError, match="too few"):
        plan(BenchmarkOptions(scale=0.001))


def test_a_tiny_run(tmp_path: Path) -> None:
    options = BenchmarkOptions(scale=0.04, seconds=1e-9, folder=tmp_path, queries=("q2",), runtimes=("stream",))
    found = list(run(options))
    assert {figure.case for figure in found} == {case.name for case in plan(options)}
    assert {figure.case.count("subscribed") for figure in found} == {0, 1}
    assert {"events/s", "events/s/core", "p50_ms", "p99_ms", "process_bytes"} <= {figure.metric for figure in found}
    console = Console(record=True, width=120)
    console.print(as_table(found))
    assert "events/s a core, streams" in console.export_text()
