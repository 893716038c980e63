"""Functions of pandas Series and Arrow arrays are called for many rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native import backends

ROWS = 60


@pytest.fixture(params=["python", "llvm"])
def warehouse(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tidemill.Warehouse]:
    """A table of numbers; views are maintained by generated Python or by machine code."""
    monkeypatch.setattr(backends, "BACKEND", request.param)
    made = tidemill.open(":memory:", runtime="native")
    made.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
    yield made
    made.close()


def rows(first: int) -> dict[str, pa.Table]:
    """A change of ``ROWS`` rows, numbered from ``first`` on."""
    ids = list(range(first, first + ROWS))
    return {"t": pa.table({"id": ids, "a": [None if i % 7 == 0 else i * 3 for i in ids]})}


class Counted:
    """A function of batches that counts its calls, and their rows."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.sizes: list[int] = []

    def __call__(self, a: Any, b: Any) -> Any:
        """The sum of the first and twice the second."""
        self.sizes.append(len(a))
        return a + b * 2 if self.form == "pandas" else pc.add(a, pc.multiply(b, 2))


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_one_call_for_many_rows(warehouse: tidemill.Warehouse, form: str) -> None:
    """In one-off queries, when a view is filled, and in an epoch of many rows; nested calls too."""
    function = Counted(form)
    warehouse.register_function("f", function, arguments=["BIGINT", "BIGINT"], returns="BIGINT", form=form)
    warehouse.apply(rows(0))
    query = "SELECT SUM(f(id, f(a, 1))) AS s, COUNT(*) AS n FROM t WHERE f(a, id) > 10"
    (found,) = warehouse.sql(query).rows()
    expected = [(i, i * 3) for i in range(ROWS) if i % 7 and i * 3 + 2 * i > 10]
    assert found == (sum(i + 2 * (a + 2) for i, a in expected), len(expected))
    assert len(function.sizes) <= 8
    warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert warehouse.view("v").rows() == [found]
    warehouse.apply(rows(ROWS))
    assert warehouse.view("v").rows() == warehouse.sql(query).rows()
    assert len(function.sizes) <= 40
    warehouse.sql("DELETE FROM t WHERE id < 100")
    assert warehouse.view("v").rows() == warehouse.sql(query).rows()


def test_a_batch_that_fails_is_called_row_by_row(warehouse: tidemill.Warehouse) -> None:
    """A row that a condition leaves out may be one that fails; one that it does not leave out refuses the epoch."""

    def inverse(a: Any) -> Any:
        if (a == 0).any():
            raise ValueError("zero")
        return 100 / a

    warehouse.register_function("inverse", inverse, arguments=["BIGINT"], returns="DOUBLE", form="pandas", strict=True)
    warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(inverse(id)) AS s FROM t WHERE id > 0")
    warehouse.apply(rows(0))
    assert warehouse.view("v").rows() == [(pytest.approx(sum(100 / i for i in range(1, ROWS))),)]
    with pytest.raises(ArithmeticFault, match="zero"):
        warehouse.sql("SELECT SUM(inverse(id)) FROM t")
