"""What one view costs does not grow with the number of views beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidemill
from tidemill.engine.catalog.views import view as catalog
from tidemill.engine.epochs import pipeline

VIEWS = 8


def counting(function: Callable[..., Any], calls: list[object]) -> Callable[..., Any]:
    """``function``, which notes what it was called with."""

    def counted(argument: object) -> Any:
        calls.append(argument)
        return function(argument)

    return counted


def make_views(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql("CREATE TABLE t (a INT, b INT)")
    for number in range(VIEWS):
        warehouse.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT a, SUM(b) + {number} AS s FROM t GROUP BY a")


@pytest.mark.parametrize("function", ["layout_text", "functions_in"])
def test_a_statement_writes_the_catalog_without_working_all_views_out_again(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(catalog, function, counting(getattr(catalog, function), calls))
    with tidemill.open(":memory:", runtime="native") as warehouse:
        make_views(warehouse)
        made = len(calls)
        assert made <= 2 * VIEWS  # a view before it has its first rows, and after
        warehouse.sql("CREATE TABLE u (a INT)")
        assert len(calls) == made


def test_an_epoch_does_not_ask_all_programs_what_they_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(pipeline, "reads_state", counting(pipeline.reads_state, calls))
    with tidemill.open(":memory:", runtime="native") as warehouse:
        make_views(warehouse)
        warehouse.apply({"t": [(1, (1, 2))]})
        calls.clear()
        warehouse.apply({"t": [(1, (2, 3))]})
        assert not calls
        warehouse.sql("CREATE MATERIALIZED VIEW w AS SELECT x.s, y.s AS z FROM v0 x JOIN v1 y ON x.a = y.a")
        warehouse.apply({"t": [(1, (2, 3))]})
        assert warehouse.view("w").rows() == [(2, 3), (6, 7)]
