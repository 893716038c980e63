"""Figures 11 and 13 of MOVIE, cell by cell, and programs that do what they say."""

from __future__ import annotations

import pytest

import tidemill
from benchmarks.movie.figures import MAINTENANCE_PLANS, ViewComplexity, entries_without_base_reads, plan_entry
from tidemill.compiler.frontends.oql.algebra.attributes_read import CollectionUse
from tidemill.compiler.lineage.self_maintenance import DeltaMethod, EventMaintenance, event_maintenance
from tidemill.model.update_events import UpdateEvent

PRINTED = """
1 | onInsertToExtent | | | plant Δnew | plant Δnew | plant Δnew
2 | onInsertElementToCollection | | PC | vx ⋈ Δnew | vx ⋈ Δnew | vx ⋈ Δnew
3 | onInsertElementToCollection | | NC | NA | NA | plant Δnew
4 | onInsertElementToCollection | | UC | NA | plant Δnew | plant Δnew
5 | onDeleteFromExtent | | | vx ⋈ Δold | vx ⋈ Δold | vx ⋈ Δold
6 | onDeleteElementFromCollection | | PC | vx ⋈ Δold | vx ⋈ Δold | vx ⋈ Δold
7 | onDeleteElementFromCollection | | NC | NA | NA | vx ⋈ Δold
8 | onDeleteElementFromCollection | | UC | NA | vx ⋈ Δold | vx ⋈ Δold
9 | onModifyAttribute | no | | vx ⋈ Δnew | vx ⋈ Δnew | vx ⋈ Δnew
10 | onModifyAttributeInCollectionElement | no | NC | NA | NA | vx ⋈ Δnew
11 | onModifyAttribute | yes | | vx ⋈ Δold + plant Δnew | vx ⋈ Δold + plant Δnew | vx ⋈ Δold + plant Δnew
12 | onModifyAttributeInCollectionElement | yes | NC | NA | NA | vx ⋈ Δold + plant Δnew
"""

APPLIED = """
1  | insert(VX)              | insert(VX)              | insert(VX)
2  | insert(AV)              | insert(AV)              | insert(AV)
3  | NA                      | NA                      | insert(AV)
4  | NA                      | insert(VX)              | insert(VX)
5  | delete(VX)              | delete(VX)              | delete(VX)
6  | delete(AV)              | delete(AV)              | delete(AV)
7  | NA                      | NA                      | delete(AV)
8  | NA                      | delete(VX)              | delete(VX)
9  | modify(AV)              | modify(AV)              | modify(AV)
10 | NA                      | NA                      | modify(AV)
11 | delete(VX) + insert(VX) | delete(VX) + insert(VX) | delete(VX) + insert(VX)
12 | NA                      | NA                      | delete(AV) + insert(AV)
"""


def rows(figure: str) -> list[list[str]]:
    return [[part.strip() for part in line.split("|")] for line in figure.strip().splitlines()]


def test_every_cell_of_figure_11_is_there() -> None:
    for number, event, condition, use, *plans in rows(PRINTED):
        for view, printed in zip(ViewComplexity, plans, strict=True):
            found = plan_entry(
                UpdateEvent(event),
                view,
                condition={"yes": True, "no": False}.get(condition),
                use=CollectionUse(use) if use else None,
            )
            assert (" + ".join(move.value for move in found.plan) if found else "NA") == printed, (number, view)


def test_every_cell_of_figure_13_is_there() -> None:
    cases = {str(case.number): cells for case, cells in MAINTENANCE_PLANS.items()}
    for number, *effects in rows(APPLIED):
        for view, printed in zip(ViewComplexity, effects, strict=True):
            found = cases[number].get(view)
            assert (" + ".join(effect.value for effect in found.effects) if found else "NA") == printed, (number, view)


def test_two_thirds_of_the_entries_read_no_base_data() -> None:
    assert entries_without_base_reads() == (20, 30)


TABLES = """
CREATE TABLE parts (oid BIGINT PRIMARY KEY, id INT, built INT);
CREATE TABLE documents (oid BIGINT PRIMARY KEY, id INT);
CREATE TABLE composites (
  oid BIGINT PRIMARY KEY, id INT, type STRING, built INT, documentation BIGINT, parts ARRAY<BIGINT>);
"""

