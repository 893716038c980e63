"""Builds that a test drives step by step, in place of their thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidemill import Warehouse
from tidemill.engine.builds import build, builds, handover


class IdleWorker:
    """A worker that does nothing by itself."""

    trouble = None

    def __init__(self, name: str, turn: Callable[[], object], interval: float) -> None:
        self.name = name

    def end(self) -> None:
        """Nothing runs."""

    def join(self, timeout: float) -> bool:
        """Nothing runs."""
        return True


@pytest.fixture(name="stepping")
def _stepping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds go on by ``step`` only, in slices of a few rows and files of a few."""
    monkeypatch.setattr(builds, "Worker", IdleWorker)
    monkeypatch.setattr(build, "FIRST_SLICE", 3)
    monkeypatch.setattr(build, "SLICE_ROWS", 3)
    monkeypatch.setattr(handover, "FILE_ROWS", 4)
    monkeypatch.setattr(handover, "NEAR", 1)
    monkeypatch.setattr(handover, "LAST_EPOCHS", 1)
    monkeypatch.setattr(handover, "PATIENT_ROUNDS", 1)


def step(warehouse: Warehouse, times: int = 1) -> None:
    """So many steps of each build."""
    for _ in range(times):
        warehouse._engine.builds._turn()


def step_to_end(warehouse: Warehouse) -> int:
    """All steps that are left; returns how many there were."""
    for number in range(100_000):
        if not any(one.state not in ("paused", "failed") for one in warehouse.builds):
            return number
        step(warehouse)
    raise AssertionError(f"it does not end: {warehouse.builds}")
