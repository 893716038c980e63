"""Families of views: the same construct over and over, ``n`` times."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.model.schema import Table
from tidemill.model.types import INT, Field

COLUMNS = (Field("k", INT), Field("j", INT), Field("v", INT))

TABLES = {f"t{i}": Table(f"t{i}", COLUMNS) for i in range(64)}
"""What the views read; every column can be NULL, which is the harder case."""


def chain(*kinds: str) -> Callable[[int], str]:
    """Joins in a row, each with the table before it, of these kinds in turn."""

    def sql(n: int) -> str:
        joins = (f"{kinds[i % len(kinds)]} JOIN t{i} ON t{i}.k = t{i - 1}.j" for i in range(1, n))
        return f"SELECT t0.v AS a, t{n - 1}.v AS b FROM t0 {' '.join(joins)}"

    return sql


def star(n: int) -> str:
    """Tables that are all joined with the first one, those that have no partner kept."""
    joins = (f"LEFT JOIN t{i} ON t{i}.k = t0.j" for i in range(1, n))
    return f"SELECT t0.v AS a, t{n - 1}.v AS b FROM t0 {' '.join(joins)}"


def full_using(n: int) -> str:
    """FULL JOIN ... USING: the column that all have takes its value from any of them."""
    return f"SELECT k, t{n - 1}.v AS b FROM t0 {' '.join(f'FULL JOIN t{i} USING (k)' for i in range(1, n))}"


def self_join(n: int) -> str:
    """One table joined with itself."""
    return "SELECT a0.v FROM t0 a0 " + " ".join(f"JOIN t0 a{i} ON a{i}.k = a{i - 1}.j" for i in range(1, n))


def common_tables(step: str) -> Callable[[int], str]:
    """Common table expressions, each of which reads the one before it twice."""

    def sql(n: int) -> str:
        tables = [f"c{i} AS ({step.format(c=f'c{i - 1}')})" for i in range(1, n)]
        return f"WITH c0 AS (SELECT k, j, v FROM t0), {', '.join(tables)} SELECT k, v FROM c{n - 1}"

    return sql


JOINED = "SELECT a.k, b.j, a.v FROM {c} a JOIN {c} b ON a.k = b.j"
GROUPED = "SELECT a.k, b.j, SUM(a.v) AS v FROM {c} a JOIN {c} b ON a.k = b.j GROUP BY a.k, b.j"
SUMMED = "SELECT k, j, v FROM {c} UNION ALL SELECT j, k, v FROM {c}"


def questions(question: str, form: str = "{}") -> Callable[[int], str]:
    """Subqueries in WHERE, joined by OR."""
    return lambda n: "SELECT k FROM t0 WHERE " + form.format(" OR ".join(question.format(i=i) for i in range(1, n + 1)))


IN = "k IN (SELECT j FROM t{i} WHERE t{i}.v = t0.v)"
NOT_IN = "k NOT IN (SELECT j FROM t{i})"
EXISTS = "EXISTS (SELECT 1 FROM t{i} WHERE t{i}.k = t0.k)"


def union_all(n: int) -> str:
    """A sum of queries."""
    return " UNION ALL ".join(f"SELECT k, v + {i} AS v FROM t{i % 40}" for i in range(n))


def nested(n: int) -> str:
    """Queries in FROM, one in the other."""
    sql = "SELECT k, v FROM t0"
    for i in range(n):
        sql = f"SELECT k, v + 1 AS v FROM ({sql}) s{i} WHERE v > {i}"
    return sql


def branches(n: int) -> str:
    """A CASE of many branches."""
    return f"SELECT CASE {' '.join(f'WHEN v = {i} THEN {i % 13}' for i in range(n))} ELSE 0 END AS c FROM t0"


def listed(n: int) -> str:
    """IN a long list."""
    return f"SELECT k FROM t0 WHERE v IN ({', '.join(map(str, range(n)))})"


def columns(n: int) -> str:
    """A long select list."""
    return f"SELECT {', '.join(f'v + {i} AS c{i}' for i in range(n))} FROM t0"


JOINS = (10, 20, 40)

CASES: dict[str, tuple[Callable[[int], str], tuple[int, ...]]] = {
    "inner joins": (chain(""), JOINS),
    "left joins": (chain("LEFT"), JOINS),
    "left joins with one table": (star, JOINS),
    "right joins": (chain("RIGHT"), JOINS),
    "full joins": (chain("FULL"), JOINS),
    "full joins using": (full_using, JOINS),
    "mixed joins": (chain("LEFT", "", "FULL", "RIGHT"), JOINS),
    "self joins": (self_join, JOINS),
    "common tables joined": (common_tables(JOINED), JOINS),
    "common tables grouped": (common_tables(GROUPED), JOINS),
    "common tables summed": (common_tables(SUMMED), JOINS),
    "in or in": (questions(IN), (2, 4, 8)),
    "not (in or in)": (questions(IN, "NOT ({})"), (2, 4, 8)),
    "not in or not in": (questions(NOT_IN), (2, 4, 8)),
    "exists or exists": (questions(EXISTS), (2, 4, 8)),
    "union all": (union_all, (50, 100, 200)),
    "queries in from": (nested, (10, 25, 50)),
    "branches of case": (branches, (125, 250, 500)),
    "literals of in": (listed, (2_500, 5_000, 10_000)),
    "columns": (columns, (250, 500, 1_000)),
}
"""For each family the view of ``n`` parts, and the numbers at which it is measured."""
