"""ASOF JOIN, FOR SYSTEM_TIME AS OF and windowing table functions: what is read, and what is refused and where."""

from __future__ import annotations

import pytest

import tidemill
from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.compiler.frontends.sql.table_references import replace_tables
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.model.errors import TidemillError

DDL = """
    CREATE TABLE a (id INT PRIMARY KEY, k INT, ts TIMESTAMP);
    CREATE TABLE b (k INT, ts TIMESTAMP, x INT);
    CREATE TABLE versions (k INT, ts TIMESTAMP, x INT, PRIMARY KEY (k, ts));
    CREATE TABLE present (k INT PRIMARY KEY, ts TIMESTAMP) PARTITION BY ts EVERY 1 MINUTE;
    CREATE TABLE two (since DATE, ts TIMESTAMP, PRIMARY KEY (since)) PARTITION BY ts EVERY 1 MINUTE;
    CREATE STREAM late (k INT, ts TIMESTAMP, x INT) LATENESS 1 HOUR ON ts;
"""
TABLES = {one.table.name: one.table for one in parse(DDL) if isinstance(one, CreateTable)}


def translated(query: str) -> Relation:
    relations = {name: table.fields for name, table in TABLES.items()}
    return translate(query, relations, name="v", named=NamedDefinitions(table_of=TABLES.get)).relation


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts", "a asof inner join b on b.ts <= a.ts and b.k = a.k"),
        ("a ASOF LEFT JOIN b ON a.k = b.k AND a.ts > b.ts", "a ASOF JOIN b MATCH_CONDITION (a.ts > b.ts) ON a.k = b.k"),
        ("a ASOF LEFT JOIN b ON a.ts < b.ts", "a ASOF LEFT OUTER JOIN b MATCH_CONDITION (b.ts > a.ts)"),
    ],
)
def test_spellings_of_one_join(one: str, other: str) -> None:
    found = [translated(f"SELECT id, x FROM {text}") for text in (one, other)]
    assert [f.name for f in found[0].fields] == ["id", "x"]
    assert str(found[0]).count("lead") == str(found[1]).count("lead") > 0


