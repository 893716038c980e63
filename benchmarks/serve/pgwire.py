"""Point reads over PostgreSQL's protocol: ours, and a PostgreSQL with a plain materialized view and an index.

The same client reads both: asyncpg with prepared statements, several connections in one process.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from typing import Any

QUERY = "SELECT * FROM spend WHERE customer = $1"
CUSTOMERS = 10_000

SERVER = """
import asyncio, sys, tidemill
from tidemill.serving.pgwire.server import PgServer
from tidemill.serving.server.statement_pool import StatementPool

async def main():
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2))")
        wh.sql("CREATE MATERIALIZED VIEW spend AS "
               "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer")
        wh.apply({"orders": [(1, (id, f"c{id % CUSTOMERS}", "1.50")) for id in range(10 * CUSTOMERS)]})
        server = PgServer(wh, None, StatementPool(4, 256), port=0)
        await server.start()
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
""".replace("CUSTOMERS", str(CUSTOMERS))

POSTGRES = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric(12,2));
INSERT INTO orders SELECT id, 'c' || id % %(n)s, 1.50 FROM generate_series(0, 10 * %(n)s - 1) id;
CREATE MATERIALIZED VIEW spend AS SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer;
CREATE UNIQUE INDEX ON spend (customer);
ANALYZE spend
"""


async def measure(connections: int, seconds: float, **address: Any) -> dict[str, float]:
    """Reads a second, and the time of the slowest but one in a hundred, of so many connections at once."""
    import asyncpg

    clients = [await asyncpg.connect(**address) for _ in range(connections)]
    times: list[float] = []
    end = time.perf_counter() + seconds + 1

    async def read(client: Any, seed: int) -> None:
        keys, statement = random.Random(seed), await client.prepare(QUERY)
        for _ in range(50):
            await statement.fetchrow(f"c{keys.randrange(CUSTOMERS)}")
        while (began := time.perf_counter()) < end:
            name = f"c{keys.randrange(CUSTOMERS)}"
            row = await statement.fetchrow(name)
            times.append(time.perf_counter() - began)
            assert row is not None and (row["customer"], row["n"]) == (name, 10)

    began = time.perf_counter()
    await asyncio.gather(*(read(client, seed) for seed, client in enumerate(clients)))
    took = time.perf_counter() - began
    for client in clients:
        await client.close()
    times.sort()
    return {
        "reads/s": len(times) / took,
        "p50_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[-len(times) // 100] * 1e3,
    }


def ours(connections: int, seconds: float) -> dict[str, float]:
    """The figures of a server in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            return asyncio.run(
                measure(connections, seconds, host="127.0.0.1", port=port, user="bench", database="shop")
            )
        finally:
            server.kill()


def of_postgres(connections: int, seconds: float) -> dict[str, float] | None:
    """The figures of a PostgreSQL of our own, with a plain materialized view and an index; None if none can be had."""
    try:
        from tests.sources.server import PASSWORD, NoServer, Server
    except ImportError:
        return None
    try:
        server = Server()
    except NoServer:
        return None
    try:
        with server.connect() as client:
            for statement in POSTGRES.replace("%(n)s", str(CUSTOMERS)).split(";"):
                client.execute(statement.encode())
        address = {"host": str(server.folder), "user": "owner", "database": "postgres", "password": PASSWORD}
        return asyncio.run(measure(connections, seconds, **address))
    finally:
        server.remove()