VIEWS = {
    ViewComplexity.JOIN: (
        "SELECT c.id, c.type, c.parts, d.id AS document FROM composites c, documents d WHERE c.documentation = d.oid"
    ),
    ViewComplexity.UNNEST: (
        "SELECT c.id, c.type, a.built FROM composites c, LATERAL EXPLODE(c.parts) AS e (oid), parts a"
        " WHERE a.oid = e.oid AND c.built > a.id"
    ),
    ViewComplexity.NEST: (
        "SELECT c.oid, c.type, COLLECT_LIST(a.built) AS dates FROM composites c, LATERAL EXPLODE(c.parts) AS e (oid),"
        " parts a WHERE a.oid = e.oid AND c.built > a.id GROUP BY c.oid, c.type"
    ),
}


@pytest.fixture
def judged(request: pytest.FixtureRequest) -> dict[str, EventMaintenance]:
    warehouse = tidemill.open(":memory:", runtime="native")
    warehouse.sql(TABLES + f"CREATE MATERIALIZED VIEW v WITH (strategy = 'lineage') AS {VIEWS[request.param]}")
    catalog = warehouse._engine.catalog
    return {str(verdict.listening): verdict for verdict in event_maintenance(catalog.view("v").program, catalog.tables)}


@pytest.mark.parametrize(
    ("judged", "view", "event", "place", "condition", "use"),
    [
        (ViewComplexity.JOIN, ViewComplexity.JOIN, UpdateEvent.INSERT, "composites", None, None),
        (ViewComplexity.JOIN, ViewComplexity.JOIN, UpdateEvent.DELETE, "documents", None, None),
        (ViewComplexity.JOIN, ViewComplexity.JOIN, UpdateEvent.MODIFY, "composites.type", False, None),
        (ViewComplexity.JOIN, ViewComplexity.JOIN, UpdateEvent.MODIFY, "composites.documentation", True, None),
        (
            ViewComplexity.UNNEST,
            ViewComplexity.UNNEST,
            UpdateEvent.INSERT_ELEMENT,
            "composites.parts",
            None,
            CollectionUse.UNNESTED,
        ),
        (
            ViewComplexity.UNNEST,
            ViewComplexity.UNNEST,
            UpdateEvent.DELETE_ELEMENT,
            "composites.parts",
            None,
            CollectionUse.UNNESTED,
        ),
        (ViewComplexity.UNNEST, ViewComplexity.UNNEST, UpdateEvent.MODIFY, "parts.built", False, None),
        (ViewComplexity.UNNEST, ViewComplexity.UNNEST, UpdateEvent.MODIFY, "parts.id", True, None),
        (
            ViewComplexity.NEST,
            ViewComplexity.NEST,
            UpdateEvent.INSERT_ELEMENT,
            "composites.parts",
            None,
            CollectionUse.NESTED,
        ),
        (
            ViewComplexity.NEST,
            ViewComplexity.NEST,
            UpdateEvent.DELETE_ELEMENT,
            "composites.parts",
            None,
            CollectionUse.NESTED,
        ),
        (ViewComplexity.NEST, ViewComplexity.NEST, UpdateEvent.MODIFY, "composites.type", False, None),
        (ViewComplexity.NEST, ViewComplexity.NEST, UpdateEvent.MODIFY, "composites.built", True, None),
    ],
    indirect=["judged"],
)
def test_programs_follow_the_figure(
    judged: dict[str, EventMaintenance],
    view: ViewComplexity,
    event: UpdateEvent,
    place: str,
    condition: bool | None,
    use: CollectionUse | None,
) -> None:
    expected = plan_entry(event, view, condition=condition, use=use)
    verdict = judged[f"{event.value} {place}"]
    assert expected is not None
    assert verdict.plan == expected.plan
    assert DeltaMethod.PLANT_NEW in verdict.plan or not verdict.reads


@pytest.mark.parametrize("judged", [ViewComplexity.UNNEST], indirect=True)
def test_who_knows_all_elements_reads_no_base_data_even_for_inserts(judged: dict[str, EventMaintenance]) -> None:
    assert judged["onInsertToExtent parts"].reads == ()
    assert judged["onInsertToExtent composites"].reads == ("parts",)
