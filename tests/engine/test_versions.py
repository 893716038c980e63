"""VERSION AS OF in a SELECT: tables and views as of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import EpochGone, ParseError, TidemillError, Unsupported


@pytest.fixture(params=["memory", "folder"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    """A table and a view with three epochs."""
    made = tidemill.open(":memory:" if request.param == "memory" else str(tmp_path / "w"), runtime="native")
    made.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    made.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(amount) AS total FROM orders")
    for number in (1, 2, 3):
        made.sql(f"INSERT INTO orders VALUES ({number}, {number * 10})")
    yield made
    made.close()


def test_tables_and_views_as_of_epochs(warehouse: tidemill.Warehouse) -> None:
    """Each reading has an epoch of its own, or the present."""
    last = warehouse.epoch

    def rows(query: str) -> list[tuple[object, ...]]:
        return sorted(warehouse.sql(query).rows())

    assert rows(f"SELECT id FROM orders VERSION AS OF {last - 1}") == [(1,), (2,)]
    assert rows(f"SELECT orders.id FROM default.orders FOR VERSION AS OF {last - 2}") == [(1,)]
    assert rows(f"SELECT total FROM total VERSION AS OF '{last - 1}'") == [(30,)]
    new = f"SELECT n.id FROM orders n LEFT ANTI JOIN orders VERSION AS OF {last - 2} AS o ON n.id = o.id"
    assert rows(new) == [(2,), (3,)]
    both = f"SELECT a.total, b.total FROM total VERSION AS OF {last - 2} a, total VERSION AS OF {last} b"
    assert rows(both) == [(10, 60)]
    nested = f"SELECT (SELECT MAX(id) FROM orders VERSION AS OF {last - 1}) AS before, COUNT(*) FROM orders"
    assert rows(nested) == [(2, 3)]
    named = f"WITH old AS (SELECT * FROM orders VERSION AS OF {last - 1}) SELECT COUNT(*) FROM old JOIN old x USING(id)"
    assert rows(named) == [(2,)]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT * FROM orders VERSION AS OF 99", EpochGone),
        ("SELECT * FROM orders TIMESTAMP AS OF '2024-01-01'", Unsupported),
        ("SELECT * FROM orders VERSION AS OF 'now'", ParseError),
        ("SELECT * FROM nothing VERSION AS OF 1", Unsupported),
        ("WITH o AS (SELECT * FROM orders) SELECT * FROM o VERSION AS OF 1", Unsupported),
        ("CREATE MATERIALIZED VIEW old AS SELECT * FROM orders VERSION AS OF 1", Unsupported),
        ("CREATE VIEW old AS SELECT * FROM orders VERSION AS OF 1", Unsupported),
        ("INSERT INTO orders SELECT * FROM orders VERSION AS OF 1", Unsupported),
    ],
)
def test_what_has_no_versions_is_refused(warehouse: tidemill.Warehouse, query: str, error: type[TidemillError]) -> None:
    """With a hint, and nothing is changed."""
    before = warehouse.epoch
    with pytest.raises(error):
        warehouse.sql(query)
    assert warehouse.epoch == before