REFUSED = [
    ("a ASOF JOIN b ON a.k = b.k", "one comparison between its two sides, not 0"),
    ("a ASOF JOIN b ON a.ts >= b.ts AND a.id > b.x", "one comparison between its two sides, not 2"),
    ("a ASOF JOIN b ON a.ts >= b.ts AND b.x > 3", "equalities and one comparison"),
    ("a ASOF JOIN b ON a.ts >= b.ts OR a.k = b.k", "equalities and one comparison"),
    ("a ASOF JOIN b MATCH_CONDITION (a.ts = b.ts)", "MATCH_CONDITION is one comparison"),
    ("a LEFT ASOF JOIN b ON a.ts >= b.ts", "cannot be read as SQL"),
    ("a ASOF JOIN LATERAL (SELECT b.ts FROM b) b ON a.ts >= b.ts", "nor ASOF"),
    ("a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k", '"b" is no table of versions'),
    ("a JOIN present FOR SYSTEM_TIME AS OF a.ts p ON a.k = p.k", '"present" is no table of versions'),
    ("a JOIN two FOR SYSTEM_TIME AS OF a.ts ON TRUE", '"two" is no table of versions'),
    ("a JOIN late FOR SYSTEM_TIME AS OF a.ts ON TRUE", "joined by no equality"),
    ("a JOIN (SELECT k, x FROM versions) FOR SYSTEM_TIME AS OF a.ts v ON v.k = a.k", "no table of versions"),
    (
        "a JOIN (SELECT DISTINCT k, ts FROM versions) FOR SYSTEM_TIME AS OF a.ts v ON v.k = a.k",
        "a table of versions",
    ),
    ("a RIGHT JOIN versions FOR SYSTEM_TIME AS OF a.ts v ON v.k = a.k", "takes no FOR SYSTEM_TIME"),
    ("a JOIN versions FOR SYSTEM_TIME AS OF a.ts USING (k)", "takes no FOR SYSTEM_TIME"),
    ("a JOIN versions FOR SYSTEM_TIME AS OF PROCTIME() v ON v.k = a.k", "at processing time"),
    ("a JOIN versions FOR SYSTEM_TIME AS OF a.k v ON v.k = a.k", "takes a time"),
    ("a JOIN versions FOR SYSTEM_TIME AS OF '2024-01-01' v ON v.k = a.k", "VERSION AS OF is not supported here"),
    ("a JOIN versions FOR SYSTEM_TIME AS OF , b", "cannot be read as SQL"),
    ("versions FOR SYSTEM_TIME AS OF ts", "VERSION AS OF is not supported here"),
    ("TABLE(TUMBLE(TABLE a, DESCRIPTOR(k), INTERVAL 1 HOUR))", "takes a TIMESTAMP"),
    ("TABLE(TUMBLE(TABLE a, ts, INTERVAL 1 HOUR))", "DESCRIPTOR(ts)"),
    ("TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL 1 MONTH))", "constant interval"),
    ("TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts)))", "SIZE is missing"),
    ("TABLE(TUMBLE(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL 1 HOUR))", "PARTITION BY in TUMBLE"),
    ("TABLE(HOP(TABLE a, DESCRIPTOR(ts), INTERVAL 2 HOURS, INTERVAL 1 HOUR))", "slides by no more"),
    ("TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL 1 HOUR, INTERVAL 2 HOURS))", "less than one slide"),
    ("TABLE(CUMULATE(TABLE a, DESCRIPTOR(ts), INTERVAL 2 HOURS, INTERVAL 3 HOURS))", "divides its size"),
    ("TABLE(SESSION(TABLE a, DESCRIPTOR(ts), INTERVAL 0 HOURS))", "is positive"),
    ("TABLE(TUMBLE(SIZE => INTERVAL 1 HOUR, TIMECOL => DESCRIPTOR(ts)))", "takes a table first"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(TidemillError) as caught:
        translated(f"SELECT * FROM {text}")
    assert message in str(caught.value)


@pytest.mark.parametrize("gap", ["id", "INTERVAL 1 MONTH", "'0 minutes'", "(SELECT '1 hour')", "-INTERVAL 1 HOUR"])
def test_gaps_that_are_refused(gap: str) -> None:
    with pytest.raises(TidemillError, match="gap between sessions"):
        translated(f"SELECT COUNT(*) FROM a GROUP BY session_window(ts, {gap})")


@pytest.mark.parametrize(
    ("gap", "longest"),
    [
        ("CASE k WHEN 1 THEN '2 minutes' WHEN 2 THEN '1 hour' END", 3_600_000_000),
        ("COALESCE(CASE k WHEN 1 THEN INTERVAL 2 MINUTES END, INTERVAL 1 MINUTE)", 120_000_000),
        ("CAST('1 month 2 days' AS INTERVAL)", 33 * 86_400_000_000),
        ("CASE k WHEN 1 THEN '2 minutes' ELSE CAST(id AS STRING) END", None),
        ("make_interval(0, 0, 0, 0, 0, k)", None),
    ],
)
def test_the_longest_gap_is_known_where_it_follows_from_the_text(gap: str, longest: int | None) -> None:
    relation = translated(f"SELECT COUNT(*) FROM a GROUP BY session_window(ts, {gap})")
    text = str(relation)
    assert text.count("session_window") > 0
    assert f"Literal(value={longest}, of=BigInt()" in text


def test_tables_within_calls_are_renamed() -> None:
    text = "SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(a.ts), INTERVAL 1 HOUR)), HOP(TABLE(b), SIZE => '1 day', "
    text += "SLIDE => '1 day', TIMECOL => DESCRIPTOR(ts)) AS h"
    renamed = replace_tables(text, {"a": "`b`", "b": "(SELECT id, ts FROM `a`)"})
    assert renamed.startswith("SELECT * FROM TABLE(TUMBLE(TABLE `b` AS `a`, DESCRIPTOR(a.ts)")
    assert [f.name for f in translated(renamed).fields][:2] == ["k", "ts"]


def test_a_table_with_a_time_behind_it_is_renamed() -> None:
    text = "SELECT v.x FROM a JOIN v FOR SYSTEM_TIME AS OF date_trunc('day', a.ts) ON v.k = a.k"
    assert replace_tables(text, {"v": "`w`", "a": "`c`"}) == (
        "SELECT v.x FROM `c` AS `a` JOIN `w` FOR SYSTEM_TIME AS OF date_trunc('day', a.ts) AS `v` ON v.k = a.k"
    )


def test_a_temporal_join_follows_its_tables() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(DDL)
        wh.sql("CREATE VIEW named AS SELECT k AS key, ts AS since FROM present WHERE FALSE")
        query = "SELECT a.id, versions.x FROM a JOIN versions FOR SYSTEM_TIME AS OF a.ts ON versions.k = a.k"
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        wh.sql("ALTER TABLE versions RENAME TO history; ALTER TABLE history RENAME COLUMN ts TO since")
        wh.sql("ALTER TABLE history ADD COLUMN note STRING")
        wh.sql("INSERT INTO history VALUES (1, TIMESTAMP '2024-01-01 00:00:00', 5, 'n')")
        wh.sql("INSERT INTO a VALUES (1, 1, TIMESTAMP '2024-01-01 10:00:00')")
        assert [tuple(row) for row in wh.view("v").rows()] == [(1, 5)]
        (shown,) = (str(row) for row in wh.sql("SHOW CREATE VIEW v"))
        assert "FOR SYSTEM_TIME AS OF a.ts" in shown
        with pytest.raises(TidemillError, match="no table of versions"):
            wh.sql("ALTER TABLE history DROP PRIMARY KEY")
        with pytest.raises(TidemillError, match="a table of versions"):
            wh.sql("SELECT * FROM a JOIN named FOR SYSTEM_TIME AS OF a.ts n ON n.key = a.k")
