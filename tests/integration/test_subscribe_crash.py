"""A kill -9 beside a subscriber: it resumes where its notes end, and has then heard each epoch exactly once."""

from __future__ import annotations

import signal
from itertools import cycle
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.integration.listening import change, notes_in
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

LAST = 20

DEATHS = ("torn-log:8", "after-log:9", "before-manifest:6", "after-manifest:6")


def live(folder: Path, notes: Path, serve: str, **environment: str) -> int:
    done = forked_children.run("tests.integration.listening", folder, notes, serve, LAST, timeout=120, **environment)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def expected() -> list[tuple[int, list[list[object]]]]:
    """The changes of each epoch, from the definition of the view."""
    follows = [row for _, row in change(1)["follows"]]
    found = []
    for epoch in range(2, LAST + 1):
        rows = [[w, [who, post[0]]] for w, post in change(epoch)["posts"] for who, whom in follows if whom == post[1]]
        if rows:
            found.append((epoch, sorted(rows)))
    return found


@pytest.mark.parametrize(("death", "serve"), list(zip(DEATHS, cycle(["both", "subscribe"]), strict=False)))
def test_nothing_is_lost_or_repeated(tmp_path: Path, death: str, serve: str) -> None:
    folder, notes = tmp_path / "wh", tmp_path / "notes"
    assert live(folder, notes, serve, **{FAULT_VARIABLE: death}) == -signal.SIGKILL
    before = notes_in(notes)
    assert before == expected()[: len(before)]
    assert live(folder, notes, serve) == 0
    assert notes_in(notes) == expected()
    with tidemill.open(folder, runtime="native", backend="python", read_only=True) as wh:
        assert wh.view("timeline").verify()
