"""The benchmark of ``auto``: strategies give equal answers, and equal programs are measured once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.choose import as_table, measure
from benchmarks.choose.measure import STRATEGIES, Outcome, measure_all
from benchmarks.choose.table import summary
from benchmarks.choose.workloads import MIXES, SIZES, workloads
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.serving.cli.bench_runner import Figure


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MOST", 2)


def test_auto_is_measured_as_the_strategy_that_it_takes(tmp_path: Path) -> None:
    make = dict(workloads(tmp_path, 0.05))["nexmark/q4"]
    found = {one.strategy: one for one in measure_all("q4", make(), ("auto", "delta", "viewlet"), 10, 0.0)}
    assert found["auto"].chosen == "as delta"
    assert found["auto"].per_row == found["delta"].per_row > 0
    assert found["viewlet"].answer == found["delta"].answer


def test_a_wrong_answer_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = dict(workloads(tmp_path, 0.05))["nexmark/q4"]
    true = measure._measure
    monkeypatch.setattr(
        measure,
        "_measure",
        lambda case, workload, strategy, *rest: replace(true(case, workload, strategy, *rest), answer=(strategy,)),
    )
    with pytest.raises(WrongAnswer, match="viewlet and delta show different rows"):
        measure_all("q4", make(), ("delta", "viewlet"), 10, 0.0)


def test_the_summary_names_the_worst_case() -> None:
    figures = [
        Figure("choose", f"{case}/{strategy}", "us/row", value, "us")
        for case, values in {"a/small/single": (2.0, 2.0, 100.0), "b/small/single": (3.0, 2.0, 100.0)}.items()
        for strategy, value in zip(("auto", "delta", "recompute"), values, strict=True)
    ]
    first, second = summary(figures)
    assert first.endswith("1.22 times as long as the best strategy in the mean, 1.5 at worst (b/small/single)")
    assert "recomputing" in second
    assert as_table(figures) is not None


def test_what_does_not_run_has_its_reason() -> None:
    (figure,) = Outcome("a", "lineage", reason="no keys").figures()
    assert (figure.value, figure.baseline) == (0.0, "not run: no keys")


def test_all_benchmarks_are_there() -> None:
    names = [name for name, _ in workloads(Path(), 1.0)]
    assert {name.partition("/")[0] for name in names} == {"dbtoaster", "nested", "graphivm", "tpch", "nexmark"}
    assert len(names) == len(set(names)) > 50
    assert "auto" in STRATEGIES and SIZES and MIXES
