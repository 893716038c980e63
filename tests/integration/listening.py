"""A writer with a subscriber that notes down what it hears, for the crash tests to cut short.

Run as ``python -m tests.integration.listening FOLDER NOTES SERVE LAST``: goes on from where the warehouse and the notes
stand up to epoch LAST. Each note is a line of JSON: an epoch and its changes. The last note says where to resume.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import tidemill
from tests.integration.crashing import hurry

SCRIPT = """
CREATE TABLE IF NOT EXISTS follows (who INT, whom INT);
CREATE TABLE IF NOT EXISTS posts (id INT PRIMARY KEY, author INT);
CREATE MATERIALIZED VIEW IF NOT EXISTS timeline WITH (strategy = 'joingraph', serve = '{serve}') AS
SELECT f.who, p.id FROM follows f JOIN posts p ON p.author = f.whom
"""


def change(epoch: int) -> dict[str, list[tuple[int, tuple[int, int]]]]:
    """What the epoch of that number brings; every third one takes a post away again."""
    if epoch == 1:
        return {"follows": [(1, (who, who % 3)) for who in range(9)]}
    if epoch % 3 == 0:
        return {"posts": [(-1, (epoch - 1, (epoch - 1) % 4))]}
    return {"posts": [(1, (epoch, epoch % 4))]}


def notes_in(file: Path) -> list[tuple[int, list[Any]]]:
    """The notes that are whole; a line that was cut short is none."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [(note["epoch"], note["changes"]) for note in map(json.loads, lines)]


def live(folder: str, notes: Path, serve: str, last: int) -> None:
    """Commit epochs up to ``last``, and note down each one that is heard of."""
    whole = notes_in(notes)
    with tidemill.open(folder, runtime="native", backend="python") as wh, notes.open("r+b" if whole else "wb") as file:
        file.seek(sum(len(_line(*note)) for note in whole))
        file.truncate()
        wh.sql(SCRIPT.format(serve=serve))
        feed = wh.subscribe("timeline", since=whole[-1][0] if whole else 0, timeout=0)
        while True:
            for batch in feed:
                file.write(_line(batch.epoch, sorted(batch)))
                file.flush()
                os.fsync(file.fileno())
            if wh.epoch >= last:
                return
            wh.apply(change(wh.epoch + 1))


def _line(epoch: int, changes: list[Any]) -> bytes:
    return (json.dumps({"epoch": epoch, "changes": changes}) + "\n").encode()


if __name__ == "__main__":
    hurry()
    live(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
