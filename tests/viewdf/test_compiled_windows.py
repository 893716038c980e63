"""Sliding windows as machine code: the rows of every method are those that generated Python has for the direct one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import tidemill
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native import backends
from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.llvm.stage import llvm_stage
from tidemill.runtimes.native.operators import touched_groups

START = datetime(2024, 1, 1)

TABLE = """CREATE TABLE s (ts TIMESTAMP, src STRING, flag BOOLEAN, loss INT, price DECIMAL(20,2), x DOUBLE, day DATE)
  PARTITION BY ts EVERY 1 MINUTE"""

SUMS = "SUM(loss) AS total, AVG(price) AS mean, COUNT(x) AS c, COUNT(*) AS n"
EXTREMES = "MAX(loss) AS m, MIN(x) AS x0, MAX(x) AS x1, MIN(price) AS p0, MAX(day) AS d1, MAX(flag) AS f, COUNT(*) AS n"
RANKS = """MEDIAN(loss) AS middle, PERCENTILE(loss, 0.3) AS low, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY loss DESC)
  AS high, MEDIAN(x) AS xs, MAX(loss) AS most, SUM(loss) AS total"""

CASES = [
    *((method, SUMS) for method in ("direct", "panes", "prefix", "subtract", "intervals", "rolling")),
    *((method, EXTREMES) for method in ("direct", "panes", "intervals", "rolling")),
    *((method, RANKS) for method in ("direct", "rolling")),
]


@contextmanager
def machine_code(few: int) -> Iterator[None]:
    """All stages are compiled within, and one row is enough; ``few`` decides if touched groups are made alone."""
    with ExitStack() as stack:
        for module, name, value in (
            (backends, "BACKEND", "llvm"),
            (jit, "LEVEL", 0),
            (llvm_stage, "MACHINE_CODE_KEYS", 1),
            (touched_groups, "TOUCHED_FRACTION", few),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


def a_row(chance: random.Random, minute: int) -> tuple[Any, ...]:
    values = (
        chance.choice("abc"),
        chance.random() < 0.5,
        chance.randrange(-4, 5),
        chance.randrange(-999, 999) / 100,
        chance.choice((0.1, -0.0, 1e300, float("inf"), float("nan"), 0.25, -3.5)),
        (START + timedelta(days=chance.randrange(-9, 9))).date(),
    )
    ago = chance.choice((0, 0, 0, 1, 4, 9))
    moment = START + timedelta(minutes=minute - ago, seconds=chance.randrange(60))
    return (None if chance.random() < 0.05 else moment, *(None if chance.random() < 0.1 else value for value in values))


def changes(chance: random.Random, there: list[tuple[Any, ...]], minute: int) -> list[tuple[int, tuple[Any, ...]]]:
    """Rows that come, late ones and equal ones too, and rows that leave."""
    come = [a_row(chance, minute) for _ in range(chance.randrange(6))]
    come += come[:1]
    gone = [there.pop(chance.randrange(len(there))) for _ in range(min(len(there), chance.randrange(3)))]
    there += come
    return [*((+1, row) for row in come), *((-1, row) for row in gone)]


def statement(method: str, aggregates: str, slide: int) -> str:
    window = f"WINDOW {4 * slide} MINUTES SLIDE {slide} MINUTES"
    query = f"SELECT src, flag, {aggregates} FROM s [{window}] WHERE loss <> 4 OR loss IS NULL GROUP BY src, flag"
    return f"CREATE MATERIALIZED VIEW w WITH (method = '{method}') AS {query}"


def rows_of(warehouse: tidemill.Warehouse) -> list[str]:
    return sorted(map(repr, warehouse.view("w").rows()))


@pytest.mark.parametrize("few", [0, touched_groups.TOUCHED_FRACTION])
@pytest.mark.parametrize(("method", "aggregates"), CASES)
def test_rows_are_those_of_generated_python(method: str, aggregates: str, few: int, tmp_path: Path) -> None:
    chance = random.Random(f"{method} {few}")
    slide = chance.choice((1, 2))
    there: list[tuple[Any, ...]] = []
    with tidemill.open(":memory:", runtime="native") as usual:
        usual.sql(TABLE)
        usual.sql(statement("direct", aggregates, slide))
        for opening in range(2):
            with machine_code(few), tidemill.open(tmp_path / "w", runtime="native") as compiled:
                if not opening:
                    compiled.sql(TABLE)
                    compiled.sql(statement(method, aggregates, slide))
                    compiled.sql("CREATE MATERIALIZED VIEW last AS SELECT 1 / (loss - 3) AS x FROM s")
                for minute in range(14 * opening, 14 * (opening + 1)):
                    before = list(there)
                    epoch = changes(chance, there, minute)
                    try:
                        compiled.apply({"s": epoch})
                    except ArithmeticFault:  # a loss of 3: nothing of the epoch is kept
                        there = before
                    else:
                        usual.apply({"s": epoch})
                    assert rows_of(compiled) == rows_of(usual), (minute, epoch)
                assert compiled.view("w").verify().ok
                backend = compiled.view("w").explain()
                assert "compiled with LLVM" in backend and "generated Python" not in backend


def test_a_sum_that_does_not_fit_is_refused_by_name() -> None:
    with machine_code(4), tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE s (ts TIMESTAMP, k INT, n BIGINT) PARTITION BY ts EVERY 1 MINUTE")
        warehouse.sql("CREATE VIEW w AS UPDATE w[i] AS SELECT k, SUM(n) AS n FROM s[i-1 .. i] GROUP BY k")
        warehouse.apply({"s": [(+1, (START, 1, 2**62))]})
        with pytest.raises(ArithmeticFault, match="a sum does not fit BIGINT") as caught:
            warehouse.apply({"s": [(+1, (START, 1, 2**62)), (+1, (START + timedelta(minutes=1), 2, 7))]})
        assert 'view "w"' in str(caught.value)
        warehouse.apply({"s": [(+1, (START, 1, -5))]})
        assert warehouse.view("w").rows() == [(START, 1, 2**62 - 5)]
