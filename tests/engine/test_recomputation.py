"""Large changes of views without machine code: computed again, and seen by everybody as an ordinary change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tidemill.compiler.statistics.epoch_costs import ARRIVAL, PYTHON
from tidemill.engine.epochs.placement import Placement
from tidemill.engine.epochs.recomputation import arrivals, model_of
from tidemill.model.errors import TidemillError

ROWS = 12_000

DECLARED = """
CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, v BIGINT, name STRING);
CREATE MATERIALIZED VIEW ranked AS SELECT id, g, v, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, name) AS place FROM t;
CREATE MATERIALIZED VIEW firsts AS SELECT g, SUM(v) AS total FROM ranked WHERE place <= 3 GROUP BY g;
"""


def rows_of(first: int, last: int, weight: int) -> pa.Table:
    ids = np.arange(first, last)
    weights = np.full(last - first, weight)
    names = [f"{number:06}" for number in ids]
    return pa.table({"id": ids, "g": ids % 50, "v": ids * 7919 % 1009, "name": names, "_weight": weights})


@pytest.fixture
def warehouse() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql(DECLARED)
        opened.apply({"t": rows_of(0, ROWS, 1)})
        yield opened


def recomputed(warehouse: tidemill.Warehouse, view: str) -> str:
    """The line of EXPLAIN about the last epoch that computed the view again."""
    lines = (line.strip() for line in warehouse.view(view).explain().splitlines())
    return next((line for line in lines if line.startswith("recomputed  ")), "")


def test_a_change_of_most_rows_is_computed_again(warehouse: tidemill.Warehouse) -> None:
    before = set(warehouse.view("ranked").rows())
    epoch = warehouse.epoch
    warehouse.apply({"t": pa.concat_tables([rows_of(0, 9_000, -1), rows_of(ROWS, ROWS + 5_000, 1)])})
    assert f"in epoch {warehouse.epoch}: triggers were predicted to take" in recomputed(warehouse, "ranked")
    assert not recomputed(warehouse, "firsts")  # it has machine code, which takes in the difference
    for view in ("ranked", "firsts"):
        warehouse.view(view).verify()
    after = set(warehouse.view("ranked").rows())
    (batch,) = warehouse.view("ranked").batches(since=epoch)
    changed = batch.arrow().to_pydict()
    weights = changed.pop("_weight")
    told = dict(zip(zip(*changed.values(), strict=True), weights, strict=True))
    assert {row[:4]: weight for row, weight in told.items()} == {
        **dict.fromkeys(after - before, 1),
        **dict.fromkeys(before - after, -1),
    }


def test_later_changes_go_on_from_what_was_computed(warehouse: tidemill.Warehouse) -> None:
    warehouse.apply({"t": rows_of(0, 9_000, -1)})
    assert recomputed(warehouse, "ranked")
    for first in (9_000, 9_500):
        warehouse.apply({"t": rows_of(first, first + 3, -1)})
        for view in ("ranked", "firsts"):
            warehouse.view(view).verify()


def test_a_refused_epoch_leaves_everything_as_it_was(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql("CREATE MATERIALIZED VIEW shares AS SELECT g, SUM(1 / (total - 1)) AS s FROM firsts GROUP BY g")
    shown = sorted(map(repr, warehouse.view("ranked").rows()))
    with pytest.raises(TidemillError):  # the first three of a new group add up to 1
        warehouse.apply(
            {
                "t": pa.concat_tables(
                    [rows_of(0, 9_000, -1), pa.table({"id": [-1], "g": [77], "v": [1], "name": ["x"], "_weight": [1]})]
                )
            }
        )
    assert sorted(map(repr, warehouse.view("ranked").rows())) == shown
    warehouse.apply({"t": rows_of(0, 3, -1)})
    for view in ("ranked", "firsts", "shares"):
        warehouse.view(view).verify()


def test_what_duckdb_does_not_answer_is_left_to_triggers(
    warehouse: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Placement, "refill", lambda *_: None)
    warehouse.apply({"t": rows_of(0, 9_000, -1)})
    assert not recomputed(warehouse, "ranked")
    for view in ("ranked", "firsts"):
        warehouse.view(view).verify()


def test_small_changes_run_triggers(warehouse: tidemill.Warehouse) -> None:
    warehouse.apply({"t": rows_of(0, 3, -1)})
    assert not recomputed(warehouse, "ranked")


def test_a_window_over_all_rows_is_computed_again_for_a_single_one(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql("CREATE MATERIALIZED VIEW overall AS SELECT id, RANK() OVER (ORDER BY name) AS place FROM t")
    warehouse.apply({"t": rows_of(5, 6, -1)})
    assert recomputed(warehouse, "overall") and not recomputed(warehouse, "ranked")
    warehouse.view("overall").verify()


def test_what_was_computed_again_is_stored(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql(DECLARED)
        warehouse.apply({"t": rows_of(0, ROWS, 1)})
        before = warehouse.epoch
        first = warehouse.at(before).sql("SELECT SUM(place) AS s FROM ranked").rows()
        warehouse.apply({"t": rows_of(0, 9_000, -1)})
        assert recomputed(warehouse, "ranked")
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.apply({"t": rows_of(9_000, 9_010, -1)})
        for view in ("ranked", "firsts"):
            warehouse.view(view).verify()
        assert warehouse.at(before).sql("SELECT SUM(place) AS s FROM ranked").rows() == first


def test_windows_make_each_row_once_whatever_has_changed(warehouse: tidemill.Warehouse) -> None:
    warehouse.apply({"t": rows_of(0, 9_000, -1)})
    model = warehouse._engine.state.pipeline["ranked"].model
    assert model is not None
    few, many, all_ = (model.by_triggers({"t": float(rows)}, PYTHON) for rows in (10, 1_000, ROWS))
    assert few < many < all_
    assert many - 1_000 * ARRIVAL * PYTHON.visit <= 2 * ROWS * PYTHON.visit


def test_changes_of_shared_stages_are_predicted(warehouse: tidemill.Warehouse) -> None:
    """A view that reads a stage of another, or has the same rows, is predicted from the changes of that view."""
    shared = "(SELECT g, AVG(v) AS mean FROM t GROUP BY g) m ON t.g = m.g"
    warehouse.sql(
        f"CREATE MATERIALIZED VIEW above AS SELECT id FROM t JOIN {shared} WHERE v > mean;"
        f"CREATE MATERIALIZED VIEW below AS SELECT id FROM t JOIN {shared} WHERE v < mean;"
        "CREATE MATERIALIZED VIEW same AS SELECT g, SUM(v) AS total FROM ranked WHERE place <= 3 GROUP BY g"
    )
    state = warehouse._engine.state
    reached = {placed.program.view: (placed, rows) for placed, rows in arrivals(state, {"t": 40})}
    # Each of the 50 groups has a row, which may leave and come.
    assert reached["below"][1] == {"t": 40.0, "above/1": 40.0}
    assert reached["same"][1] == {"firsts": 40.0}
    for placed, rows in reached.values():
        assert model_of(state, placed).by_triggers(rows, PYTHON) > 0
