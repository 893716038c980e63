"""Results of the GraphIVM benchmark: figures with the agreed names, a table, plots, goals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks.graphivm import as_table, run
from benchmarks.graphivm.case import Case, Outcome
from benchmarks.graphivm.experiments import EXPERIMENTS, QUICK, Extent, cases_of
from benchmarks.graphivm.goals import GOALS, judged
from benchmarks.graphivm.page import page
from benchmarks.graphivm.results import Results, figures, ratios
from benchmarks.graphivm.workload import MODIFICATIONS
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

GRAPH = Outcome(
    Case("joins", "joins5", "joingraph", "subscribe", at=5),
    stream=1000,
    events=1000,
    seconds=0.5,
    rows=70,
    state=100,
    read_s=0.1,
)
VIEWLET = replace(GRAPH, case=Case("joins", "joins5", "viewlet", "both", at=5), state=1000, stored=560, events=400)
MISSING = Outcome(Case("fanout", "fanout10", "outerjoin", "both", at=10), 1000, reason="no such strategy")


def test_figures_of_a_join_graph() -> None:
    by_metric = {figure.metric: figure for figure in figures(GRAPH)}
    rate = by_metric["events/s"]
    assert (rate.case, rate.value, rate.baseline) == ("joins5/joingraph/subscribe", 2000, "")
    assert by_metric["bytes"].value == 100 and by_metric["view_rows"].value == 70 and by_metric["read_s"].value == 0.1


def test_what_stores_its_rows_has_one_figure_for_both_scenarios() -> None:
    rates = [figure for figure in figures(VIEWLET) if figure.metric == "events/s"]
    assert [figure.case for figure in rates] == ["joins5/viewlet/subscribe", "joins5/viewlet/read"]
    assert {figure.baseline for figure in rates} == {"first 400 of 1,000 events"}


def test_what_did_not_run_says_why() -> None:
    assert {figure.baseline for figure in figures(MISSING)} == {"not run: no such strategy"}
    assert {figure.metric for figure in figures(MISSING)} == {"events/s"}


def test_memory_stands_beside_that_of_viewlets() -> None:
    (ratio,) = ratios([GRAPH, VIEWLET, MISSING])
    assert (ratio.case, ratio.metric, ratio.value) == ("joins5/joingraph/subscribe", "memory_ratio", 0.1)
    assert list(ratios([GRAPH])) == []


def test_cost_stands_beside_that_of_one_subscriber() -> None:
    one, many = _subscribers(1, 0.5), _subscribers(1000, 0.75)
    found = [(figure.case, figure.metric, figure.value) for figure in ratios([one, many])]
    assert found == [("subscribers1", "cost_ratio", 1.0), ("subscribers1000", "cost_ratio", 1.5)]
    assert [figure.case for figure in figures(many)] == ["subscribers1000"]


def test_goals_are_judged_where_there_are_figures() -> None:
    assert judged([]) == []
    given = [
        _figure("fanout100/joingraph/subscribe", "events/s", 3e6),
        _figure("fanout100/delta/subscribe", "events/s", 1e6),
        _figure("joins5/joingraph/read", "memory_ratio", 0.1),
        _figure("subscribers1000", "cost_ratio", 2.5),
    ]
    assert [(value, met) for _, value, met in judged(given)] == [(3e6, True), (3, False), (0.1, True), (2.5, False)]


def test_a_full_run_decides_every_goal() -> None:
    """The names in goals are names of cases that there are."""
    cases = [case for experiment in EXPERIMENTS for case in cases_of(experiment, Extent())]
    outcomes = [Outcome(case, 10, 10, 1.0, 10, 100) for case in cases]
    found = [figure for outcome in outcomes for figure in figures(outcome)]
    assert len(judged([*found, *ratios(outcomes)])) == len(GOALS)


def test_names_of_cases_tell_them_apart() -> None:
    for extent in (Extent(), QUICK):
        names = [_of_some_kind(case).name for experiment in EXPERIMENTS for case in cases_of(experiment, extent)]
        assert len(names) == len(set(names))


def test_all_columns_fit_a_terminal() -> None:
    outcomes = [
        Outcome(_of_some_kind(case), 10, 5, 0.1, 10, 100)
        for experiment in EXPERIMENTS
        for case in cases_of(experiment, Extent())
    ]
    found = [figure for outcome in [*outcomes, MISSING] for figure in figures(outcome)]
    console = Console(width=80)
    with console.capture() as text:
        console.print(as_table([*found, *ratios(outcomes)]))
    assert "joingraph" in text.get() and "…" not in text.get()
    assert "no such strategy" in text.get()


def test_a_page_has_what_the_table_has() -> None:
    found = [*figures(GRAPH), *figures(VIEWLET), *figures(_subscribers(10, 1.0)), *ratios([GRAPH, VIEWLET])]
    text = "\n".join(page(found))
    assert "| joins5 | 2.00K | 800* |" in text
    assert "**memory_ratio, against viewlet**" in text and "| joins5 | 0.1 |" in text
    assert "| subscribers10 | events/s | 1e+03 1/s |" in text


def test_outcomes_are_kept_and_drawn(tmp_path: Path) -> None:
    results = Results(tmp_path)
    cases = [case for experiment in EXPERIMENTS for case in cases_of(experiment, QUICK)]
    outcomes = [Outcome(_of_some_kind(case), 10, 10, 0.1, 10, 100, read_s=0.1) for case in cases]
    for outcome in [*outcomes, MISSING]:
        results.keep(outcome)
    assert sorted(map(repr, results.outcomes())) == sorted(map(repr, [*outcomes, MISSING]))
    drawn = {file.stem: "".join(ElementTree.parse(file).getroot().itertext()) for file in results.draw()}
    assert sorted(drawn) == sorted([*(f"figure9.{n}" for n in range(3, 12)), "subscribers"])
    assert "publish-subscribe" in drawn["figure9.5"] and "joingraph, python" in drawn["figure9.5"]
    assert all(query in drawn["figure9.8"] for query in ("global", "other queries", *QUICK.simple, "fanout100"))
    assert "insert-join" in drawn["figure9.9"]
    assert "outerjoin" in drawn["figure9.5"] and "MB in maps" in drawn["figure9.11"]


def test_plots_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        results = Results(tmp_path / name)
        for case in cases_of("lazy", QUICK):
            results.keep(Outcome(case, 10, 10, 0.1))
        results.draw()
    assert (tmp_path / "a" / "figure9.4.svg").read_bytes() == (tmp_path / "b" / "figure9.4.svg").read_bytes()


def test_what_is_not_there_is_refused_first() -> None:
    with pytest.raises(UnknownName) as error:
        next(run(BenchmarkOptions(queries=("q9",))))
    assert "fanout, joins" in error.value.hint


def _of_some_kind(case: Case) -> Case:
    return replace(case, word=MODIFICATIONS[0]) if case.experiment == "modifications" else case


def _subscribers(count: int, seconds: float) -> Outcome:
    case = Case("subscribers", f"subscribers{count}", "joingraph", "subscribe", at=count)
    return replace(GRAPH, case=case, seconds=seconds, state=None)


def _figure(case: str, metric: str, value: float) -> Figure:
    return Figure("graphivm", case, metric, value, "")
