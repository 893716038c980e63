"""Random Python values as arguments of every public function and method."""

from __future__ import annotations

import datetime
import decimal
import inspect
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidemill
from tests.fuzz.campaign import Tally, campaign, few, many
from tests.fuzz.statements import TABLES
from tidemill.engine.arguments import ArgumentMismatch, check_for
from tidemill.engine.handles import TableHandle, ViewHandle, WarehouseSnapshot
from tidemill.engine.objects.database import Objects
from tidemill.engine.results import Result
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import DataError

ODL = "module m { class part (extent Parts key id) { attribute long id; attribute part of; }; }"

PASSED_BY = {"close", "df", "follow", "spark", "stream", "struct"}
"""What ends the trial, starts threads that outlive it, or needs Spark."""


class Odd:
    """A value that answers to nothing."""

    def __repr__(self) -> str:
        raise ValueError("mine")


def _broken() -> Any:
    yield (1, (1, 2, "x", None, None, None, None, None))
    raise ValueError("mine")


ROW = (7, 8, "s", "1.50", 0.5, "2024-01-01 00:00:00", "2024-01-01", True)

VALUES: list[Callable[[], Any]] = [
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: 1,
    lambda: -1,
    lambda: 2**31,
    lambda: 2**63,
    lambda: 2**200,
    lambda: 0.5,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: "",
    lambda: "t",
    lambda: "u",
    lambda: "per_s",
    lambda: "e",
    lambda: "s",
    lambda: "nothing",
    lambda: "\0",
    lambda: "\ud800",
    lambda: "a" * 5000,
    lambda: "'",
    lambda: "a b",
    lambda: "../x",
    lambda: b"t",
    lambda: "SELECT 1",
    lambda: "SELECT * FROM t",
    lambda: "a > 1",
    lambda: "1 day",
    lambda: "rows",
    lambda: "arrow",
    lambda: "csv",
    list,
    dict,
    lambda: (),
    lambda: set(),
    lambda: object(),
    lambda: Odd(),
    lambda: Warehouse,
    lambda: len,
    lambda: print,
    lambda: np.int64(3),
    lambda: np.float32(1),
    lambda: np.nan,
    lambda: np.array([0, 0]),
    lambda: np.array(["t"]),
    lambda: np.str_("t"),
    lambda: decimal.Decimal("1.5"),
    lambda: decimal.Decimal("NaN"),
    lambda: datetime.date(2024, 1, 1),
    lambda: datetime.datetime.now(),
    lambda: Path("/nonexistent/x.csv"),
    lambda: Path("."),
    lambda: range(3),
    lambda: iter([]),
    lambda: 1j,
    lambda: memoryview(b"x"),
    lambda: {"t": []},
    lambda: {"t": None},
    lambda: {"t": [(1, ROW)]},
    lambda: {"T": [(1, ROW)], "t": [(1, ROW)]},
    lambda: {"t": 5},
    lambda: {"t": [(True, ROW)]},
    lambda: {"t": [(0.5, ROW)]},
    lambda: {"t": [(float("nan"), ROW)]},
    lambda: {"t": [(2**63, ROW)]},
    lambda: {"t": [(-(2**63), ROW)]},
    lambda: {"t": [(2**63 - 1, ROW), (2**63 - 1, ROW)]},
    lambda: {"t": [(0, ROW)]},
    lambda: {"t": [(np.int64(1), ROW)]},
    lambda: {"t": [(1, {"a": 1, "b": 2})]},
    lambda: {"t": [{"a": 1}]},
    lambda: {"t": [(1,)]},
    lambda: {"t": [(1, ("\ud800",) * 8)]},
    lambda: {"t": [(1, (2**31, *ROW[1:]))]},
    lambda: {"t": _broken()},
    lambda: {"t": map(int, "x")},
    lambda: {"u": [(1, (1, "dup", None, None))]},
    lambda: {"u": [(1, (9, "\0", [2**31], {"p": "x"}))]},
    lambda: {"e": [(-1, (1, "x"))]},
    lambda: {"t": pd.DataFrame({"a": [1], "b": [2]})},
    lambda: {"t": pd.DataFrame([[1, 2]], columns=["b", "b"])},
    lambda: {"t": pd.Series([1])},
    lambda: {"t": pd.DataFrame({0: [1]})},
    lambda: {"t": pd.DataFrame({"b": [1], "s": [b"x"]})},
    lambda: {"t": pd.DataFrame({"b": [object()]})},
    lambda: {"t": pa.table({"b": [1], "s": pa.array(["x"]).dictionary_encode()})},
    lambda: {"t": pa.table({"b": [[1]]})},
    lambda: {"t": pa.table({"b": pa.array([2**63], pa.uint64())})},
    lambda: {"t": pa.table({"b": [1], "_weight": [None]})},
    lambda: {"t": pa.table({"b": [1], "_weight": [0.5]})},
    lambda: {"t": pa.table({"b": [1], "at": pa.array([2**62], pa.timestamp("s"))})},
    lambda: {"t": pa.table([[1], [2]], names=["b", "b"])},
    lambda: {"t": pa.table({"b": [1], "s": pa.array([b"\xff"], pa.binary())})},
    lambda: {"t": pa.table({"b": [1], "day": pa.array([2**40], pa.date64())})},
    lambda: {"t": pa.chunked_array([[1]])},
    lambda: {"t": pa.array([1])},
    lambda: {"t": pa.table({"b": [1], "d": pa.array([decimal.Decimal("1e30")], pa.decimal256(60, 2))})},
    lambda: {"u": pa.table({"k": [3], "r": [{"q": 1}]})},
    lambda: {"a": "x"},
    lambda: {"s": ["x", None]},
    lambda: {"nope": 1},
    lambda: {1: 2},
    lambda: {"s": object()},
    lambda: {"part": 1},
    lambda: ODL,
]


