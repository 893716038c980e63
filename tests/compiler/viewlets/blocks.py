"""Random select-project-join-aggregate views over three small relations: self joins, inequalities, NULLs, nesting."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tidemill.algebra.node import Relation
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.model import types as t
from tidemill.model.schema import Table

DDL = """
CREATE TABLE r (a INT NOT NULL, b INT, v DECIMAL(6,2));
CREATE TABLE s (a INT, b INT NOT NULL, v BIGINT NOT NULL);
CREATE TABLE u (a INT PRIMARY KEY, b INT, v INT);
"""

TABLES: dict[str, Table] = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

COMPARISONS = ("=", "=", "<", "<=", ">", ">=", "<>")


def relation_of(sql: str) -> Relation:
    """The algebra of a query over the three relations."""
    return translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation


@st.composite
def views(draw: st.DrawFn) -> str:
    """The text of a view over one to three relations."""
    aliases = ["x", "y", "z"][: draw(st.integers(1, 3))]
    sources = ", ".join(f"{draw(st.sampled_from(sorted(TABLES)))} {alias}" for alias in aliases)
    joins = [draw(_join(one, other)) for one, other in pairwise(aliases)]
    conditions = [*joins, *draw(st.lists(_condition(aliases), max_size=2))]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    keys = draw(st.lists(_column(aliases), max_size=2, unique=True))
    values = draw(st.lists(_aggregate(aliases), min_size=1, max_size=2))
    outputs = ", ".join(f"{value} AS c{i}" for i, value in enumerate([*keys, *values]))
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {outputs} FROM {sources}{where}{group}"


def _column(aliases: list[str]) -> st.SearchStrategy[str]:
    return st.builds("{}.{}".format, st.sampled_from(aliases), st.sampled_from("abv"))


@st.composite
def _join(draw: st.DrawFn, one: str, other: str) -> str:
    left, right = draw(st.sampled_from("ab")), draw(st.sampled_from("ab"))
    match draw(st.sampled_from(("=", "=", "=", "<", "gap"))):
        case "gap":
            return f"({one}.v - {other}.v > 1 OR {other}.v - {one}.v > 1)"
        case comparison:
            return f"{one}.{left} {comparison} {other}.{right}"


@st.composite
def _condition(draw: st.DrawFn, aliases: list[str]) -> str:
    column, comparison = draw(_column(aliases)), draw(st.sampled_from(COMPARISONS))
    match draw(st.sampled_from(("constant", "column", "nested", "nested", "total"))):
        case "constant":
            return f"{column} {comparison} {draw(st.integers(0, 3))}"
        case "column":
            return f"{column} {comparison} {draw(_column(aliases))}"
        case "total":
            return f"{draw(_nested([]))} * 0.5 {comparison} {draw(_nested(aliases))}"
        case _:
            return f"{column} {comparison} {draw(_nested(aliases))}"


@st.composite
def _nested(draw: st.DrawFn, outer: list[str]) -> str:
    """A nested aggregate, correlated by an equality, an inequality, both, or not at all."""
    alias = draw(st.sampled_from(("m", "n")))
    value = draw(st.sampled_from((f"SUM({alias}.v)", f"COALESCE(SUM({alias}.v), 0)", "COUNT(*)", f"COUNT({alias}.b)")))
    ties = []
    if outer:
        for _ in range(draw(st.integers(0, 2))):
            comparison = draw(st.sampled_from(("=", "=", "<", ">", ">=")))
            ties.append(f"{alias}.{draw(st.sampled_from('ab'))} {comparison} {draw(_column(outer))}")
    if draw(st.booleans()):
        ties.append(f"{alias}.b > 0")
    where = f" WHERE {' AND '.join(ties)}" if ties else ""
    return f"(SELECT {value} FROM {draw(st.sampled_from(sorted(TABLES)))} {alias}{where})"


@st.composite
def _aggregate(draw: st.DrawFn, aliases: list[str]) -> str:
    one, other = draw(_column(aliases)), draw(_column(aliases))
    forms = ("COUNT(*)", f"COUNT({one})", f"SUM({one})", f"AVG({one})", f"SUM({one} * {other})")
    return draw(st.sampled_from((*forms, f"SUM({one} - {other} * 2)", f"SUM({one}) FILTER (WHERE {other} > 1)")))


# ------------------------------------------------------------------------------------------------------------ changes

VALUES: dict[type[t.Type], list[Any]] = {
    t.Int: [0, 1, 2, 3],
    t.BigInt: [-1, 0, 1, 2],
    t.Decimal: [Decimal("0.50"), Decimal("2.00"), Decimal("-1.25"), Decimal("3.00")],
}


@st.composite
def changes(draw: st.DrawFn, reads: tuple[str, ...], contents: dict[str, ZSet]) -> dict[str, ZSet]:
    """Rows that come and go, in several relations at once; only what is there can leave."""
    result: dict[str, ZSet] = {}
    for name in draw(st.permutations(reads)):
        change = ZSet()
        for _ in range(draw(st.integers(0, 4))):
            there = sorted((contents[name] + change).expand(), key=repr)
            leaves = draw(st.integers(0, 1))
            if there and leaves:
                change.add(draw(st.sampled_from(there)), -1)
            else:
                change.add(draw(rows(TABLES[name])), draw(st.integers(1, 2)))
        result[name] = change
    return result


def rows(table: Table) -> st.SearchStrategy[tuple[Any, ...]]:
    """A row of a table, with values so few that rows meet."""
    known = [st.sampled_from(VALUES[type(f.type)]) for f in table.fields]
    return st.tuples(
        *(value | st.none() if f.nullable else value for value, f in zip(known, table.fields, strict=True))
    )


# ------------------------------------------------------------------------------------------------------- running sums


KNOWN = {"r": "a", "s": "b", "u": "a"}
"""A column of each relation that is never NULL."""


@st.composite
def running_views(draw: st.DrawFn) -> str:
    """A view whose rows are chosen by a sum over the rows beyond them, of the whole relation or of their own group."""
    table, other = (draw(st.sampled_from(sorted(TABLES))) for _ in range(2))
    order = draw(st.sampled_from((KNOWN[table], KNOWN[table], "a", "b", "v")))
    group = draw(st.sampled_from([column for column in "abv" if column != order]))
    place, within = (order, table) if draw(st.booleans()) else (KNOWN[other], other)
    side = draw(st.sampled_from(("<", "<=", ">", ">=")))
    value = draw(st.sampled_from(("SUM(n.v)", "COALESCE(SUM(n.v), 0)", "COUNT(*)", "SUM(n.v * n.v)", "AVG(n.v)")))
    tie = draw(st.sampled_from((f"n.{group} = x.{group} AND ", f"n.{group} = x.{group} AND ", "")))
    running = f"(SELECT {value} FROM {within} n WHERE {tie}n.{place} {side} x.{order})"
    limit = draw(
        st.sampled_from(("2", "0", "NULL", f"0.5 * (SELECT SUM(m.v) FROM {table} m WHERE m.{group} = x.{group})"))
    )
    comparison = draw(st.sampled_from(("<", "<=", ">", ">=", "=")))
    key = draw(st.sampled_from(("", f"x.{group}", f"x.{order}")))
    chosen = f"FROM {table} x WHERE {limit} {comparison} {running}"
    if not key:
        return f"SELECT COUNT(*) AS c0, SUM(x.v) AS c1 {chosen}"
    return f"SELECT {key} AS c0, SUM(x.v) AS c1 {chosen} GROUP BY {key}"
