"""The views of Figures 2, 10 and 15 of MOVIE under random events of all six kinds, against recomputation each time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.objects.test_random import Play
from tests.oql.figures import FIGURE_9
from tidemill.model.update_events import UpdateEvent

HERE = Path(__file__).parent

VIEWS = """
DEFINE dbSizeView() AS
  select struct(ComPartId: c.id, CType: c.type, DocId: d.id) from c in CompositeParts, d in Documents
  where c.documentation = d;
DEFINE comAtomBuildDates() AS
  select struct(ComPartId: c.id, ComBDate: c.buildDate, AtomBDates: (select a.buildDate from a in c.parts))
  from c in CompositeParts;
DEFINE V1() AS select struct(CID: c.id, CP: c.parts) from c in CompositeParts;
DEFINE V2() AS select struct(CID: c.id, CP: a.id) from c in CompositeParts, a in c.parts;
DEFINE V3() AS select struct(CID: c.id, CP: (select a.id from a in c.parts)) from c in CompositeParts;
DEFINE selView() AS select struct(ComPartId: c.id, CType: c.type) from c in CompositeParts where c.id <= 20;
DEFINE joinSelView() AS
  select struct(ComPartId: c.id, CType: c.type, DocId: d.id) from c in CompositeParts, d in Documents
  where c.documentation = d and c.id <= 20;
DEFINE complexView2() AS
  select struct(ComPartId: c.id, CType: c.type, AtomPartId: a.id) from c in CompositeParts, a in c.parts
  where c.id <= 30 and c.buildDate > a.buildDate;
DEFINE complexView3() AS
  select struct(ComPartId: c.id, CType: c.type, AtomPartId: a.id, BaseAssmId: b.id)
  from c in CompositeParts, a in c.parts, b in c.usedInPriv
  where c.id <= 30 and c.buildDate > a.buildDate and c.buildDate > b.buildDate;
DEFINE complexView4() AS
  select struct(ComPartId: c.id, CType: c.type, AtomPartId: a.id, BaseAssmId: b.id, DocId: d.id)
  from c in CompositeParts, a in c.parts, b in c.usedInPriv, d in Documents
  where c.id <= 30 and c.buildDate > a.buildDate and c.buildDate > b.buildDate and c.documentation = d;
DEFINE picked() AS
  select struct(Id: c.id, Dates: (select a.buildDate from a in c.parts)) from c in CompositeParts
  where exists a in c.parts: a.buildDate > 10;
DEFINE paths() AS
  select struct(Title: c.documentation.title, Module: b.oModule.id) from c in CompositeParts, b in c.usedInShar;
"""


def stock(play: Play) -> None:
    """Some composite parts, each with parts and a document, and assemblies that use them."""
    rng = play.random

    def create(cls: str, **given: Any) -> int:
        oid = play.db.create(cls, **given)
        play.model.create(oid, cls, given)
        return oid

    with play.db.epoch():
        module = create("modulet", id=1)
        atoms = [create("atomicpart", id=i, builddate=rng.randrange(40)) for i in range(20)]
        for i in range(8):
            document = create("document", id=i, title=f"{i}")
            parts = rng.choices(atoms, k=4)
            create("compositepart", id=4 * i, builddate=rng.randrange(40), parts=parts, documentation=document)
        composites = play.model.oids("compositepart")
        for i in range(6):
            used = {f"components{kind}": rng.choices(composites, k=3) for kind in ("priv", "shar")}
            create("baseassembly", id=i, builddate=rng.randrange(40), omodule=module, **used)


LONG = [pytest.param(seed, 40, marks=pytest.mark.long) for seed in range(1, 10)]


@pytest.mark.parametrize(("seed", "epochs"), [(25, 10), *LONG])
def test_views_follow_all_events(seed: int, epochs: int) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        play = Play(tidemill.objects(wh, HERE / "oo7.odl"), seed)
        play.classes = [*["compositepart"] * 3, *["atomicpart", "document", "baseassembly"] * 2, "modulet"]
        stock(play)
        wh.sql(VIEWS)
        seen: set[UpdateEvent] = set()
        filled: set[str] = set()
        for _ in range(epochs):
            if play.epoch():
                seen |= {happened.event for happened in play.db.events}
                assert all(wh.view(view).verify() for view in wh.views())
                filled |= {view for view in wh.views() if len(wh.view(view))}
        assert seen == set(UpdateEvent)
        assert filled >= set(wh.views()) - {"complexview3", "complexview4"}


def test_a_view_that_has_an_order_is_read_in_it() -> None:
    odl = "module m { class part (extent Parts key id) { attribute long id; attribute string kind; }; }"
    with tidemill.open(":memory:", runtime="native") as wh:
        db = tidemill.objects(wh, odl)
        db.define("define v() as select struct(id: p.id, kind: p.kind) from p in Parts order by p.kind desc, p.id")
        for number in (3, 1, 2, 5, 4):
            db.create("part", id=number, kind="even" if number % 2 == 0 else "odd")
        assert wh.view("v").rows() == [(1, "odd"), (3, "odd"), (5, "odd"), (2, "even"), (4, "even")]
        with pytest.raises(tidemill.TidemillError, match="ordered by a term that it does not select"):
            db.define("define w() as select struct(id: p.id) from p in Parts order by p.kind")


def object_events(explained: str) -> set[str]:
    """The events of objects that EXPLAIN lists: each on a line of its own, without a plan."""
    return set(re.findall(r"^ +(?:object events)? +(on\w+ [\w.()]+)$", explained, re.MULTILINE))


def test_explain_lists_the_events_of_objects() -> None:
    """Figure 9 of MOVIE, with the inverse of c.documentation; whatever the strategy is."""
    with tidemill.open(":memory:") as wh:
        db = tidemill.objects(wh, HERE / "oo7.odl")
        wh.sql(VIEWS)
        db.define("define other() as select c.id from c in CompositeParts", strategy="delta")
        wh.sql("CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW plain AS SELECT n FROM t")
        assert object_events(db.explain("dbSizeView")) == FIGURE_9
        assert "onInsertElementToCollection baseassembly.componentspriv" in object_events(db.explain("complexView3"))
        assert "onModifyAttribute compositepart.id" in object_events(db.explain("other"))
        assert "object events" not in wh.view("plain").explain()
