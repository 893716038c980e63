"""Objects as users hold them: what is refused and how it is said, events, restarts, views that follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

import tidemill
from tests.objects.model import Model
from tests.objects.test_random import Play
from tidemill.model.errors import BadValue, DataError, DuplicateKey, NameTaken, TidemillError, Unsupported
from tidemill.model.update_events import UpdateEvent
from tidemill.runtimes.spark.driver_runtime import DriverRuntime

HERE = Path(__file__).parent
OO7 = HERE / "oo7.odl"


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as opened:
        yield opened


@pytest.fixture
def db(wh: tidemill.Warehouse) -> tidemill.Objects:
    """A composite part with a document and three parts, and an assembly that uses it twice."""
    db = tidemill.objects(wh, OO7)
    with db.epoch():
        document = db.create("Document", id=1, title="one")
        parts = [db.create("AtomicPart", id=i) for i in range(3)]
        composite = db.create("CompositePart", id=1, type="t", parts=parts, rootPart=parts[0], documentation=document)
        db.create("BaseAssembly", id=1, asmType="Base", componentsPriv=[composite, composite])
        db.modify(parts[1], partOf=composite)
    return db


REFUSED: dict[str, tuple[Callable[[tidemill.Objects], object], str]] = {
    "dangling": (
        lambda db: db.create("compositePart", parts=[2, 99]),
        """\
there is no object 99 to refer to
  new compositepart.parts
detail: Attribute "parts" refers to objects of class "atomicpart".""",
    ),
    "class": (
        lambda db: db.modify(5, rootPart=1),
        """\
object 1 is of class "document"
  compositepart 5.rootpart
detail: Attribute "rootpart" refers to objects of class "atomicpart".""",
    ),
    "enum": (
        lambda db: db.modify(6, asmType="base"),
        """\
"base" is no value of attribute "asmtype"
  baseassembly 6.asmtype
hint: Use one of Complex, Base.""",
    ),
    "type": (
        lambda db: db.modify(5, buildDate="today"),
        """\
'today' is not a value of type BIGINT
  compositepart 5.builddate""",
    ),
    "key": (
        lambda db: db.create("document", id=2, title="one"),
        """\
two objects of class "document" would have the key title = 'one'
  document 1 and document 7
hint: Give one of them another key.""",
    ),
    "referred to": (
        lambda db: db.delete(2),
        """\
atomicpart 2 cannot be deleted: it is referred to
  atomicpart 2
detail: There refer compositepart 5 by parts, compositepart 5 by rootpart.
hint: Let these attributes refer to something else first, or use delete(oid, clear=True).""",
    ),
    "gone": (lambda db: db.get(99), "there is no object 99"),
    "attribute": (
        lambda db: db.modify(1, pages=3),
        """\
class "document" has no attribute "pages"
  document 1
hint: Attributes: title, id, text, part.""",
    ),
    "no objects": (
        lambda db: db.create("designObj"),
        """\
class "designobj" has no objects of its own
detail: It has no extent, and no attribute refers to it.
hint: Create an object of a class that extends it, or give it an extent.""",
    ),
    "no collection": (
        lambda db: db.insert(5, "rootPart", 2),
        """\
attribute "rootpart" of class "compositepart" is no collection
  compositepart 5
hint: Use modify(oid, rootpart=...).""",
    ),
    "behind their back": (
        lambda db: db._engine.apply({"documents": db.extent("Documents")._read()}),
        """\
