"""An epoch costs the change, not the number of views."""

import sys
from types import FrameType

import pytest

from benchmarks.epochs.unrelated_views import sell, warehouse_with
from tidemill.engine.maintenance.compaction_schedule import EPOCHS_BETWEEN_PASSES
from tidemill.engine.telemetry import recorder
from tidemill.engine.warehouse import Warehouse


@pytest.fixture(autouse=True)
def _written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the refresh log are written once a second, and for an epoch of 10 ms: neither is counted here."""
    monkeypatch.setattr(recorder, "WRITE_SECONDS", 1e9)
    monkeypatch.setattr(recorder, "SLOW_SECONDS", 1e9)


def test_an_epoch_calls_as_many_functions_beside_one_view_as_beside_fifty() -> None:
    with warehouse_with(0) as alone, warehouse_with(50) as beside:
        few, many = _calls(alone), _calls(beside)
    assert many <= few * 1.05, f"{many} calls instead of {few}"


def test_events_call_as_many_functions_beside_one_view_as_beside_fifty() -> None:
    with warehouse_with(0) as alone, warehouse_with(50) as beside:
        few, many = _calls(alone, events=True), _calls(beside, events=True)
    assert many <= few * 1.05, f"{many} calls instead of {few}"


def _calls(warehouse: Warehouse, *, events: bool = False) -> int:
    """How many functions, generators and comprehensions are called in a round of epochs with what follows them.

    Elements of a loop that calls nothing are not seen, but then each of them costs little.
    """
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    for number in range(EPOCHS_BETWEEN_PASSES):
        sell(warehouse, number)
    feed = warehouse.feed("sales")
    sys.setprofile(note)
    try:
        for number in range(EPOCHS_BETWEEN_PASSES, 2 * EPOCHS_BETWEEN_PASSES):
            if events:
                feed(+1, number, number % 10, number)
                warehouse.flush()
            else:
                sell(warehouse, number)
    finally:
        sys.setprofile(None)
    return count
