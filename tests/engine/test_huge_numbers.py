"""Numbers of more digits than Python reads, or with exponents of a billion: refused or NULL, never a fault or hang."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import BadValue, InternalError, TidemillError

NINES, ZEROS = "9" * 5_000, "0" * 5_000 + "7"

REFUSED = (
    "SELECT {n}",
    "SELECT {n}L",
    "SELECT * FROM t LIMIT {n}",
    "SELECT * FROM t ORDER BY {n}",
    "SELECT k FROM t GROUP BY {n}",
    "SELECT * FROM t VERSION AS OF {n}",
    "SELECT * FROM t VERSION AS OF '{n}'",
    "SELECT SUM(k) OVER (ORDER BY k ROWS BETWEEN {n} PRECEDING AND CURRENT ROW) FROM t",
    "SHOW REFRESHES LIMIT {n}",
    "SHOW REFRESHES SINCE {n}",
    "CREATE TABLE u (a VARCHAR({n}))",
    "SELECT INTERVAL '{n}' DAY",
    "SELECT INTERVAL '{n} days'",
    "SELECT CAST('{n}' AS INT)",
    "SELECT format_string('%{n}d', 1)",
    "SELECT regexp_replace('a', 'a{{{n}}}', '')",
)

NULL_OR = {
    "TRY_CAST(s AS INT)": [None, 7, None, None],
    "TRY_CAST(s AS BIGINT)": [None, 7, None, None],
    "TRY_CAST(s AS DECIMAL(38,0))": [None, Decimal(7), None, None],
    "TRY_CAST(s AS INTERVAL DAY)": None,
    "from_csv(s, 'a INT').a": [None, 7, None, None],
    "from_csv(s, 'a DECIMAL(38,0)').a": None,
    "get_json_object('[1]', concat('$[', s, ']'))": [None, None, None, None],
    "try_variant_get(parse_json('[1]'), '$[0]', 'INT')": [1, 1, 1, 1],
}
"""Expressions over the texts of ``warehouse``, and their values; None where it is enough that there are some."""


@pytest.fixture
def warehouse() -> tidemill.Warehouse:
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql("CREATE TABLE t (k INT, s STRING)")
    texts = (NINES, ZEROS, f"1e{NINES}", "1e999999999")
    wh.apply({"t": [(1, (place, text)) for place, text in enumerate(texts)]})
    return wh


@pytest.mark.parametrize("statement", REFUSED)
def test_statements_are_refused(warehouse: tidemill.Warehouse, statement: str) -> None:
    with pytest.raises(TidemillError) as refused:
        warehouse.sql(statement.format(n=NINES)).rows()
    assert not isinstance(refused.value, InternalError)


@pytest.mark.parametrize("expression", NULL_OR)
def test_texts_in_rows(warehouse: tidemill.Warehouse, expression: str) -> None:
    found = [value for _, value in sorted(warehouse.sql(f"SELECT k, {expression} FROM t").rows())]
    assert len(found) == 4
    assert NULL_OR[expression] in (None, found)


def test_a_view_takes_such_rows(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(TRY_CAST(s AS BIGINT)) AS total, COUNT(*) AS n FROM t")
    assert warehouse.view("v").rows() == [(7, 4)]
    warehouse.apply({"t": [(1, (5, NINES)), (-1, (1, ZEROS))]})
    assert warehouse.view("v").rows() == [(None, 4)]
    assert warehouse.view("v").verify().ok


@pytest.mark.parametrize(
    "value",
    [10**5_000, Decimal("1e999999999"), Decimal("-1e999999999"), NINES],
    ids=["int", "decimal", "negative", "text"],
)
def test_values_that_are_given(warehouse: tidemill.Warehouse, value: object) -> None:
    with pytest.raises(BadValue):
        warehouse.apply({"t": [(1, (value, "a"))]})
    if not isinstance(value, str):
        with pytest.raises(BadValue):
            warehouse.apply({"t": [(value, (1, "a"))]})  # type: ignore[list-item]
        with pytest.raises(BadValue):
            warehouse.sql("SELECT :x", x=value)


@pytest.mark.parametrize("number", [NINES, "1e999999999", f"1e{NINES}"], ids=["digits", "exponent", "both"])
def test_files(warehouse: tidemill.Warehouse, tmp_path: Path, number: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(f'{{"k": {number}, "s": "a"}}\n' + json.dumps({"k": 9, "s": "b"}) + "\n")
    with pytest.raises(BadValue):
        warehouse.load("t", str(file))
    warehouse.load("t", str(file), on_error="quarantine")
    assert warehouse.sql("SELECT s FROM t WHERE k = 9").rows() == [("b",)]
