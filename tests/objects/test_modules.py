"""Interfaces, structs, constants and several modules, through the public interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import BadValue, DanglingReference, NameTaken, TidemillError, TypeMismatch, Unsupported

HERE = Path(__file__).parent

SHOP = """module Shop {
  const short Most = 3;
  struct size { double width, height; };
  typedef set<priced> prices;
  interface named { attribute string name; };
  interface priced { attribute double price; };
  class item : named, priced (extent Items key code) { attribute long code; attribute size size; };
  class service : named, priced (extent Services) { attribute bag<size> sizes; };
  class offer (extent Offers) { attribute prices of; attribute priced best; };
};"""


@pytest.fixture
def wh() -> Any:
    with tidemill.open(":memory:", runtime="native", backend="python") as found:
        yield found


def test_objects_of_several_classes_are_referred_to_by_an_interface(wh: tidemill.Warehouse) -> None:
    db = tidemill.objects(wh, SHOP)
    nail = db.create("item", name="nail", price=0.1, code=1, size={"width": 1.0, "height": 2.0})
    advice = db.create("service", name="advice", price=60.0, sizes=[(3.0, None), (1.0, 1.0), (3.0, None)])
    offer = db.create("offer", of=[advice, nail], best=nail)
    assert wh.table("priced").rows() == [(nail, 0.1), (advice, 60.0)]
    assert db.get(nail) == {
        "oid": nail, "name": "nail", "price": 0.1, "code": 1, "size": {"width": 1.0, "height": 2.0},
    }  # fmt: skip
    assert db.get(advice)["sizes"] == [
        {"width": 1.0, "height": 1.0}, {"width": 3.0, "height": None}, {"width": 3.0, "height": None},
    ]  # fmt: skip
    view = db.define("define dear() as select struct(o: o, p: p, price: p.price) from o in Offers, p in o.of")
    wide = db.define("""define wide() as select struct(w: i.size.width,
                        n: count(select s from s in Services, z in s.sizes where z.height = nil)) from i in Items""")
    assert sorted(view.rows()) == [(offer, nail, 0.1), (offer, advice, 60.0)]
    assert wide.rows() == [(1.0, 2)]
    db.modify(advice, price=50.0, sizes=[])
    db.modify(nail, size=None)
    assert sorted(view.rows()) == [(offer, nail, 0.1), (offer, advice, 50.0)]
    assert wide.rows() == [(None, 0)]
    assert "onModifyAttribute item.size 1" in [str(event) for event in db.events]
    with pytest.raises(DanglingReference, match="cannot be deleted"):
        db.delete(nail)
    db.delete(nail, clear=True)
    assert db.get(offer) == {"oid": offer, "of": [advice], "best": None}
    assert view.verify().ok


def test_casts_lead_from_an_interface_to_classes(wh: tidemill.Warehouse) -> None:
    db = tidemill.objects(wh, SHOP)
    nail = db.create("item", name="nail", price=0.1, code=1)
    advice = db.create("service", name="advice", price=60.0)
    db.create("offer", best=nail)
    db.create("offer", best=advice)
    view = db.define(
        "define codes() as select struct(c: ((Shop::item) o.best).code, s: (service) o.best = nil) from o in Offers"
    )
    assert sorted(view.rows(), key=str) == [(1, True), (None, False)]
    db.modify(nail, code=7)
    assert sorted(view.rows(), key=str) == [(7, True), (None, False)]
    assert db.query("select i.code from i in Items where i.code > Most").rows() == [(7,)]
    assert db.query("select i.code from i in Items where i = $1", [nail]).rows() == [(7,)]
    assert db.query("select (item) ? from i in Items", [nail]).rows() == [(nail,)]
    assert db.query("select i.code from i in Items where i.code in :codes", codes=[7, 8]).rows() == [(7,)]
    assert wh.sql("OQL select i.code from i in Items where i.code = :code", code=7).rows() == [(7,)]
    with pytest.raises(TypeMismatch, match="is never"):
        db.query("select (item) o from o in Offers")
    with pytest.raises(TidemillError, match='the text has no parameter ":other"'):
        db.query("select i.code from i in Items", other=1)
    with pytest.raises(TidemillError, match='parameter ":code" has no value'):
        wh.sql("OQL select i.code from i in Items where i.code = :code")
    with pytest.raises(Unsupported, match="cannot hold the parameter"):
        wh.sql("DEFINE v AS select i.code from i in Items where i.code = :code", code=1)


def test_an_interface_has_no_objects_of_its_own(wh: tidemill.Warehouse) -> None:
    db = tidemill.objects(wh, SHOP)
    for refused in (
        lambda: db.create("priced", price=1.0),
        lambda: db.load("priced", {"price": 1.0}),
    ):
        with pytest.raises(Unsupported, match='"priced" is an interface') as raised:
            refused()
        assert "item, service" in str(raised.value)
    with pytest.raises(BadValue):
        db.create("item", size={"width": "wide"})
    db.load("Items", {"code": 5, "size": {"width": 1.5, "height": 1}}, {"code": 6})
    assert db.get(db.find("shop::item", code=5))["size"] == {"width": 1.5, "height": 1.0}  # type: ignore[arg-type]


def test_another_module_comes_beside(tmp_path: Path) -> None:
    stock = """module Stock {
      class shelf : Shop::named (extent Shelves) { attribute list<Shop::item> items; attribute Shop::size size; };
    };"""
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        db = tidemill.objects(wh, SHOP)
        nail = db.create("item", name="nail", code=1)
        other = tidemill.objects(wh, stock)
        shelf = db.create("Stock::shelf", name="left", items=[nail, nail], size=(1.0, 2.0))
        assert other.schema.modules == db.schema.modules == ("shop", "stock")
        asked = "select struct(n: s.name, i: i.code, w: s.size.width) from s in Shelves, i in s.items"
        assert db.query(asked).rows() == [("left", 1, 1.0), ("left", 1, 1.0)]
        with pytest.raises(NameTaken, match='class "item" is declared twice'):
            tidemill.objects(wh, "module Third { class item {}; };")
        with pytest.raises(NameTaken, match="other classes were declared"):
            tidemill.objects(wh, stock.replace("Shelves", "Boards"))
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        db = tidemill.objects(wh)
        assert db.get(shelf)["items"] == [nail, nail]
        db.alter(db.text.replace("attribute Shop::size size", "attribute Shop::size size; attribute long id"))
        assert db.get(shelf)["id"] is None
