"""The MOVIE benchmark: OO7 databases are as the paper counts them, answers are compared, figures have agreed names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.compute as pc
import pytest
from rich.console import Console

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.graphivm.goals import judged
from benchmarks.movie import as_table, run
from benchmarks.movie.case import Asked, Case, Propagated
from benchmarks.movie.collection import as_figures, measured
from benchmarks.movie.data import COUNTS, ODL, SIZES, YOUNG, database, objects_of
from benchmarks.movie.experiments import LINES, QUICK_LINES, by_size
from benchmarks.movie.goals import GOALS
from benchmarks.movie.measure import Effort, measure
from benchmarks.movie.oo7 import OO7
from benchmarks.movie.plots import draw
from benchmarks.movie.results import of_entries, of_query, of_update
from benchmarks.movie.selfmaintained import entries
from benchmarks.movie.views import VIEWS, View
from tidemill.compiler.frontends.odl.resolve import read_odl
from tidemill.compiler.lineage.self_maintenance import DeltaMethod
from tidemill.model.errors import UnknownName
from tidemill.model.update_events import UpdateEvent
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure


@pytest.fixture(scope="module")
def oo7() -> Iterator[OO7]:
    with OO7(1, connections=False) as made:
        yield made


def test_databases_have_as_many_objects_as_figure_14_says() -> None:
    counted = {size: objects_of(modules) for size, modules in SIZES.items()}
    assert counted == {"db1": 288_380, "db2": 576_760, "db3": 865_140, "db4": 1_153_520, "db5": 1_441_900}
    tables = database(2)
    assert {name: table.num_rows for name, table in tables.items()} == {n: 2 * count for n, count in COUNTS.items()}
    assert len({oid for table in tables.values() for oid in table["oid"].to_pylist()}) == objects_of(2)
    assert tables["compositeparts"]["id"].to_pylist() == list(range(1, 1_001))
    assert tables["atomicparts"].equals(database(2)["atomicparts"])
    assert database(1)["documents"]["title"].to_pylist() == tables["documents"]["title"].to_pylist()[:500]


def test_objects_are_of_the_classes_of_figure_1() -> None:
    extents = read_odl(ODL.read_text()).extents()
    tables = database(1)
    assert tables.keys() == extents.keys() - {"assemblies"}, "of those, each is a complex or a base assembly"
    fan_out = Counter(tables["connections"]["from"].to_pylist())
    assert set(fan_out.values()) == {6} and len(fan_out) == COUNTS["atomicparts"]
    below = Counter(
        tables["complexassemblies"]["superassembly"].to_pylist() + tables["baseassemblies"]["superassembly"].to_pylist()
    )
    assert below.pop(None) == 1
    assert set(below.values()) == {3} and len(below) == COUNTS["complexassemblies"]


def test_inverses_are_kept(oo7: OO7) -> None:
    part = oo7.db.get(100)
    assert part["id"] == 100 and len(part["parts"]) == 20
    assert oo7.db.get(part["documentation"])["part"] == 100
    assert {oo7.db.get(oid)["partof"] for oid in part["parts"]} == {100}
    assert all(100 in oo7.db.get(oid)["componentspriv"] for oid in part["usedinpriv"])
    (module,) = oo7.db.extent("modules").arrow()["assemblies"].to_pylist()
    assert len(module) == COUNTS["complexassemblies"] + COUNTS["baseassemblies"]


def test_views_have_as_many_rows_as_in_the_paper() -> None:
    """Those of the first module decide: the views on build dates look at 200 composite parts."""
    tables = database(1)
    young = range(YOUNG, 201, YOUNG)
    dates = dict(zip(*(tables["compositeparts"][name].to_pylist() for name in ("id", "builddate")), strict=True))
    latest = max(pc.max(tables[name]["builddate"]).as_py() for name in ("atomicparts", "baseassemblies"))
    assert all((dates[id] > latest) == (id in young) for id in range(1, 201))
    uses = Counter(pc.list_flatten(tables["baseassemblies"]["componentspriv"]).to_pylist())
    assert 20 * len(young) == 400
    assert 20 * sum(uses[id] for id in young) == 1840
    assert 20 * uses[100] == 40


EFFORT = Effort(rounds=1, updates=3, recomputed=2, queries=2, compared=1)


@pytest.mark.parametrize(("view", "update"), [("selview_1", "u1"), ("complexview2", "u1"), ("dbsizeview", "u2")])
def test_answers_are_those_of_duckdb(oo7: OO7, view: str, update: str) -> None:
    case = Case(view, "db0", (update,))
    asked, found = measure(case, oo7, EFFORT)
    assert isinstance(asked, Asked) and isinstance(found, Propagated)
    assert asked.rows == {"selview_1": 500, "complexview2": 400, "dbsizeview": 500}[view]
    assert found.reads == 0, "the lineage is enough"
    assert not oo7.warehouse.views()


def test_a_document_that_comes_is_looked_for_among_composite_parts(oo7: OO7) -> None:
    _, found = measure(Case("dbsizeview", "db0", ("u3",)), oo7, EFFORT)
    assert isinstance(found, Propagated)
    assert found.recomputed > found.without


def test_a_wrong_answer_ends_everything(oo7: OO7) -> None:
    view = View("v", "", "SELECT id, type FROM compositeparts WHERE id <= 3")
    right = [tuple(row)[:2] for row in oo7.db.query(VIEWS["selview_1"].oql).rows() if row[0] <= 3]
    oo7.check(view, right)
    with pytest.raises(WrongAnswer, match="v is wrong: missing"):
        oo7.check(view, right[1:])


def test_entries_of_figure_11_that_join_a_delta_with_the_lineage_read_no_base_data() -> None:
    found = list(entries())
    figures = {figure.case: figure for figure in of_entries(found)}
    assert len(found) == 30
    assert figures["selfmaintainable"].value >= 20
    assert figures["selfmaintainable/11/unnest/plant"].value > 0 == figures["selfmaintainable/5/nest/join"].value
    console = Console(width=100, record=True, file=StringIO())
    console.print(as_table(list(figures.values())))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["5", "onDeleteFromExtent", "0", "0", "0"] in lines
    reading = {(entry.case.number, entry.view.value) for entry in found if entry.reads}
    assert {(1, "Unnest"), (1, "Nest"), (3, "Nest"), (4, "Unnest")} <= reading, "arriving objects are planted"
    assert [str(entry) for entry in found if entry.reads and entry.move is not DeltaMethod.PLANT_NEW] == []


def _measured() -> tuple[dict[Case, Asked], dict[str, Propagated]]:
    """Made-up seconds: recomputing a view takes 5 ms for each 1,000 rows, and keeping it always the same."""
    asked, propagated = {}, {}
    for line in LINES:
        for number, case in enumerate(line.cases, 1):
            asked[case] = Asked(case, 1_000 * number, 0.001, 0.004 * number, 0.002)
            for update in case.updates:
                propagated[case.name(update)] = Propagated(
                    case, update, 0.001, 0.00104, 0.001 + 0.005 * number, 0.05, 100, 0
                )
    return asked, propagated


def _figures() -> list[Figure]:
    asked, propagated = _measured()
    updates = [figure for found in propagated.values() for figure in of_update(found, asked[found.case])]
    return [*(figure for found in asked.values() for figure in of_query(found)), *updates]


def test_figures_have_the_agreed_names_and_goals_are_judged() -> None:
    found = {(figure.case, figure.metric): figure.value for figure in _figures()}
    assert found["u2/joinselview_3/db3", "speedup"] == pytest.approx(0.015 / 0.00004)
    assert found["u2/joinselview_3/db3", "speedup_epoch"] == pytest.approx(0.016 / 0.00104)
    assert found["u2/joinselview_3/db3", "speedup_define"] == pytest.approx(0.05 / 0.00004)
    assert found["u2/joinselview_3/db3", "updates_per_query"] == pytest.approx(0.012 / 0.00004)
    assert found["query/dbsizeview/db5", "speedup"] == pytest.approx(20)
    entry = Figure("movie", "selfmaintainable", "cells", 18, "entries")
    assert [met for _, _, met in judged([*_figures(), entry], GOALS)] == [True, True, True, True, True, False]


def test_what_cannot_be_told_from_nothing_is_not_nothing() -> None:
    _, propagated = _measured()
    found = replace(propagated["u1/selview_1/db3"], kept=0.0009)
    assert found.incremental == found.without / 50


def test_tables_and_plots_are_made(tmp_path: Path) -> None:
    console = Console(width=180, record=True, file=StringIO())
    console.print(as_table(_figures()))
    shown = console.export_text()
    assert "propagated updates" in shown and "130" in shown and "missed" not in shown
    files = list(draw(LINES, *_measured(), tmp_path))
    assert [file.name for file in files] == [
        "selectivity-selview.svg",
        "selectivity-joinselview.svg",
        "complexity-complexview1.svg",
        "size-dbsizeview.svg",
    ]
    texts = {element.text for element in ElementTree.parse(files[-1]).iter() if element.text}
    assert {"re-materialized", "incremental", "maintenance, U3", "db5"} <= texts


def test_a_quick_look_is_at_fewer_databases() -> None:
    assert list(by_size(LINES)) == list(SIZES)
    assert list(by_size(QUICK_LINES)) == ["db1", "db3"]
    assert {case for cases in by_size(QUICK_LINES).values() for case in cases} < {
        c for line in LINES for c in line.cases
    }


def test_only_known_experiments_can_be_asked_for() -> None:
    with pytest.raises(UnknownName, match='there is no experiment "speed"'):
        list(run(BenchmarkOptions(queries=("speed",))))


def test_an_element_of_a_large_collection() -> None:
    """Each kind of change has a figure, and the slowest one is that of the case; wrong answers would end it."""
    figures = list(as_figures(measured(quick=True)))
    cases = {figure.case.partition("/")[2]: figure.value for figure in figures}
    assert cases.keys() == {"", "sql", *(event.value for event in UpdateEvent if "Element" in event.value)}
    assert cases.pop("") == max(cases.values()) and {figure.metric for figure in figures} == {"ms"}
