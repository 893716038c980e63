"""Records the source states that each epoch was certified for; a checkpoint keeps only the last one.

Called as a program it opens a warehouse, whose views follow their sources, until it is killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tidemill
from tidemill.engine.engine import Engine


@contextmanager
def noted(path: Path) -> Iterator[None]:
    """All epochs of all warehouses of this process are written to ``path``, once they are durable."""
    apply = Engine.apply

    def noting(self: Engine, changes: Any, positions: Mapping[str, str] | None = None) -> int:
        epoch = apply(self, changes, positions)
        with path.open("a") as file:
            file.write(json.dumps([epoch, dict(positions or {})]) + "\n")
        return epoch

    Engine.apply = noting  # type: ignore[method-assign]
    try:
        yield
    finally:
        Engine.apply = apply  # type: ignore[method-assign]


def notes(path: Path) -> dict[int, dict[str, str]]:
    """What was written, by epoch."""
    return dict(sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda note: note[0]))


if __name__ == "__main__":
    folder, book = map(Path, sys.argv[1:])
    with noted(book), tidemill.open(folder, runtime="native", follow=True):
        print("ready", flush=True)
        time.sleep(3600)
