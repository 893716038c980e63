"""Classes declared anew: attributes and classes come and go between epochs of objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.objects.model import Model
from tests.objects.test_random import HERE, Play
from tidemill.model.errors import DataError, NameTaken, TidemillError, UnknownName, Unsupported

ODD = (HERE / "odd.odl").read_text()

STEPS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("attribute short a, b;", "attribute short a, b; attribute long n; attribute set<long> marks;", {"thing.n": 7}),
    ("attribute set<long> marks;", "attribute set<long> marks; attribute list<long> more;", {"thing.more": [3, 1, 3]}),
    ("attribute short a, b;", "attribute long a, b;", {}),
    ("enum Colour {Red, Green};", "enum Colour {Red, Green, Blue};", {}),
    ("attribute list<double> sizes;", "", {}),
    ("attribute thing label;", "attribute thing label; attribute crate within;", {}),
    ("attribute date made;", "attribute date made; relationship thing maker inverse thing::made;", {}),
    ("class crate extends", "class big extends box (extent Bigs) { attribute long size; }; class crate extends", {}),
    ("attribute bag<thing> likes;", "", {}),
)


class Rows(Play):
    """Compares rows alone: that a list of partners is in another order is no event to the model, here at any depth."""

    def check_events(self, before: Model) -> None:
        """Leave events alone."""


def redeclared(play: Play, odl: str, values: dict[str, Any]) -> None:
    """The classes and their model, declared anew."""
    play.db.alter(odl, values)
    model, old = play.model, play.model.objects
    model.schema = play.db.schema
    model.stored = play.classes = Model(play.db.schema).stored
    for oid, (cls, held) in old.items():
        attributes = {n: a for n, a in model.schema.attributes(cls).items() if a.inverse is None}
        empty = {n: None if a.collection is None else [] for n, a in attributes.items()}
        given = {n: values[place] for n in attributes if (place := f"{model.schema.declares(cls, n)}.{n}") in values}
        old[oid] = cls, {n: held.get(n, given.get(n, empty[n])) for n in attributes}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))])
def test_objects_go_on_with_other_classes(tmp_path: Path, seed: int) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        play, odl = Rows(tidemill.objects(wh, HERE / "odd.odl"), seed), ODD
        other = tidemill.objects(wh)
        play.db.define("define pairs() as select struct(a: t.a, o: u.b) from t in Things, u in t.friends")
        wh.sql(
            "CREATE MATERIALIZED VIEW tags AS "
            "SELECT tag, COUNT(*) AS n FROM things LATERAL VIEW EXPLODE(tags) AS tag GROUP BY tag"
        )
        for old, new, values in STEPS:
            for _ in range(6):
                play.epoch()
            odl = odl.replace(old, new)
            if "inverse thing::made" in new:
                odl = odl.replace(
                    "attribute set<string> tags;",
                    "attribute set<string> tags; relationship bag<lid> made inverse lid::maker;",
                )
            redeclared(play, odl, values)
            play.check(wh)
        for _ in range(10):
            play.epoch()
        play.check(wh)
        assert all(one.ok for one in wh.verify())
        assert other.schema == play.db.schema
        oids = play.model.oids("thing")
        assert oids
        assert other.get(oids[0]) == play.db.get(oids[0])
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        play.db = tidemill.objects(wh)
        for _ in range(5):
            play.epoch()
        play.check(wh)
        assert all(one.ok for one in wh.verify())


SMALL = """module m {
  enum kind {Wood, Steel};
  class part (extent Parts key id) { attribute long id, size; attribute kind k; attribute bag<part> pieces; };
  class plate extends part (extent Plates) { attribute double area; };
  class note (extent Notes) { attribute string text; };
  class spare (extent Spares) { attribute long id; };
};"""

REFUSED: list[tuple[str, str, dict[str, Any], type[TidemillError], str]] = [
    ("class note (extent Notes) { attribute string text; };", "", {}, Unsupported, "Delete its objects first"),
    ("class spare (extent Spares) { attribute long id; };", "", {}, Unsupported, '"spares" cannot be dropped'),
    ("extent Spares", "extent Others", {}, Unsupported, '"spares" cannot be dropped'),
    ("class note (extent Notes)", "interface i {}; class note : i (extent Memos)", {}, Unsupported, "another extent"),
    (
        "class note (extent Notes) {",
        "interface i {}; class note : i (extent Notes) { attribute i next;",
        {},
        Unsupported,
        "would be stored in other tables",
    ),
    ("plate extends part", "plate", {}, Unsupported, "extends another class"),
    ("extent Parts", "extent Items", {}, Unsupported, "has another extent"),
    ("long id, size", "long id; attribute string size", {}, Unsupported, 'has another attribute "size"'),
    ("bag<part>", "set<part>", {}, Unsupported, 'has another attribute "pieces"'),
    ("{Wood, Steel}", "{Wood}", {}, Unsupported, "has fewer names"),
    ("key id", "keys id, size", {}, DataError, "cannot have the constraint"),
    (
        "(extent Parts key id) { attribute",
        "(extent Parts keys id, w) { attribute long w; attribute",
        {"part.w": 1},
        Unsupported,
        "the key",
    ),
    ("attribute long id, size;", "attribute long id;", {}, Unsupported, 'column "size" of "parts" cannot be dropped'),
    ("attribute double area;", "attribute double area, weight;", {"part.weight": 1.0}, UnknownName, "plate.weight"),
    ("attribute double area;", "attribute double area, weight;", {"plate.weight": "x"}, DataError, "x"),
    ("attribute double area;", "attribute double area; attribute part of;", {"plate.of": 1}, Unsupported, "refers to"),
    (
        "class note (extent Notes) {",
        "class other (extent Taken) { attribute long a; }; class note (extent Notes) {",
        {},
        NameTaken,
        "taken",
    ),
    ("module m", "modul m", {}, TidemillError, "module"),
]


@pytest.mark.parametrize(("old", "new", "values", "error", "told"), REFUSED)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    old: str, new: str, values: dict[str, Any], error: type[TidemillError], told: str
) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        db = tidemill.objects(wh, SMALL)
        wh.sql("CREATE TABLE taken (a INT)")
        db.define("define sizes() as select p.size from p in Parts")
        db.create("part", id=1, size=3)
        db.define("define spares_read() as select s.id from s in Spares")
        db.create("plate", id=2, size=3, k="Wood")
        db.create("note", text="x")
        before = wh.tables(), db.text, sorted(wh.table("parts").rows())
        with pytest.raises(error, match=told):
            db.alter(SMALL.replace(old, new), values)
        assert (wh.tables(), db.text, sorted(wh.table("parts").rows())) == before
        db.create("part", id=7, size=1)
        assert wh.view("sizes").verify().ok


def test_a_new_key_holds_and_an_epoch_ends_first() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        db = tidemill.objects(wh, SMALL)
        db.create("part", id=1, size=3)
        with db.epoch(), pytest.raises(Unsupported, match="an epoch of objects is under way"):
            db.alter(SMALL.replace("key id", "keys id, size"))
        db.alter(SMALL.replace("key id", "keys id, size"))
        assert db.find("part", size=3) == 1
        with pytest.raises(DataError):
            db.create("part", id=2, size=3)
        with pytest.raises(NameTaken, match=r"other classes were declared") as taken:
            tidemill.objects(wh, SMALL)
        assert "alter(odl)" in (taken.value.hint or "")


COMING = """module m {
  class part (extent Parts key id) { attribute long id; relationship set<box> within inverse box::parts; };
  class box (extent Boxes) { relationship set<part> parts inverse part::within; };
};"""

GOING: list[tuple[str, list[tuple[str, str]], set[str]]] = [
    ("a class without objects goes", [("class spare (extent Spares) { attribute long id; };", "")], {"parts", "boxes"}),
    (
        "a relationship goes",
        [
            ("relationship set<box> within inverse box::parts; ", ""),
            ("relationship set<part> parts inverse part::within; ", ""),
        ],
        {"parts", "boxes", "spares"},
    ),
    (
        "an end of a relationship goes, and the other one stays as it is",
        [
            ("relationship set<box> within inverse box::parts; ", ""),
            ("relationship set<part> parts inverse part::within; ", "attribute set<part> parts; "),
        ],
        {"parts", "boxes", "spares"},
    ),
    ("a class without objects has another extent", [("extent Spares", "extent Others")], {"parts", "boxes", "others"}),
    (
        "a class without objects extends another one",
        [("class spare (extent Spares) { attribute long id; };", "class spare extends part (extent Spares) { };")],
        {"parts", "boxes", "spares"},
    ),
    (
        "a key with an attribute that nothing has",
        [("key id", "keys id, n"), ("long id; rel", "long id, n; rel")],
        set(),
    ),
    (
        "an interface comes",
        [
            ("class part (", "interface named { attribute string name; }; class part : named ("),
        ],
        set(),
    ),
]


@pytest.mark.parametrize(("what", "edits", "tables"), GOING, ids=[what for what, _, _ in GOING])
def test_classes_and_relationships_come_and_go(
    tmp_path: Path, what: str, edits: list[tuple[str, str]], tables: set[str]
) -> None:
    odl = COMING.replace("};\n};", "};\n  class spare (extent Spares) { attribute long id; };\n};")
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        db = tidemill.objects(wh, odl)
        part = db.create("part", id=1)
        box = db.create("box", parts=[part])
        wh.sql("CREATE MATERIALIZED VIEW ids AS SELECT id FROM parts")
        for old, new in edits:
            assert old in odl
            odl = odl.replace(old, new)
        db.alter(odl)
        assert set(wh.tables()) == (tables or {"parts", "boxes", "spares"})
        other = db.create("part", id=2)
        if "parts" in db.get(box):
            db.insert(box, "parts", other)
            assert db.get(box)["parts"] == [part, other]
        if "spare" in db.schema.classes:
            db.create("spare", id=3)
        expected = [(1,), (2,), *([(3,)] if "spare extends part" in odl else [])]
        assert sorted(wh.view("ids").rows()) == expected
        assert wh.view("ids").verify().ok
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        db = tidemill.objects(wh)
        assert db.text == odl
        assert db.get(part)["id"] == 1
        assert sorted(wh.view("ids").rows()) == expected
