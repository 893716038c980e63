"""Tables that compiled stages share: each view as the evaluator has it, whatever happens to the tables."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import tidemill
from tests.moving import moving
from tests.runtimes.native.llvm.table_contents import TableContents
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.errors import DataError
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.table_reader import TableReader
from tidemill.runtimes.native.llvm.table import column_store, llvm_table
from tidemill.runtimes.native.llvm.table.column_store import ColumnStore, TableHandle
from tidemill.runtimes.native.llvm.table.llvm_table import LlvmTable
from tidemill.runtimes.native.llvm.table.table_rows import TableRows

TABLES = {
    "customers": "id BIGINT PRIMARY KEY, segment STRING, credit DECIMAL(22,2), vip BOOLEAN",
    "orders": "id BIGINT PRIMARY KEY, customer BIGINT, segment STRING, placed DATE",
    "lines": "order_id BIGINT, number INT, price DECIMAL(12,2), weight DOUBLE, PRIMARY KEY (order_id, number)",
}

VIEWS = {
    "by_segment": """SELECT c.segment, COUNT(*) AS n, SUM(l.price) AS price, SUM(c.credit) AS credit FROM lines l
        JOIN orders o ON l.order_id = o.id JOIN customers c ON o.customer = c.id GROUP BY c.segment""",
    "outer_rows": """SELECT c.id, o.placed, l.price FROM customers c LEFT JOIN orders o ON o.customer = c.id
        LEFT JOIN lines l ON l.order_id = o.id""",
    "by_text": """SELECT o.placed, COUNT(*) AS n FROM orders o JOIN customers c ON o.segment = c.segment AND c.vip
        GROUP BY o.placed""",
    "by_number": "SELECT c.id, COUNT(*) AS n FROM customers c JOIN lines l ON l.price = c.credit GROUP BY c.id",
    "without_key": "SELECT COUNT(*) AS n, SUM(l.weight) AS weight FROM lines l, customers c WHERE l.price > c.credit",
    "itself": """SELECT a.customer, COUNT(*) AS n FROM orders a JOIN orders b ON a.customer = b.customer
        GROUP BY a.customer""",
    "missing": "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)",
}


def random_rows(draw: random.Random) -> dict[str, Callable[[], Row]]:
    cents: Callable[[int], decimal.Decimal] = lambda most: decimal.Decimal(draw.randint(-most, most)) / 100  # noqa: E731
    return {
        "customers": lambda: (
            draw.randint(0, 12),
            draw.choice(("a", "bé", None)),
            draw.choice((None, cents(300), decimal.Decimal(10) ** 19)),
            draw.choice((True, False, None)),
        ),
        "orders": lambda: (
            draw.randint(0, 40),
            draw.choice((None, *range(12))),
            draw.choice(("a", "bé", "c", None)),
            draw.choice((None, datetime.date(2026, 1, 1), datetime.date(2026, 2, 1))),
        ),
        "lines": lambda: (
            draw.randint(0, 40),
            draw.randint(0, 2),
            draw.choice((None, cents(300))),
            draw.choice((None, -0.0, 0.5, float("nan"))),
        ),
    }


TYPES = {
    "customers": (pa.int64(), pa.string(), pa.decimal128(22, 2), pa.bool_()),
    "orders": (pa.int64(), pa.int64(), pa.string(), pa.date32()),
    "lines": (pa.int64(), pa.int32(), pa.decimal128(12, 2), pa.float64()),
}


def as_arrow(table: str, pairs: list[Pair]) -> pa.Table:
    """A change as columns."""
    names = [column.split()[0] for column in TABLES[table].split(", ")]
    columns = {
        name: pa.array([row[i] for _, row in pairs], kind)
        for i, (name, kind) in enumerate(zip(names, TYPES[table], strict=False))
    }
    return pa.table({**columns, "_weight": pa.array([weight for weight, _ in pairs], pa.int64())})


KEYS = {"customers": 1, "orders": 1, "lines": 2}

Pair = tuple[int, Row]


class History:
    """Random changes of the tables, valid as a whole."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._row = random_rows(self.draw)
        self._held: dict[str, dict[Row, Row]] = {name: {} for name in TABLES}

    def change(self, table: str, rows: int) -> list[Pair]:
        """Inserts, updates and deletes under different keys."""
        held, pairs = self._held[table], []
        for row in {row[: KEYS[table]]: row for row in (self._row[table]() for _ in range(rows))}.values():
            key = row[: KEYS[table]]
            if key in held:
                pairs.append((-1, held.pop(key)))
            if not pairs or self.draw.random() < 0.7:
                pairs.append((+1, row))
                held[key] = row
        return pairs

    def refused(self) -> dict[str, list[Pair]]:
        """A change of two tables under keys that no row has."""
        return {"customers": [(+1, (99, "a", None, True))], "orders": [(+1, (99, 99, "a", None))]}

    def changes(self) -> dict[str, list[Pair]]:
        """A change of some tables, of few or many rows."""
        some = self.draw.sample(list(TABLES), self.draw.randint(1, 3))
        return {name: self.change(name, self.draw.choice((1, 2, 80))) for name in some}


