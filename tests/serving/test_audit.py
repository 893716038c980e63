"""``tidemill audit``: histories against the five levels, and views over sources against the sources."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.changes.zset import ZSet
from tidemill.model.errors import BadValue, SourceSlow, Unsupported
from tidemill.serving.cli.audit import check_history, check_view, read_history
from tidemill.sources.sqlite.source import SqliteSource

SCHEMA = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER);
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO customers VALUES (1, 'ann'), (2, 'bob');
    INSERT INTO orders VALUES (10, 1, 30), (11, 2, 20);
"""
SPEND = """CREATE MATERIALIZED VIEW spend AS
    SELECT c.name, SUM(o.amount) AS total
    FROM shop.orders o JOIN shop.customers c ON c.id = o.customer GROUP BY c.name"""

SOURCE = ['{"source": [["a"]]}', '{"source": [["b"]]}', '{"source": [["c"]]}']
SKIPPING = ['{"warehouse": [["a"]]}', '{"warehouse": [["c"]]}']


def written(tmp_path: Path, lines: list[str]) -> Path:
    file = tmp_path / "history.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_a_history_keeps_some_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, [*SOURCE, *SKIPPING])
    assert check_history(file, "strong")
    assert not check_history(file, "complete")
    out = capsys.readouterr().out
    assert "complete: no state of the warehouse corresponds to state 1 of the source: [b]" in out
    assert out.endswith("complete was promised and is broken\n")


def test_a_history_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_history(written(tmp_path, [*SOURCE, *SKIPPING]), "Complete", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["promised"], told["ok"]) == ("complete", False)
    assert [level for level, fault in told["broken"].items() if fault] == ["complete"]


def test_the_order_of_the_two_sides_says_nothing_and_duplicates_count() -> None:
    mixed = read_history([SKIPPING[0], *SOURCE, SKIPPING[1]], "h")
    assert mixed == read_history([*SOURCE, *SKIPPING], "h")
    (state,) = read_history(
        ['{"source": []}', '{"warehouse": [[1, [2], {"a": 1.10}], [1, [2], {"a": 1.1}]]}'], "h"
    ).warehouse
    assert list(state.values()) == [2]
    assert read_history(['{"source": []}', '{"warehouse": []}'], "h").source == [ZSet()]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"source": [1, 2]}', "the line is not a state"),
        ('{"sauce": []}', "the line is not a state"),
        ('{"source": [], "warehouse": []}', "the line is not a state"),
        ("{", "the line is not JSON"),
    ],
)
def test_what_is_no_history_is_refused_with_its_line(line: str, what: str) -> None:
    with pytest.raises(BadValue) as error:
        read_history([SOURCE[0], line], "h.jsonl")
    assert (error.value.what, error.value.where) == (what, "h.jsonl:2")


def test_a_history_has_both_sides(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="no state of the warehouse"):
        check_history(written(tmp_path, SOURCE), "strong")
    with pytest.raises(Unsupported, match="convergent, weak, consistent, strong, complete"):
        check_history(written(tmp_path, SOURCE), "perfect")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Somebody else's database, and a warehouse with a view over it that has seen one change."""
    monkeypatch.chdir(tmp_path)
    connection = sqlite3.connect("shop.db", isolation_level=None)
    connection.executescript(SCHEMA)
    with tidemill.open("warehouse", runtime="native") as warehouse:
        warehouse.sql("CREATE SOURCE shop TYPE sqlite OPTIONS (path = 'shop.db', setup = 'create')")
        warehouse.sql(SPEND)
        connection.execute("INSERT INTO orders VALUES (12, 1, 5)")
        warehouse.sync()
    yield connection
    connection.close()


def readers(shop: sqlite3.Connection) -> list[str]:
    return [name for (name,) in shop.execute("SELECT reader FROM _tidemill_readers WHERE reader <> ''")]


def test_a_view_is_brought_up_to_date_and_compared(
    shop: sqlite3.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.execute("UPDATE orders SET amount = 21 WHERE id = 11")
    with tidemill.open("warehouse", runtime="native") as warehouse:
        view = warehouse.view("spend")
        assert check_view(view, 5.0)
        assert view.certified()[warehouse.epoch] == view.certificate().positions
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "spend: strong consistency is promised"
    assert told[-2].startswith("spend@1: 2 rows, equal to the answer of shop at ")
    assert told[-1] == "spend: 2 rows, equal to recomputation by the evaluator"
    assert readers(shop) == ["shop_spend"], "the audit takes out what was kept for it"


def test_every_epoch_of_the_log_has_its_certificate(shop: sqlite3.Connection) -> None:
    with tidemill.open("warehouse", runtime="native") as warehouse:
        known = set(warehouse.view("spend").certified())
        for amount in (1, 2):
            shop.execute("UPDATE orders SET amount = ? WHERE id = 11", (amount,))
            warehouse.sync()
        certified = warehouse.view("spend").certified()
        assert list(certified)[-2:] == [warehouse.epoch - 1, warehouse.epoch]
        assert known < set(certified)
        with tidemill.open("warehouse", runtime="native", read_only=True) as beside:
            assert beside.view("spend").certified() == certified


def test_a_row_that_the_source_never_told_of_is_found(
    shop: sqlite3.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    triggers = shop.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        shop.execute(f'DROP TRIGGER "{name}"')
    shop.execute("INSERT INTO orders VALUES (13, 2, 7)")
    for _, text in triggers:
        shop.execute(text)
    with tidemill.open("warehouse", runtime="native") as warehouse:
        assert not check_view(warehouse.view("spend"), 5.0)
        assert not check_view(warehouse.view("spend"), 5.0, as_json=True)
    *lines, last = capsys.readouterr().out.splitlines()
    assert any(line.startswith("spend@1 is not the answer of shop at") for line in lines)
    assert "  missing ('bob', 2, 27, 2) x1" in lines
    assert json.loads(last)["ok"] is False


def test_what_is_stored_is_told_without_asking(shop: sqlite3.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    shop.executescript("DROP TABLE orders")
    with tidemill.open("warehouse", runtime="native", read_only=True) as warehouse:
        assert check_view(warehouse.view("spend"), None, as_json=True)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["level"] for line in told} == {"strong"} and "shop" in told[-1]["positions"]


def test_a_source_that_never_rests_cannot_be_compared(
    shop: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = SqliteSource.ask

    def busy(self: SqliteSource, *arguments: object) -> int:
        """Somebody writes whenever the source is asked."""
        shop.execute("UPDATE orders SET amount = amount + 1 WHERE id = 10")
        return ask(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteSource, "ask", busy)
    with tidemill.open("warehouse", runtime="native") as warehouse, pytest.raises(SourceSlow, match="went on changing"):
        warehouse.view("spend").audit(patience=0.2)


def test_a_view_over_tables_has_no_sources_to_ask(shop: sqlite3.Connection) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        with pytest.raises(Unsupported, match="reads no source"):
            warehouse.view("v").audit()


def test_a_view_that_follows_by_itself_is_audited_too(shop: sqlite3.Connection) -> None:
    with tidemill.open("warehouse", runtime="native") as warehouse:
        warehouse.sql("DROP VIEW spend; DROP SOURCE shop")
        warehouse.sql(
            "CREATE SOURCE shop TYPE sqlite OPTIONS (path = 'shop.db', setup = 'create', sync = 'continuous')"
        )
        warehouse.sql(SPEND)
        for number in range(20, 25):
            shop.execute("INSERT INTO orders VALUES (?, 1, 1)", (number,))
            assert warehouse.view("spend").audit(patience=20)
