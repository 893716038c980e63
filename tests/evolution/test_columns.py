"""ALTER TABLE: columns come, go, and get other names and types; stored rows are read as the table is now."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import DataError, NameTaken, TidemillError, TypeMismatch, UnknownName, Unsupported
from tidemill.storage.folder_writer import map_id

Row = tuple[Any, ...]


@pytest.fixture(params=["memory", "disk", "compiled"])
def wh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    path = ":memory:" if request.param == "memory" else tmp_path / "w"
    backend = "llvm" if request.param == "compiled" else "python"
    with tidemill.open(path, runtime="native", backend=backend) as opened:
        opened.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, b STRING, a INT)")
        opened.sql("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)")
        opened.sql("CREATE MATERIALIZED VIEW sums AS SELECT b, SUM(a) AS s FROM t GROUP BY b")
        opened.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM t")
        opened.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM every")
        yield opened


def rows(wh: tidemill.Warehouse, name: str = "t") -> list[Row]:
    return sorted(wh.sql(f"SELECT * FROM {name}").rows(), key=str)


def is_right(wh: tidemill.Warehouse) -> None:
    assert all(one.ok for one in wh.verify())


def test_a_column_is_added_with_a_default(wh: tidemill.Warehouse) -> None:
    maps = {name: wh._engine.catalog.view(name).fingerprint for name in wh.views()}
    told = wh.sql("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 3 + 4").message
    assert told == "altered table t; every keeps the columns that SELECT * had"
    assert rows(wh) == [(1, "x", 10, 7), (2, "y", 20, 7)]
    wh.sql("INSERT INTO t VALUES (3, 'x', 1, 5); INSERT INTO t (id, b) VALUES (4, 'z')")
    wh.sql("UPDATE t SET c = c + 1 WHERE id = 1; DELETE FROM t WHERE id = 2")
    assert rows(wh) == [(1, "x", 10, 8), (3, "x", 1, 5), (4, "z", None, 7)]
    assert rows(wh, "every") == [(1, "x", 10), (3, "x", 1), (4, "z", None)]
    assert rows(wh, "sums") == [("x", 11), ("z", None)]
    assert {name: wh._engine.catalog.view(name).fingerprint for name in wh.views()} == maps
    with pytest.raises(DataError):
        wh.sql("INSERT INTO t VALUES (5, 'x', 1, NULL)")
    is_right(wh)


def test_columns_of_every_type_have_their_default(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "ALTER TABLE t ADD COLUMNS (d DECIMAL(10,2) DEFAULT 1.5, f DOUBLE DEFAULT -0.0, s VARCHAR(3) DEFAULT 'ab', "
        "dt DATE DEFAULT DATE '2026-01-02', ts TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '2026-01-02 03:04:05', "
        "l ARRAY<INT> DEFAULT array(1, 2), m STRUCT<p: INT, q: STRING> DEFAULT named_struct('p', 1, 'q', 'z'), "
        "bin BINARY, flag BOOLEAN DEFAULT true)"
    )
    (row,) = wh.sql("SELECT d, s, dt, ts, l, bin, flag, m.q FROM t WHERE id = 1").rows()
    assert row[:4] == (Decimal("1.50"), "ab", dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5))
    assert (list(row[4]), *row[5:]) == ([1, 2], None, True, "z")
    wh.compact()
    assert wh.sql("SELECT COUNT(*), SUM(d) FROM t WHERE flag").rows() == [(2, Decimal("3.00"))]
    is_right(wh)


def test_a_dropped_column_comes_back_empty(wh: tidemill.Warehouse) -> None:
    wh.sql("DROP VIEW every CASCADE; ALTER TABLE t ADD COLUMN c INT DEFAULT 1")
    wh.sql("INSERT INTO t VALUES (3, 'x', 1, 5)")
    wh.sql("ALTER TABLE t DROP COLUMN c; ALTER TABLE t ADD COLUMN c STRING")
    assert rows(wh) == [(1, "x", 10, None), (2, "y", 20, None), (3, "x", 1, None)]
    wh.sql("DELETE FROM t WHERE c IS NULL AND id < 3")
    assert rows(wh) == [(3, "x", 1, None)]
    is_right(wh)


def test_a_column_that_views_read_is_not_dropped_without_them(wh: tidemill.Warehouse) -> None:
    with pytest.raises(Unsupported) as error:
        wh.sql("ALTER TABLE t DROP COLUMN a")
    assert error.value.detail == "It is read by sums, every."
    assert "CASCADE" in (error.value.hint or "")
    assert sorted(wh.views()) == ["every", "n", "sums"]
    assert wh.sql("ALTER TABLE t DROP COLUMN a CASCADE").message == "altered table t; dropped sums, every, n"
    assert (rows(wh), list(wh.views())) == ([(1, "x"), (2, "y")], [])


def test_a_view_that_does_not_read_a_column_stays(wh: tidemill.Warehouse) -> None:
    wh.sql("DROP VIEW every CASCADE; CREATE MATERIALIZED VIEW ids AS SELECT MAX(id) AS m FROM (SELECT * FROM t)")
    wh.sql("DROP VIEW sums; ALTER TABLE t DROP COLUMNS (a, b)")
    wh.sql("INSERT INTO t VALUES (9)")
    assert (rows(wh), rows(wh, "ids")) == ([(1,), (2,), (9,)], [(9,)])
    with pytest.raises(Unsupported, match="primary key|cannot be dropped"):
        wh.sql("ALTER TABLE t DROP COLUMN id")


def test_a_renamed_column_has_its_old_name_in_views(wh: tidemill.Warehouse) -> None:
    assert wh.sql("ALTER TABLE t RENAME COLUMN b TO label").message == "altered table t"
    wh.sql("INSERT INTO t VALUES (3, 'x', 5); UPDATE t SET label = 'q' WHERE id = 2")
    assert rows(wh, "sums") == [("q", 20), ("x", 15)]
    assert [f.name for f in wh.view("every").fields] == ["id", "b", "a"]
    assert wh.sql("SELECT label FROM t WHERE label = 'q'").rows() == [("q",)]
    wh.sql("ALTER TABLE t ADD COLUMN b INT DEFAULT 0")
    assert rows(wh, "every") == [(1, "x", 10), (2, "q", 20), (3, "x", 5)]
    is_right(wh)


def test_handles_see_the_columns_of_today(wh: tidemill.Warehouse) -> None:
    table, view = wh.table("t"), wh.view("every")
    wh.sql("ALTER TABLE t ADD COLUMN l ARRAY<INT> DEFAULT array(1); ALTER TABLE t ALTER COLUMN a TYPE BIGINT")
    assert sorted(table.rows()) == [(1, "x", 10, [1]), (2, "y", 20, [1])]
    assert (table.columns, table.arrow().num_columns) == (("id", "b", "a", "l"), 4)
    assert (sorted(view.rows()), str(view.fields[2].type)) == ([(1, "x", 10), (2, "y", 20)], "BIGINT")
    assert len(table.definition.fields) == 4


def test_a_swap_of_names(wh: tidemill.Warehouse) -> None:
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        wh.sql(f"ALTER TABLE t RENAME COLUMN {old} TO {new}")
    wh.sql("INSERT INTO t (id, b, a) VALUES (3, 30, 'z')")
    assert wh.sql("SELECT a, b FROM t WHERE id > 1 ORDER BY id").rows() == [("y", 20), ("z", 30)]
    assert rows(wh, "sums") == [("x", 10), ("y", 20), ("z", 30)]
    is_right(wh)


def test_wider_types_rebuild_the_views_that_read_them(wh: tidemill.Warehouse) -> None:
    heard = wh.subscribe("sums", timeout=0)
    assert wh.sql("ALTER TABLE t ALTER COLUMN a TYPE BIGINT").message == "altered table t; rebuilt sums, every"
    wh.sql("UPDATE t SET a = a + 3000000000 WHERE id = 1")
    assert rows(wh, "sums") == [("x", 3000000010), ("y", 20)]
    assert str(wh.view("every").fields[2].type) == "BIGINT"
    net = Counter(dict.fromkeys([("x", 10), ("y", 20)], 1))
    for batch in heard:
        for weight, row in batch.changes:
            net[row] += weight
    assert +net == Counter(dict.fromkeys(wh.view("sums").rows(), 1))
    is_right(wh)


WIDER = [
    ("TINYINT", "SMALLINT", "7"),
    ("SMALLINT", "BIGINT", "7"),
    ("FLOAT", "DOUBLE", "0.1"),
    ("DECIMAL(5,2)", "DECIMAL(9,4)", "1.25"),
    ("DATE", "TIMESTAMP_NTZ", "DATE '2026-01-02'"),
    ("VARCHAR(3)", "STRING", "'abc'"),
    ("VARCHAR(3)", "VARCHAR(9)", "'abc'"),
]


@pytest.mark.parametrize(("old", "new", "value"), WIDER)
def test_what_is_wider_holds_the_same(old: str, new: str, value: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(f"CREATE TABLE t (a {old}); INSERT INTO t VALUES (CAST({value} AS {old}))")
        wh.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a; ALTER TABLE t ALTER a TYPE {new}"
        )
        wh.sql(f"INSERT INTO t VALUES (CAST(CAST({value} AS {old}) AS {new}))")
        same = wh.sql(f"SELECT a = CAST(CAST({value} AS {old}) AS {new}) FROM t").rows()
        assert (same, len(rows(wh, "v")), rows(wh, "v")[0][1]) == ([(True,), (True,)], 1, 2)
        is_right(wh)


NARROWER = [
    ("BIGINT", "INT"),
    ("DOUBLE", "FLOAT"),
    ("INT", "STRING"),
    ("DECIMAL(9,4)", "DECIMAL(9,5)"),
    ("INT", "DOUBLE"),
]


@pytest.mark.parametrize(("old", "new"), [*NARROWER, ("VARCHAR(9)", "VARCHAR(3)"), ("CHAR(3)", "STRING")])
def test_what_is_not_wider_is_refused(old: str, new: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(f"CREATE TABLE t (a {old})")
        with pytest.raises(TypeMismatch):
            wh.sql(f"ALTER TABLE t ALTER COLUMN a TYPE {new}")


def test_not_null_needs_rows_that_are_not(wh: tidemill.Warehouse) -> None:
    wh.sql("INSERT INTO t VALUES (3, NULL, 1)")
    with pytest.raises(DataError, match='"b" of "t" cannot be NOT NULL') as error:
        wh.sql("ALTER TABLE t ALTER COLUMN b SET NOT NULL")
    assert error.value.detail == "It is NULL in 1 of its rows."
    before = wh.epoch
    wh.sql("UPDATE t SET b = 'z' WHERE b IS NULL; ALTER TABLE t ALTER COLUMN b SET NOT NULL")
    with pytest.raises(DataError):
        wh.sql("INSERT INTO t VALUES (4, NULL, 1)")
    assert (3, None, 1) in wh.at(before).table("t").rows()
    is_right(wh)
    wh.sql("ALTER TABLE t ALTER COLUMN b DROP NOT NULL; INSERT INTO t VALUES (4, NULL, 1)")
    assert rows(wh, "sums") == [("x", 10), ("y", 20), ("z", 1), (None, 1)]
    is_right(wh)


def test_defaults_are_for_rows_to_come(wh: tidemill.Warehouse) -> None:
    wh.sql("ALTER TABLE t ALTER COLUMN a SET DEFAULT 5; INSERT INTO t (id) VALUES (3)")
    wh.sql("ALTER TABLE t ALTER COLUMN a DROP DEFAULT; INSERT INTO t (id) VALUES (4)")
    assert rows(wh)[2:] == [(3, None, 5), (4, None, None)]


def test_earlier_epochs_have_the_columns_of_today(wh: tidemill.Warehouse) -> None:
    first = wh.epoch
    wh.sql(
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 7; DELETE FROM t WHERE id = 1; ALTER TABLE t RENAME COLUMN a TO amount"
    )
    assert sorted(wh.at(first).table("t").rows()) == [(1, "x", 10, 7), (2, "y", 20, 7)]
    assert sorted(wh.sql(f"SELECT amount, c FROM t VERSION AS OF {first}").rows()) == [(10, 7), (20, 7)]
    assert sorted(wh.at(first).view("every").rows()) == [(1, "x", 10), (2, "y", 20)]


REFUSED: list[tuple[str, type[TidemillError]]] = [
    ("ALTER TABLE t ADD COLUMN a INT", NameTaken),
    ("ALTER TABLE t ADD COLUMN c INT NOT NULL", DataError),
    ("ALTER TABLE t ADD COLUMN c INT DEFAULT 'x'", TidemillError),
    ("ALTER TABLE t ADD COLUMN c INT PRIMARY KEY", Unsupported),
    ("ALTER TABLE t ADD COLUMN _weight INT", NameTaken),
    ("ALTER TABLE t ADD COLUMN c VARCHAR(2) DEFAULT 'abc'", TidemillError),
    ("ALTER TABLE t DROP COLUMN nothing", UnknownName),
    ("ALTER TABLE t RENAME COLUMN a TO b", NameTaken),
    ("ALTER TABLE t RENAME COLUMN a TO _epoch", NameTaken),
    ("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", Unsupported),
    ("ALTER TABLE t RENAME TO every", NameTaken),
    ("ALTER TABLE every ADD COLUMN c INT", UnknownName),
    ("ALTER VIEW t RENAME TO u", UnknownName),
    ("ALTER TABLE nothing ADD COLUMN c INT", UnknownName),
]


@pytest.mark.parametrize(("statement", "error"), REFUSED)
def test_refused(wh: tidemill.Warehouse, statement: str, error: type[TidemillError]) -> None:
    before = wh.sql("SHOW CREATE TABLE t").rows(), rows(wh)
    with pytest.raises(error):
        wh.sql(statement)
    assert (wh.sql("SHOW CREATE TABLE t").rows(), rows(wh)) == before
    wh.sql("INSERT INTO t VALUES (3, 'x', 1)")
    is_right(wh)


def test_keys_checks_and_partitions_hold_their_columns() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE p (id INT PRIMARY KEY, n INT, CHECK (n > 0))")
        wh.sql("CREATE TABLE c (k INT REFERENCES p(id), ts TIMESTAMP) PARTITION BY ts EVERY 1 HOUR")
        for statement in (
            "ALTER TABLE p DROP COLUMN n",
            "ALTER TABLE p ALTER COLUMN id TYPE BIGINT",
            "ALTER TABLE c DROP COLUMN k",
            "ALTER TABLE c DROP COLUMN ts",
            "ALTER TABLE c ALTER COLUMN k TYPE BIGINT",
        ):
            with pytest.raises(Unsupported):
                wh.sql(statement)
        wh.sql("INSERT INTO p VALUES (1, 1); ALTER TABLE p RENAME COLUMN id TO key")
        wh.sql("ALTER TABLE c RENAME COLUMN k TO parent")
        wh.sql("INSERT INTO c VALUES (1, TIMESTAMP '2026-01-01 10:00:00'); ALTER TABLE c RENAME COLUMN ts TO happened")
        with pytest.raises(DataError):
            wh.sql("INSERT INTO c VALUES (2, TIMESTAMP '2026-01-01 10:00:00')")
        assert [row[3] for row in wh.sql("SHOW PARTITIONS c").rows()] == [1]


def test_names_for_queries_that_a_change_would_break() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, b INT); CREATE VIEW plain (x, y) AS SELECT * FROM t")
        wh.sql("CREATE VIEW some AS SELECT a FROM t; CREATE MATERIALIZED VIEW kept AS SELECT * FROM some")
        with pytest.raises(Unsupported, match="cannot be changed so"):
            wh.sql("ALTER TABLE t ADD COLUMN c INT")
        wh.sql("DROP VIEW plain")
        with pytest.raises(Unsupported, match="cannot be changed so"):
            wh.sql("ALTER TABLE t RENAME COLUMN a TO c")
        wh.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 4; ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (1, 2)")
        assert (rows(wh), rows(wh, "some"), rows(wh, "kept")) == ([(1, 2)], [(1,)], [(1,)])


def test_a_name_that_would_be_ambiguous() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, x INT); CREATE TABLE u (a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT x FROM t JOIN u ON t.a = u.a")
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM t NATURAL JOIN u")
        wh.sql("ALTER TABLE u ADD COLUMN x INT DEFAULT 9; INSERT INTO t VALUES (1, 2); INSERT INTO u VALUES (1, 3)")
        assert (rows(wh, "v"), rows(wh, "w")) == ([(2,)], [(1, 2)])
        is_right(wh)


def test_deferred_views_and_streams() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE STREAM s (a INT); CREATE TABLE t (a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM s")
        wh.sql("CREATE MATERIALIZED VIEW w WITH (refresh = 'deferred') AS SELECT * FROM t")
        wh.sql("INSERT INTO s VALUES (1); INSERT INTO t VALUES (1)")
        wh.sql(
            "ALTER TABLE t ADD COLUMN b INT DEFAULT 2; ALTER TABLE t RENAME COLUMN a TO z; INSERT INTO t VALUES (5, 6)"
        )
        wh.sql("ALTER TABLE s ADD COLUMN b INT; INSERT INTO s VALUES (2, 3)")
        assert rows(wh, "v") == [(3,)]
        with pytest.raises(Unsupported, match="cannot be altered"):
            wh.sql("ALTER TABLE s ALTER COLUMN a TYPE BIGINT")
        wh.sql("REFRESH VIEW w")
        assert rows(wh, "w") == [(1,), (5,)]
        assert wh.view("w").verify().ok


# -- many changes, one after the other -----------------------------------------------------------------------------

VALUES: dict[str, Callable[[random.Random], Any]] = {
    "TINYINT": lambda draw: draw.randint(-100, 100),
    "SMALLINT": lambda draw: draw.randint(-100, 100),
    "INT": lambda draw: draw.randint(-3, 3),
    "BIGINT": lambda draw: draw.randint(-3, 3),
    "STRING": lambda draw: draw.choice("abc"),
    "FLOAT": lambda draw: draw.choice([0.5, 1.5]),
    "DOUBLE": lambda draw: draw.choice([0.5, 1.5]),
}
NEXT = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT", "FLOAT": "DOUBLE"}
VIEWS = (
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k",
    "SELECT * FROM t",
    "SELECT x.id, y.v FROM t x JOIN t y ON x.k = y.k AND x.id < y.id",
    "SELECT DISTINCT k FROM t WHERE v > 0",
)


class Model:
    """The table as it should be: its columns, and its rows at every epoch, which later changes of columns change."""

    def __init__(self, wh: tidemill.Warehouse, draw: random.Random) -> None:
        self.wh, self.draw = wh, draw
        self.columns = {"id": "BIGINT", "k": "STRING", "v": "INT"}
        self.history: dict[int, list[dict[str, Any]]] = {wh.epoch: []}
        self.next = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.history[max(self.history)]

    def value(self, kind: str) -> Any:
        return None if self.draw.random() < 0.2 else VALUES[kind](self.draw)

    def change(self) -> None:
        """An epoch: rows come, change and go."""
        gone = [row for row in self.rows if self.draw.random() < 0.2]
        self.next += 1
        new = [
            {name: self.value(kind) for name, kind in self.columns.items()} | {"id": self.next * 10 + i} for i in (1, 2)
        ]
        new += (
            [row | {"k": self.value("STRING")} for row in gone if self.draw.random() < 0.5]
            if "k" in self.columns
            else []
        )
        pairs = [(-1, tuple(row.values())) for row in gone] + [(1, tuple(row.values())) for row in new]
        self.wh.apply({"t": pairs})
        self.history[self.wh.epoch] = [row for row in self.rows if row not in gone] + new

    def alter(self) -> None:
        """Another set of columns."""
        own = [name for name in self.columns if name != "id"]
        match self.draw.choice(("add", "drop", "rename", "type", "move")):
            case "add":
                self.next += 1
                name, kind = f"c{self.next}", self.draw.choice(sorted(VALUES))
                value = self.value(kind)
                text, place = "NULL" if value is None else repr(value), self.place(name)
                self.wh.sql(f"ALTER TABLE t ADD COLUMN {name} {kind} DEFAULT CAST({text} AS {kind}) {place}")
                self.columns[name] = kind
                self.rewrite(lambda row: row | {name: value})
                self.move(name, place)
            case "move":
                name = self.draw.choice(own)
                place = self.place(name) or "FIRST"
                self.wh.sql(f"ALTER TABLE t ALTER COLUMN {name} {place}")
                self.move(name, place)
            case "drop":
                name = self.draw.choice(own)
                if not name.startswith("c"):
                    return
                self.wh.sql(f"ALTER TABLE t DROP COLUMN {name} CASCADE")
                del self.columns[name]
                self.rewrite(lambda row: {n: v for n, v in row.items() if n != name})
            case "rename":
                name, new = self.draw.choice(own), f"c{self.next}r{self.draw.randint(0, 99)}"
                if name in ("k", "v") or new in self.columns:
                    return
                self.wh.sql(f"ALTER TABLE t RENAME COLUMN {name} TO {new}")
                self.columns = {new if n == name else n: kind for n, kind in self.columns.items()}
                self.rewrite(lambda row: {new if n == name else n: v for n, v in row.items()})
            case "type":
                name = self.draw.choice(own)
                if self.columns[name] in NEXT:
                    self.columns[name] = NEXT[self.columns[name]]
                    self.wh.sql(f"ALTER TABLE t ALTER COLUMN {name} TYPE {self.columns[name]}")

    def place(self, column: str) -> str:
        """A place for a column, behind another one."""
        others = [name for name in self.columns if name != column]
        return self.draw.choice(("", "FIRST", f"AFTER {self.draw.choice(others)}"))

    def move(self, column: str, place: str) -> None:
        """A column in another place, also of earlier rows."""
        if place:
            names = [name for name in self.columns if name != column]
            names.insert(0 if place == "FIRST" else names.index(place.split()[1]) + 1, column)
            self.columns = {name: self.columns[name] for name in names}
            self.rewrite(lambda row: {name: row[name] for name in names})

    def rewrite(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.history = {epoch: list(map(change, rows)) for epoch, rows in self.history.items()}

    def check(self) -> None:
        assert Counter(self.wh.table("t").rows()) == Counter(tuple(row.values()) for row in self.rows)
        epoch = self.draw.choice([e for e in self.history if e >= self.wh._engine.store.oldest])
        then = Counter(tuple(row.values()) for row in self.history[epoch])
        assert Counter(self.wh.at(epoch).table("t").rows()) == then
        for row in self.rows[:2]:
            found = self.wh.sql(f"SELECT * FROM t WHERE id = {row['id']}").rows()
            assert found == [tuple(row.values())]


def run_files(path: Path | str) -> dict[str, tuple[int, int]]:
    """The run files of the table, with the times and sizes of each."""
    found = Path(path).glob(f"maps/{map_id('t', {})}/*.parquet") if path != ":memory:" else ()
    return {file.name: (file.stat().st_mtime_ns, file.stat().st_size) for file in found}


def evolve(path: Path | str, seed: int, turns: int) -> None:
    draw = random.Random(seed)
    wh = tidemill.open(path, runtime="native", backend="python")
    wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v INT)")
    model = Model(wh, draw)
    for number in range(turns):
        if number % 4 == 0:
            wh.sql(f"CREATE MATERIALIZED VIEW v{number} AS {VIEWS[number // 4 % len(VIEWS)]}")
        model.change()
        files = run_files(path)
        model.alter()
        assert files.items() <= run_files(path).items()  # no run is rewritten
        match draw.randint(0, 6):
            case 0:
                wh.compact()
            case 1:
                wh.vacuum(keep=5)
            case 2 if path != ":memory:":
                wh.close()
                model.wh = wh = tidemill.open(path, runtime="native", backend="python")
            case 3 if path != ":memory:":
                wh._engine.store.runs("t")  # as a runtime that reads files asks for them
        model.check()
        if number % 5 == 0:
            is_right(wh)
    is_right(wh)
    assert path == ":memory:" or run_files(path)
    wh.close()


@pytest.mark.parametrize("seed", range(2))
def test_any_changes_in_any_order(tmp_path: Path, seed: int) -> None:
    evolve(tmp_path / "w", seed, 12)
    evolve(":memory:", seed, 12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_changes(tmp_path: Path, seed: int) -> None:
    evolve(tmp_path / "w", seed, 40)


def test_a_published_view_keeps_its_columns(tmp_path: Path) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2)")
        options = f"publish = 'delta', location = '{tmp_path / 'lake'}', mode = 'snapshot'"
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT * FROM t")
        with pytest.raises(Unsupported, match="cannot be altered"):
            wh.sql("ALTER TABLE t ALTER COLUMN a TYPE BIGINT")
        wh.sql("ALTER TABLE t ADD COLUMN b INT; INSERT INTO t VALUES (2, 3, 4)")
        wh.publish()
        assert sorted(wh.view("v").rows()) == [(1, 2), (2, 3)]


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_primary_key_comes_and_goes(tmp_path: Path, place: str) -> None:
    """It holds for the rows that are there, and views that can rely on it now are rebuilt."""
    folder = ":memory:" if place == "memory" else tmp_path / "w"
    with tidemill.open(folder, runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1), (1, 2), (2, 2), (NULL, 3)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n, MAX(a) AS m FROM t GROUP BY b")
        wh.sql("CREATE MATERIALIZED VIEW pairs AS SELECT x.a, y.b FROM t AS x JOIN t AS y ON x.a = y.a")
        with pytest.raises(DataError, match='column "a" of "t" cannot be NOT NULL'):
            wh.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
        wh.sql("DELETE FROM t WHERE a IS NULL")
        with pytest.raises(DataError, match="Several rows have the same values there, such as \\(1,\\)"):
            wh.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
        wh.sql("ALTER TABLE t ADD PRIMARY KEY (b, a)")
        with pytest.raises(Unsupported, match="has a primary key already"):
            wh.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
        wh.sql("DELETE FROM t WHERE b = 1; ALTER TABLE t DROP PRIMARY KEY; ALTER TABLE t ADD PRIMARY KEY (a)")
        assert all(one.ok for one in wh.verify())
        with pytest.raises(DataError, match="two rows with the primary key a = 1"):
            wh.sql("INSERT INTO t VALUES (1, 7)")
        wh.sql("CREATE TABLE u (a INT, FOREIGN KEY (a) REFERENCES t (a))")
        with pytest.raises(Unsupported, match='"t" has no primary key'):
            wh.sql("ALTER TABLE t DROP PRIMARY KEY")
        wh.sql("DROP TABLE u; INSERT INTO t VALUES (5, 2); ALTER TABLE t DROP PRIMARY KEY; INSERT INTO t VALUES (5, 2)")
        assert wh.sql("SELECT n FROM v WHERE b = 2").rows() == [(4,)]
        assert all(one.ok for one in wh.verify())
        wh.sql("CREATE STREAM s (a INT)")
        with pytest.raises(Unsupported, match="rows are not kept"):
            wh.sql("ALTER TABLE s ADD PRIMARY KEY (a)")
