"""Views over large arrays: a changed element is an edit of the array, and the rows are what all oracles say."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.answers import Answers, differ, inner
from tidemill.algebra.functions.comparison import order_key
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.subscriptions.element_changes import ElementChange
from tidemill.model import array_tree
from tidemill.model.coerce import coerce_row
from tidemill.model.errors import TidemillError
from tidemill.runtimes.native.state.indexes import ElementIndex

TABLES = (
    "parts (id INT PRIMARY KEY, maker STRING, price INT, CHECK (price < 90))",
    "boxes (id INT PRIMARY KEY, label STRING, prices ARRAY<INT>)",
    "sides (price INT, name STRING)",
)
COLLECTED = {
    "listed": "SELECT maker, COLLECT_LIST(price) AS prices, COUNT(*) AS n FROM parts GROUP BY maker",
    "different": "SELECT maker, COLLECT_SET(price) AS prices FROM parts GROUP BY maker",
    "cheap": "SELECT COLLECT_LIST(price) FILTER (WHERE price > 3) AS prices, MAX(price) AS top FROM parts",
    "pairs": "SELECT maker, COLLECT_LIST(named_struct('id', id, 'price', price)) AS pairs FROM parts GROUP BY maker",
    "exploded": "SELECT maker, price + 1 AS price FROM listed LATERAL VIEW EXPLODE(prices) AS price",
    "counted": "SELECT maker, price, n, COUNT(*) AS m FROM listed LATERAL VIEW EXPLODE(prices) AS price GROUP BY ALL",
    "doubled": "SELECT maker, transform(prices, x -> x * 2) AS prices, size(prices) AS n FROM listed",
    "odd": "SELECT maker, filter(prices, x -> x % 2 = 1) AS prices FROM different",
}
STORED = {
    "unnested": "SELECT label, price FROM boxes LATERAL VIEW EXPLODE(prices) AS price",
    "summed": "SELECT label, SUM(price) AS total FROM boxes LATERAL VIEW EXPLODE(prices) AS price GROUP BY label",
    "placed": "SELECT id, place, price FROM boxes LATERAL VIEW POSEXPLODE(prices) AS place, price",
    "kept": "SELECT id, price FROM boxes LATERAL VIEW OUTER EXPLODE(prices) AS price",
    "named": "SELECT b.id, s.name FROM boxes b LATERAL VIEW EXPLODE(b.prices) AS price JOIN sides s ON s.price = price",
    "beside": "SELECT id, size(prices) AS n, price FROM boxes LATERAL VIEW EXPLODE(prices) AS price",
    "longer": "SELECT id, array_append(prices, id) AS prices, reverse(prices) AS others FROM boxes",
    "relative": "SELECT id, transform(prices, x -> x + id) AS prices, array_sort(prices) AS rising FROM boxes",
}
VIEWS = COLLECTED | STORED
WITHOUT_LISTS = {"exploded", "counted", "unnested", "summed", "named"}
"""The views that SQL leaves no choice for: DuckDB's lists are in another order."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of more than three elements are trees, so that histories often cross the limit."""
    monkeypatch.setattr(array_tree, "LIMIT", 3)
    monkeypatch.setattr(array_tree, "LEAF", 2)


