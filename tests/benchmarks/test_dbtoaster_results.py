"""Results of the DBToaster benchmark: figures with the agreed names, a table, plots."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks.dbtoaster import as_table, run
from benchmarks.dbtoaster.case import BACKENDS, DEPTHS, Case, Outcome, Sample
from benchmarks.dbtoaster.paper import DBTOASTER, DEPTH_0, FIGURES
from benchmarks.dbtoaster.queries import QUERIES
from benchmarks.dbtoaster.results import Results, figures
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions

WHOLE = Outcome(
    Case("q3", "full", "llvm"),
    stream=1_001,
    compile_s=0.25,
    samples=(Sample(1, 0.0, 0), Sample(501, 0.1, 2_000), Sample(1_001, 0.25, 9_000)),
    entries=100,
)
PART = replace(WHOLE, case=Case("q3", "0", "python"), stream=5_000, entries=0)


def test_every_query_stands_beside_the_paper() -> None:
    assert set(QUERIES) == set(DBTOASTER) == set(DEPTH_0) == {q for row in FIGURES.values() for q in row}


def test_figures_of_a_whole_stream() -> None:
    rate, compiled, size = figures(WHOLE)
    assert (rate.case, rate.metric, rate.value, rate.baseline) == ("q3/full/llvm", "refreshes/s", 4_000, "paper 22,049")
    assert (compiled.metric, compiled.value) == ("compile_s", 0.25)
    assert (size.metric, size.value) == ("bytes/entry", 90)


def test_figures_of_a_part_say_so() -> None:
    rate, compiled = figures(PART)
    assert rate.baseline == "paper 15 at depth 0; first 1,001 of 5,000 events"
    assert compiled.case == "q3/0/python"


def test_the_table_marks_what_is_only_a_part() -> None:
    console = Console(width=80)
    with console.capture() as text:
        console.print(as_table([*figures(WHOLE), *figures(PART), *figures(replace(WHOLE, case=_scaled(0.5)))]))
    lines = [line.split() for line in text.get().splitlines()]
    assert ["q3", "22.0K", "4.00K*", "4.00K"] in lines
    assert ["q3/full/llvm/scale0.5", "refreshes/s", "4.00K"] in lines


def test_all_columns_fit_a_terminal() -> None:
    cases = [Case(*words) for words in product(DBTOASTER, DEPTHS, BACKENDS)]
    console = Console(width=80)
    with console.capture() as text:
        console.print(as_table([figure for case in cases for figure in figures(replace(PART, case=case))]))
    assert text.get().count("4.00K*") == len(cases)


def test_outcomes_are_kept_and_drawn(tmp_path: Path) -> None:
    results = Results(tmp_path)
    outcomes = [WHOLE, PART, replace(WHOLE, case=_scaled(0.5)), replace(WHOLE, case=Case("psp", "1", "llvm"))]
    for outcome in outcomes:
        results.keep(outcome)
    results.keep(WHOLE)
    assert sorted(results.outcomes(), key=lambda o: o.case.name) == sorted(outcomes, key=lambda o: o.case.name)
    drawn = results.draw()
    assert [file.name for file in drawn] == ["figure8.svg", "figure10.svg", "figure11.svg"]
    texts = ["".join(ElementTree.parse(file).getroot().itertext()) for file in drawn]
    assert "full, llvm" in texts[0] and "0, python" in texts[0]
    assert "psp" in texts[1] and "TPC-H scale" in texts[2]


def test_plots_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Results(tmp_path / name).keep(WHOLE)
        Results(tmp_path / name).draw()
    assert (tmp_path / "a" / "figure8.svg").read_bytes() == (tmp_path / "b" / "figure8.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "known"),
    [
        (BenchmarkOptions(queries=("q4",)), "q3, q11"),
        (BenchmarkOptions(depths=("2",)), "0, 1, naive, full"),
        (BenchmarkOptions(backends=("spark",)), "python, llvm"),
    ],
)
def test_what_is_not_there_is_refused_first(options: BenchmarkOptions, known: str) -> None:
    with pytest.raises(UnknownName) as error:
        next(run(options))
    assert known in error.value.hint


def _scaled(scale: float) -> Case:
    return Case("q3", "full", "llvm", scale)
