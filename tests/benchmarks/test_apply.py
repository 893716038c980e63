"""The apply benchmark: histories keep their size, everybody gives the same rows, and figures have the agreed names."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.apply import as_table, job, run
from benchmarks.apply.history import MIX, MixedHistory, size_of
from benchmarks.apply.measure import Case, measure
from benchmarks.apply.memory import KINDS, figures, held
from benchmarks.apply.peers import DuckDB, NotInstalled, PgIvm, SQLite
from benchmarks.apply.profile import profile
from benchmarks.apply.run import cases
from benchmarks.apply.subject import FORMS, Subject, Tidemill, recomputed
from benchmarks.apply.workloads import WORKLOADS
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions

ROWS = 900


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_history_is_the_same_each_time_and_keeps_its_size(name: str) -> None:
    one, other = WORKLOADS[name].history(3_000), WORKLOADS[name].history(3_000)
    for _ in range(5):
        first, second = one.draw(500), other.draw(500)
        assert size_of(first) == 500
        assert {table: change.weighted() for table, change in first.items()} == {
            table: change.weighted() for table, change in second.items()
        }
    singles = one.singles(50)
    assert [size_of(epoch) for epoch in singles] == [1] * 50
    assert sum(table.num_rows for table in one.tables.values()) == pytest.approx(3_000, rel=0.15)


def test_changes_are_mixed_as_said() -> None:
    history = WORKLOADS["shops"].history(5_000)
    assert isinstance(history, MixedHistory)
    change = history.draw(2_000)["sales"]
    gone, come = set(change.gone["id"].to_pylist()), set(change.come["id"].to_pylist())
    found = (len(come - gone), len(come & gone), len(gone - come))
    assert [count / change.rows for count in found] == pytest.approx(MIX, abs=0.05)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(
    ("system", "store"), [(Tidemill, "memory"), (Tidemill, "disk"), (DuckDB, "memory"), (SQLite, "disk")]
)
def test_everybody_gives_the_same_rows(name: str, system: type[Subject], store: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    history = workload.history(ROWS)
    subject = system(workload, store, tmp_path)  # type: ignore[call-arg]
    subject.fill(history.tables)
    for form in (*FORMS, "replay") if isinstance(subject, Tidemill) else ("own",):
        if isinstance(subject, Tidemill):
            subject.form = form
        for epoch in (*history.singles(5), history.draw(100)):
            subject.apply(subject.prepare(epoch))
        expected = recomputed(workload, history.tables)
        assert subject.rows() == expected and len(expected) > 5
    subject.close()


def test_eight_threads_commit_all_epochs(tmp_path: Path) -> None:
    workload = WORKLOADS["orders"]
    history = workload.history(ROWS * 2)
    subject = Tidemill(workload, "disk", tmp_path)
    subject.fill(history.tables)
    before = subject.warehouse.epoch
    outcome = measure(Case("orders", "tidemill", "disk", "pairs", 1, threads=8), subject, history, limit=1e-9)
    assert outcome.rows == len(outcome.each) == 800
    assert subject.warehouse.epoch - before == 2 * 800, "as many come before those that are timed"
    assert subject.rows() == recomputed(workload, history.tables)
    subject.close()


def test_pg_ivm_gives_the_same_rows_or_says_why_it_is_not_there(tmp_path: Path) -> None:
    workload = WORKLOADS["orders"]
    history = workload.history(ROWS)
    try:
        subject = PgIvm(workload, "disk", tmp_path)
    except NotInstalled as error:
        pytest.skip(str(error))
    subject.fill(history.tables)
    for epoch in (*history.singles(5), history.draw(100)):
        subject.apply(subject.prepare(epoch))
    assert subject.rows() == recomputed(workload, history.tables)
    subject.close()


@pytest.mark.parametrize("kind", ["groups", "contents of a table"])
def test_memory_is_told_for_each_entry(kind: str) -> None:
    found = {figure.metric: figure.value for figure in figures(kind, "llvm", 2_000, held(kind, "llvm", 2_000))}
    assert found["process_bytes/row"] >= 0
    assert ("bytes/entry" in found) == bool(KINDS[kind])


def test_a_profile_counts_calls(tmp_path: Path) -> None:
    found = list(profile(tmp_path, ROWS * 2, 200))
    for case in ("profile/disk/pairs/1", "profile/disk/arrow/200"):
        (calls,) = (figure.value for figure in found if (figure.case, figure.metric) == (case, "calls/epoch"))
        assert calls > 10
    assert any(figure.metric.startswith("tidemill/") for figure in found)


def test_all_cases_of_a_tiny_run(tmp_path: Path) -> None:
    options = BenchmarkOptions(scale=0.02, seconds=1e-9, folder=tmp_path, queries=("shops",), runtimes=("tidemill",))
    found = list(run(options))
    names = {figure.case for figure in found}
    assert names == {
        case.name for store in ("memory", "disk") for case in cases(WORKLOADS["shops"], "tidemill", store, (1, 1_000))
    }
    assert {figure.metric for figure in found} == {"rows/s", "epochs/s", "p50_ms", "p99_ms"}
    assert all(figure.value > 0 for figure in found)
    console = Console(record=True, width=120)
    console.print(as_table(found))
    assert "tidemill disk pairs threads8" in console.export_text()
    assert not list(tmp_path.iterdir())


def test_a_job_is_measured_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "in_process", lambda function, *arguments: function(*arguments))
    options = BenchmarkOptions(scale=0.1, quick=True, folder=tmp_path, queries=("job",))
    found = list(run(options))
    by_case = {case: {f.metric for f in found if f.case == case} for case in dict.fromkeys(f.case for f in found)}
    bulk, point = {"seconds", "cpu_ratio", "peak_mb"}, {"ms"}
    assert by_case == {
        "job/load": bulk,
        "job/point_update": {*point, "first_ms"},
        "job/fill": bulk,
        "job/reopen": point,
    }
    assert all(figure.value > 0 and "DuckDB" in figure.baseline for figure in found)
    console = Console(record=True, width=120)
    console.print(as_table(found))
    assert "point_update ms" in console.export_text()
    assert not list(tmp_path.iterdir())


def test_a_step_runs_in_a_process_of_its_own() -> None:
    assert job.in_process(os.getpid) != os.getpid()


def test_a_job_with_other_views_than_duckdb_is_refused() -> None:
    right = {"days": Counter([(1, 2)])}
    job.compare("fill", right, right)
    with pytest.raises(WrongAnswer, match="days is wrong after fill: missing"):
        job.compare("fill", {"days": Counter()}, right)


def test_a_wrong_answer_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDB, "rows", lambda self: Counter())
    with pytest.raises(WrongAnswer, match="shops/duckdb/memory is wrong: missing"):
        list(run(BenchmarkOptions(scale=0.02, folder=tmp_path, queries=("shops",), runtimes=("duckdb",))))


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="part"):
        list(run(BenchmarkOptions(folder=tmp_path, queries=("nothing",))))
