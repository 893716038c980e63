"""Tools of others ask for the catalog their way."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import coroutines

JAR = Path("/usr/share/java/postgresql.jar")


def test_psql_lists_and_describes(psql):
    assert " public | spend  | materialized view | ann" in psql.psql(r"\d").stdout
    assert " public | orders | table | ann" in psql.psql(r"\dt").stdout
    described = psql.psql(r"\d orders").stdout
    assert " id       | bigint        |           | not null | " in described
    assert '"orders_pkey" PRIMARY KEY, btree (id)' in described
    assert "GROUP BY customer" in psql.psql(r"\d+ spend").stdout
    for command, told in ((r"\dv", "Did not find any"), (r"\dn", "public"), (r"\l", "shop"), (r"\df", "(0 rows)")):
        said = psql.psql(command)
        assert told in said.stdout + said.stderr, command


def test_sqlalchemy_reflects(door):
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{door.port}/shop")
    try:
        found = sa.inspect(engine)
        assert found.get_table_names() == ["orders"]
        assert found.get_materialized_view_names() == ["spend"]
        assert [(one["name"], str(one["type"])) for one in found.get_columns("orders")] == [
            ("id", "BIGINT"),
            ("customer", "TEXT"),
            ("amount", "NUMERIC(12, 2)"),
            ("day", "DATE"),
        ]
        assert found.get_pk_constraint("orders")["constrained_columns"] == ["id"]
        assert found.get_foreign_keys("orders") == []
        assert found.has_table("spend") and not found.has_table("nothing")
        orders = sa.Table("orders", sa.MetaData(), autoload_with=engine)
        with engine.connect() as client:
            rows = client.execute(sa.select(orders.c.customer).where(orders.c.id == 2)).all()
        assert rows == [("bob",)]
    finally:
        engine.dispose()


def test_pandas_reads_sql(door):
    import pandas as pd
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{door.port}/shop")
    try:
        frame = pd.read_sql("SELECT customer, n FROM spend ORDER BY customer", engine)
        assert frame.to_dict("list") == {"customer": ["ann", "bob"], "n": [2, 1]}
    finally:
        engine.dispose()


def test_asyncpg_asks_for_types_that_it_does_not_know(door):
    async def work():
        import asyncpg

        client = await asyncpg.connect(host="127.0.0.1", port=door.port, user="ann", database="shop")
        try:
            assert await client.fetchval("SELECT array(1, NULL, 3)") == [1, None, 3]
            assert await client.fetchval("SELECT size(CAST($1 AS ARRAY<INT>))", [1, 2]) == 2
        finally:
            await client.close()

    coroutines.run(work())


def test_adbc_reads_arrow(door):
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(f"postgresql://ann@127.0.0.1:{door.port}/shop") as client, client.cursor() as cursor:
        cursor.execute("SELECT id, customer FROM orders ORDER BY id")
        assert cursor.fetch_arrow_table().to_pylist() == [
            {"id": 1, "customer": "ann"},
            {"id": 2, "customer": "bob"},
            {"id": 3, "customer": "ann"},
        ]


def test_the_jdbc_driver(door, tmp_path):
    if shutil.which("java") is None or not JAR.exists():
        pytest.skip(f"no java, or no {JAR}: Debian's libpostgresql-jdbc-java has it")
    source = Path(__file__).parent / "jdbc" / "Catalog.java"
    url = f"jdbc:postgresql://127.0.0.1:{door.port}/shop"
    said = subprocess.run(
        ["java", "-cp", str(JAR), str(source), url], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    lines = said.stdout.splitlines()
    assert said.returncode == 0, said.stderr + said.stdout
    assert "product PostgreSQL 15" in lines
    assert "tables orders TABLE" in lines and "tables spend MATERIALIZED VIEW" in lines
    assert "columns id int8 19 0 NO" in lines and "columns amount numeric 12 2 YES" in lines
    assert "keys id 1 orders_pkey" in lines and "indexes orders_pkey id" in lines
    assert lines.count("found ann 9.50 2024-01-02") == 7
    assert "batch 3" in lines and [line for line in lines if line.startswith("fetched")] == [
        f"fetched {id}" for id in (900, 901, 902)
    ]
    assert "error 42703" in lines
