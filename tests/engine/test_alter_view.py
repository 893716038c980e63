"""``ALTER VIEW … SET``: a view is maintained in another way, and nobody who reads it notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import Unsupported
from tidemill.runtimes.native.runtime import NativeRuntime

SHOP = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount BIGINT);
CREATE MATERIALIZED VIEW totals AS SELECT c.region, SUM(o.amount) AS total, COUNT(*) AS n
    FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region;
CREATE MATERIALIZED VIEW rich AS SELECT region FROM totals WHERE total > (SELECT AVG(total) FROM totals)
"""
CUSTOMERS = [(1, (i, "north" if i % 3 else "south")) for i in range(30)]
ORDERS = [(1, (i, i % 40, 10 * i)) for i in range(500)]
WAYS = ("viewlet", "joingraph", "recompute", "delta", "auto")


def shop(path: Path | str, **options: Any) -> tidemill.Warehouse:
    warehouse = tidemill.open(path, runtime="native", **options)
    if not warehouse.views():
        warehouse.sql(SHOP)
        warehouse.apply({"customers": CUSTOMERS, "orders": ORDERS})
    return warehouse


def change(warehouse: tidemill.Warehouse, turn: int) -> None:
    warehouse.apply(
        {
            "orders": [(-1, ORDERS[turn][1]), (1, (1_000 + turn, turn, 7 * turn))],
            "customers": [(1, (30 + turn, "west"))],
        }
    )


@pytest.mark.parametrize(("durable", "backend"), [(False, "llvm"), (True, "python")])
def test_every_strategy_takes_over_from_every_other(durable: bool, backend: str, tmp_path: Path) -> None:
    with shop(tmp_path / "w" if durable else ":memory:", backend=backend) as warehouse:
        for turn, strategy in enumerate((*WAYS, *reversed(WAYS))):
            before = sorted(warehouse.view("totals").rows())
            epoch = warehouse.epoch
            message = warehouse.sql(f"ALTER VIEW totals SET (strategy = '{strategy}')").message
            assert message == f"altered view totals: {'delta' if strategy == 'auto' else strategy}"
            assert (sorted(warehouse.view("totals").rows()), warehouse.epoch) == (before, epoch)
            change(warehouse, turn)
            warehouse.verify()
    if durable:
        with shop(tmp_path / "w") as warehouse:
            assert warehouse._engine.catalog.view("totals").options == {"strategy": "viewlet"}
            warehouse.verify()
            change(warehouse, 20)
            warehouse.verify()


def test_subscribers_and_the_history_notice_nothing(tmp_path: Path) -> None:
    with shop(tmp_path / "w") as warehouse:
        start, shown = warehouse.epoch, sorted(warehouse.view("totals").rows())
        follower = warehouse.subscribe("totals", timeout=0)
        warehouse.sql("ALTER MATERIALIZED VIEW totals SET (strategy = 'viewlet')")
        assert list(follower) == []
        change(warehouse, 1)
        (batch,) = follower
        assert batch.epoch == start + 1
        assert sorted(warehouse.at(start).view("totals").rows()) == shown


def test_what_fails_leaves_the_view_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop(tmp_path / "w") as warehouse:
        before = sorted(warehouse.view("totals").rows())

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(NativeRuntime, "commit", fail)
            with pytest.raises(MemoryError):
                warehouse.sql("ALTER VIEW totals SET (strategy = 'viewlet')")
        assert sorted(warehouse.view("totals").rows()) == before
        assert "totals: incremental, delta" in warehouse.view("totals").explain()
        change(warehouse, 1)
        warehouse.verify()


def test_a_view_that_was_created_over_empty_tables_is_planned_anew() -> None:
    pairs = """CREATE MATERIALIZED VIEW pairs AS SELECT a.region, COUNT(*) AS n
               FROM people a JOIN people b ON a.region = b.region GROUP BY a.region"""
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE people (id INT PRIMARY KEY, region INT)")
        warehouse.sql(pairs)
        assert "pairs: incremental, delta" in warehouse.view("pairs").explain()
        warehouse.apply({"people": [(1, (i, i % 3)) for i in range(300)]})
        assert warehouse.sql("ALTER VIEW pairs SET (strategy = auto)").message == "altered view pairs: viewlet"
        warehouse.apply({"people": [(1, (5_000, 1)), (-1, (7, 1))]})
        warehouse.verify()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("ALTER VIEW totals SET (serve = 'read')", 'option "serve" of view "totals" cannot be altered'),
        ("ALTER VIEW totals SET (strategy = 'magic')", 'unknown strategy "magic"'),
        ("ALTER VIEW seen SET (strategy = 'viewlet')", 'view "seen" cannot be altered'),
        ("ALTER VIEW late SET (strategy = 'viewlet')", 'view "late" cannot be altered now'),
        ("ALTER VIEW served SET (strategy = 'delta', optimize = 'memory')", "cannot have serve"),
    ],
)
def test_what_cannot_be_altered_is_refused(statement: str, told: str) -> None:
    with shop(":memory:") as warehouse:
        warehouse.sql(
            """CREATE STREAM clicks (page STRING);
               CREATE MATERIALIZED VIEW seen AS
                   SELECT o.amount, COUNT(*) AS n FROM clicks k JOIN customers c ON c.region = k.page
                   JOIN orders o ON o.customer = c.id GROUP BY o.amount;
               CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS
                   SELECT c.region, SUM(o.amount) AS s
                   FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region;
               CREATE MATERIALIZED VIEW served WITH (strategy = 'joingraph', serve = 'read') AS
                   SELECT o.id, c.region FROM orders o JOIN customers c ON c.id = o.customer"""
        )
        change(warehouse, 1)
        with pytest.raises(Unsupported, match=told):
            warehouse.sql(statement)
        warehouse.sql("REFRESH VIEW late; ALTER VIEW late SET (strategy = 'recompute')")
        warehouse.verify("totals", "late", "served")
