"""A feeder that drops numbered files into a folder and takes them in, for the crash tests to cut short.

Run as ``python -m tests.feeds.feeding FOLDER``: goes on until all files are in the warehouse.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidemill

FILES = 4


def rows_of(number: int) -> list[tuple[int, int]]:
    """What file ``number`` brings; file 2 is a bad one."""
    return [(number, place) for place in range(number % 3 + 1)]


def deliver(inbox: Path, number: int) -> None:
    """Write a file beside the others and give it its name when it is whole, unless it came before."""
    name = f"file-{number}.csv"
    if any((inbox / place / name).exists() for place in (".", "_taken", "_aside")):
        return
    lines = ["id,n", *(f"{id},{n}" for id, n in rows_of(number)), *(["oops,1"] if number == 2 else [])]
    (inbox / ".new").write_text("\n".join(lines))
    (inbox / ".new").rename(inbox / name)


def live(folder: Path) -> None:
    """Deliver all files and take them in."""
    inbox = folder / "inbox"
    inbox.mkdir(exist_ok=True)
    with tidemill.open(folder / "w", runtime="native", backend="python") as wh:
        wh.sql("CREATE STREAM IF NOT EXISTS s (id INT, n INT)")
        for view, refresh in (("v", "immediate"), ("late", "scheduled")):
            query = f"WITH (refresh = '{refresh}') AS SELECT id, n, COUNT(*) AS c FROM s GROUP BY id, n"
            wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view} {query}")
        wh.sql(f"CREATE FEED IF NOT EXISTS f INTO s FROM '{inbox}'")
        for number in range(FILES):
            deliver(inbox, number)
            wh.sync("f")
            wh.schedule()


if __name__ == "__main__":
    live(Path(sys.argv[1]))