table "documents" holds objects
detail: It belongs to module "oo7db", which keeps references and inverses right.
hint: Change them by tidemill.objects(wh): create, modify, insert, remove, delete, load or bulk.""",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(wh: tidemill.Warehouse, db: tidemill.Objects, case: str) -> None:
    operation, said = REFUSED[case]
    before = {name: wh.table(name).rows() for name in wh.tables()}

    def epoch() -> None:
        with db.epoch():
            db.modify(5, type="never seen")
            operation(db)

    with pytest.raises(TidemillError) as refused:
        epoch()
    assert str(refused.value) == said
    assert {name: wh.table(name).rows() for name in wh.tables()} == before


def test_events_say_what_happened_in_the_end(db: tidemill.Objects) -> None:
    with db.epoch():
        db.modify(1, part=None)
        db.modify(2, type="new")
        db.remove(6, "componentsPriv", 5)
        db.modify(3, x=1)
        db.modify(3, x=None)
        db.delete(db.create("manual"))
    assert sorted(map(str, db.events)) == [
        "onDeleteElementFromCollection baseassembly.componentspriv 6 5",
        "onDeleteElementFromCollection compositepart.usedinpriv 5 6 (implicit)",
        "onModifyAttribute atomicpart.type 2",
        "onModifyAttribute compositepart.documentation 5 (implicit)",
        "onModifyAttribute document.part 1",
        "onModifyAttributeInCollectionElement baseassembly.componentspriv(compositepart.documentation) 6 5 (implicit)",
        "onModifyAttributeInCollectionElement compositepart.parts(atomicpart.type) 5 2 (implicit)",
    ]
    db.delete(5, clear=True)
    assert sorted(map(str, db.events)) == [
        "onDeleteElementFromCollection baseassembly.componentspriv 6 5 (implicit)",
        "onDeleteFromExtent compositeparts 5",
        "onModifyAttribute atomicpart.partof 3 (implicit)",
    ]


def test_the_order_within_an_epoch_is_no_matter(db: tidemill.Objects) -> None:
    other = db.create("compositePart", id=2)
    with db.epoch():
        db.modify(5, id=2)
        db.modify(other, id=1)
        db.delete(2)
        db.modify(5, parts=[], rootPart=None)
        assert (db.find("compositePart", id=1), db.find("atomicPart", id=0)) == (other, None)
    assert (db.find("compositePart", id=1), db.find("compositePart", id=2)) == (other, 5)


def test_one_epoch_at_a_time(wh: tidemill.Warehouse, db: tidemill.Objects) -> None:
    with db.epoch():
        for beside in (
            lambda: tidemill.objects(wh).create("manual"),
            lambda: db.bulk({"manuals": pa.table({"id": [1]})}),
        ):
            with pytest.raises(Unsupported, match="under way"):
                beside()
        with db.epoch():  # is the same one
            db.create("manual")
    assert len(db.extent("Manuals")) == 1


def test_lists_have_places(wh: tidemill.Warehouse) -> None:
    db = tidemill.objects(wh, HERE / "odd.odl")
    box = db.create("box", lids=[(red := db.create("lid")), (green := db.create("lid"))])
    for lid, at in (((blue := db.create("lid")), 1), (red, 0)):  # the second is there already
        db.insert(box, "lids", lid, at=at)
    assert db.get(box)["lids"] == [red, blue, green]
    db.modify(box, lids=[green, red])
    assert db.get(box)["lids"] == [green, red] and db.get(blue)["of"] is None
    thing = db.create("thing", sizes=[1.5, 0.5])
    db.insert(thing, "sizes", 2.5, at=1)
    assert db.get(thing)["sizes"] == [1.5, 2.5, 0.5]
    with pytest.raises(Unsupported, match="have no places"):
        db.insert(thing, "tags", "a", at=0)


def test_a_warehouse_remembers_its_objects(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        db = tidemill.objects(wh, OO7)
        first = db.create("document", id=1, title="one")
        db.create("compositePart", id=1, documentation=first)
        db.define("define shown() as select struct(id: c.id, title: c.documentation.title) from c in CompositeParts")
        db.delete(db.create("manual"))
    with tidemill.open(tmp_path, runtime="native") as wh:
        db = tidemill.objects(wh)
        with pytest.raises(DuplicateKey):
            db.create("document", id=1)
        assert db.create("document", id=2) == 4, "identities are not given twice"
        assert db.get(first)["part"] == 2
        db.modify(first, title="other")
        assert wh.view("shown").rows() == [(1, "other")]
        assert tidemill.objects(wh, OO7.read_text()).schema == db.schema
        with pytest.raises(NameTaken, match="other classes were declared"):
            tidemill.objects(wh, "module oo7db { class a (extent As) {}; }")
        with pytest.raises(Unsupported, match="cannot be dropped"):
            wh.sql("DROP TABLE manuals")


def test_what_compensates_is_never_published(wh: tidemill.Warehouse, db: tidemill.Objects) -> None:
    for strategy in ("lineage", "delta"):
        wh.sql(f"""DEFINE late_{strategy}() WITH (refresh = 'deferred', strategy = '{strategy}') AS
            select struct(id: c.id, parts: (select a.id from a in c.parts)) from c in CompositeParts""")
    wh.sql("DEFINE prompt() AS select a.id from c in CompositeParts, a in c.parts")
    since = wh.epoch
    db.remove(5, "parts", 2)
    db.insert(5, "parts", 2)
    with db.epoch():
        db.delete(db.create("compositePart", id=9, parts=[2]))
    assert [len(batch.net) for batch in wh.view("prompt").batches(since)] == [1, 1]
    for strategy in ("lineage", "delta"):
        view = wh.view(f"late_{strategy}")
        assert view.refresh() > since and view.changes(since) == []
        assert view.verify()


@pytest.mark.parametrize("module", ["oo7", "odd"])
def test_bulk_is_what_one_by_one_is(wh: tidemill.Warehouse, module: str) -> None:
    """Objects that random operations have left, taken elsewhere: one end of each relationship is enough."""
    play = Play(tidemill.objects(wh, HERE / f"{module}.odl"), seed=7)
    for _ in range(80):
        play.epoch()
    schema, model = play.db.schema, play.model
    for keep in (min, max):
        with tidemill.open(":memory:", runtime="native", backend="python") as other:
            db = tidemill.objects(other, HERE / f"{module}.odl")
            epoch = db.bulk({cls: _columns(model, cls, keep) for cls in model.stored})
            assert epoch == 1 and {e.event for e in db.events} == {UpdateEvent.INSERT}
            copy = Play(db, seed=8)
            copy.model = model.copy()
            copy.check(other)
            for _ in range(5):
                copy.epoch()
            copy.check(other)
            assert schema == db.schema


def _columns(model: Model, cls: str, keep: Callable[[str, str], str]) -> pa.Table:
    oids = [oid for oid, (of, _) in model.objects.items() if of == cls]
    columns = {"oid": pa.array(oids, pa.int64())}
    for name, attribute in model.schema.attributes(cls).items():
        if attribute.inverse is not None:
            here = f"{model.schema.declares(cls, name)}.{name}"
            there = f"{model.schema.declares(attribute.target, attribute.inverse)}.{attribute.inverse}"
            if keep(here, there) != here:
                continue
        values = [model.value(oid, name) for oid in oids]
        columns[name] = pa.array(values, pa.list_(pa.int64()) if attribute.target and attribute.collection else None)
    return pa.table(columns)


def test_bulk_beside_what_is_there(db: tidemill.Objects) -> None:
    db.bulk({"Documents": pa.table({"id": [2, 3], "title": ["two", "three"], "part": [5, None]})})
    assert db.get(5)["documentation"] == 7 and db.get(1)["part"] is None
    assert [str(e) for e in db.events if e.event is UpdateEvent.MODIFY] == [
        "onModifyAttribute compositepart.documentation 5 (implicit)",
        "onModifyAttribute document.part 1 (implicit)",
    ]
    wrong = {
        "there is no object 99": {"atomicparts": pa.table({"partof": [99]})},
        "the key id = 3": {"documents": pa.table({"id": [3]})},
        "the key id = 4": {"documents": pa.table({"id": [4, 4]})},
        "identity 5": {"documents": pa.table({"oid": [5]})},
        "one .man. only": {"manuals": pa.table({"mod": [20, 20]}), "modules": pa.table({"oid": [20]})},
        "is no value of attribute": {"baseassemblies": pa.table({"asmtype": ["Other"]})},
        "do not say the same": {
            "manuals": pa.table({"oid": [21], "mod": [20]}),
            "modules": pa.table({"oid": [20], "man": pa.array([None], pa.int64())}),
        },
    }
    epoch = db._engine.store.epoch
    for reason, given in wrong.items():
        with pytest.raises(DataError, match=reason):
            db.bulk(given)
    assert db._engine.store.epoch == epoch


NESTED = [
    {"id": 10, "documentation": {"id": 10, "title": "ten"}, "parts": [{"id": 100, "x": 1}, 0], "rootPart": 100},
    {"id": 11, "documentation": "one", "parts": [100, {"oid": 3}], "usedInShar": [{"id": 1}, 1]},
]


@pytest.mark.parametrize("form", ["dicts", "json", "parquet"])
def test_nested_records(db: tidemill.Objects, tmp_path: Path, form: str) -> None:
    records = NESTED
    if form == "parquet":  # where all of a column has one type
        records = [{"id": 10, "documentation": {"id": 10, "title": "ten"}, "parts": [{"id": 100, "x": 1}]}]
        pq.write_table(pa.Table.from_pylist(records), tmp_path / "parts.parquet")
    elif form == "json":
        (tmp_path / "parts.jsonl").write_text("\n".join(map(json.dumps, records)))
    told: list[tuple[int, int]] = []
    given = records if form == "dicts" else tmp_path
    db.load("CompositeParts", given, progress=lambda done, total: told.append((done, total)))
    ten = db.get(db.find("compositePart", id=10))
    part = db.find("atomicPart", id=100)
    assert db.get(ten["documentation"]) == {
        "oid": ten["documentation"], "id": 10, "title": "ten", "text": None, "part": ten["oid"]
    }  # fmt: skip
    assert db.get(part)["x"] == 1 and part in ten["parts"]
    if form != "parquet":
        eleven = db.get(db.find("compositePart", id=11))
        assert eleven["documentation"] == 1 and sorted(eleven["parts"]) == sorted([part, 3])
        assert eleven["usedinshar"] == [6, 6] and db.get(6)["componentsshar"] == [eleven["oid"]] * 2
        assert ten["parts"] == sorted([2, part]) and ten["rootpart"] == part
    assert form == "dicts" or told[-1][0] == told[-1][1] > 0
    with pytest.raises(DataError, match="no object of class") as refused:
        db.load("CompositeParts", {"id": 12, "documentation": 404})
    assert refused.value.where == "record 1.documentation"
    with pytest.raises(BadValue, match="no key of class"):
        db.load("AtomicParts", {"id": 12, "to": [4]})


def test_structs_of_spark(wh: tidemill.Warehouse) -> None:
    line = StructType([StructField("item", StringType()), StructField("pieces", LongType())])
    order = StructType([StructField("id", LongType()), StructField("lines", ArrayType(line))])
    db = tidemill.objects(wh, tidemill.odl_from("shop", {"order": order}, {"order": ["id"]}))
    assert db.struct("Orders").simpleString() == "struct<oid:bigint,id:bigint,lines:array<bigint>>"
    nested = "struct<oid:bigint,id:bigint,lines:array<struct<oid:bigint,item:string,pieces:bigint>>>"
    assert db.struct("order", nested=True).simpleString() == nested
    db.load("Orders", {"id": 1, "lines": [{"item": "nut", "pieces": 3}, {"item": "nut", "pieces": 3}]})
    assert db.query("select struct(id: o.id, n: sum(select l.pieces from l in o.lines)) from o in Orders") == [(1, 6)]


@pytest.mark.spark
def test_on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read by Spark, and what is asked about single objects of large tables is found by it."""
    monkeypatch.setattr(DriverRuntime.__init__, "__defaults__", (0,))
    (tmp_path / "parts.json").write_text(
        '{"id": 1, "documentation": {"id": 5, "title": "five"}, "parts": [{"id": 7}, {"id": 8, "x": 3}]}\n'
        '{"id": 2, "parts": [{"id": 7}]}\n'
    )
    with tidemill.open(tmp_path / "warehouse", runtime="spark", spark=spark) as wh:
        db = tidemill.objects(wh, OO7)
        db.load("CompositeParts", tmp_path / "parts.json")
        view = db.define("""define v() as
            select struct(id: c.id, xs: (select a.x from a in c.parts)) from c in CompositeParts""")
        seven, eight = (db.find("atomicPart", id=number) for number in (7, 8))
        with db.epoch():
            db.modify(seven, x=1)
            db.delete(eight, clear=True)
        assert sorted(view.rows()) == [(1, [1]), (2, [1])]
        with pytest.raises(DataError, match="referred to"):
            db.delete(seven)
