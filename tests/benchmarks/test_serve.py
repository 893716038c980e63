"""The benchmark of the server: a kill loses nothing, and its checks can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra server is not installed")

from benchmarks.serve.posts import Load
from benchmarks.serve.resuming import LiveReader, Readers
from benchmarks.serve.run import _require_all, survive
from benchmarks.serve.served import Served, created


def test_a_kill_loses_nothing(tmp_path: Path) -> None:
    assert survive(tmp_path / "shop", 1, 1.0, clients=8)


def test_a_lost_row_is_found(tmp_path: Path) -> None:
    created(tmp_path / "shop")
    with pytest.raises(AssertionError, match="1 acknowledged rows are not there"):
        _require_all(tmp_path / "shop", Load(acknowledged={7: 1}))


@pytest.mark.parametrize(("heard", "fault"), [({1: 1}, "not heard 1 rows"), ({1: 1, 2: 2}, "1 rows more than once")])
def test_what_readers_miss_or_hear_twice_is_found(heard: dict[int, int], fault: str) -> None:
    readers, reader = Readers.__new__(Readers), LiveReader(Served.__new__(Served))
    readers.live, reader.heard = [reader], heard
    with pytest.raises(AssertionError, match=fault):
        readers.wait_until_heard({1, 2}, 0.0)
