"""Random projects over two tables: views of several layers, plain views and a function, in many variants."""

from __future__ import annotations

import random
from pathlib import Path

STRATEGIES = ("auto", "delta", "viewlet", "joingraph", "recompute")
FILTERS = ("n > 10", "n IS NULL", "n % 3 = 1", "z = '2' OR n < 5", "TRUE", "n BETWEEN 8 AND 30")

TABLES = (
    "CREATE TABLE t (k INT, n INT, z STRING NOT NULL); CREATE TABLE s (k INT, m INT);",
    "CREATE TABLE t (k INT, n INT, z STRING); CREATE TABLE s (k INT, m INT DEFAULT 5);",
    "CREATE TABLE t (k INT, n INT, z STRING, e INT DEFAULT 7); CREATE TABLE s (k INT, m INT DEFAULT 5);",
    "CREATE TABLE t (k INT, n BIGINT, z STRING, e INT); CREATE TABLE s (k INT, m BIGINT, o STRING);",
)
"""Tables of successive versions."""

PLAIN = (
    "SELECT k, n, z FROM t WHERE {}",
    "SELECT k, n, z FROM t",
    "SELECT k, n + 1 AS n, z, k AS more FROM t WHERE {}",
    "SELECT * FROM t WHERE {}",
)
FIRST = (
    "SELECT k, n FROM {} WHERE {}",
    "SELECT k, n, z FROM {} WHERE {}",
    "SELECT * FROM {} WHERE {}",
    "SELECT DISTINCT k, n FROM {} WHERE {}",
    "SELECT k, MAX(n) AS n FROM {} WHERE {} GROUP BY k",
    "SELECT x.k, x.n FROM {} AS x JOIN s ON x.k = s.k WHERE {}",
    "SELECT k, n, MAX(n) OVER (PARTITION BY z) AS high FROM {} WHERE {}",
)
SECOND = (
    "SELECT * FROM {}",
    "SELECT k, n FROM {} WHERE n > 4",
    "SELECT k, SUM(n) AS n, COUNT(*) AS c FROM {} GROUP BY k",
    "SELECT a.k, b.n FROM {0} AS a JOIN {0} AS b ON a.k = b.k AND a.n < b.n",
    "SELECT x.k, x.n, s.m FROM {} AS x LEFT JOIN s ON x.k = s.k",
    "SELECT k, twice(n) AS n FROM {}",
)
FUNCTIONS = ("2 * x", "x + x", "x + 1")


def random_project(chance: random.Random, version: int) -> dict[str, str]:
    """The definitions of a project by name; its tables have this version."""

    def one_of(texts: tuple[str, ...], *inputs: str) -> str:
        query = chance.choice(texts).format(chance.choice(inputs), chance.choice(FILTERS))
        return query.replace("WHERE n", "WHERE x.n").replace("OR n", "OR x.n") if " AS x JOIN" in query else query

    def view(name: str, query: str) -> str:
        strategy = chance.choice(STRATEGIES) if chance.random() < 0.3 else "auto"
        return f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query};"

    found = {
        "tables": TABLES[version],
        "twice": f"CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN {chance.choice(FUNCTIONS)};",
        "p": f"CREATE VIEW p AS {chance.choice(PLAIN).format(chance.choice(FILTERS))};",
        "v": view("v", one_of(FIRST, "t", "p")),
        "w": view("w", one_of(SECOND, "v", "v", "p")),
        "u": view("u", one_of(SECOND, "w", "v")),
        "y": view("y", one_of(SECOND, "u", "v", "w")),
        "top": view("top", f"SELECT MAX(n) AS n FROM {chance.choice('wuv')}"),
    }
    if chance.random() < 0.2:
        found["w"] = f"CREATE VIEW w AS {one_of(SECOND[:2], 'v')};"
    for name in ("y", "top"):
        if chance.random() < 0.2:
            del found[name]
    return found


def write_project(folder: Path, definitions: dict[str, str]) -> Path:
    """The project as a folder, with nothing else in it."""
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.sql"):
        file.unlink()
    for name, text in definitions.items():
        (folder / f"{name}.sql").write_text(text)
    return folder
