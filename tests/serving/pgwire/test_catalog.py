"""Queries of the catalog as tools were seen to send them, and names that are made to do harm."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import psycopg
import pytest

import tidemill
from tests.serving.pgwire.door import Door
from tests.serving.pgwire.guarded import eventually, guarded_door
from tidemill.serving.pgwire.catalog import database
from tidemill.serving.pgwire.limits import PgLimits

HOSTILE = ["a'b", 'a"b', "drop table orders;--", "x\\y", "Ünïcode ☃", "select", "a`b"]

RECORDED = {
    "dbt lists relations": """
        select 'shop' as database, tablename as name, schemaname as schema, 'table' as type from pg_tables
        where schemaname ilike 'public'
        union all
        select 'shop' as database, viewname as name, schemaname as schema, 'view' as type from pg_views
        where schemaname ilike 'public'
        union all
        select 'shop' as database, matviewname as name, schemaname as schema, 'materialized_view' as type
        from pg_matviews where schemaname ilike 'public'""",
    "dbt lists schemas": "select distinct nspname from pg_namespace",
    "dbt reads columns": """
        select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale
        from information_schema.columns where table_name = 'orders' and table_schema = 'public'
        order by ordinal_position""",
    "Metabase lists tables": """
        SELECT "n"."nspname" AS "schema", "c"."relname" AS "name",
               CASE "c"."relkind" WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW'
                 WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS "type",
               "d"."description" AS "description", NULLIF(stat.n_live_tup, 0) AS "estimated_row_count"
        FROM "pg_catalog"."pg_class" AS "c"
        INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid"
        LEFT JOIN "pg_catalog"."pg_description" AS "d" ON "c"."oid" = "d"."objoid" AND "d"."objsubid" = 0
             AND "d"."classoid" = 'pg_class'::regclass
        LEFT JOIN "pg_stat_user_tables" AS "stat" ON "n"."nspname" = "stat"."schemaname"
             AND "c"."relname" = "stat"."relname"
        WHERE "c"."relnamespace" = "n"."oid" AND "n"."nspname" !~ 'information_schema|catalog_history|^pg_'
          AND "c"."relkind" IN ('r', 'p', 'v', 'f', 'm')
        ORDER BY "type" ASC, "schema" ASC, "name" ASC""",
    "Metabase asks for privileges": """
        with table_privileges as (
          select NULL as role, t.schemaname as schema, t.objectname as table,
                 pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"'
                   || t.objectname || '"', 'update') as update,
                 pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"'
                   || t.objectname || '"', 'SELECT') as select
          from (select schemaname, tablename as objectname from pg_catalog.pg_tables
                union select schemaname, viewname as objectname from pg_catalog.pg_views
                union select schemaname, matviewname as objectname from pg_catalog.pg_matviews) t
          where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema')
        select t.* from table_privileges t""",
    "DBeaver opens a connection": "SELECT current_schema(), session_user",
    "DBeaver lists schemas": """
        SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0
             AND d.classoid = 'pg_namespace'::regclass
        ORDER BY nspname""",
    "DBeaver lists relations": """
        SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,
               pg_catalog.pg_get_partkeydef(c.oid) as partition_key
        FROM pg_catalog.pg_class c
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
             AND d.classoid = 'pg_class'::regclass
        WHERE c.relnamespace = 2200 AND c.relkind not in ('i', 'I', 'c')""",
    "DBeaver reads columns": """
        SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, dsc.description,
               dep.objid
        FROM pg_catalog.pg_attribute a
        INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
        LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
        LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
        LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i'
             and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
        WHERE NOT a.attisdropped AND c.relkind not in ('i', 'I', 'c') AND c.oid = 'orders'::regclass
        ORDER BY a.attnum""",
    "Django lists tables": """
        SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END,
               obj_description(c.oid, 'pg_class')
        FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast')
          AND pg_catalog.pg_table_is_visible(c.oid)""",
    "Rails reads columns": """
        SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull,
               a.atttypid, a.atttypmod, c.collname, col_description(a.attrelid, a.attnum) AS comment
        FROM pg_attribute a
        LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        LEFT JOIN pg_type t ON a.atttypid = t.oid
        LEFT JOIN pg_collation c ON a.attcollation = c.oid AND a.attcollation <> t.typcollation
        WHERE a.attrelid = '"orders"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum""",
    "primary keys by position": """
        SELECT a.attname FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
        WHERE i.indrelid = 'public.orders'::regclass AND i.indisprimary""",
    "a pooler looks in": "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'), txid_current()",
    "settings": "SELECT name, setting FROM pg_settings WHERE name IN ('server_version_num', 'TimeZone') ORDER BY 1",
}

