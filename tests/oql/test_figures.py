"""The figures of MOVIE, word for word but for line breaks and the case of the names of classes."""

from __future__ import annotations

import re

import pytest

from tests.oql.figures import (
    FIGURE_2,
    FIGURE_3,
    FIGURE_6_LEFT,
    FIGURE_6_RIGHT,
    FIGURE_7_LEFT,
    FIGURE_7_RIGHT,
    FIGURE_9,
    FIGURE_10,
    FIGURE_12_LEFT,
    FIGURE_12_RIGHT,
    FIGURE_15,
    SCHEMA,
)
from tests.oql.movie_plans import (
    condition_attributes,
    join_with_oids,
    oid_projecting_view,
    oids_for_view,
    plant,
    view_class,
)
from tidemill.compiler.frontends.oql import OqlView, translate_oql
from tidemill.compiler.frontends.oql.algebra.attributes_read import AttributeRead, CollectionUse, collection_roles
from tidemill.model.update_events import Listening, UpdateEvent


def defined(text: str) -> dict[str, OqlView]:
    return {found.name: found for found in translate_oql(text, SCHEMA, {}) if isinstance(found, OqlView)}


def only(text: str) -> OqlView:
    (found,) = defined(text).values()
    return found


VIEWS = defined(FIGURE_2 + FIGURE_10 + FIGURE_15)


def words(text: object) -> str:
    """The text on one line; deltas in lower case."""
    line = re.sub(r"\s+", " ", str(text).strip()).replace("( ", "(")
    return re.sub(r"Δ\(.*?\)", lambda found: found.group().lower(), line)


@pytest.mark.parametrize("view", FIGURE_3)
def test_figure_3(view: str) -> None:
    assert words(VIEWS[view].tree) == words(FIGURE_3[view])
    lines = str(VIEWS[view].tree).splitlines()
    assert lines[:3] == FIGURE_3[view].strip().splitlines()[:3], "and is laid out as there"


def test_figure_6() -> None:
    view = VIEWS["dbsizeview"]
    projecting, lineage = only(FIGURE_6_RIGHT), defined(FIGURE_2 + FIGURE_6_LEFT)["oids_for_dbsizeview"]
    assert str(oid_projecting_view(view.tree)) == str(projecting.tree)
    assert str(oids_for_view(view.tree, "dbSizeView")) == str(lineage.tree)


def test_figure_7() -> None:
    tree = VIEWS["dbsizeview"].tree
    inserted = Listening(UpdateEvent.INSERT, "compositeparts")
    modified = Listening(UpdateEvent.MODIFY, "compositepart.type")
    assert words(plant(tree, inserted)) == words(FIGURE_7_LEFT)
    assert words(join_with_oids(tree, modified, "dbSizeView")) == words(FIGURE_7_RIGHT)


def test_figure_9() -> None:
    assert {str(one) for one in only(FIGURE_6_RIGHT).monitored} == FIGURE_9
    assert VIEWS["dbsizeview"].monitored == only(FIGURE_6_RIGHT).monitored


def test_figure_12() -> None:
    tree = VIEWS["comatombuilddates"].tree
    inserted = Listening(UpdateEvent.INSERT_ELEMENT, "compositepart.parts")
    assert words(oid_projecting_view(tree)) == words(FIGURE_12_LEFT)
    assert words(plant(tree, inserted)) == words(FIGURE_12_RIGHT)


def test_deltas_meet_the_lineage() -> None:
    """Cases 5, 8 and 10 of Figure 11: which objects of the view an event is about, and what they show now."""
    deleted = join_with_oids(VIEWS["dbsizeview"].tree, Listening(UpdateEvent.DELETE, "documents"), "dbSizeView")
    assert "and(eq(mat_oids.DO, δ))" in str(deleted)
    assert "  struct(mat_obj=mat_oids.VO),\n" in str(deleted)
    removed = join_with_oids(VIEWS["v2"].tree, Listening(UpdateEvent.DELETE_ELEMENT, "compositepart.parts"), "V2")
    assert "and(eq(mat_oids.CO, δ), eq(mat_oids.AO, δ.element))" in str(removed)
    inside = Listening(UpdateEvent.MODIFY_ELEMENT, "compositepart.parts(atomicpart.builddate)")
    modified = join_with_oids(VIEWS["comatombuilddates"].tree, inside, "comAtomBuildDates")
    element = "struct(elO=δ.element, el=δ.element.buildDate)"
    assert f"struct(mat_obj=mat_oids.VO, AtomBDates={element})" in str(modified)


CLASSES = {
    "dbsizeview": "ReduceGetJoin",
    "comatombuilddates": "Nest",
    "v1": "ReduceGet",
    "v2": "Unnest",
    "v3": "Nest",
    "selview_1": "ReduceGet",
    "joinselview_1": "ReduceGetJoin",
    "complexview1": "ReduceGet",
    "complexview2": "Unnest",
    "complexview3": "Unnest",
    "complexview4": "Unnest",
}


def test_classes_of_views() -> None:
    assert {name: view_class(view.tree).value for name, view in VIEWS.items()} == CLASSES


def test_condition_attributes() -> None:
    """In dbSizeView, c.documentation is one whereas c.type is not (section 5.2.2)."""
    assert condition_attributes(VIEWS["dbsizeview"].tree) == {AttributeRead("compositepart", "documentation")}
    assert {str(one) for one in condition_attributes(VIEWS["complexview4"].tree)} == {
        "compositepart.id",
        "compositepart.builddate",
        "atomicpart.builddate",
        "baseassembly.builddate",
        "compositepart.documentation",
    }


@pytest.mark.parametrize(
    ("view", "role"),
    [("v1", CollectionUse.PROJECTED), ("v2", CollectionUse.UNNESTED), ("v3", CollectionUse.NESTED)],
    ids=["PC", "UC", "NC"],
)
def test_figure_10(view: str, role: CollectionUse) -> None:
    """What is done with a collection, and so which events within it are heard."""
    assert collection_roles(VIEWS[view].tree) == {AttributeRead("compositepart", "parts"): frozenset((role,))}
    heard = {str(one) for one in VIEWS[view].monitored}
    assert {
        f"{event} compositepart.parts" for event in ("onInsertElementToCollection", "onDeleteElementFromCollection")
    } <= heard
    modified = "onModifyAttributeInCollectionElement compositepart.parts(atomicpart.id)"
    assert (modified in heard) == (role is CollectionUse.NESTED)
    assert ("onModifyAttribute atomicpart.id" in heard) == (role is not CollectionUse.PROJECTED)


def test_an_inverse_is_heard_too() -> None:
    heard = {str(one) for one in VIEWS["complexview3"].monitored}
    assert "onInsertElementToCollection baseassembly.componentspriv" in heard
    assert "onInsertToExtent baseassemblies" in heard
    assert not any("documentation" in one or "documents" in one for one in heard)