def create(wh: tidemill.Warehouse, name: str, options: str = "WITH (strategy = 'delta')") -> None:
    wh.sql(f"CREATE MATERIALIZED VIEW {name} {options} AS {VIEWS[name]}")


def check(wh: tidemill.Warehouse) -> None:
    for verification in wh.verify():
        assert verification.ok, verification


def compiled_tables(wh: tidemill.Warehouse) -> dict[str, set[str]]:
    """For each compiled stage the tables that it shares with others."""
    runners = wh._engine.placement.native._backends._runners
    return {name: set(runner.code.tables) for name, runner in runners.items()}


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", backend="llvm") as opened:
        for name, columns in TABLES.items():
            opened.sql(f"CREATE TABLE {name} ({columns})")
        yield opened


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_views_follow_shared_tables(wh: tidemill.Warehouse, seed: int, columns: bool) -> None:
    history = History(seed)
    waiting = history.draw.sample(list(VIEWS), len(VIEWS))
    for place in range(45):
        if place % 5 == 0 and waiting:
            create(wh, waiting.pop())  # over tables that have rows
        changes = history.changes()
        wh.apply({name: as_arrow(name, pairs) for name, pairs in changes.items()} if columns else changes)
        if place % 4 == 0:
            with pytest.raises(DataError):  # all three tables take their rows in, and then give them back
                wh.apply({**history.refused(), "lines": [(-1, (99, 0, None, None))]})
        if place % 3 == 0:
            check(wh)
    check(wh)
    tables = compiled_tables(wh)
    assert tables["by_segment"] == set(TABLES)
    assert not any("orders" in shared for stage, shared in tables.items() if stage.startswith("itself"))


@pytest.mark.parametrize("seed", range(3))
def test_a_deferred_view_sees_its_tables_as_they_were(wh: tidemill.Warehouse, seed: int) -> None:
    history = History(seed)
    for name in VIEWS:
        create(wh, name, "WITH (refresh = 'deferred')" if name != "by_text" else "")
    for place in range(25):
        wh.apply(history.changes())
        if history.draw.random() < 0.3:
            wh.sql(f"REFRESH MATERIALIZED VIEW {history.draw.choice([name for name in VIEWS if name != 'by_text'])}")
        if place % 5 == 0:
            check(wh)
    check(wh)


def test_tables_catch_up_with_epochs_that_others_ran() -> None:
    with moving(), tidemill.open(":memory:", backend="llvm") as wh:
        for name, columns in TABLES.items():
            wh.sql(f"CREATE TABLE {name} ({columns})")
        for name in VIEWS:
            create(wh, name)
        history = History(5)
        for _ in range(40):
            wh.apply(history.changes())
            check(wh)


