"""A server under a load that goes on: kills lose nothing, and what it holds does not grow."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra server is not installed")

from benchmarks.serve.posts import post_rows
from benchmarks.serve.resuming import Readers
from benchmarks.serve.run import survive
from benchmarks.serve.served import served

pytestmark = pytest.mark.long

SECONDS = float(os.environ.get("FUZZ_SECONDS", "600"))

KEPT = 1_000
"""Rows that the table has: each post brings one, and takes the one that came so many before it."""

WARM, SAMPLES = 0.4, 20
"""Share of the time before anything is compared, and how often the server is looked at."""


def moving_row(number: int) -> bytes:
    """A post that leaves the size of the table as it is."""
    changes = [(number, 1)] + ([(number - KEPT, -1)] if number >= KEPT else [])
    text = '{"id": %d, "customer": "c%d", "amount": 1.5, "sent": 0, "_weight": %d}'
    rows = (text % (one, one % 50, weight) for one, weight in changes)
    return f"[{', '.join(rows)}]".encode()


def held_by(process: int) -> tuple[float, int, int]:
    """Megabytes, open files and threads of a process."""
    folder = Path("/proc") / str(process)
    told = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return int(told["VmRSS"].split()[0]) / 1e3, len(list((folder / "fd").iterdir())), int(told["Threads"])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is read from /proc")
def test_what_a_server_holds_does_not_grow(tmp_path: Path) -> None:
    """One client posts row after row, beside readers over both protocols."""
    seen: list[tuple[float, int, int]] = []
    with served(tmp_path / "shop") as server:
        readers, first = Readers(server, 2), 0
        for _ in range(SAMPLES):
            load = post_rows(server.port, 1, SECONDS / 2 / SAMPLES, moving_row, first=first, key="k")
            assert not load.refused and load.acknowledged
            first = max(load.sent) + 1
            time.sleep(0.1)
            seen.append(held_by(server.process.pid))
        readers.stop()
        assert all(one.joined == 1 for one in (*readers.live, readers.counts))
    print(f"after {first:,} posts: {seen[-1]}, in the beginning {seen[0]}")
    early, late = seen[int(WARM * SAMPLES)], seen[-1]
    assert late[0] < 1.3 * early[0] + 30
    assert late[1] <= early[1] + 20 and late[2] <= early[2] + 4


def test_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    turns = max(1, int(SECONDS / 2 / 10))
    print(f"{turns} kills, {len(survive(tmp_path / 'shop', turns, 3.0)):,} rows, each there once")