class History:
    """Random epochs on a warehouse, and what its views must have after each of them."""

    def __init__(self, seed: int, folder: Path | None) -> None:
        self.draw = random.Random(seed)
        self.folder = folder
        self.wh = self.open()
        self.answers = Answers()
        self.emitted: dict[str, ZSet] = {}
        for table in TABLES:
            (statement,) = parse(f"CREATE TABLE {table}")
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
            self.wh.sql(f"CREATE TABLE {table}")
        self.play(40)
        for name, query in VIEWS.items():
            self.wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            self.answers.define(name, query)
            self.emitted[name] = self.rows(name)

    def open(self) -> tidemill.Warehouse:
        return tidemill.open(":memory:" if self.folder is None else self.folder, runtime="native", backend="python")

    def rows(self, name: str) -> ZSet:
        return ZSet.of(inner(self.wh.view(name).rows(), self.answers.fields(name), name))

    def play(self, changes: int) -> None:
        """One epoch; sometimes it is refused first, and must leave nothing behind."""
        epoch: dict[str, list[tuple[int, Any]]] = {"parts": [], "boxes": [], "sides": []}
        rows = {name: rows.copy() for name, rows in self.answers.rows.items()}
        for _ in range(changes):
            table = self.draw.choice(("parts", "parts", "boxes", "boxes", "sides"))
            for weight, row in self.change(table, ZSet(rows[table])):
                epoch[table].append((weight, row))
                held = ZSet(rows[table])
                held.add(row, weight)
                rows[table] = held
        if self.draw.random() < 0.3:
            with suppress(TidemillError):
                self.wh.apply({**epoch, "parts": [*epoch["parts"], (1, (999, "a", 99))]})
        self.wh.apply(epoch)
        self.answers.rows = {name: ZSet(held) for name, held in rows.items()}

    def change(self, table: str, held: ZSet) -> Iterator[tuple[int, Any]]:
        old = self.draw.choice(list(held)) if held and self.draw.random() < 0.6 else None
        if old is not None:
            yield -1, old
        if old is None or self.draw.random() < 0.7:
            new = self.row(table, old)
            if table == "sides" or all(row[0] != new[0] for row in held if row != old):
                fields = self.answers.tables[table].fields
                yield 1, coerce_row(new, fields, table)

    def row(self, table: str, old: Any) -> Any:
        id_ = self.draw.randrange(60) if old is None else old[0]
        price = self.draw.choice([None, *range(9)])
        if table == "parts":
            return id_, self.draw.choice(["a", "a", "a", "b", None]), price
        if table == "sides":
            return price, self.draw.choice("xy")
        label = self.draw.choice("xy") if old is None or self.draw.random() < 0.2 else old[1]
        if old is None or old[2] is None:
            prices = [self.draw.choice([None, *range(9)]) for _ in range(self.draw.randrange(9))]
            return id_, label, prices if self.draw.random() < 0.9 else None
        place = self.draw.randint(0, len(old[2]))
        return id_, label, array_tree.spliced(old[2], place, min(place + self.draw.randrange(3), len(old[2])), (price,))

    def check(self, since: int) -> None:
        answers = self.answers.evaluator()
        for name, total in self.emitted.items():
            fields = self.answers.fields(name)
            changes = self.wh.view(name).changes(since=since)
            rows = inner((row for _, row in changes), fields, name)
            total.update_by(ZSet.summed(zip(rows, (weight for weight, _ in changes), strict=True)))
            assert not differ(total, self.rows(name), fields), f"the feed of {name} is not its rows"
            assert not differ(answers[name], total, fields), name


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "folder"])
def test_random_histories(stored: bool, small: None, tmp_path: Path, random_seed: int) -> None:
    for seed in range(random_seed, random_seed + (3 if stored else 6)):
        history = History(seed, tmp_path / str(seed) if stored else None)
        epochs: dict[int, ZSet] = {}
        for number in range(16):
            if stored and number % 5 == 4:
                history.wh.close()
                history.wh = history.open()
            before = history.wh.epoch
            history.play(history.draw.randint(1, 5))
            history.check(before)
            epochs[history.wh.epoch] = history.rows("listed")
        for epoch, rows in epochs.items():
            then = history.wh.sql(f"SELECT * FROM listed VERSION AS OF {epoch}")
            assert ZSet.of(inner(then, history.answers.fields("listed"), "listed")) == rows
        duckdb = history.answers.duckdb(leaving=VIEWS.keys() - WITHOUT_LISTS - {"listed", "different"})
        for name in WITHOUT_LISTS:
            found = duckdb[name]
            assert not differ(found, history.rows(name), history.answers.fields(name)), name
        history.wh.close()