def _methods(kind: type) -> list[str]:
    own = [name for base in kind.__mro__ if base.__module__.startswith("tidemill") for name in vars(base)]
    return sorted({name for name in own if not name.startswith("_")} - PASSED_BY)


def _arguments(dice: random.Random, function: Any = None) -> tuple[list[Any], dict[str, Any]]:
    if callable(function) and dice.random() < 0.8:
        return _fitting(dice, function)
    given = [dice.choice(VALUES)() for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3)))]
    names = (
        "since",
        "where",
        "name",
        "timeout",
        "buffer",
        "form",
        "format",
        "positions",
        "keep",
        "limit",
        "epoch",
        "reject",
    )
    names += (
        "order",
        "at",
        "clear",
        "arguments",
        "returns",
        "strict",
        "zero",
        "add",
        "result",
        "id",
        "of",
        "keys",
        "patience",
    )
    return given, {dice.choice(names): dice.choice(VALUES)() for _ in range(dice.choice((0, 0, 0, 1, 2)))}


def _fitting(dice: random.Random, function: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as many as there are parameters, by name; most of them of the type that is declared."""
    given, named = [], {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty and dice.random() < 0.6:
            continue
        check = check_for(_resolved(parameter.annotation, function))
        value = next((v for _ in range(20) if _fits(v := dice.choice(VALUES)(), check)), None)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            given.append(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named[dice.choice(("id", "of", "strategy"))] = value
        else:
            named[name] = value
    return given, named


def _resolved(annotation: Any, function: Any) -> Any:
    try:
        return eval(annotation, inspect.unwrap(function).__globals__)
    except (NameError, TypeError, AttributeError):
        return Any


def _fits(value: Any, check: Any) -> bool:
    try:
        return check is None or check(value) is not Odd
    except (ArgumentMismatch, ValueError):
        return False


def play(tally: Tally, dice: random.Random, folder: Path) -> None:
    """One warehouse, and a hundred calls of its methods and those of what it gives out."""
    wh = tidemill.open(":memory:", runtime="native", backend="python")
    wh.sql(TABLES)
    db = tidemill.objects(wh, ODL)
    wh.sql("INSERT INTO t (b, s) VALUES (5, 'new')")
    batch = wh.view("per_s").batches(0)[-1]
    targets: list[tuple[type, Any]] = [
        *[(Warehouse, wh)] * 4,
        (ViewHandle, wh.view("per_s")),
        (TableHandle, wh.table("t")),
        (WarehouseSnapshot, wh.at(wh.epoch)),
        (Objects, db),
        (Subscription, wh.subscribe("per_s", timeout=0)),
        (ChangeBatch, batch),
        (Result, wh.sql("SELECT * FROM t")),
    ]
    for _ in range(100):
        kind, target = dice.choice(targets)
        name = dice.choice(_methods(kind))
        given, named = _arguments(dice, getattr(kind, name, None) and getattr(target, name))
        before = _settled(wh)
        error = tally.call(
            f"{kind.__name__}.{name}(*{_shown(given)}, **{_shown(named)})", _calling(target, name, given, named)
        )
        if error is not None and _settled(wh) != before and name != "replay":  # events are refused one by one
            tally.failed(f"{kind.__name__}.{name}", AssertionError(f"refused, and an epoch was committed: {error}"))
    tally.call("verify", lambda: _verified(wh))
    wh.close()
    given, named = _arguments(dice, tidemill.open)
    named.pop("spark", None)
    tally.call(f"open(*{_shown(given)}, **{_shown(named)})", lambda: _opened(folder, given, named))


def _settled(wh: Warehouse) -> int:
    """The last epoch, with all replayed events committed, or refused one by one."""
    while True:
        with suppress(DataError):
            return wh.epoch


def _calling(target: Any, name: str, given: list[Any], named: dict[str, Any]) -> Callable[[], object]:
    def call() -> object:
        found = getattr(target, name)
        try:
            return found(*given, **named) if callable(found) and not isinstance(found, list) else found
        except ValueError as error:
            if str(error) != "mine":
                raise
            return None

    return call


def _verified(wh: Warehouse) -> None:
    assert all(wh.view(name).verify() for name in wh.views())


def _opened(folder: Path, given: list[Any], named: dict[str, Any]) -> None:
    before = Path.cwd()
    os.chdir(folder)
    try:
        tidemill.open(*given[:1], **named).close()
    finally:
        os.chdir(before)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except ValueError:
        return "odd"


def tell(tally: Tally) -> None:
    for kind, what in tally.failures.items():
        print(f"- {kind}\n    {what[:600]}", flush=True)
    assert not tally.failures


def test_arguments(tmp_path: Path) -> None:
    tell(campaign("arguments", few(8), partial(play, folder=tmp_path)))


@pytest.mark.long
def test_fuzz_arguments(tmp_path: Path) -> None:
    tell(campaign("arguments", many(), partial(play, folder=tmp_path)))
