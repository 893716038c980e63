"""Rows that machine code makes of a map are those of the generated function, and so is what is wrong with one."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from unittest.mock import patch

import pytest

from tests.runtimes.native.llvm.compiled import stage_of, started
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.llvm.stage import llvm_stage as stages

SALES = "CREATE STREAM sales (day DATE, name STRING, flag BOOLEAN, price DECIMAL(10,2), x DOUBLE, n INT)"
GROUPS = """SELECT name, YEAR(day) AS y, flag, SUM(n) AS s, AVG(price) AS p, SUM(x) AS d, COUNT(*) AS c, MONTH(day) AS m
  FROM sales GROUP BY name, YEAR(day), flag, MONTH(day) HAVING COUNT(*) > 1"""
TOTALS = "SELECT name, SUM(n) AS s FROM sales GROUP BY name"


@contextmanager
def as_if(*, many: bool) -> Iterator[None]:
    """Let a stage do what it does where rows and entries are many, or what it does where they are few."""
    limit = -1 if many else 1 << 60
    with (
        patch.object(stages, "MACHINE_CODE_KEYS", limit),
        patch.object(stages, "LARGE_STATE", limit),
        decimal.localcontext(EXACT),
    ):
        yield


def _sale(chance: random.Random) -> Row:
    row = (
        datetime.date(chance.choice((1969, 2024)), chance.choice((1, 12)), chance.randint(1, 28)),
        chance.choice(("ann", "bob", "")),
        chance.random() < 0.5,
        Decimal(chance.randint(-999, 999)).scaleb(-2),
        chance.choice((0.1, -0.0, 1e300, float("inf"), 0.25)),
        chance.randint(-5, 5),
    )
    return tuple(None if chance.random() < 0.1 else value for value in row)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_machine_code_are_those_of_python(seed: int) -> None:
    stage, tables = stage_of(SALES, GROUPS, "delta")
    fields = tables["sales"].fields
    one, other = started(stage, tables), started(stage, tables)
    assert one.code.row_output is not None
    chance, sold = random.Random(seed), list[Row]()
    for _ in range(5):
        came = [_sale(chance) for _ in range(100)]
        gone = [sold.pop() for _ in range(min(len(sold), 70))]
        sold += came
        chance.shuffle(sold)
        change = ChangeSet.of_arrow(
            ChangeSet.of([*((row, 1) for row in came), *((row, -1) for row in gone)], fields).arrow(), fields
        )
        found = []
        for runner, many in ((one, True), (other, False)):
            with as_if(many=many):
                runner.fire("sales", change)
                found.append(runner.emit())
                assert runner.emit().zset() == found[-1].zset()
                runner.settle()
        assert not found[0].is_python_only
        assert found[0].zset() == found[1].zset() != ZSet()
        assert len(found[0]) == len(found[0].zset())


def test_a_sum_that_does_not_fit_is_told_as_by_python() -> None:
    stage, tables = stage_of(SALES.replace("n INT", "n BIGINT"), TOTALS, "delta")
    runner, fields = started(stage, tables), tables["sales"].fields
    rows = [((None, name, None, None, None, n), 1) for name, n in (("ann", 1), ("bob", 2**63 - 1), ("bob", 1))]
    with as_if(many=True):
        runner.fire("sales", ChangeSet.of(rows, fields))
        with pytest.raises(ArithmeticFault, match="a sum does not fit BIGINT: 9223372036854775808"):
            runner.emit()
        runner.rollback()
        runner.fire("sales", ChangeSet.of(rows[:2], fields))
        assert runner.emit().zset() == ZSet({("ann", 1): 1, ("bob", 2**63 - 1): 1})