def test_an_element_costs_the_path_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change makes some leaves of the arrays of five views anew, and calls a function of elements for these."""
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        calls: list[int] = []

        def doubled(price: int) -> int:
            calls.append(price)
            return 2 * price

        wh.register_function("doubled", doubled, arguments=["INT"], returns="INT")
        wh.sql("CREATE TABLE parts (id INT PRIMARY KEY, price INT)")
        wh.upsert("parts", [{"id": number, "price": number} for number in range(20_000)])
        wh.sql("CREATE MATERIALIZED VIEW listed AS SELECT COLLECT_LIST(price) AS prices FROM parts")
        wh.sql("CREATE MATERIALIZED VIEW different AS SELECT COLLECT_SET(price) AS prices FROM parts")
        wh.sql("CREATE MATERIALIZED VIEW unnested AS SELECT p + 1 AS p FROM listed LATERAL VIEW EXPLODE(prices) AS p")
        wh.sql("CREATE MATERIALIZED VIEW mapped AS SELECT transform(prices, x -> doubled(x)) AS prices FROM listed")
        wh.sql("CREATE MATERIALIZED VIEW longer AS SELECT array_append(prices, -1) AS prices FROM different")
        wh.upsert("parts", [{"id": 5, "price": 6}])
        calls.clear()
        made = 0
        leaf = array_tree._Leaf.__init__

        def count(self: Any, items: tuple[Any, ...]) -> None:
            nonlocal made
            made += 1
            leaf(self, items)

        monkeypatch.setattr(array_tree._Leaf, "__init__", count)
        wh.upsert("parts", [{"id": 7, "price": -7}])
        assert 0 < made < 40
        assert 0 < len(calls) < 6 * array_tree.LEAF
        assert wh.sql("SELECT size(prices) AS n, prices[0] AS least FROM mapped") == [(20_000, -14)]
        assert (-6,) in wh.view("unnested").rows()


def applied(row: dict[str, Any], changes: Iterable[ElementChange]) -> dict[str, Any]:
    """A row with the changes inside of it made in order."""
    row = copy.deepcopy(row)
    for change in changes:
        *way, last = change.path
        inside: Any = row
        for step in way:
            inside = inside[step]
        if change.kind == "insert":
            inside.insert(last, change.new)
        elif change.kind == "remove":
            assert inside.pop(last) == change.old
        else:
            assert inside[last] == change.old
            inside[last] = change.new
    return row


def test_subscribers_hear_of_elements(small: None, random_seed: int) -> None:
    """The changes of elements make the new row of the old one; rows that come and go are inserts and deletes."""
    draw = random.Random(random_seed)
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE orders (id INT PRIMARY KEY, lines ARRAY<STRUCT<part: STRING, sizes: ARRAY<INT>>>, n INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT id, lines, n, COUNT(*) AS m FROM orders GROUP BY ALL")
        wh.sql("CREATE MATERIALIZED VIEW keyed AS SELECT id, lines, n FROM orders")
        line: dict[str, Any] = {"part": "a", "sizes": [1, 2, 3, None, 5]}
        lines = [copy.deepcopy(line) for _ in range(8)]
        row: dict[str, Any] = {"id": 1, "lines": lines, "n": None}
        wh.upsert("orders", [row])
        seen = 0
        for _ in range(30):
            new = copy.deepcopy(row)
            for _ in range(draw.randrange(1, 4)):
                place = draw.randrange(len(new["lines"]) + 1)
                match draw.randrange(4):
                    case 0:
                        new["lines"].insert(place, {"part": draw.choice("bc"), "sizes": None})
                    case 1 if new["lines"]:
                        new["lines"].pop(draw.randrange(len(new["lines"])))
                    case 2 if new["lines"] and (one := draw.choice(new["lines"]))["sizes"]:
                        one["sizes"][draw.randrange(len(one["sizes"]))] = draw.choice([None, 7])
                    case _:
                        new["n"] = draw.choice([None, 1, 2])
            before = wh.epoch
            wh.upsert("orders", [new])
            for batch in wh.view("keyed").batches(since=before):
                assert applied(row, batch.elements) == new
                assert {change.key for change in batch.elements} == {(1,)}
                seen += 1
            row = new
        assert seen > 10
        before = wh.epoch
        wh.delete("orders", [1])
        (batch,) = wh.view("keyed").batches(since=before)
        assert (batch.elements, len(batch.deletes)) == ([], 1)


def test_an_element_change_of_a_large_array_is_told_alone() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE parts (id INT PRIMARY KEY, maker STRING, price INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT maker, COLLECT_LIST(price) AS prices FROM parts GROUP BY maker")
        wh.upsert("parts", [(number, "a", number) for number in range(2_000)])
        with wh.subscribe("v", timeout=0) as changes:
            wh.upsert("parts", [(7, "a", 1_000)])
            (batch,) = changes
        told = [(c.key, c.kind, c.path, c.old, c.new) for c in batch.elements]
        assert told == [
            (("a",), "remove", ("prices", 7), 7, None),
            (("a",), "insert", ("prices", 999), None, 1_000),
        ]


def test_a_tree_behaves_as_the_tuple(small: None, random_seed: int) -> None:
    """Edits, slices and joins of trees are those of tuples; differences are found, and versions are balanced."""
    draw = random.Random(random_seed)
    tree: Any = ()
    plain: tuple[Any, ...] = ()
    for _ in range(400):
        old, before = tree, plain
        start = draw.randint(0, len(plain))
        stop = min(len(plain), start + draw.choice([0, 0, 1, 2, 20]))
        new = tuple(draw.choice([None, 1, 2, 3.5, math.nan]) for _ in range(draw.choice([0, 1, 1, 2, 15])))
        tree, plain = array_tree.spliced(tree, start, stop, new), before[:start] + new + before[stop:]
        assert tuple(tree) == plain and isinstance(tree, tuple) == (len(plain) <= array_tree.LIMIT)
        again = array_tree.as_array(plain)
        assert again == tree and hash(again) == hash(tree) and (tree == old) == (plain == before)
        moved, made = 0, before
        for at, left, came in array_tree.splices(old, tree):
            assert made[at + moved : at + moved + len(left)] == left
            made = made[: at + moved] + came + made[at + moved + len(left) :]
            moved += len(came) - len(left)
        assert made == plain
        one, other = draw.randint(-len(plain), len(plain)), draw.randint(-3, len(plain))
        assert tuple(tree[one:other]) == plain[one:other] and tuple(tree[::-1]) == plain[::-1]
        assert tuple(array_tree.joined(tree, old)) == plain + before
        assert all(tree[i] is plain[i] for i in range(-len(plain), len(plain)))
        if math.nan not in plain:  # another NaN is another value
            assert pickle.loads(pickle.dumps(tree)) == tree
        for value in (None, 1, 3.5):
            assert (tree.count(value), value in tree) == (plain.count(value), value in plain)
            counted = array_tree.occurrences(tree, value, order_key, array_tree.Bounds())
            assert counted == plain.count(value)
        if plain:
            assert tree.index(plain[-1]) == plain.index(plain[-1])
        known = array_tree.KnownNodes()
        present = array_tree.mapped(tree, lambda items: tuple(x for x in items if x is not None), known)
        assert tuple(present) == tuple(x for x in plain if x is not None)


def test_rows_are_found_by_elements_of_large_arrays(small: None, random_seed: int) -> None:
    """The index of elements has the rows that a search finds, whatever order rows come and go in."""
    draw = random.Random(random_seed)
    for _ in range(40):
        index, held = ElementIndex(1), dict[Any, int]()
        for _ in range(60):
            row = draw.choice(list(held)) if held and draw.random() < 0.5 else None
            if row is not None and draw.random() < 0.7:
                index.move(row, held.pop(row), None)
                if draw.random() < 0.5:
                    continue
                place = draw.randrange(len(row[1]) + 1)
                array = array_tree.spliced(row[1], place, place + draw.randrange(2), (draw.randrange(6),))
                row = (row[0], array, row[2])
            elif row is None:
                elements = [draw.choice([None, *range(6)]) for _ in range(draw.randrange(9))]
                row = (draw.randrange(3), array_tree.as_array(elements), draw.randrange(2))
            weight = draw.choice([1, 2, -1])
            index.move(row, held.get(row), weight)
            held[row] = weight
            if draw.random() < 0.3:
                for element in (None, *range(6)):
                    found = {row: weight for row, weight in held.items() if element in row[1]}
                    assert dict(index.holding(element)) == found