HAS_ORDERS = {"dbt lists relations", "Metabase lists tables", "DBeaver lists relations", "Django lists tables"}


@pytest.mark.parametrize("what", RECORDED)
def test_tools_get_their_answers(client, what):
    found = client.execute(RECORDED[what]).fetchall()
    assert found
    if what in HAS_ORDERS:
        assert any("orders" in row for row in found) and any("spend" in row for row in found)
    if what in ("DBeaver reads columns", "Rails reads columns", "dbt reads columns"):
        assert len(found) == 4


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_come_out_as_data(door, client, name):
    quoted = "`" + name.replace("`", "``") + "`"
    try:
        door.warehouse.sql(f"CREATE TABLE hostile ({quoted} INT, id INT PRIMARY KEY)")
    except Exception as refused:
        pytest.skip(f"the warehouse takes no such name: {refused}")
    try:
        text = "SELECT attname FROM pg_attribute WHERE attrelid = 'hostile'::regclass AND attnum = 1"
        assert client.execute(text).fetchone() == (name.lower(),)
        by_value = "SELECT count(*) FROM pg_attribute WHERE attname = %s"
        assert client.execute(by_value, [name.lower()]).fetchone() == (1,)
        assert client.execute("SELECT * FROM hostile").description[0].name == name.lower()
    finally:
        door.warehouse.sql("DROP TABLE hostile")


def test_values_stay_values(client):
    for value in HOSTILE:
        assert client.execute("SELECT %s::string", [value]).fetchone() == (value,)
        assert client.execute("SELECT count(*) FROM pg_class WHERE relname = %s", [value]).fetchone() == (0,)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="orders"):
        client.execute("SELECT * FROM pg_class, orders")


def test_settings_are_those_of_the_session(client):
    client.execute("SET application_name = 'it''s me'")
    assert client.execute("SHOW application_name").fetchone() == ("it's me",)
    assert client.execute("SELECT current_setting('application_name')").fetchone() == ("it's me",)
    client.execute("BEGIN")
    client.execute("SET LOCAL application_name = 'for now'")
    assert client.execute("SHOW application_name").fetchone() == ("for now",)
    client.execute("COMMIT")
    assert client.info.parameter_status("application_name") == "it's me"
    client.execute("DISCARD ALL")
    assert client.execute("SHOW server_version").fetchone() == ("15.0",)
    with pytest.raises(psycopg.errors.UndefinedObject):
        client.execute("SET no_such_thing = 1")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.execute("SET client_encoding = 'LATIN1'")


def test_a_statement_takes_its_time_and_no_more(client):
    client.execute("SET statement_timeout = '50ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        client.execute("SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.id + b.id = 7")
    with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 0.05 seconds"):
        client.execute(ENDLESS)
    client.execute("RESET statement_timeout")
    assert client.execute("SELECT 1").fetchone() == (1,)
    assert client.execute("SELECT count(*) > 0 FROM pg_type").fetchone() == (True,)


# -------------------------------------------------------------------------------------------- nobody holds the catalog

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t, pg_class"

LONG = "(SELECT array_to_string(array_agg(a.typname || b.typname), '') FROM pg_type a, pg_type b)"
"""Some 50,000 characters."""


def test_a_query_of_the_catalog_is_cancelled(client):
    threading.Timer(0.3, client.cancel_safe).start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="at its user's request"):
        client.execute(ENDLESS)
    assert client.execute("SELECT relname FROM pg_class WHERE relname = 'orders'").fetchall() == [("orders",)]


