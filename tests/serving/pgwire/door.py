"""A door in a thread of its own, for tests: real clients connect to it."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from tidemill.serving.pgwire.server import PgServer

SHOP = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), day DATE);
CREATE MATERIALIZED VIEW spend AS
  SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
INSERT INTO orders VALUES (1, 'ann', 9.50, DATE '2024-01-02'), (2, 'bob', 3.00, NULL), (3, 'ann', 0.50, NULL);
"""


class Pool:
    """Threads, as many as a server has for statements."""

    def __init__(self, threads: int = 4) -> None:
        self.executor = ThreadPoolExecutor(threads)

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.executor, function, *args)


class Door:
    """A ``PgServer`` on a port of its own."""

    def __init__(self, warehouse: Any, **options: Any) -> None:
        self.warehouse = warehouse
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.pool = Pool()
        self.server = PgServer(warehouse, options.pop("users", None), self.pool, port=0, **options)
        try:
            self.call(self.server.start())
        except BaseException:
            self.call(self.server.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise
        self.port = self.server.port

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self.call(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.pool.executor.shutdown()

    @property
    def options(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "user": "ann", "dbname": "shop"}

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(**{**self.options, "autocommit": True, **options})

    def psql(self, *commands: str, options: str = "", files: str | None = None) -> subprocess.CompletedProcess[str]:
        """What psql says to commands, each given by itself."""
        given = [part for command in commands for part in ("-c", command)]
        where = f"host=127.0.0.1 port={self.port} dbname=shop user=ann options='{options}'"
        return subprocess.run(
            ["psql", "-X", "-v", "ON_ERROR_STOP=0", where, *given],
            input=files,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PAGER": "", "LC_ALL": "C.UTF-8"},
        )
