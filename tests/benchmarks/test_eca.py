"""The ECA benchmark: costs are those of the formulas, answers are compared, and figures have the agreed names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.eca import as_table, run
from benchmarks.eca.backlog import complete, fetch
from benchmarks.eca.example6 import VIEW, Example
from benchmarks.eca.experiments import CROSSOVERS, Crossover, outcomes
from benchmarks.eca.formulas import ALGORITHMS, FORMULAS, Parameters
from benchmarks.eca.outcomes import APART, BURST, Kept, Outcome
from benchmarks.eca.plots import PLOTS, draw
from benchmarks.eca.postgres import NoServer, opened
from benchmarks.eca.protocols import MAINTAINERS, Extent, keep_all
from benchmarks.eca.results import crossovers, figures, kept_figures
from benchmarks.eca.simulate import MEASURED, Algorithm, TermByTerm, measure
from benchmarks.eca.table import judged
from tidemill.changes.zset import ZSet
from tidemill.model.errors import UnknownName
from tidemill.protocols.protocol import AskSource, InitialView
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations
from tidemill.sources.remote_queries.signed_query import SignedQuery

POINTS = [("c", 12), ("k", 3), ("k", 6), ("j", 2)]


@cache
def found_at(axis: str, at: int) -> list[Outcome]:
    return list(outcomes(axis, at))


def found_at_all() -> list[Outcome]:
    return [outcome for axis, at in POINTS for outcome in found_at(axis, at)]


@pytest.mark.parametrize(("axis", "at"), POINTS)
def test_costs_are_those_of_the_formulas(axis: str, at: int) -> None:
    found = {(one.what, one.algorithm): one for one in found_at(axis, at)}
    assert found.keys() == {(what, name) for what in FORMULAS for name in MEASURED}
    for (what, algorithm), one in found.items():
        if algorithm not in ALGORITHMS:
            assert one.formula is None
        elif what == "messages" or algorithm in ("rv-best", "eca-best"):
            assert one.error == 0, one
        else:
            assert one.error < 0.1, one


def test_the_example_has_the_parameters_that_it_should() -> None:
    for together, k in ((False, 3), (True, 6), (True, 9)):
        seen = 0
        for side in (0, 1):
            example = Example(24, 4, k, together, side)
            rows = IndexedRelations(example.rows())
            for update in example.updates():
                rows.apply(update)
            assert [sum(some.values()) for some in rows.relations.values()] == [24, 24, 24]
            seen += sum(rows.answer(VIEW.query).values())
        assert seen / 2 == pytest.approx(24 * 4**2 / 2, rel=0.02)


def test_the_paper_s_queries_are_asked_term_by_term() -> None:
    """Q4, Q5 and Q6 of appendix D.2."""
    maintainer = TermByTerm(InitialView(VIEW, ZSet()))
    asked = [action for update in Example(12, 4, 3, True).updates() for action in maintainer.updated(update, "")]
    assert [len(action.query.terms) for action in asked if isinstance(action, AskSource)] == [1, 2, 3]


class Careless(TermByTerm):
    """Forgets to compensate."""

    def _query(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        return self._view.after_all(changes)


def test_what_is_wrong_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURED, "careless", Algorithm(lambda start, k: Careless(start), together=True))
    with pytest.raises(WrongAnswer, match="strong consistency is broken"):
        measure("careless", Parameters(c=12))
    monkeypatch.setitem(MEASURED, "spaced", Algorithm(lambda start, k: Careless(start), together=False))
    assert measure("spaced", Parameters(c=12))["bytes"] == 96, "updates far apart need no compensation"


def test_crossovers_of_the_formulas_are_those_of_the_paper() -> None:
    found = {(one.what, one.axis, one.algorithm): one.formula() for one in CROSSOVERS}
    assert found["bytes", "k", "eca-best"] == pytest.approx(100)
    assert 29 < found["bytes", "k", "eca-worst"] < 30
    assert 3 < found["bytes", "c", "eca-worst"] < 5
    assert 2.5 < found["pages-indexed", "k", "eca-worst"] <= found["pages-indexed", "k", "eca-best"] <= 3.001
    assert 5 < found["pages-looped", "k", "eca-worst"] < found["pages-looped", "k", "eca-best"] < 8.5


def test_a_measured_crossover_lies_between_two_points() -> None:
    def curve(name: str, values: dict[int, float]) -> list[Outcome]:
        return [Outcome("bytes", name, "k", at, value, None) for at, value in values.items()]

    crossing = Crossover("bytes", "k", "eca-best", "")
    level = curve("rv-best", {3: 100, 6: 100})
    assert crossing.measured([*level, *curve("eca-best", {3: 50, 6: 150})]) == 4.5
    assert crossing.measured([*level, *curve("eca-best", {3: 200, 6: 400})]) == 1.5
    assert crossing.measured([*level, *curve("eca-best", {3: 50, 6: 99})]) is None
    assert crossing.measured(level) is None


RECOMPUTED = Kept("recompute", APART, 10, 3, 3, 3_000_000, 0.5)
ECA = [Kept("eca", timing, 10, 10, 10, 5_000, 0.01) for timing in (APART, BURST)]


def test_figures_have_the_agreed_names() -> None:
    named = {(one.case, one.metric): one for outcome in found_at_all() for one in figures(outcome)}
    assert named["bytes/formula/eca-worst/k6", "relative_error"].baseline == "measured 288, formula 272"
    assert named["bytes/formula/rv-best/c12", "bytes"].value == 384
    assert named["pages-looped/tidemill/eca-worst/packed/k6", "pages"].value == 120
    ratios = {one.case: one for kept in ECA for one in kept_figures(kept, RECOMPUTED) if one.metric == "bytes_ratio"}
    assert ratios["postgres/eca/apart"].value == ratios["postgres/eca/burst"].value == 0.0005


def test_tables_fit_a_terminal_and_judge_the_goals() -> None:
    found = [one for outcome in found_at_all() for one in figures(outcome)] + list(crossovers(found_at_all()))
    found += [one for kept in (RECOMPUTED, *ECA) for one in kept_figures(kept, RECOMPUTED)]
    console = Console(width=80)
    with console.capture() as text:
        console.print(as_table(found))
    assert "288 (5.9%)" in text.get() and "…" not in text.get()
    assert "eca/burst" in text.get() and "10.0 ms" in text.get()
    assert text.get().count("met") == 2
    wrong = Figure("eca", "bytes/formula/eca-worst/k6", "relative_error", 0.2, "")
    assert [worst for _, most, worst in judged([*found, wrong]) if worst > most] == [0.2]


def test_figures_of_the_paper_are_drawn(tmp_path: Path) -> None:
    files = draw(found_at_all(), tmp_path)
    drawn = {file.stem: "".join(ElementTree.parse(file).getroot().itertext()) for file in files}
    assert drawn.keys() == {plot.name for plot in PLOTS}
    assert "ECA worst" in drawn["figure6.3"] and "scenario 2" in drawn["figure6.5"]


def test_what_is_not_there_is_refused_first() -> None:
    with pytest.raises(UnknownName) as error:
        next(run(BenchmarkOptions(queries=("c", "s"))))
    assert error.value.hint == "There is: c, k, j, postgres, complete, fetch."


def test_protocols_on_postgres() -> None:
    try:
        with opened(600) as database:
            kept = list(keep_all(database, Extent(600, 9, 2), lambda line: None))
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
    found = {(one.protocol, one.timing): one for one in kept}
    assert found.keys() == {(protocol, timing) for protocol in MAINTAINERS for timing in (APART, BURST)}
    assert found["copies", APART].queries == 0 and found["eca", APART].queries == 9
    assert found["eca_key", APART].queries == found["eca_local", APART].queries == 6, "deletes ask nothing"
    assert found["recompute", BURST].queries == 1
    assert found["eca_key_batched", BURST].queries == 1, "one query for all inserts of the batch"
    assert 0 < found["eca", APART].each < found["recompute", APART].each / 100


def test_a_backlog_is_taken_in_state_by_state() -> None:
    try:
        with opened(600) as database:
            found = {figure.case: figure for figure in (*fetch(database), *complete(database, 20))}
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
    ways = {"fetch/query", "fetch/COPY", "fetch/COPY, binary"}
    assert found.keys() == {*ways, "complete/first rows", "complete/20 transactions"}
    assert all(0 < figure.value < 60 for figure in found.values())
    console = Console(width=100, record=True, file=StringIO())
    console.print(as_table(list(found.values())))
    assert "complete/20 transactions" in console.export_text()


def test_without_a_server_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> Path:
        raise NoServer("no pg_ctl here")

    monkeypatch.setattr("tests.sources.server.programs", none)
    said: list[str] = []
    found = list(run(BenchmarkOptions(quick=True, folder=tmp_path, say=said.append, queries=("c", "postgres"))))
    assert {figure.case.split("/")[0] for figure in found} >= {"bytes", "messages", "crossover"}
    assert any("no pg_ctl here" in line for line in said)
    assert not any(figure.case.startswith("postgres/") for figure in found)