def test_deletes_and_inserts_are_shown_one_after_the_other(wh: tidemill.Warehouse) -> None:
    """Two rows that never coexist divide by zero together: so deletes are handled before inserts."""
    wh.sql("""CREATE MATERIALIZED VIEW ratios AS
        SELECT o.id, SUM(l.price / (o.customer - l.number)) AS ratio FROM orders o JOIN lines l ON l.order_id = o.id
        GROUP BY o.id""")
    price = decimal.Decimal(1)
    wh.apply({"orders": [(+1, (1, 5, None, None))], "lines": [(+1, (1, 4, price, None))]})
    wh.apply(
        {
            "lines": [(-1, (1, 4, price, None)), (+1, (1, 5, price, None))],
            "orders": [(-1, (1, 5, None, None)), (+1, (1, 6, None, None))],
        }
    )
    check(wh)
    wh.apply({"lines": [(+1, (1, 7, price, None))]})
    check(wh)
    assert [row[0] for row in wh.view("ratios").rows()] == [1]


def test_an_epoch_that_failed_leaves_no_mark_of_a_deleted_row(wh: tidemill.Warehouse) -> None:
    """Catching up brings deleted rows back first: one with NULL in the column that is looked up is in no chain."""
    wh.sql("""
        CREATE MATERIALIZED VIEW now AS SELECT l.order_id, o.id FROM orders o JOIN lines l ON l.number = o.customer;
        CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS
            SELECT l.order_id, 1 DIV l.order_id AS one, o.id FROM orders o JOIN lines l ON l.number = o.customer""")
    unknown = (1, None, None, None)
    wh.apply({"orders": [(+1, unknown)], "lines": [(+1, (3, 2, None, None))]})
    wh.view("late").refresh()
    wh.apply({"orders": [(-1, unknown), (+1, (4, 2, None, None))], "lines": [(+1, (0, 2, None, None))]})
    with pytest.raises(DataError):
        wh.view("late").refresh()
    wh.apply({"orders": [(+1, (5, 2, None, None))]})
    wh.apply({"lines": [(+1, (8, 2, None, None))]})
    assert wh.view("now").verify().ok


# -- the store by itself ---------------------------------------------------------------------------------------------

FIELDS = (Field("id", t.BIGINT, nullable=False), Field("name", t.STRING), Field("price", t.Decimal(20, 2)))


def test_interrupted_changes_are_told() -> None:
    memory = Memory(None)
    store = ColumnStore(Table("items", FIELDS, primary_key=("id",)), memory, StringDictionary(memory))
    assert store.append_rows([(1, "a", decimal.Decimal(1))])
    store.show(1, ())
    with pytest.raises(ValueError, match="no number"):
        store.append_rows([(2, "a", decimal.Decimal(1)), ("no number", None, None)])
    assert not store.undo(1, ())
    store.free()
    assert memory.used < 100_000


class Items:
    """A table of five rows by itself."""

    def __init__(self) -> None:
        self.memory = Memory(None)
        strings = StringDictionary(self.memory)
        rows: list[tuple[Row, int]] = [((n, "a", None), 1) for n in range(5)]
        table = Table("items", FIELDS, primary_key=("id",))
        self.contents = TableContents(lambda: ChangeSet.of(rows, FIELDS))
        self.table = LlvmTable(table, self.contents, self.memory, strings, set())


READER = TableReader(Map("items", FIELDS[1:]), (("name",),))


def test_a_table_reads_missed_changes_or_everything_again() -> None:
    items = Items()
    table = items.table
    assert table.share(READER).rows == 5
    table.settle()
    table.pause()
    assert table.is_paused
    missed = [((9, "b", None), 1), ((0, "a", None), -1), ((9, "b", None), -1)]
    items.contents.missed = ChangeSet.of(missed, FIELDS)
    assert table.ready
    assert not table.is_paused
    assert table.find([(0,), (1,), (9,)]) == {(1,): (1, "a", None)}
    table.pause()
    items.contents.missed = None
    assert not table.ready
    assert table.share(READER).serves(READER, READER.indexes)
    assert table.find([(0,), (9,)]) == {(0,): (0, "a", None)}


