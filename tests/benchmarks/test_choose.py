"""The benchmark of ``auto``: strategies give equal answers, and equal programs are measured once."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import tidemill
from benchmarks.choose import as_table, drift, measure
from benchmarks.choose.measure import STRATEGIES, Contender, Outcome, measure_all
from benchmarks.choose.mixes import MIXES, contents_of, going_and_coming
from benchmarks.choose.plots import draw
from benchmarks.choose.table import goal_figures, summary
from benchmarks.choose.workloads import SIZES, workloads
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.serving.cli.bench_runner import Figure


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MOST", 2)


def test_auto_is_measured_as_the_strategy_that_it_takes(tmp_path: Path) -> None:
    make = dict(workloads(tmp_path, 0.05))["nexmark/q4"]
    strategies = ("auto", "delta", "viewlet", "again")
    found = {one.strategy: one for one in measure_all("q4", make(), strategies, ("bulk", "percent"), 1e-9)}
    assert found["auto"].chosen == "as delta"
    assert found["auto"].per_row == found["delta"].per_row
    assert found["delta"].per_row.keys() == {"bulk", "percent"}
    assert len({one.answer for one in found.values()}) == 1
    assert found["delta"].bytes > 0


def test_a_wrong_answer_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = dict(workloads(tmp_path, 0.05))["nexmark/q4"]
    true = Contender.start

    def start(self: Contender, *rest: Any) -> None:
        true(self, *rest)
        self.answer = hash(self.strategy)

    monkeypatch.setattr(Contender, "start", start)
    with pytest.raises(WrongAnswer, match="viewlet and delta show different rows"):
        measure_all("q4", make(), ("delta", "viewlet"), ("single",), 1e-9)


def test_what_would_take_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "LONGEST", 1e-6)
    make = dict(workloads(tmp_path, 0.05))["oo7/sel"]
    (outcome,) = measure_all("sel", make(), ("delta",), ("bulk", "all"), 1e-9)
    assert (list(outcome.left_out), dict(outcome.per_row)) == (["bulk", "all"], {})
    assert "not run: an epoch would take more than" in next(outcome.figures()).baseline


def test_triggers_do_not_pass_for_recomputing(tmp_path: Path) -> None:
    make = dict(workloads(tmp_path, 0.05))["viewdf/sum"]
    (outcome,) = measure_all("sum", make(), ("again",), ("percent",), 1e-9)
    assert outcome.reason == "DuckDB cannot compute it again"


def test_rows_that_do_not_reach_the_view_are_not_timed(tmp_path: Path) -> None:
    workload = replace(dict(workloads(tmp_path, 0.05))["oo7/sel"](), arriving=("documents",))
    (outcome,) = measure_all("sel", workload, ("delta",), ("bulk", "percent"), 1e-9)
    assert outcome.left_out == {"bulk": "no rows arrive in the tables of the view"}
    assert outcome.per_row.keys() == {"percent"}


@pytest.mark.parametrize("name", ["viewdf/sum", "oo7/complex3"])
def test_views_that_other_benchmarks_state_otherwise(tmp_path: Path, name: str) -> None:
    workload = dict(workloads(tmp_path, 0.5))[name]()
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(workload.declarations)
        warehouse.apply(dict(workload.base))
        warehouse.sql(f"CREATE MATERIALIZED VIEW answer AS {workload.query}")
        take = workload.arrivals()
        for rows in (1, 10):
            warehouse.apply(take(rows) or {})
        assert warehouse.view("answer").rows()
        warehouse.view("answer").verify()


def test_rows_that_go_come_back() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE t (a BIGINT, tags ARRAY<BIGINT>); CREATE TABLE u (a BIGINT)")
        warehouse.apply({"t": [(1, (5, [1]))], "u": [(1, (1,)), (2, (2,)), (1, (3,)), (-1, (3,))]})
        tables = contents_of(warehouse)
    assert tables.keys() == {"u"}
    gone, back = islice(going_and_coming(tables, 1.0), 2)
    assert sorted(gone["u"].to_pydict()["_weight"]) == [-2, -1]
    assert pc.sum(back["u"]["_weight"]).as_py() == 3


def test_tables_that_drift_are_measured_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(drift.DRIFTS, "skewing", lambda: drift.skewing(200))
    monkeypatch.setattr(drift, "FIXED", ("delta",))
    found = list(drift.drift_figures(["skewing"], 1e-9, lambda _: None))
    cases = {figure.case for figure in found if figure.metric == "us/row"}
    assert cases == {f"drift/skewing/{when}/{one}" for when in ("before", "after") for one in ("auto", "delta")}
    goals = {figure.metric: figure.value for figure in found if figure.case == "drift/skewing"}
    assert goals.keys() == {"epochs_to_recover", "regret_max"} and goals["epochs_to_recover"] == 0


def test_goals_are_figures_of_each_query_and_of_all() -> None:
    times = {"a/small/bulk": (2.0, 1.0, 8.0), "a/small/tenth": (9.0, 1.0, 3.0), "b/small/single": (4.0, 8.0, 2.0)}
    figures = [
        Figure("choose", f"{case}/{strategy}", "us/row", value, "us")
        for case, values in times.items()
        for strategy, value in zip(("auto", "delta", "recompute"), values, strict=True)
    ]
    found = {(figure.case, figure.metric): figure.value for figure in goal_figures(figures)}
    assert found["a/small", "regret_mean"] == found["a/small", "regret_max"] == 2.0
    assert found["a/small", "recompute_ratio_max"] == 3.0 and found["b/small", "recompute_ratio_max"] == 2.0
    assert found["all", "regret_mean"] == pytest.approx(2.0) and found["all", "recompute_ratio_max"] == 3.0


def test_the_summary_names_the_worst_case(tmp_path: Path) -> None:
    figures = [
        Figure("choose", f"{case}/{strategy}", "us/row", value, "us")
        for case, values in {"a/small/single": (2.0, 2.0, 100.0), "b/small/single": (3.0, 2.0, 100.0)}.items()
        for strategy, value in zip(("auto", "delta", "recompute"), values, strict=True)
    ]
    first, second = summary(figures)
    assert first.endswith("1.22 times as long as the best strategy in the mean, 1.5 at worst (b/small/single)")
    assert "recomputing" in second
    assert as_table(figures) is not None
    draw(figures, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"best.svg", "recomputing.svg"}


def test_what_does_not_run_has_its_reason() -> None:
    (figure,) = Outcome("a", "lineage", reason="no keys").figures()
    assert (figure.value, figure.baseline) == (0.0, "not run: no keys")


def test_all_benchmarks_are_there() -> None:
    names = [name for name, _ in workloads(Path(), 1.0)]
    sets = {"dbtoaster", "nested", "graphivm", "tpch", "viewdf", "oo7", "nexmark"}
    assert {name.partition("/")[0] for name in names} == sets
    assert len(names) == len(set(names)) > 50
    assert "auto" in STRATEGIES and SIZES and MIXES
