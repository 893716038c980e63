"""A server in a process of its own, as people start it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tidemill

__all__ = ["Served", "created", "served", "started"]

DEFINITIONS = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), sent BIGINT);
    CREATE MATERIALIZED VIEW spend AS
      SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
    CREATE MATERIALIZED VIEW arrivals AS SELECT id, customer, sent FROM orders;
"""

COMMAND = [sys.executable, "-c", "from tidemill.serving.cli.entry import main; main()", "serve", "-r", "native"]


class Served:
    """A server that runs: its process, and the ports of HTTP and of PostgreSQL's protocol."""

    def __init__(self, process: subprocess.Popen[str], port: int, pg_port: int) -> None:
        self.process = process
        self.port = port
        self.pg_port = pg_port

    def stop(self) -> None:
        """End it as a system does."""
        self.process.terminate()
        self.process.wait(60)


def created(folder: Path) -> None:
    """Create the warehouse that is served."""
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql(DEFINITIONS)


def started(folder: Path) -> Served:
    """Start a server for a folder."""
    pg_port = _free_port()
    command = [*COMMAND, "--port", "0", "--pg-port", str(pg_port), "-w", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
    if not found:
        raise RuntimeError("the server did not start")
    return Served(process, int(found[1]), pg_port)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A server for a new warehouse in a folder, ended with the block."""
    created(folder)
    server = started(folder)
    try:
        yield server
    finally:
        server.stop()
