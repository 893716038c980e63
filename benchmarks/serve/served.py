"""A server in a process of its own, as people start it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tidemill

__all__ = ["Served", "served"]

DEFINITIONS = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), sent BIGINT);
    CREATE MATERIALIZED VIEW spend AS
      SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
    CREATE MATERIALIZED VIEW arrivals AS SELECT id, customer, sent FROM orders;
"""

COMMAND = [sys.executable, "-c", "from tidemill.serving.cli.entry import main; main()", "serve", "-r", "native"]


class Served:
    """A server that runs: its process and its port."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port


def created(folder: Path) -> None:
    """Create the warehouse that is served."""
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql(DEFINITIONS)


def started(folder: Path) -> Served:
    """Start a server for a folder."""
    command = [*COMMAND, "--port", "0", "-w", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
    if not found:
        raise RuntimeError("the server did not start")
    return Served(process, int(found[1]))


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A server for a new warehouse in a folder, ended with the block."""
    created(folder)
    server = started(folder)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(60)
