"""PostgreSQL's dialect: the same answers as PostgreSQL gives, or a refusal by name."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import psycopg
import pytest

TABLE = "CREATE TABLE t (a INT, b INT, s STRING, d DATE, ts TIMESTAMP, n DECIMAL(12,2), f DOUBLE)"
ROWS = """INSERT INTO t VALUES (7, 2, 'it''s', '2024-01-31', '2024-01-31 10:00:00', 1.50, 2.5),
                               (1, 3, NULL, '2024-02-28', NULL, NULL, NULL)"""

SAME = r"""
SELECT a / b, -a / b, a % b, a / 2.0, n / 3, f / 2, sum(a) OVER () / 4 FROM t ORDER BY a
SELECT 7 / 2, -7 / 2, 7.0 / 2, 10::bigint / 4, sum(a) / count(*) FROM t
SELECT s || 'x', 'a' || NULL, concat('a', NULL, 'b') FROM t ORDER BY a
SELECT 'it''s', 'a\nb', E'a\nb', E'\x41', "a" AS "A b" FROM t ORDER BY 1
SELECT a::text, '5'::int + 1, 2.7::int, 2.5::int, -2.5::int, f::int, '3'::numeric(5,2) FROM t ORDER BY a
SELECT d + 1, d - 1, d - date '2024-01-01', d + interval '1 month' FROM t ORDER BY d
SELECT ts + interval '1 day', date_trunc('month', ts) FROM t ORDER BY ts NULLS FIRST
SELECT s ILIKE 'IT%', s LIKE 'it_s', s ~ '^i' FROM t ORDER BY a
SELECT a FROM t ORDER BY s
SELECT a FROM t ORDER BY s DESC
SELECT a FROM t ORDER BY a LIMIT 1 OFFSET 1
SELECT a FROM t ORDER BY a FETCH FIRST 1 ROWS ONLY
SELECT count(*) FILTER (WHERE a > 1), count(DISTINCT b), bool_and(a > 0), string_agg(s, ',') FROM t
SELECT round(2.5), round(3.5), round(2.5::float8), round(avg(b)), trunc(2.7), floor(1.5), ceil(1.5) FROM t
SELECT substring('abcdef' FROM 2 FOR 3), left('abc', 2), split_part('a,b,c', ',', 2), position('s' IN 'test')
SELECT greatest(1, NULL, 3), nullif(1, 1), coalesce(NULL, 2), s IS DISTINCT FROM 'a' FROM t ORDER BY a
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(x, y) ORDER BY x
SELECT a FROM t WHERE a = ANY(ARRAY[1, 2])
SELECT timestamptz '2024-01-01 00:00:00+02', timestamp '2024-01-01 00:00:00', interval '90 minutes'
SELECT to_char(d, 'YYYY-MM'), extract(year FROM d) FROM t ORDER BY d
SELECT DISTINCT ON (b) a FROM t ORDER BY b
WITH x AS (SELECT 1 AS one) SELECT one FROM x UNION ALL SELECT 2 ORDER BY 1 DESC
SELECT "public"."t"."a" FROM "public"."t" ORDER BY 1
SELECT 2 ^ 3, mod(7, 3), abs(-1), md5('a'), upper('a'), initcap('hello world'), replace('aba', 'a', 'x')
""".strip().splitlines()

REFUSED = [
    ("SELECT substr('abc', 0, 2)", "0A000"),
    ("SELECT 5 # 3", "0A000"),
    ("SELECT random()", "0A000"),
    ("SELECT '{}'::json", "0A000"),
    ("SELECT a FROM t FOR UPDATE", "0A000"),
    ("SELECT a FROM other.t", "3F000"),
    ("SELECT $$a", "42601"),
]


@pytest.fixture(scope="module")
def both(door, real_postgres):
    door.warehouse.sql(TABLE)
    real_postgres.execute(
        TABLE.replace("STRING", "TEXT").replace("TIMESTAMP", "TIMESTAMPTZ").replace("DOUBLE", "FLOAT8")
    )
    with door.connect(options="-c dialect=postgres") as client:
        for one in (client, real_postgres):
            one.execute(ROWS)
        yield client, real_postgres
    real_postgres.execute("DROP TABLE t")
    door.warehouse.sql("DROP TABLE t")


def plain(value: Any) -> Any:
    """A value without what the two need not agree on: how exact a number is kept, and where a clock stands."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


@pytest.mark.parametrize("text", SAME)
def test_the_answer_is_that_of_postgres(both, text):
    ours, theirs = ([tuple(map(plain, row)) for row in client.execute(text).fetchall()] for client in both)
    assert ours == theirs


@pytest.mark.parametrize(("text", "state"), REFUSED)
def test_what_would_mean_something_else_is_refused(both, text, state):
    with pytest.raises(psycopg.Error) as refused:
        both[0].execute(text)
    assert refused.value.sqlstate == state


def test_tables_are_made_and_changed_in_the_dialect(both):
    client = both[0]
    client.execute('CREATE TABLE "made" (id bigint PRIMARY KEY, "name" text, at timestamptz)')
    client.execute("INSERT INTO public.made (id, name) VALUES (%s, %s), (2, 'it''s')", [1, "ann"])
    client.execute('UPDATE made SET id = id * 3 / 2 WHERE "name" = %s', ["it's"])
    client.execute('CREATE MATERIALIZED VIEW "counted" AS SELECT count(*) AS "n" FROM "public"."made"')
    assert client.execute("SELECT id, name FROM made ORDER BY 1").fetchall() == [(1, "ann"), (3, "it's")]
    assert client.execute('SELECT "n" FROM "counted"').fetchall() == [(2,)]
    client.execute("SET dialect = 'spark'")
    client.execute("DROP VIEW counted; DROP TABLE made; SET dialect = 'postgres'")


def test_a_text_that_may_be_meant_as_a_name_is_told(client):
    with pytest.raises(psycopg.Error) as refused:
        client.execute('SELECT nothing FROM orders WHERE "id" = 1')
    assert "SET dialect = 'postgres'" in refused.value.diag.message_hint
