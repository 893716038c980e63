"""Invalid arguments of the public API: every failure is an error of Tidemill."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.handles import TableHandle, ViewHandle, WarehouseSnapshot
from tidemill.engine.maintenance.housekeeping import Housekeeping
from tidemill.engine.objects.database import Objects
from tidemill.engine.results import LazyRows, Result
from tidemill.engine.row_changes import PreparedText, RowChanges
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import (
    BadValue,
    DataError,
    InternalError,
    InvalidArgument,
    OutOfBudget,
    ParseError,
    SqlError,
    StorageError,
    TidemillError,
    UnknownName,
    Unsupported,
)
from tidemill.program.verification.verify import BrokenInvariant

PUBLIC = (
    *(LazyRows, ChangeBatch, Objects, Result, WarehouseSnapshot, Subscription, TableHandle, ViewHandle),
    *(PreparedText, RowChanges, Warehouse),
)


@pytest.fixture
def wh() -> Iterator[Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("CREATE TABLE t (a INT, b STRING)")
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        yield warehouse


def test_every_public_method_is_a_door() -> None:
    for kind in PUBLIC:
        for name, member in vars(kind).items():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and not name.startswith("_"):
                assert hasattr(function, "__wrapped__"), f"{kind.__name__}.{name}"
    for function in (tidemill.open, tidemill.objects, tidemill.odl_from):
        assert hasattr(function, "__wrapped__")


@pytest.mark.parametrize(
    ("method", "given", "what"),
    [
        ("sql", (None,), '"text" of Warehouse.sql must be text'),
        ("sql", (b"SELECT 1",), '"text" of Warehouse.sql must be text'),
        ("sql", ("SELECT '\ud800'",), "without lone surrogates"),
        ("sql", (), "Warehouse.sql cannot be called like this"),
        ("apply", ([(1, (1, "x"))],), '"changes" of Warehouse.apply must be a mapping'),
        ("apply", ({1: []},), "one must be text"),
        ("at", ("1",), '"epoch" of Warehouse.at must be a whole number'),
        ("at", (True,), '"epoch" of Warehouse.at must be a whole number'),
        ("vacuum", (2**70,), "a whole number of 64 bits"),
        ("load", ("t", 7), '"paths" of Warehouse.load must be text or a path'),
        ("view", (7,), '"name" of Warehouse.view must be text'),
        ("replay", ({"t": [(1, (1, "x"))]}, np.array([[0]])), "an array of whole numbers"),
        ("replay", ({"t": [(1, (1, "x"))]}, np.array([3])), "numbers from 0 to 0"),
        ("replay", ({"t": [(1, (1, "x"))]}, ["t", "t"]), '2 events of "t", and 1 rows'),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(wh: Warehouse, method: str, given: Any, what: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        getattr(wh, method)(*given)
    assert what in refused.value.what
    assert wh.epoch == 0


def test_a_stream_needs_a_table(wh: Warehouse) -> None:
    with pytest.raises(InvalidArgument, match="a stream needs a table"):
        wh.stream({}, None)
    with pytest.raises(InvalidArgument, match="table"):
        wh.stream({"t": 5}, None)
    with pytest.raises(UnknownName):
        wh.stream({"nothing": lambda batch: batch}, None)


def test_positions_are_texts(wh: Warehouse) -> None:
    for positions in ("x", {1: "a"}, {"a": 1}):
        with pytest.raises(InvalidArgument, match="positions"):
            wh.apply({"t": [(1, (1, "x"))]}, positions=positions)  # type: ignore[arg-type]
    assert wh.epoch == 0 and wh.view("v").rows() == []


def test_numbers_of_numpy_are_plain_numbers(wh: Warehouse) -> None:
    wh.apply({"t": [(np.int64(2), (np.int32(1), "x"))]})
    assert wh.at(np.int64(1)).view("v").rows() == [(1, 2)]  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0.5, float("nan"), 2**63, -(2**63), None, "1", True])
def test_weights_are_whole_numbers_of_64_bits(wh: Warehouse, weight: Any) -> None:
    with pytest.raises(DataError):
        wh.apply({"t": [(weight, (1, "x"))]})
    assert wh.epoch == 0


@pytest.mark.parametrize(
    "data",
    [
        pa.chunked_array([[1]]),
        pa.table([[1], [2]], names=["a", "a"]),
        pa.table({"a": [[1]]}),
        pa.table({"a": [1], "b": pa.array([b"\xff"])}),
        map(int, ["x"]),
        5,
    ],
)
def test_data_that_cannot_be_changes_are_refused(wh: Warehouse, data: Any) -> None:
    with pytest.raises(BadValue):
        wh.apply({"t": data})
    assert wh.epoch == 0


def test_an_error_of_the_user_passes_as_it_is(wh: Warehouse) -> None:
    class Mine(Exception):
        pass

    def told(done: int, all_: int) -> None:
        raise Mine

    with pytest.raises(Mine):
        _calling(wh, told)


def _calling(wh: Warehouse, function: Any) -> None:
    wh._engine.catalog.table = lambda name: function(0, 0)  # type: ignore[method-assign, assignment]
    wh.table("t")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (KeyError("x"), InternalError),
        (AssertionError(), InternalError),
        (BrokenInvariant("no such map"), BrokenInvariant),
        (RecursionError(), Unsupported),
        (MemoryError(), OutOfBudget),
        (OSError(28, "No space left on device", "/data"), StorageError),
        (UnknownName("there is no x"), UnknownName),
        (RuntimeWarning("could not be merged"), RuntimeWarning),  # of a user who makes errors of warnings
    ],
)
def test_whatever_fails_inside_comes_out_as_ours(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: type[Exception]
) -> None:
    # As if the engine itself had raised it: its code, and no function of the user.
    space: dict[str, Any] = {"error": raised, "__name__": "tidemill.engine.engine"}
    exec("def compact(self): raise error", space)
    monkeypatch.setattr(Housekeeping, "compact", space["compact"])
    with pytest.raises(kind) as caught:
        wh.compact()
    assert not isinstance(caught.value, InternalError) or caught.value.report == caught.value.detail


def test_a_fault_of_ours_has_a_report_without_passwords(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {"__name__": "tidemill.engine.statements.execute"}
    exec("def execute(engine, statement): return {}['gone']", space)
    monkeypatch.setattr("tidemill.engine.statements.script.execute", space["execute"])
    with pytest.raises(InternalError) as caught:
        wh.sql("CREATE SOURCE s TYPE postgres OPTIONS (url = 'postgresql://ann:hush@db', password = 'hush')")
    told = caught.value.render()
    assert "error: Warehouse.sql failed because of a fault in Tidemill" in told
    assert (
        "KeyError: 'gone'" in told
        and "CREATE SOURCE s" in told
        and "at tidemill.engine.statements.execute:1 execute" in told
    )
    assert "hint: This is a fault in Tidemill." in told
    assert "hush" not in told
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE t WHERE a = 1", ParseError),
        ("INSERT t (array())", ParseError),
        ("CREATE TABLE w (d DECIMAL(a))", ParseError),
        ("CREATE TABLE w (d DECIMAL(1, 2, 3))", ParseError),
        ("CREATE TABLE w (a INT) x y", ParseError),
        ("CREATE STREAM s=g.()", ParseError),
        ("SELECT a[0, 1] FROM t", ParseError),
        ("VALUES ((SELECT MAX(a) FROM t))", Unsupported),
        ("SELECT PERCENTILE(a, (SELECT 0.1 FROM t LIMIT 1)) FROM t", SqlError),
        ("SELECT sequence_of_moments(a, b) FROM t", UnknownName),
        ("SELECT (SELECT COUNT(*) FROM t AS s GROUP BY t.a) AS n FROM t", Unsupported),
        ("SELECT STACK() FROM t", SqlError),
        ("SELECT STACK(2147483647, 1)", SqlError),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM v", UnknownName),
    ],
)
def test_statements_that_once_failed_inside(wh: Warehouse, statement: str, kind: type[TidemillError]) -> None:
    with pytest.raises(kind) as refused:
        wh.sql(statement)
    assert not isinstance(refused.value, InternalError)


def test_a_view_that_cannot_be_replaced_stays(wh: Warehouse) -> None:
    wh.apply({"t": [(1, (0, "x"))]})
    for query in ("SELECT nothing FROM t", "SELECT 1 / a AS x FROM t", "SELECT a FROM v"):
        with pytest.raises(TidemillError):
            wh.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        assert wh.view("v").rows() == [(0, 1)] and wh.view("v").verify()
    wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a + 1 AS a FROM t")
    assert wh.view("v").rows() == [(1,)]


def test_all_in_a_union_of_all(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE u (a INT)")
    both = "(SELECT a FROM t EXCEPT ALL SELECT a FROM u) UNION ALL (SELECT a FROM t INTERSECT ALL SELECT a FROM u)"
    wh.sql(f"CREATE MATERIALIZED VIEW w AS {both} UNION ALL SELECT 7 AS a")
    wh.apply({"t": [(2, (1, "x")), (1, (2, "y"))], "u": [(1, (1,))]})
    assert sorted(wh.view("w").rows()) == [(1,), (1,), (2,), (7,)] and wh.view("w").verify()
