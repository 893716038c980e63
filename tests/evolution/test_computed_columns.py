"""Views that get columns which are made of those that they have: their rows stay as they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import tidemill
from tests.evolution.test_replaced_views import is_right, written_meanwhile
from tidemill.engine.check import check
from tidemill.engine.definitions.replacing.pinned_view import PinnedView
from tidemill.model.errors import ArithmeticFault, FellBehind, Unsupported

TABLE = "CREATE TABLE t (k INT, n INT, w BIGINT, x DOUBLE, s STRING, d DATE)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k, n, w, x, s, d FROM t"
ROWS: list[tuple[Any, ...]] = [
    (1, 7, 3, 0.5, "a", date(2024, 1, 1)),
    (2, -7, -3, -0.0, "b", date(2024, 1, 2)),
    (None, None, None, None, None, None),
    (2, 2147483646, -9223372036854775808, 1e300, "", date(2024, 2, 29)),
    (3, -2147483648, 9223372036854775807, -2.5, "a", date(1970, 1, 1)),
    (3, 0, 1, 3.0, "b", None),
]
COMPUTED = (
    "n DIV 2 AS y",
    "n % 5 AS y, w % -7 AS z",
    "CAST(n AS BIGINT) * 1000 + k AS y",
    "-CAST(n AS BIGINT) AS y, n AS z",
    "n / 4 AS y, x / 3 AS z",
    "x + x AS y, -x AS z, x * 0 AS q",
    "CASE WHEN n > 3 THEN 'more' WHEN n IS NULL THEN s ELSE 'less' END AS y",
    "n > 3 AND k IS NOT NULL OR x IS NULL AS y, NOT n = 7 AS z",
    "COALESCE(n, k, 0) AS y, COALESCE(s, 'none') AS z",
    "d >= d AS y, w <> n AS z",
    "1 AS y, CAST(NULL AS INT) AS z, 'one' AS q, 2.5E0 AS r",
)
NOT_COMPUTED = ("UPPER(s) AS y", "CAST(n AS STRING) AS y", "CAST(x AS DECIMAL(38, 2)) AS y", "s < 'b' AS y")


@contextmanager
def filling_refused() -> Iterator[None]:
    """No view is computed beside another one."""
    with patch.object(PinnedView, "__init__", side_effect=Unsupported("the rows are computed again")):
        yield


@pytest.mark.parametrize("columns", COMPUTED)
def test_columns_are_computed_as_they_are_read(tmp_path: Path, columns: str) -> None:
    """As the evaluator does, also of extreme values, of NULL and of rows that come later; views may read them."""
    for place in (":memory:", tmp_path / "w"):
        with tidemill.open(place, runtime="native", backend="python") as wh:
            wh.sql(TABLE)
            wh.apply({"t": [(1, row) for row in ROWS]})
            wh.sql(VIEW)
            wh.apply({"t": [(-1, ROWS[0]), (1, ROWS[0])]})
            with filling_refused():
                wh.sql(f"ALTER VIEW v AS SELECT k, {columns}, n, w, x, s, d FROM t")
            is_right(wh)
            wh.sql("CREATE MATERIALIZED VIEW later AS SELECT y, COUNT(*) AS c FROM v GROUP BY y")
            wh.apply({"t": [(1, ROWS[0]), (-1, ROWS[1]), (1, ROWS[5])]})
            is_right(wh)
    assert check(tmp_path / "w", full=True).ok
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        is_right(wh)
        wh.apply({"t": [(-1, ROWS[2])]})
        wh.vacuum(keep=1)
        wh.compact()
        is_right(wh)


@pytest.mark.parametrize("columns", NOT_COMPUTED)
def test_other_columns_are_filled(columns: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(TABLE)
        wh.apply({"t": [(1, row) for row in ROWS if row[3] != 1e300]})
        wh.sql(VIEW)
        with pytest.raises(Unsupported, match="computed again"), filling_refused():
            wh.sql(f"ALTER VIEW v AS SELECT k, n, w, x, s, d, {columns} FROM t")
        wh.sql(f"ALTER VIEW v AS SELECT k, n, w, x, s, d, {columns} FROM t")
        is_right(wh)


def test_columns_of_groups(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(TABLE)
        wh.apply({"t": [(1, (i % 7, i, i, 0.5, "a", None)) for i in range(70)]})
        wh.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n, COUNT(*) AS c FROM t GROUP BY k HAVING MAX(n) > 64"
        )
        wh.sql("CREATE MATERIALIZED VIEW top AS SELECT MAX(n) AS n FROM v")
        then = wh.epoch
        with filling_refused(), wh.subscribe("top", timeout=0.1) as heard:
            wh.sql(
                "ALTER VIEW v AS SELECT k, SUM(n) AS n, COUNT(*) AS c, SUM(n) / COUNT(*) AS mean, COUNT(*) > 9 AS many "
                "FROM t GROUP BY k HAVING MAX(n) > 64"
            )
            assert list(heard) == []
        for place in range(3):
            wh.apply(
                {"t": [(1, (place, 99, 1, 1.0, "b", None)), (-1, (6, 69 - 7 * place, 69 - 7 * place, 0.5, "a", None))]}
            )
            is_right(wh)
        assert [f.name for f in wh.at(then).view("v").fields] == ["k", "n", "c"]
        assert len(wh.sql(f"SELECT * FROM v VERSION AS OF {then}").rows()) == 5
        with pytest.raises(FellBehind):
            wh.view("v").batches(since=then)


def test_an_error_is_that_of_the_view() -> None:
    """Also where a row that cannot be computed comes while the columns are tried."""
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(TABLE)
        wh.apply({"t": [(1, row) for row in ROWS]})
        wh.sql(VIEW)
        for column in ("100 DIV n", "n + n", "w * 2", "-n", "100 / x"):
            with pytest.raises(ArithmeticFault):
                wh.sql(f"ALTER VIEW v AS SELECT k, n, w, x, s, d, {column} AS y FROM t")
            is_right(wh)
        wh.sql("DELETE FROM t WHERE w > 100 OR w < -100")
        with written_meanwhile(partial(wh.apply, {"t": [(1, ROWS[4])]})), pytest.raises(ArithmeticFault):
            wh.sql("ALTER VIEW v AS SELECT k, n, w, x, s, d, w * 3 AS y FROM t")
        is_right(wh)
        wh.sql("DELETE FROM t WHERE w > 100")
        wh.sql("ALTER VIEW v AS SELECT k, n, w, x, s, d, w * 3 AS y FROM t")
        is_right(wh)


def test_columns_over_columns(tmp_path: Path) -> None:
    """Each time a few more, with changes between; then other columns altogether, and the computed ones once more."""
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(TABLE)
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, n FROM t")
        columns = ""
        for turn, column in enumerate(("n DIV 2 AS a", "n DIV 2 + k AS b", "1 AS c")):
            columns += f", {column}"
            wh.apply({"t": [(1, (turn, i, i, 0.5, "a", None)) for i in range(20)]})
            with filling_refused():
                wh.sql(f"ALTER VIEW v AS SELECT k, n{columns} FROM t")
            is_right(wh)
        wh.sql("ALTER VIEW v AS SELECT k, s AS n, x FROM t")
        is_right(wh)
        wh.sql("ALTER VIEW v AS SELECT k, n FROM t")
        wh.apply({"t": [(1, ROWS[1])]})
        with filling_refused():
            wh.sql("ALTER VIEW v AS SELECT k, n, n DIV 3 AS a FROM t")
        wh.apply({"t": [(-1, ROWS[1])]})
        is_right(wh)
        wh.compact()
        is_right(wh)


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_rows_that_were_deleted_are_not_computed(tmp_path: Path, backend: str) -> None:
    """Though they are stored, with their deletions: a view that could not have had them is filled all the same."""
    statements = "CREATE MATERIALIZED VIEW w AS SELECT w * 3 AS y FROM t", "ALTER VIEW v AS SELECT w * 3 AS y FROM t"
    for statement in statements:
        with tidemill.open(tmp_path / statement[:5], runtime="native", backend=backend) as wh:
            wh.sql(TABLE)
            wh.apply({"t": [(1, row) for row in ROWS]})
            wh.sql("CREATE MATERIALIZED VIEW v AS SELECT w FROM t")
            wh.sql("DELETE FROM t WHERE w > 100 OR w < -100")
        with tidemill.open(tmp_path / statement[:5], runtime="native", backend=backend) as wh:
            wh.sql(statement)
            is_right(wh)
