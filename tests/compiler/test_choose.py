"""Strategies and runtimes: what is chosen, and why."""

from __future__ import annotations

import pytest

from tests.compiler.shop import program_of
from tidemill.compiler.choose import LOOKUP_WORK, NATIVE_ROW_BYTES, NATIVE_ROWS, NATIVE_WORK, choose_runtime, reason_for
from tidemill.compiler.strategies.recompute import AGAIN
from tidemill.compiler.strategies.strategy import COUNTS, LINEAR, SUMS, Reason
from tidemill.model.errors import Unsupported


@pytest.mark.parametrize(
    ("sql", "strategy", "reason"),
    [
        ("SELECT id FROM orders", "auto", LINEAR),
        ("SELECT day, COUNT(*) AS n FROM orders GROUP BY day", "auto", SUMS),
        ("SELECT SUM(day) AS s FROM orders", "delta", SUMS),
        ("SELECT DISTINCT day FROM orders", "auto", COUNTS),
        ("SELECT DISTINCT day FROM orders", "recompute", AGAIN),
    ],
)
def test_reason(sql: str, strategy: str, reason: Reason) -> None:
    (stage,) = program_of(sql, strategy).stages
    assert reason_for(stage) is reason
    assert stage.strategy == ("recompute" if strategy == "recompute" else "delta")


def test_recompute_refuses_streams() -> None:
    with pytest.raises(Unsupported) as caught:
        program_of("SELECT page FROM clicks", "recompute")
    assert caught.value.what == 'view "v" cannot use strategy "recompute"'
    assert caught.value.detail is not None
    assert '"clicks"' in caught.value.detail


def test_recompute_refuses_streams_in_inner_stages() -> None:
    with pytest.raises(Unsupported):
        program_of("SELECT COUNT(*) AS n FROM (SELECT DISTINCT page FROM clicks) t", "recompute")


def test_unknown_strategy() -> None:
    with pytest.raises(Unsupported, match="unknown strategy") as caught:
        program_of("SELECT id FROM orders", "magic")
    known = '"auto", "delta", "recompute", "viewlet", "joingraph", "lineage", "partition"'
    assert caught.value.hint == f"Strategies are {known}."


@pytest.mark.parametrize(
    ("option", "work", "rows", "in_memory", "runtime"),
    [
        ("auto", 0, 0, False, "native"),
        ("auto", NATIVE_WORK, NATIVE_ROWS, False, "native"),
        ("auto", NATIVE_WORK + 1, 0, False, "spark"),
        ("auto", 1, NATIVE_ROWS + 1, False, "spark"),
        ("auto", NATIVE_WORK + 1, NATIVE_ROWS + 1, True, "native"),
        ("spark", 0, 0, True, "spark"),
        ("native", NATIVE_WORK + 1, NATIVE_ROWS + 1, False, "native"),
    ],
)
def test_runtime(option: str, work: int, rows: int, in_memory: bool, runtime: str) -> None:
    assert choose_runtime(option, work=work, rows=rows, in_memory=in_memory)[0] == runtime


@pytest.mark.parametrize(
    ("room", "work", "runtime"),
    [
        (LOOKUP_WORK * NATIVE_ROW_BYTES * 2, LOOKUP_WORK * 2, "native"),
        (LOOKUP_WORK * NATIVE_ROW_BYTES * 2, LOOKUP_WORK * 2 + 1, "spark"),
        (0, LOOKUP_WORK, "native"),
        (0, LOOKUP_WORK + 1, "spark"),
        (1 << 60, NATIVE_WORK + 1, "spark"),
    ],
)
def test_a_memory_budget_sends_large_work_to_spark(room: int, work: int, runtime: str) -> None:
    assert choose_runtime("auto", work=work, rows=0, in_memory=False, room=room)[0] == runtime