@pytest.mark.parametrize("step", ["missed_rows", "show"])
def test_an_interrupted_table_is_not_taken_for_a_current_one(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    items = Items()
    items.table.share(READER)
    items.table.settle()
    items.table.pause()
    items.contents.missed = ChangeSet.of([((9, "b", None), 1)], FIELDS)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(items.contents if step == "missed_rows" else items.table, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            items.table.share(READER)
    assert items.table.is_paused if step == "missed_rows" else not items.table.ready


def test_interrupted_renumbering_gives_the_rows_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_table, "MANY_LEFT", 1)
    items = Items()
    items.table.share(READER)
    items.table.settle()
    assert items.table.take(ChangeSet.of([((n, "a", None), -1) for n in range(4)], FIELDS))

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TableRows, "kept", interrupt)
        with pytest.raises(KeyboardInterrupt):
            items.table.settle()
    assert not items.table.ready


def test_without_room_nothing_is_shared_and_no_change_taken_in() -> None:
    items = Items()
    items.table.share(TableReader(Map("items", ()), ()))
    items.table.settle()
    items.memory.allow(100)
    assert items.table.take(ChangeSet.of([((n, "b", None), 1) for n in range(10, 1000)], FIELDS)) is None
    assert items.table.find([(10,), (1,)]) == {(1,): (1, "a", None)}
    with pytest.raises(DataError, match="memory"):
        items.table.share(READER)
    items.memory.allow(None)
    assert items.table.share(READER).serves(READER, READER.indexes)


def test_indexes_are_built_for_the_changes_that_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of orders looks lines up by order; until one comes, no such index is built, and none is missed."""
    monkeypatch.setattr(column_store, "CONVERTED_ROWS", 2)
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        for name in ("orders", "lines"):
            wh.sql(f"CREATE TABLE {name} ({TABLES[name]})")
        query = """SELECT o.segment, l.number, COUNT(*) AS n FROM lines l JOIN orders o ON l.order_id = o.id
            GROUP BY o.segment, l.number"""
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        wh.apply({"orders": [(+1, (n, None, f"s{n % 3}", None)) for n in range(9)]})
        wh.apply({"lines": [(+1, (n % 9, n // 9, None, 0.5)) for n in range(50)]})
        runtime = wh._engine.placement.native
        runtime.free()  # as after opening

        def indexes() -> dict[str, set[tuple[str, ...]]]:
            tables = {name: runtime._backends.ready_table(name) for name in ("orders", "lines")}
            return {name: set(table._store._indexes) for name, table in tables.items() if table and table._store}

        wh.apply({"lines": [(+1, (3, 99, None, None)), (-1, (4, 0, None, 0.5))]})
        assert indexes() == {"orders": {("id",)}, "lines": set()}
        assert sorted(wh.view("v").rows()) == sorted(wh.sql(query))
        wh.apply({"orders": [(-1, (3, None, "s0", None)), (+1, (3, None, "x", None))]})
        assert indexes() == {"orders": {("id",)}, "lines": {("order_id",)}}
        assert sorted(wh.view("v").rows()) == sorted(wh.sql(query))
        wh.apply({"lines": [(+1, (3, 100, None, None))], "orders": [(+1, (50, None, "y", None))]})
        wh.apply({"lines": [(+1, (50, n, None, None)) for n in range(200)]})  # columns move, and indexes with them
        wh.apply({"orders": [(-1, (50, None, "y", None))]})
        assert sorted(wh.view("v").rows()) == sorted(wh.sql(query))


def test_a_handle_does_not_keep_columns_that_have_moved() -> None:
    items = Items()
    handle = TableHandle(READER)
    nothing = bytes(handle._words)
    handle.show(items.table.share(READER))
    handle.hide_outdated(items.table)
    assert bytes(handle._words) != nothing
    items.table.share(TableReader(Map("items", FIELDS[:2]), (("id",),)))
    handle.hide_outdated(items.table)
    assert bytes(handle._words) == nothing
