"""Two processes and one folder: one of them writes, and the other one reads whole epochs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tidemill
from tests.integration.balancing import balance
from tests.storage.samples import child_environment
from tidemill.model.errors import LockHeld


@contextmanager
def balancing(folder: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A child process that has opened the folder and writes to it; it ends when the block does."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.balancing", str(folder), str(seconds)],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        yield child
    assert child.returncode == 0


def last_epoch(child: subprocess.Popen[str]) -> int:
    assert child.stdout is not None
    return int(child.stdout.readline())


def test_a_second_writer_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    with balancing(tmp_path, 0) as child:
        with pytest.raises(LockHeld, match=f"process {child.pid} on") as caught:
            tidemill.open(tmp_path, runtime="native")
        assert "read_only=True" in str(caught.value.hint)
        command = [sys.executable, "-m", "tidemill", "sql", "DELETE FROM paid", "-w", str(tmp_path)]
        refused = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: the warehouse has another writer")
        epoch = last_epoch(child)
    with tidemill.open(tmp_path, runtime="native") as wh:
        assert wh.epoch == epoch
        balance(wh, epoch + 1)
        assert all(wh.view(name).verify() for name in wh.views())


def whole(wh: tidemill.Warehouse) -> bool:
    """Whether both views, by every way of reading them, show one epoch: the one that the reader is at."""
    debit, credit = sorted(wh.view("debit").rows()), sorted(wh.view("credit").rows())
    owed = wh.sql("SELECT account, SUM(amount) AS total FROM owed GROUP BY account ORDER BY account")
    joined = wh.sql("SELECT COUNT(*) FROM debit d JOIN credit c ON d.account = c.account AND d.total = c.total")
    now = sorted(n for n in range(wh.epoch, max(wh.epoch - 30, 0), -1))
    return debit == credit == owed and joined == [(len(debit),)] and sum(total for _, total in debit) == sum(now)


def test_readers_see_whole_epochs_only(tmp_path: Path) -> None:
    seen = set()
    with balancing(tmp_path, 4) as child:
        until = time.monotonic() + 4  # the writer stops then, so there is no other epoch to see
        while child.poll() is None and len(seen) < 20 and time.monotonic() < until:
            with tidemill.open(tmp_path, runtime="native", read_only=True) as reader:
                assert whole(reader)
                seen.add(reader.epoch)
        last_epoch(child)
    assert len(seen) > 3


def test_a_reader_that_follows_is_always_at_a_whole_epoch(tmp_path: Path) -> None:
    with balancing(tmp_path, 3) as child, tidemill.open(tmp_path, runtime="native", read_only=True) as reader:
        assert whole(reader)
        total = dict(reader.view("debit").rows())
        heard = [reader.epoch]
        for batch in reader.subscribe("debit", timeout=1.5):
            heard.append(batch.epoch)
            for weight, (account, amount) in batch:
                total[account] = total.get(account, 0) + weight * amount
            if batch.epoch == reader.epoch:
                assert whole(reader)
                assert total == dict(reader.view("debit").rows())
        assert heard == list(range(heard[0], heard[-1] + 1))
        assert heard[-1] == last_epoch(child) > heard[0]
