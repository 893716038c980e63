"""Rows of views with identities: what they are called, that they stay, and their events, beside plain Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.objects.test_random import Play
from tests.objects.test_views import stock
from tidemill.model.errors import DanglingReference, NameTaken, TidemillError, Unsupported
from tidemill.model.update_events import UpdateEvent

HERE = Path(__file__).parent

VIEWS = """
define sizes() as select struct(part: c, kind: c.type, doc: d) from c in CompositeParts, d in Documents
  where c.documentation = d;
define unnested() as select struct(part: c, atom: a, date: a.buildDate) from c in CompositeParts, a in c.parts;
define nested() as
  select struct(id: c.id, parts: c.parts, dates: (select a.buildDate from a in c.parts), doc: c.documentation)
  from c in CompositeParts;
define grouped() as select struct(d: d, n: count(*)) from a in AtomicParts group by d: a.buildDate;
define dates() as select distinct a.buildDate from a in AtomicParts;
define above() as
  select struct(title: s.doc.title, size: s, all: (select u from u in unnested where u.part = s.part)) from s in sizes;
"""

Rows = dict[str, tuple[Any, ...]]


def rows_of(wh: tidemill.Warehouse, view: str) -> Rows:
    rows = [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in wh.view(view).rows()]
    found = {row[0]: row for row in rows}
    assert len(found) == len(rows), view
    return found


def expected_oids(play: Play, view: str) -> set[str]:
    """The identities of the rows of a view, from the plain model."""
    model = play.model
    composites, atoms = model.oids("compositepart"), model.oids("atomicpart")
    match view:
        case "sizes":
            pairs = ((c, model.value(c, "documentation")) for c in composites)
            return {f"sizes/{c}/{d}" for c, d in pairs if d is not None}
        case "unnested":
            found = set()
            for c in composites:
                count: Counter[int] = Counter()
                for a in model.value(c, "parts"):
                    found.add((c, a, count[a]))
                    count[a] += 1
            return {f"unnested/{c}/{n}/{a}" for c, a, n in found}
        case "nested":
            return {f"nested/{c}" for c in composites}
        case "grouped" | "dates":
            dates = {model.value(a, "builddate") for a in atoms}
            return {f"{view}/{'%' if d is None else d}" for d in dates}
    return {f"above/{oid.replace('/', '%2F')}" for oid in expected_oids(play, "sizes")}


COLLECTIONS = {"nested": {"parts": ("atomicpart", 2), "dates": ("", 3)}, "above": {"all": ("unnested", 3)}}
"""The collections of views, with the class of their elements and their place."""


def expected_events(
    before: dict[str, Rows], after: dict[str, Rows], modified: dict[str, set[Any]], wh: Any
) -> Counter[Any]:
    """The events of all views, from their rows before and after."""
    found: Counter[Any] = Counter()
    for view, old in before.items():
        new = after[view]
        names = [f.name for f in wh.view(view).fields]
        found.update((UpdateEvent.DELETE, view, oid, None) for oid in old.keys() - new.keys())
        found.update((UpdateEvent.INSERT, view, oid, None) for oid in new.keys() - old.keys())
        for oid in old.keys() & new.keys():
            for name, was, now in zip(names, old[oid], new[oid], strict=True):
                place = f"{view}.{name}"
                if was == now:
                    continue
                if name not in COLLECTIONS.get(view, {}):
                    found[UpdateEvent.MODIFY, place, oid, None] += 1
                    modified.setdefault(place, set()).add(oid)
                    continue
                gone, come = Counter(was) - Counter(now), Counter(now) - Counter(was)
                found.update((UpdateEvent.DELETE_ELEMENT, place, oid, e) for e in gone.elements())
                found.update((UpdateEvent.INSERT_ELEMENT, place, oid, e) for e in come.elements())
    for view, collections in COLLECTIONS.items():
        for name, (of, place) in collections.items():
            for step, oids in modified.items():
                if of and step.partition(".")[0] == of:
                    found.update(
                        (UpdateEvent.MODIFY_ELEMENT, f"{view}.{name}({step})", row[0], oid)
                        for oid in oids
                        for row in after[view].values()
                        if oid in row[place]
                    )
    return found


EVERY_EVENT = 7
"""The seed of a history in which all six events happen."""


@pytest.mark.parametrize(
    ("seed", "epochs"), [(EVERY_EVENT, 35), *(pytest.param(seed, 40, marks=pytest.mark.long) for seed in range(10, 18))]
)
def test_rows_are_called_after_what_they_come_from(tmp_path: Path, seed: int, epochs: int) -> None:
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        play = Play(tidemill.objects(wh, HERE / "oo7.odl"), seed)
        play.classes = [*["compositepart"] * 3, *["atomicpart", "document"] * 2]
        play.check_events = lambda before: None  # type: ignore[method-assign]
        stock(play)
        play.db.define(VIEWS, identity="lineage")
        seen: set[UpdateEvent] = set()
        for _ in range(epochs):
            before = {view: rows_of(wh, view) for view in wh.views()}
            if not play.epoch():
                continue
            after = {view: rows_of(wh, view) for view in wh.views()}
            assert {view: set(rows) for view, rows in after.items()} == {
                view: expected_oids(play, view) for view in wh.views()
            }
            assert all(one.ok for one in wh.verify())
            events = play.db.events
            own = [e for e in events if e.place.partition(".")[0] in after]
            modified: dict[str, set[Any]] = {}
            for event in events:
                if event.event is UpdateEvent.MODIFY and event not in own:
                    modified.setdefault(event.place, set()).add(event.oid)
            happened = Counter((e.event, e.place, e.oid, e.element) for e in own)
            assert happened == expected_events(before, after, modified, wh)
            assert all(event.implicit for event in own)
            seen |= {event.event for event in own}
            for view, rows in after.items():
                for oid, row in list(rows.items())[:3]:
                    got = play.db.get(oid)
                    assert tuple(tuple(v) if isinstance(v, list) else v for v in got.values()) == row
                    assert play.db.class_of(oid) == view
        assert seen == set(UpdateEvent) or seed != EVERY_EVENT
        kept = {view: rows_of(wh, view) for view in wh.views()}
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        db = tidemill.objects(wh)
        assert {view: rows_of(wh, view) for view in wh.views()} == kept
        oid = next(iter(kept["sizes"]))
        assert db.get(oid)["oid"] == oid
        assert all(one.ok for one in wh.verify())


SMALL = """module m {
  class part (extent Parts key id) { attribute long id; attribute string kind; attribute bag<part> pieces; };
};"""


@pytest.fixture
def wh() -> Any:
    with tidemill.open(":memory:", runtime="native", backend="python") as found:
        yield found


def test_references_to_rows_resolve(wh: tidemill.Warehouse) -> None:
    db = tidemill.objects(wh, SMALL)
    leg = db.create("part", id=1, kind="a/b")
    table = db.create("part", id=2, pieces=[leg, leg])
    db.define(
        "define legs() as select struct(of: p, leg: e, kind: e.kind) from p in Parts, e in p.pieces", identity="lineage"
    )
    db.define("define first() as select struct(id: p.id, leg: element(select l from l in legs where l.of = p)) "
              "from p in Parts where count(select l from l in legs where l.of = p) = 1")  # fmt: skip
    assert sorted(wh.view("legs").rows()) == [("legs/2/0/1", 2, 1, "a/b"), ("legs/2/1/1", 2, 1, "a/b")]
    db.remove(table, "pieces", leg)
    assert wh.view("first").rows() == [(2, "legs/2/0/1")]
    assert db.query("select struct(l: l, k: l.leg.kind) from l in legs").rows() == [("legs/2/0/1", "a/b")]
    assert db.query("select l.kind from l in legs where l = $1", ["legs/2/0/1"]).rows() == [("a/b",)]
    assert db.query("select ((legs) f.leg).leg.kind from f in first").rows() == [("a/b",)]
    assert db.query("select ((legs) 'legs/2/1/1').kind from p in Parts where p.id = 1").rows() == [(None,)]
    db.define("define kinds() as select struct(n: count(*)) from p in Parts group by k: p.kind", identity="lineage")
    db.define(
        "define kinds_of() as select struct(k: (kinds) 'kinds/a%2Fb') from p in Parts where p.id = 1",
        identity="lineage",
    )
    assert sorted(oid for oid, _ in wh.view("kinds").rows()) == ["kinds/%", "kinds/a%2Fb"]
    assert db.get("kinds/a%2Fb") == {"oid": "kinds/a%2Fb", "n": 1}
    assert db.query("select k.k.n from k in kinds_of").rows() == [(1,)]
    db.modify(leg, kind="c")
    assert db.query("select k.k.n from k in kinds_of").rows() == [(None,)]
    with pytest.raises(DanglingReference, match='View "kinds" has no such row now'):
        db.get("kinds/a%2Fb")
    wh.sql("DEFINE total WITH (identity = 'lineage') AS struct(n: count(Parts))")
    assert db.get("total/") == {"oid": "total/", "n": 2}


REFUSED = {
    "define v() as select t.n from t in plain": "have no identities",
    "define v() as select t.n from t in t": "Range over extents",
    "define v() as (select p.id from p in Parts) union (select p.id from p in Parts)": "may have equal elements",
    "define v() as select struct(oid: p.id) from p in Parts": 'has a column "oid" already',
}


@pytest.mark.parametrize("text", REFUSED)
def test_rows_that_cannot_have_identities(wh: tidemill.Warehouse, text: str) -> None:
    db = tidemill.objects(wh, SMALL)
    wh.sql("CREATE TABLE t (n INT PRIMARY KEY)")
    db.define("define plain() as select struct(n: p.id) from p in Parts")
    with pytest.raises((Unsupported, NameTaken)) as raised:
        db.define(text, identity="lineage")
    assert REFUSED[text] in str(raised.value)
    assert wh.views() == ("plain",)


def test_what_is_no_view_with_identities(wh: tidemill.Warehouse) -> None:
    db = tidemill.objects(wh, SMALL)
    db.define("define plain() as select struct(n: p.id) from p in Parts")
    for oid in ("plain/1", "nothing/1", "", "'; --"):
        with pytest.raises(DanglingReference, match="there is no object"):
            db.get(oid)
    for options in ("identity = 'oid'",):
        with pytest.raises(Unsupported, match="Known: none, lineage"):
            wh.sql(f"DEFINE v WITH ({options}) AS select p.id from p in Parts")
    with pytest.raises(Unsupported, match="over which views are defined in OQL"):
        wh.sql("CREATE MATERIALIZED VIEW v WITH (identity = 'lineage') AS SELECT id FROM parts")
    with pytest.raises(TidemillError, match="which columns the view has"):
        wh.sql("ALTER VIEW plain SET (identity = 'lineage')")


@pytest.mark.parametrize("strategy", ["delta", "lineage", "recompute"])
def test_identities_do_not_depend_on_the_strategy(wh: tidemill.Warehouse, strategy: str) -> None:
    db = tidemill.objects(wh, SMALL)
    text = "define v() as select struct(k: e.kind) from p in Parts, e in p.pieces"
    view = db.define(text, identity="lineage", strategy=strategy)
    with db.epoch():
        leg = db.create("part", id=1, kind="x")
        db.create("part", id=2, pieces=[leg])
    assert view.rows() == [("v/2/0/1", "x")]
    db.modify(leg, kind="y")
    assert [str(e) for e in db.events] == [
        "onModifyAttribute part.kind 1",
        "onModifyAttributeInCollectionElement part.pieces(part.kind) 2 1 (implicit)",
        "onModifyAttribute v.k v/2/0/1 (implicit)",
    ]
