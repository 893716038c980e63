"""Statements that are almost right: those of the golden conversations, with tokens left out, repeated, swapped, replaced."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from tests.conversation import read
from tidemill.algebra.functions.registry import FUNCTIONS

GOLDEN = Path(__file__).parent.parent / "golden"

TOKEN = re.compile(r"\s+|'(?:[^'\\]|\\.|'')*'|`[^`]*`|\d+(?:\.\d+)?|\w+|<=>|<>|<=|>=|!=|\|\||->|.", re.DOTALL)

TABLES = """
CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING, d DECIMAL(10,2), x DOUBLE, at TIMESTAMP, day DATE, ok BOOLEAN);
CREATE TABLE u (k INT PRIMARY KEY, v STRING, l ARRAY<INT>, r STRUCT<p: INT, q: STRING>);
CREATE STREAM e (a INT, s STRING);
CREATE MATERIALIZED VIEW per_s AS SELECT s, COUNT(*) AS n, SUM(b) AS total FROM t GROUP BY s;
INSERT INTO t VALUES (1, 2, 'x', 1.50, 0.5, TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-01', TRUE),
  (NULL, 3, NULL, NULL, NULL, NULL, NULL, NULL), (1, 2, 'y', -7.25, 2e10, TIMESTAMP '2024-02-01 01:02:03', NULL, FALSE);
INSERT INTO u VALUES (1, 'one', array(1, 2, NULL), named_struct('p', 1, 'q', 'z')), (2, NULL, NULL, NULL);
"""
"""The tables that all statements of a trial find."""

SEEDS = """
SELECT a, b + 1 AS c FROM t WHERE s LIKE 'x%' AND d BETWEEN 0 AND 10 OR x IS NOT NULL
SELECT s, SUM(d) AS total, COUNT(DISTINCT a) AS n FROM t GROUP BY s HAVING COUNT(*) > 1
SELECT t.a, u.v FROM t JOIN u ON t.a = u.k LEFT JOIN per_s p ON p.s = t.s
SELECT a FROM t WHERE a IN (SELECT k FROM u WHERE v = t.s) AND NOT EXISTS (SELECT 1 FROM u WHERE k > t.b)
SELECT a, ROW_NUMBER() OVER (PARTITION BY s ORDER BY b DESC) AS n, SUM(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM t
SELECT k, item FROM u LATERAL VIEW EXPLODE(l) AS item
SELECT k, EXPLODE(l) AS item FROM u
SELECT k, r.p, l[0] FROM u WHERE size(l) > 1
SELECT a FROM t UNION ALL SELECT k FROM u INTERSECT ALL SELECT b FROM t EXCEPT SELECT 1
SELECT CASE WHEN a > 1 THEN 'big' WHEN a IS NULL THEN NULL ELSE s END AS c, CAST(d AS STRING) AS e FROM t
WITH c AS (SELECT a, s FROM t), g AS (SELECT s, MAX(a) AS m FROM c GROUP BY s) SELECT c.a, g.m FROM c JOIN g ON c.s = g.s
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n
SELECT s, a, GROUPING(s) AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (s, a)
SELECT transform(l, e -> e + 1) AS l, filter(l, e -> e > 1) AS m, aggregate(l, 0, (acc, e) -> acc + e) AS n FROM u
SELECT a, s FROM t ORDER BY a DESC NULLS LAST LIMIT 2 OFFSET 1
SELECT (SELECT MAX(k) FROM u WHERE k < t.b) AS m, a FROM t
SELECT date_add(day, 1) AS d, date_trunc('MONTH', at) AS m, at + INTERVAL '1' DAY AS n, year(day) AS y FROM t
SELECT COUNT(*) FILTER (WHERE ok) AS n, AVG(x) AS m, MIN(s) AS f, COLLECT_LIST(a) AS l FROM t
SELECT * FROM t CROSS JOIN u WHERE t.a <=> u.k
SELECT a, s FROM t QUALIFY RANK() OVER (PARTITION BY s ORDER BY b) = 1
SELECT window(at, '1 hour').start AS w, COUNT(*) AS n FROM t GROUP BY window(at, '1 hour')
SELECT t.a, p.b FROM t ASOF LEFT JOIN t p ON t.s = p.s AND t.at >= p.at
SELECT t.a, p.b FROM t ASOF JOIN t AS p MATCH_CONDITION (t.at < p.at) USING (s)
SELECT t.a, z.i FROM t LEFT JOIN z FOR SYSTEM_TIME AS OF t.at AS z ON z.i = t.a
SELECT window_start, SUM(b) AS n FROM TABLE(HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(at), SLIDE => INTERVAL 5 MINUTES, SIZE => INTERVAL 1 HOUR)) GROUP BY window_start, window_end
SELECT * FROM SESSION(TABLE t PARTITION BY (s, a), DESCRIPTOR(at), INTERVAL 1 HOUR) AS w
SELECT session_window(at, CASE WHEN a > 1 THEN '1 hour' ELSE s END).start AS w, COUNT(*) AS n FROM t GROUP BY session_window(at, CASE WHEN a > 1 THEN '1 hour' ELSE s END)
SELECT MAX_BY(s, b) AS m, PERCENTILE(b, 0.5) AS p, STDDEV(x) AS q FROM t GROUP BY a
VALUES (1, 'a'), (2, 'b')
INSERT INTO u (k, v) SELECT b + 10, s FROM t
INSERT INTO u VALUES (7, 'seven', array(1), NULL)
UPDATE t SET a = a + 1, s = upper(s) WHERE b = 2
DELETE FROM u WHERE k = 1
DELETE FROM t WHERE a IS NULL
TRUNCATE TABLE u
SHOW VIEWS
SHOW TABLES
SHOW PARTITIONS t
SHOW PLANS
SHOW PLANS FOR per_s
SHOW STATISTICS
SHOW STATISTICS FOR t
ANALYZE TABLE t, per_s COMPUTE STATISTICS FOR ALL COLUMNS
EXPLAIN VIEW per_s
REFRESH VIEW per_s
REFRESH TABLE t REBUILD
DROP VIEW IF EXISTS nothing
CREATE TABLE w (i INT PRIMARY KEY, p DECIMAL(38,18) NOT NULL, q ARRAY<STRUCT<a: INT, b: STRING>>, c VARCHAR(3) DEFAULT 'x')
CREATE STREAM z (i BIGINT, at TIMESTAMP) PARTITION BY TIME at LENGTH '1 day'
CREATE MATERIALIZED VIEW v WITH (strategy = 'viewlet', refresh = 'deferred') AS SELECT a FROM t
CREATE OR REPLACE MATERIALIZED VIEW per_s AS SELECT s, COUNT(*) AS n FROM t GROUP BY s
CREATE FEED f INTO t FROM 'inbox' OPTIONS (format = 'csv')
CREATE TABLE IF NOT EXISTS far (i INT PRIMARY KEY, d DATE) USING delta OPTIONS (sync = 'manual') LOCATION 'far'
CREATE TABLE near (PRIMARY KEY (i)) USING delta OPTIONS (on_history_gone = 'rebuild') LOCATION 'near'
CREATE MATERIALIZED VIEW out WITH (publish = 'delta', location = 'out', mode = 'merge') AS SELECT DISTINCT a FROM t
CREATE SOURCE far TYPE sqlite OPTIONS (path = 'far.db')
DEFINE old() AS select c.id from c in Parts
OQL count(Parts)
REPLAY LATE e WHERE a > 1
"""

KEYWORDS = [
    "ALL",
    "AND",
    "ANTI",
    "ANY",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CLUSTER",
    "COLLATE",
    "COLUMN",
    "CONSTRAINT",
    "CREATE",
    "CROSS",
    "CUBE",
    "CURRENT",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DISTRIBUTE",
    "DROP",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXPLODE",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FOLLOWING",
    "FOREIGN",
    "FROM",
    "FULL",
    "GROUP",
    "GROUPING",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MAP",
    "MATCH_RECOGNIZE",
    "MERGE",
    "MINUS",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "OVERLAPS",
    "PARTITION",
    "PIVOT",
    "PRECEDING",
    "PRIMARY",
    "QUALIFY",
    "RANGE",
    "RECURSIVE",
    "REFERENCES",
    "RIGHT",
    "RLIKE",
    "ROLLUP",
    "ROW",
    "ROWS",
    "SELECT",
    "SEMI",
    "SET",
    "SETS",
    "SORT",
    "STRUCT",
    "TABLE",
    "TABLESAMPLE",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "TRY_CAST",
    "UNBOUNDED",
    "UNION",
    "UNIQUE",
    "UNNEST",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
]

AGGREGATES = [
    "SUM",
    "COUNT",
    "AVG",
    "MIN",
    "MAX",
    "FIRST",
    "LAST",
    "ANY_VALUE",
    "COLLECT_LIST",
    "COLLECT_SET",
    "STDDEV",
    "VARIANCE",
    "CORR",
    "COVAR_POP",
    "MEDIAN",
    "PERCENTILE",
    "MODE",
    "MAX_BY",
    "MIN_BY",
    "STRING_AGG",
    "LISTAGG",
    "COUNT_IF",
    "BOOL_AND",
    "EVERY",
    "SOME",
    "APPROX_COUNT_DISTINCT",
    "PERCENTILE_CONT",
    "GROUPING",
    "GROUPING_ID",
    "RANK",
    "LEAD",
    "LAG",
    "NTILE",
    "ROW_NUMBER",
    "DENSE_RANK",
    "CUME_DIST",
    "NTH_VALUE",
    "FIRST_VALUE",
    "EXPLODE",
    "POSEXPLODE",
    "INLINE",
    "STACK",
    "SEQUENCE",
    "WINDOW",
    "SESSION_WINDOW",
    "CURRENT_DATE",
    "RAND",
    "NAMED_STRUCT",
    "MAP",
    "ARRAY",
    "STRUCT",
    "IF",
    "NVL",
    "NULLIF",
    "IFF",
    "DECODE",
    "TRANSFORM",
    "AGGREGATE",
]

EXTREMES = [
    "0",
    "-1",
    "1",
    "NULL",
    "TRUE",
    "127",
    "128",
    "2147483647",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999999999999999999",
    "123456789012345678901234567890123456789012345678901234567890",
    "1e308",
    "1e309",
    "1e-400",
    "1e999999999",
    "0.1",
    ".5",
    "5.",
    "0x1F",
    "1L",
    "1S",
    "1D",
    "1BD",
    "3.5F",
    "00",
    "0.00000000000000000000000000000000000000000001",
    "''",
    "'x'",
    "'\\\\'",
    "'%'",
    "'('",
    "'['",
    "'9999-12-31'",
    "'0000-00-00'",
    "'2024-02-30'",
    "'24:00:00'",
    "'NaN'",
    "'Infinity'",
    "DATE'2024-01-01'",
    "DATE'x'",
    "TIMESTAMP'x'",
    "INTERVAL'1'DAY",
    "X'1F'",
    '"double"',
    "`back`",
    "?",
    ":name",
    "@v",
    "$1",
    "*",
    ";",
    "--",
    "/*",
    "*/",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    "::",
    "->",
    "=>",
]

TYPES = """
INT BIGINT SMALLINT TINYINT STRING DOUBLE FLOAT BOOLEAN DATE TIMESTAMP TIMESTAMP_NTZ BINARY VOID INTERVAL VARIANT DECIMAL NUMERIC
DECIMAL(38,38) DECIMAL(0) DECIMAL(-1,2) DECIMAL(39,0) DECIMAL(5,6) DECIMAL(1,2,3) DECIMAL(a) DECIMAL() DECIMAL(99999999999999999999)
VARCHAR VARCHAR(3) VARCHAR(0) CHAR(99999999999) ARRAY ARRAY<INT> ARRAY<> ARRAY<ARRAY<STRUCT<a:INT>>> STRUCT STRUCT<> STRUCT<a:INT,A:INT>
STRUCT<a:INT,b:STRUCT<c:DATE>> STRUCT<:INT> MAP<STRING,INT> MAP ARRAY<INT,INT> ARRAY(INT) INT(3) STRING(5) INT[] UNKNOWN_TYPE JSON UUID
INT UNSIGNED MONEY TIME YEAR GEOMETRY ENUM('a') INTERVAL YEAR TO MONTH STRUCT<a INT> ARRAY<DECIMAL(99,1)> NULL TIMESTAMP(9)
""".replace("\n", " ").split(" ")

VALUE = re.compile(r"[a-z]\w*|\d.*|'.*", re.DOTALL)
"""Tokens in whose place an expression may stand: names in lower case, numbers, strings."""

COLUMNS = ["a", "b", "s", "d", "x", "at", "day", "ok", "k", "v", "l", "r", "t.a", "u.k", "r.p", "l[0]", "*", "per_s.n"]

VALUES = [word for word in EXTREMES if word[0] in "0123456789-.'NTDI"]

FORMS = [
    "{f}({n})",
    "{f}({n})",
    "{f}({n})",
    "({0})",
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} / {1}",
    "{0} % {1}",
    "{0} || {1}",
    "{0} = {1}",
    "{0} < {1}",
    "{0} <=> {1}",
    "{0} AND {1}",
    "{0} OR {1}",
    "NOT {0}",
    "- {0}",
    "{0} IS NULL",
    "{0} IS NOT TRUE",
    "{0} IN ({1}, {2})",
    "{0} IN (SELECT {1} FROM u)",
    "{0} BETWEEN {1} AND {2}",
    "{0} LIKE {1}",
    "{0} RLIKE {1}",
    "{0} NOT IN ({1})",
    "CASE WHEN {0} THEN {1} ELSE {2} END",
    "CASE {0} WHEN {1} THEN {2} END",
    "CAST({0} AS INT)",
    "CAST({0} AS STRING)",
    "CAST({0} AS DECIMAL(10,2))",
    "TRY_CAST({0} AS DATE)",
    "{0}::DOUBLE",
    "{0}[{1}]",
    "{0}.p",
    "(SELECT MAX({0}) FROM u)",
    "(SELECT {0} FROM t LIMIT 1)",
    "EXISTS (SELECT {0} FROM u WHERE {1})",
    "{f}({0}) OVER (PARTITION BY {1} ORDER BY {2})",
    "{f}({n}) OVER (ORDER BY {0} ROWS BETWEEN {1} PRECEDING AND {2} FOLLOWING)",
    "{f}(DISTINCT {0})",
    "{f}({0}) FILTER (WHERE {1})",
    "{0} > ALL (SELECT {1} FROM t)",
    "{f}({0}, e -> {1})",
    "INTERVAL {0} DAY",
    "DATE {0}",
    "EXTRACT(YEAR FROM {0})",
    "({0}, {1})",
    "({0}, {1}) IN (SELECT k, v FROM u)",
    "{0} COLLATE x",
    "STRUCT({0}, {1})",
    "ARRAY({0}, {1})",
    "{f}({0}) WITHIN GROUP (ORDER BY {1})",
    "{0} {1}",
    "{0}, {1}",
    "{0} AS {1}",
]

CONSTRAINTS = [
    "",
    "",
    "",
    "NOT NULL",
    "PRIMARY KEY",
    "NULL",
    "DEFAULT 1",
    "UNIQUE",
    "CHECK (c0 > 0)",
    "REFERENCES t(a)",
]
CONSTRAINTS += ["GENERATED ALWAYS AS (1)", "COMMENT 'x'", "COLLATE x", "NOT NULL NOT NULL", "PRIMARY KEY PRIMARY KEY"]

CLAUSES = [
    "",
    "",
    "",
    ", PRIMARY KEY (c0)",
    ", PRIMARY KEY (nope)",
    ", PRIMARY KEY ()",
    ", FOREIGN KEY (c0) REFERENCES t",
    ",",
]
CLAUSES += [
    ", CHECK (c0 > 1)",
    ", UNIQUE (c0)",
    ", c0 INT",
    ", CONSTRAINT x PRIMARY KEY (c0)",
    ", LIKE t",
    ", _weight INT",
]

TAILS = [
    "",
    "",
    "",
    " APPEND ONLY",
    " PARTITION BY TIME c0 LENGTH '1 day'",
    " PARTITIONED BY (c0)",
    " USING parquet",
    " AS SELECT 1",
    " COMMENT 'x'",
]
TAILS += [" TBLPROPERTIES ('a' = 'b')", " LOCATION 'x'", " PARTITION BY", " WITH (a = 1)", " CLUSTER BY (c0)", " x"]

NAMES = [
    "c0",
    "c1",
    "`odd name`",
    "`a.b`",
    "`ü`",
    "select",
    "`_weight`",
    "`_epoch`",
    "`\x00`",
    "``",
    "`/`",
    "x" * 300,
    "`a'b`",
]


@cache
def corpus() -> list[str]:
    """Statements to begin with: the views of the golden conversations, with the tables they need, and plain ones."""
    return [line for line in SEEDS.strip().splitlines() if line]


@cache
def golden() -> list[tuple[str, list[str]]]:
    """Declarations and queries of each golden conversation."""
    found = []
    for path in sorted(GOLDEN.glob("*.test")):
        steps = read(path).steps
        declared = [step.declare for step in steps if step.declare]
        queries = [query for step in steps for _, query in step.views]
        found.append((";".join(declared), queries))
    return found


@cache
def _words() -> list[str]:
    return [*KEYWORDS, *KEYWORDS, *(name.upper() for name in FUNCTIONS), *AGGREGATES, *AGGREGATES, *EXTREMES, *EXTREMES]


def random_expression(dice: random.Random, inner: str, depth: int = 3) -> str:
    """An expression that reads well, around ``inner`` or beside it; its types may not fit."""
    if depth == 0 or dice.random() < 0.25:
        return dice.choice((inner, inner, dice.choice(COLUMNS), dice.choice(COLUMNS), dice.choice(VALUES)))
    parts = [random_expression(dice, inner, depth - 1) for _ in range(3)]
    form = dice.choice(FORMS)
    function = dice.choice(_functions())
    return form.format(*parts, f=function, n=", ".join(parts[: dice.randrange(4)]))


@cache
def _functions() -> list[str]:
    return [*(name for name in FUNCTIONS if name.isidentifier()), *AGGREGATES]


def tokens_of(text: str) -> list[str]:
    return TOKEN.findall(text)


def mutated(text: str, dice: random.Random, others: list[str]) -> str:
    """``text`` with one to four small faults."""
    tokens = tokens_of(text)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4))):
        _mutate(tokens, dice, others)
    return "".join(tokens)


def _mutate(tokens: list[str], dice: random.Random, others: list[str]) -> None:
    solid = [place for place, token in enumerate(tokens) if not token.isspace()]
    if not solid:
        return
    at, other = dice.choice(solid), dice.choice(solid)
    if dice.random() < 0.6:
        at = dice.choice([place for place in solid if VALUE.fullmatch(tokens[place])] or solid)
        tokens[at] = f" {random_expression(dice, tokens[at])} "
        return
    match dice.randrange(8):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, f" {tokens[other]} ")
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3 | 4:
            tokens[at] = f" {dice.choice(_words())} "
        case 5:
            tokens[at] = tokens[dice.choice(solid)]
        case 6:
            start, end = sorted((at, other))
            tokens[at:at] = [" ", *tokens[start : min(end, start + 12)], " "]
        case 7:
            graft = tokens_of(dice.choice(others))
            start = dice.randrange(len(graft))
            tokens[at : at + dice.randrange(3)] = [" ", *graft[start : start + dice.randrange(1, 12)], " "]


def random_table(dice: random.Random) -> str:
    """A CREATE TABLE of odd types, constraints and clauses."""
    columns = []
    for number in range(dice.randrange(1, 4)):
        name = dice.choice(NAMES) if dice.random() < 0.2 else f"c{number}"
        columns.append(f"{name} {dice.choice(TYPES)} {dice.choice(CONSTRAINTS) if dice.random() < 0.4 else ''}")
    kind = dice.choice(("TABLE", "TABLE", "STREAM", "TABLE IF NOT EXISTS"))
    name = dice.choice(NAMES) if dice.random() < 0.1 else f"n{dice.randrange(1000)}"
    return f"CREATE {kind} {name} ({', '.join(columns)}{dice.choice(CLAUSES)}){dice.choice(TAILS)}"


def random_statement(dice: random.Random) -> str:
    """A statement over ``TABLES``: one of the corpus with faults, asked once or kept as a view, or a table of odd types."""
    if dice.random() < 0.12:
        return random_table(dice)
    text = dice.choice(corpus())
    text = text if dice.random() < 0.05 else mutated(text, dice, corpus())
    if text.lstrip().upper().startswith(("SELECT", "WITH", "VALUES")) and dice.random() < 0.5:
        options = dice.choice(
            ("", "", " WITH (strategy = 'delta')", " WITH (strategy = 'viewlet')", " WITH (strategy = 'lineage')")
        )
        return f"CREATE MATERIALIZED VIEW v{dice.randrange(10_000)}{options} AS {text}"
    return text
