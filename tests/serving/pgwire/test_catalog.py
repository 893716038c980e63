"""Queries of the catalog as tools were seen to send them, and names that are made to do harm."""

from __future__ import annotations

import psycopg
import pytest

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
    client.execute("RESET statement_timeout")
    assert client.execute("SELECT 1").fetchone() == (1,)
