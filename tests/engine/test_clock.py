"""NOW() and its kin: one moment for a whole statement that is run once, and refused as columns of views."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest

import tidemill
from tidemill.model.errors import Unsupported


@pytest.fixture
def warehouse() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as opened:
        yield opened


def test_all_functions_of_a_query_are_one_moment(warehouse: tidemill.Warehouse) -> None:
    before = datetime.now(UTC).replace(tzinfo=None)
    query = "SELECT now(), current_timestamp, localtimestamp(), current_date, curdate() FROM VALUES (1), (2)"
    first, second = (tuple(row) for row in warehouse.sql(query))
    after = datetime.now(UTC).replace(tzinfo=None)
    assert first == second
    moment, same, local, today, again = first
    assert before <= moment.replace(tzinfo=None) <= after
    assert (same, again) == (moment, today)
    assert local == moment.replace(tzinfo=None)
    assert today in (before.date(), after.date()) and type(today) is date


def test_rows_can_be_inserted_with_the_time(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql("CREATE TABLE t (a INT, at TIMESTAMP)")
    warehouse.sql("INSERT INTO t VALUES (1, now()), (2, current_timestamp())")
    assert list(warehouse.sql("SELECT count(DISTINCT at), max(at) <= now() FROM t")) == [(1, True)]


@pytest.mark.parametrize("kind", ["MATERIALIZED VIEW", "VIEW", "TEMPORARY VIEW"])
def test_views_have_no_column_of_the_clock(warehouse: tidemill.Warehouse, kind: str) -> None:
    with pytest.raises(Unsupported, match="cannot be used here in a view"):
        warehouse.sql(f"CREATE {kind} v AS SELECT current_date() AS today")
