"""The ViewDF benchmark: data is as asked, all methods give DuckDB's answers, and figures have the agreed names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.graphivm.goals import judged
from benchmarks.viewdf import as_table, run
from benchmarks.viewdf.case import DIRECT, METHODS, Case, Outcome
from benchmarks.viewdf.data import FIRST, HIGH, MINUTE, Losses
from benchmarks.viewdf.direct import DirectInDuckDB
from benchmarks.viewdf.experiments import EXPERIMENTS, quick
from benchmarks.viewdf.goals import GOALS
from benchmarks.viewdf.measure import does_not_fit, free_memory, measure
from benchmarks.viewdf.plots import draw
from benchmarks.viewdf.results import figure_of, ratios, slide_costs
from benchmarks.viewdf.run import hopeless
from benchmarks.viewdf.soak import Soak, figures_of
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure


def test_losses_are_as_asked_and_the_same_each_time() -> None:
    losses = Losses(rows=5_000, each=10, selectivity=0.3)
    partition = losses.partition(7)
    assert partition.equals(Losses(5_000, 10, 0.3).partition(7))
    assert not partition.equals(losses.partition(8))
    pairs = partition.group_by(["src", "dest"]).aggregate([([], "count_all")])
    assert pairs["count_all"].unique().to_pylist() == [10]
    assert pc.mean(pc.greater(partition["loss"], HIGH)).as_py() == pytest.approx(0.3, abs=0.03)
    assert set(pc.divide(pc.subtract(partition["ts"].cast(pa.int64()), FIRST), MINUTE).to_pylist()) == {7}


@pytest.mark.parametrize(
    ("query", "axis", "method"),
    [
        *((query, "rows", method) for query, methods in METHODS.items() for method in methods),
        *(("sum", "first", method) for method in METHODS["sum"]),
    ],
)
def test_every_method_gives_the_answers_of_duckdb(query: str, axis: str, method: str) -> None:
    # Half of the losses are high, so that runs outlast the scope: Direct forgets their beginning.
    case = Case(query, axis, method, rows=60, window=5, selectivity=0.5)
    outcome = measure(case, limit=60)
    assert outcome.seconds > 0, outcome.reason
    assert outcome.slides == (2 if axis == "first" else 5)


def test_answers_of_duckdb_are_not_empty() -> None:
    for query in METHODS:
        case = Case(query, "rows", "hand", rows=60, window=5, selectivity=0.5)
        oracle = DirectInDuckDB(case)
        oracle.bring(case.losses.partitions(range(6)))
        oracle.slide()
        assert oracle.answer().num_rows > 0


def test_a_wrong_answer_ends_everything() -> None:
    case = Case("sum", "rows", "hand", rows=60, window=5)
    oracle = DirectInDuckDB(case)
    oracle.bring(case.losses.partitions(range(3)))
    oracle.slide()
    right = oracle.answer()
    oracle.check(right, "right")
    with pytest.raises(WrongAnswer, match="are missing"):
        oracle.check(right.slice(1), "short")
    with pytest.raises(WrongAnswer, match="are wrong"):
        oracle.check(pa.concat_tables([right, right.slice(0, 1)]), "twice")


def test_a_case_that_is_too_slow_says_so() -> None:
    outcome = measure(Case("sum", "rows", "direct", rows=60, window=50), limit=1e-6)
    assert outcome.seconds == 0
    assert outcome.reason.startswith("of its window, 1 of 50 partitions took")
    figure = figure_of(outcome)
    assert (figure.value, figure.baseline) == (0.0, f"not run: {outcome.reason}")


def test_who_was_too_slow_is_not_asked_for_more(tmp_path: Path) -> None:
    figures = run(BenchmarkOptions(quick=True, folder=tmp_path, queries=("5.6",), seconds=1e-9))
    reasons = {figure.case: figure.baseline for figure in figures}
    assert reasons["sum/window10/native/panes"].startswith("not run: of its window, 1 of 10 partitions took")
    assert reasons["sum/window30/native/panes"].endswith("not run: not at window 10 either")


def test_what_would_take_too_long_is_not_begun() -> None:
    tenth = Outcome(Case("sum", "rows", "panes", 10_000, 10), 0.2, 5)
    case = replace(tenth.case, rows=100_000)
    assert hopeless(case, tenth, limit=10) == "its window would take about 20 s to fill"
    assert not hopeless(case, tenth, limit=30)
    assert not hopeless(replace(case, method="duckdb"), tenth, limit=10), "only what is timed is asked for"


@pytest.mark.spark
@pytest.mark.parametrize(("runtime", "method"), [("spark", "direct"), ("spark", "subtract"), ("auto", "subtract")])
def test_answers_on_spark_are_those_of_duckdb(runtime: str, method: str) -> None:
    outcome = measure(Case("sum", "window", method, rows=60, window=3, runtime=runtime), limit=120)
    assert outcome.seconds > 0, outcome.reason


def _measured() -> list[Outcome]:
    """Made-up seconds: Direct grows with the window, and nothing else does."""
    found = []
    for name in ("5.2", "5.6", "5.8", "spark-window"):
        for case in EXPERIMENTS[name].cases():
            found.append(Outcome(case, case.window / 10 if case.method == DIRECT else 0.5, 5))
    return found


def _by_name(figures: Sequence[Figure]) -> dict[tuple[str, str], float]:
    return {(figure.case, figure.metric): figure.value for figure in figures}


def test_ratios_have_the_agreed_names() -> None:
    found = _by_name(list(ratios(_measured())))
    assert found["sum/window/native", "growth_ratio"] == 1
    assert found["sum/window/native/direct", "growth_ratio"] == 10
    assert found["max/window/native", "growth_ratio"] == 1
    assert found["pattern/scope/native", "growth_ratio"] == 1
    assert found["sum/window60/native", "speedup"] == 12
    assert found["window60/spark", "speedup"] == 12
    assert found["window60/auto", "speedup"] == 12
    assert found["sum/window60/native", "speedup_duckdb"] == 1


def test_a_case_that_did_not_run_is_in_no_ratio() -> None:
    outcomes = [replace(one, reason="too slow") if one.case.method == DIRECT else one for one in _measured()]
    found = _by_name(list(ratios(outcomes)))
    assert ("sum/window60/native", "speedup") not in found
    assert ("sum/window/native/direct", "growth_ratio") not in found
    assert found["sum/window/native", "growth_ratio"] == 1


def test_goals_are_judged() -> None:
    outcomes = [*_measured(), Outcome(Case("sum", "rows", "subtract", 1_000_000, 10), 0.1, 5, cpu=1.5)]
    figures = [*map(figure_of, outcomes), *slide_costs(outcomes), *ratios(outcomes)]
    assert [met for _, _, met in judged(figures, GOALS)] == [True, True, True, True, True, False]


def test_slides_of_large_partitions_have_the_agreed_names() -> None:
    large = [Outcome(Case("max", "large", "panes", rows, 3), 9, 2, cpu=rows / 1e7) for rows in (1_000_000, 10_000_000)]
    other = [Outcome(Case("max", "rows", method, 1_000_000, 10), 9, 5, cpu=0.25) for method in ("panes", "direct")]
    found = _by_name(list(slide_costs([*other, *large])))
    assert found == {
        ("max/rows1000000", "seconds_per_slide"): 0.25,  # of the longer window
        ("max/rows10000000", "seconds_per_slide"): 1,
        ("max/rows10000000", "growth_ratio"): 10,
    }
    assert not list(slide_costs([replace(one, reason="too slow") for one in large]))


def test_partitions_that_do_not_fit_are_not_tried() -> None:
    case = Case("max", "large", "panes", 10_000_000, 3)
    assert does_not_fit(case, 10 << 30) == "it takes about 12 GB of memory, and 11 GB are free"
    assert not does_not_fit(case, 16 << 30)
    assert 1 << 20 < free_memory() < 1 << 50


@pytest.mark.parametrize("query", METHODS)
def test_large_partitions_are_compared_as_well(query: str, tmp_path: Path) -> None:
    figures = list(run(BenchmarkOptions(quick=True, folder=tmp_path, queries=(f"large-{query}",), seconds=60)))
    found = _by_name(figures)
    assert found[f"{query}/rows10000", "seconds_per_slide"] > 0
    assert found[f"{query}/rows100000", "growth_ratio"] > 0


def test_plots_are_drawn(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["5.6"]
    outcomes = [Outcome(case, 0.1, 5) for case in experiment.cases()]
    file = draw("5.6", experiment, outcomes, tmp_path)
    assert file == tmp_path / "figure5.6.svg"
    texts = {element.text for element in ElementTree.parse(file).iter() if element.text}
    assert {*METHODS["sum"], "partitions of the window"} <= texts
    assert draw("5.6", experiment, outcomes[:3], tmp_path) is None


def test_a_quick_look_is_at_the_same_experiments_on_less() -> None:
    for experiment in EXPERIMENTS.values():
        small = quick(experiment)
        assert 1 <= len(small.points) <= 2
        assert max(case.rows for case in small.cases()) < max(case.rows for case in experiment.cases())


def test_a_long_life_is_compared_in_the_end() -> None:
    """Whoever keeps it is killed all the while."""
    soak = Soak(20, deaths=1 / 5)
    life = soak.run()
    samples = [next(life) for _ in range(20)]
    found = {figure.metric: figure.value for figure in figures_of(soak, samples)}
    assert found["accepted_changes"] + found["late_changes"] == samples[-1].accepted + samples[-1].late > 50
    assert found["late_changes"] > 0 and found["state_entries"] == max(sample.entries for sample in samples)
    assert found["kills"] >= 3
    soak.accepted[datetime(2024, 1, 1), "s0", 7] += 1
    with pytest.raises(WrongAnswer, match="not what it is when it is recomputed"):
        next(life)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_a_life_of_many_deaths(seed: int) -> None:
    """At random moments, and at points of a commit, of a checkpoint, of forgetting and of a vacuum."""
    soak = Soak(200, seed=seed, deaths=1 / 10)
    assert len(list(soak.run())) == 20
    assert soak.died.total() > 10 and len(soak.died) > 5


def test_the_benchmark_runs(tmp_path: Path) -> None:
    said: list[str] = []
    options = BenchmarkOptions(quick=True, folder=tmp_path, say=said.append, queries=("5.2",), seconds=60)
    figures = list(run(options))
    cases = {figure.case for figure in figures}
    assert {f"pattern/scope{at}/native/{method}" for at in (5, 20) for method in METHODS["pattern"]} <= cases
    assert sum("answers compared" in line for line in said) == 2 * len(METHODS["pattern"])
    console = Console(width=150, record=True, file=(tmp_path / "printed").open("w"))
    console.print(as_table(figures))
    shown = console.export_text()
    assert "pattern by scope, in this process: ms a slide" in shown
    with pytest.raises(UnknownName, match='there is no experiment "6.1"'):
        list(run(BenchmarkOptions(queries=("6.1",))))
