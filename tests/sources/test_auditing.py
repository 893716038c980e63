"""Views over a real PostgreSQL held against what it answers itself, also while somebody writes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidemill
from tests.sources.shop import Shop, scribble
from tests.sources.test_views import QUERY, create_source


def slots(shop: Shop) -> set[str]:
    return {name for (name,) in shop.connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall()}


@pytest.mark.parametrize("changes", ["slot", "outbox"])
def test_a_view_is_what_the_server_answers(shop: Shop, tmp_path: Path, changes: str) -> None:
    with tidemill.open(tmp_path / "warehouse", runtime="native") as warehouse:
        warehouse.sql(create_source(shop, changes))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY.format('shop.')}")
        before = slots(shop)
        scribble(shop, seed=3, transactions=20)
        writer = threading.Thread(target=scribble, args=(shop, 4, 20))
        writer.start()
        found = warehouse.view("v").audit(patience=60)
        writer.join()
        assert found and found.subplans[0].rows > 0
        assert found.positions == warehouse.view("v").certificate().positions
        assert slots(shop) == before, "the audit takes out what was kept for it"
        warehouse.sync()
        assert warehouse.view("v").audit(patience=60)
        warehouse.sql("DROP VIEW v; DROP SOURCE shop")
