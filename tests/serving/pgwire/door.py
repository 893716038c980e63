"""A door in a thread of its own, for tests: real clients connect to it."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from typing import Any

import psycopg

from tidemill.serving.pgwire.limits import PgLimits
from tidemill.serving.pgwire.server import PgServer
from tidemill.serving.server.statement_pool import StatementPool

SHOP = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), day DATE);
CREATE MATERIALIZED VIEW spend AS
  SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
INSERT INTO orders VALUES (1, 'ann', 9.50, DATE '2024-01-02'), (2, 'bob', 3.00, NULL), (3, 'ann', 0.50, NULL);
"""


class Door:
    """A ``PgServer`` on a port of its own."""

    def __init__(self, warehouse: Any, **options: Any) -> None:
        self.warehouse = warehouse
        self._loop = options.pop("loop", None) or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.pool = StatementPool(4, 64)
        options.setdefault("limits", PgLimits(failure_seconds=0, patience=5))
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

    @property
    def options(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "user": "ann", "dbname": "shop"}

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(**{**self.options, "autocommit": True, **options})

    def psql(self, *commands: str) -> subprocess.CompletedProcess[str]:
        """What psql says to commands, each given by itself."""
        with self.opened_psql(*commands, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def opened_psql(self, *commands: str, **streams: int) -> subprocess.Popen[str]:
        """A psql that runs commands, or what is typed."""
        given = [part for command in commands for part in ("-c", command)]
        where = f"host=127.0.0.1 port={self.port} dbname=shop user=ann"
        return subprocess.Popen(
            ["psql", "-X", "-v", "ON_ERROR_STOP=0", where, *given],
            **streams,
            text=True,
            start_new_session=True,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PAGER": "", "LC_ALL": "C.UTF-8"},
        )