def test_a_query_of_the_catalog_has_its_time():
    with (
        tidemill.open(":memory:", runtime="native") as wh,
        closing(Door(wh, limits=PgLimits(catalog_seconds=0.3))) as door,
        door.connect() as client,
    ):
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"at most 0\.3 seconds"):
            client.execute(ENDLESS)
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SELECT * FROM pg_type a, pg_type b, pg_type c, pg_type d")


def test_one_user_does_not_keep_another_waiting(tmp_path):
    text = "SELECT count(*) FROM pg_class WHERE relname = 'orders'"
    with guarded_door(tmp_path) as door, ThreadPoolExecutor() as threads, ExitStack() as stack:
        ann, second, bob = [stack.enter_context(closing(door.connect(user))) for user in ("ann", "ann", "bob")]
        endless = threads.submit(ann.execute, ENDLESS)
        eventually(lambda: door.server.shared.catalog is not None and "ann" in door.server.shared.catalog._lent)
        waiting = threads.submit(second.execute, text)
        assert bob.execute(text).fetchone() == (1,)
        assert not endless.done()
        assert not waiting.done()
        ann.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            endless.result(30)
        assert waiting.result(30).fetchone() == (1,)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SELECT * FROM pg_class, generate_series(1, 100000000000)", "0A000"),
        ("SELECT generate_series(1, 1000000), relname FROM pg_class", "0A000"),
        ("SELECT * FROM pg_namespace, LATERAL generate_series(1, oid) g", "0A000"),
        ("SELECT repeat('x', 1000000000), version()", "42883"),
        ("SELECT lpad('x', 1000000000), version()", "42883"),
        (f"SELECT replace(long, 'b', long) FROM {LONG} t(long)", "0A000"),
        (f"SELECT string_agg(long, ',') FROM pg_type a, pg_type b, pg_type c, {LONG} t(long)", "53200"),
        ("SELECT " + "quote_ident(" * 20 + "'a'" + ")" * 20, "54001"),
        ("SELECT " + "char_length(" * 30 + "'a'" + ", 1)" * 30 + ", version()", "42883"),
        ("SELECT " + "strpos('a', 'a', " * 30 + "1" + ")" * 30 + ", version()", "42883"),
        ("SELECT * FROM pg_class, query('SELECT 1')", "42883"),
        ("SELECT * FROM pg_class, read_text('/etc/passwd')", "42883"),
        ("SELECT * FROM pg_class, duckdb_settings()", "42883"),
        ("SELECT getvariable('views'), version()", "42883"),
        ("SELECT pg_sleep(1000)", "42883"),
        ("WITH gone AS (DELETE FROM pg_class RETURNING oid) SELECT * FROM gone", "0A000"),
    ],
)  # fmt: skip
def test_what_could_take_everything_is_refused(client, text, state):
    with pytest.raises(psycopg.Error) as refused:
        client.execute(text)
    assert refused.value.sqlstate == state, refused.value
    assert client.execute("SELECT generate_series(1, 2), version() > ''").fetchall() == [(1, True), (2, True)]


def test_series_are_numbered_as_tools_expect(client):
    text = "SELECT g, s.n FROM pg_am, generate_series(1, 2) g, LATERAL generate_series(3, g, -2) s(n)"
    assert sorted(client.execute(f"{text} WHERE amname = 'heap'").fetchall()) == [(1, 1), (1, 3), (2, 3)]


def test_an_answer_of_the_catalog_has_a_length(client, monkeypatch):
    monkeypatch.setattr(database, "MOST_BYTES", 1 << 20)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="too long"):
        client.execute("SELECT * FROM pg_type a, pg_type b, pg_type c, pg_type d")
    assert client.execute("SELECT * FROM pg_type").fetchall()
