"""A small world of tables for the compiler's tests, with values so few that rows meet, repeat and are NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

from hypothesis import strategies as st

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.stages import Program

DDL = """
CREATE TABLE customers (id INT PRIMARY KEY, name STRING, region STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT REFERENCES customers (id), amount DECIMAL(10,2), day INT);
CREATE TABLE items (orders BIGINT, part INT, price DECIMAL(8,2), rate DOUBLE);
CREATE TABLE edges (a INT, b INT);
CREATE STREAM clicks (customer INT, page STRING, seconds INT);
"""

TABLES: dict[str, Table] = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

VALUES: dict[type[t.Type], list[Any]] = {
    t.Int: [0, 1, 2, 3],
    t.BigInt: [0, 1, 2, 3],
    t.String: ["a", "b", "c"],
    t.Decimal: [Decimal("0.50"), Decimal("2.00"), Decimal("-1.25")],
    t.Double: [0.1, 0.2, -3.0, 1e15],
}


@cache
def relation_of(sql: str) -> Relation:
    """The algebra of a query over the shop."""
    return translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation


@cache
def program_of(sql: str, strategy: str = "auto", **options: str) -> Program:
    """The program of a view over the shop, which is compiled once however often it is drawn for."""
    return compile_view("v", relation_of(sql), TABLES, strategy, **options)


# Strategies are made once: each new one hypothesis looks through before it draws from it.


@cache
def value_of(field: Field) -> st.SearchStrategy[Any]:
    known = st.sampled_from(VALUES[type(field.type)])
    return st.none() | known if field.nullable else known


@cache
def row_of(table: Table) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(value_of(field) for field in table.fields))


@cache
def rows_of(table: Table) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """A few rows of a table."""
    return st.lists(row_of(table), max_size=6)


@cache
def move_of(table: Table) -> st.SearchStrategy[tuple[str, tuple[Any, ...], int]]:
    """A row that arrives, or, with a number, the row with that number among those there that leaves."""
    return st.tuples(st.just(table.name), row_of(table), st.none() | st.integers(0, 20)).map(tuple)


@cache
def epochs_of(names: tuple[str, ...]) -> st.SearchStrategy[list[list[tuple[str, tuple[Any, ...], int | None]]]]:
    """Epochs of moves in several tables at once."""
    return st.lists(st.lists(st.one_of([move_of(TABLES[name]) for name in names]), max_size=6), max_size=5)


def changes_of(moves: list[tuple[str, tuple[Any, ...], int | None]], contents: Mapping[str, ZSet]) -> dict[str, ZSet]:
    """The net change of each table; a row leaves only where it is there, so every change is possible."""
    changes: dict[str, ZSet] = {}
    for name, row, number in moves:
        change = changes.setdefault(name, ZSet())
        rows = sorted((contents[name] + change).expand(), key=repr)
        if number is None:
            change.add(row, 1)
        elif rows:
            change.add(rows[number % len(rows)], -1)
    return changes


class History:
    """What all tables hold after each epoch, drawn once: every view is compared over the same."""

    def __init__(self, seed: int, first: int = 0, epochs: int = 4, moves: int = 12) -> None:
        """``first`` moves fill the tables that are kept, before there are views."""
        self._random = Random(seed)
        self.before = {name: ZSet() for name in TABLES}
        self.before |= self._changes(self.before, [name for name in TABLES if TABLES[name].kept], first)
        self.after, self.changes = [self.before], []
        for _ in range(epochs):
            self.changes.append(self._changes(self.after[-1], list(TABLES), moves))
            self.after.append(
                {name: rows + self.changes[-1].get(name, ZSet()) for name, rows in self.after[-1].items()}
            )
        self._known: dict[tuple[str, int], ZSet] = {}

    def _changes(self, contents: Mapping[str, ZSet], names: list[str], moves: int) -> dict[str, ZSet]:
        return changes_of([self._move(self._random.choice(names)) for _ in range(moves)], contents)

    def _move(self, name: str) -> tuple[str, tuple[Any, ...], int | None]:
        values = ([*VALUES[type(f.type)], *([None] if f.nullable else [])] for f in TABLES[name].fields)
        return (
            name,
            tuple(map(self._random.choice, values)),
            self._random.choice([None, None, self._random.randrange(20)]),
        )

    def epochs(self, reads: tuple[str, ...]) -> Iterator[tuple[int, dict[str, ZSet]]]:
        """The number of each epoch that changes one of these tables, and how."""
        for number, changes in enumerate(self.changes, start=1):
            read = {name: change for name, change in changes.items() if name in reads and change}
            if read:
                yield number, read

    def evaluated(self, view: str, relation: Relation, epoch: int) -> ZSet:
        """The rows of a view after an epoch."""
        if (view, epoch) not in self._known:
            self._known[view, epoch] = evaluate(relation, self.after[epoch])
        return self._known[view, epoch]
