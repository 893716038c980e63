"""Random warehouses: tables, views as SQL text, rows and changes.

Few views are drawn by hypothesis, so that failures shrink; a hundred of them, over one history, by a seed. The SQL is
well typed and computes nothing that can overflow or divide by zero, so whatever goes wrong is a bug. Domains are small
on purpose: rows repeat, keys meet, groups empty and NULL is everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.conversation import write_row
from tests.writer import KINDS, Choose, Col, Writer
from tidemill.changes.zset import Row

Change = tuple[int, Row]
Changes = dict[str, list[Change]]


@dataclass(frozen=True)
class TableSpec:
    """A generated table: with a key its first column is ``id``. ``references`` are foreign keys: column and table."""

    name: str
    columns: tuple[Col, ...]
    keyed: bool
    stream: bool
    append_only: bool = False
    references: tuple[tuple[str, str], ...] = ()

    def sql(self) -> str:
        columns = [
            f"{c.name} {KINDS[c.kind][0]}{' PRIMARY KEY' if self.keyed and c.name == 'id' else ''}"
            for c in self.columns
        ]
        keys = [f"FOREIGN KEY ({column}) REFERENCES {table} (id)" for column, table in self.references]
        return f"{self.name} ({', '.join([*columns, *keys])}){' APPEND ONLY' if self.append_only else ''}"

    def places(self, parent: str) -> list[int]:
        """The positions of the columns that refer to ``parent``."""
        to = dict(self.references)
        return [place for place, column in enumerate(self.columns) if to.get(column.name) == parent]


@dataclass
class Scenario:
    """A warehouse and its history: tables, the rows before the views come, the views, and then epochs of changes."""

    tables: list[TableSpec]
    views: list[tuple[str, str]]
    strategies: list[str]
    epochs: list[Changes]
    before: int
    unlike_duckdb: set[str] = field(default_factory=set)
    """Views whose answers DuckDB has in another type, or has of no rows."""

    def __repr__(self) -> str:
        """As a golden conversation that only lacks what must come out."""
        lines = [f"{'stream' if table.stream else 'table'} {table.sql()}" for table in self.tables]
        for number, epoch in enumerate(self.epochs):
            if number == self.before:
                lines += self._view_lines()
            for table, changes in epoch.items():
                lines += [f"{'+' if weight > 0 else '-'} {table} {write_row(row)}" for weight, row in changes]
            lines.append("----")
        if self.before == len(self.epochs):
            lines += self._view_lines()
        return "\n" + "\n".join(lines) + "\n"

    def _view_lines(self) -> list[str]:
        return [f"view {name} AS {query}" for name, query in self.views] + ["----"]

    def only(self, view: str) -> Scenario:
        """The same history with that view and those that it reads."""
        needed = {view}
        for name, query in reversed(self.views):
            needed |= {other for other, _ in self.views if name in needed and _reads(query, other)}
        kept = [number for number, (name, _) in enumerate(self.views) if name in needed]
        return replace(self, views=[self.views[k] for k in kept], strategies=[self.strategies[k] for k in kept])

    def shrunk(self, fails: Callable[[Scenario], bool]) -> Scenario:
        """A shorter history that fails as well: no change of a row can be taken from it."""
        for shorter in self._shorter():
            if fails(shorter):
                return shorter.shrunk(fails)
        return self

    def _shorter(self) -> Iterator[Scenario]:
        for number, epoch in enumerate(self.epochs):
            yield replace(
                self,
                epochs=self.epochs[:number] + self.epochs[number + 1 :],
                before=self.before - (number < self.before),
            )
            for table, changes in epoch.items():
                for place in range(len(changes)):
                    fewer = epoch | {table: changes[:place] + changes[place + 1 :]}
                    yield replace(self, epochs=[*self.epochs[:number], fewer, *self.epochs[number + 1 :]])


def _reads(query: str, relation: str) -> bool:
    return re.search(rf"\b{relation}\b", query) is not None


@st.composite
def scenarios(draw: st.DrawFn, *, views: int = 3, epochs: int = 6, least: int = 2) -> Scenario:
    """A warehouse with up to ``views`` views and from ``least`` to ``epochs`` epochs."""

    def choose(options: Any) -> Any:
        return draw(st.sampled_from(options))

    return _scenario(choose, choose(range(1, views + 1)), choose(range(least, epochs + 1)))


def many_views(seed: int, views: int, epochs: int = 5) -> Scenario:
    """One history of three tables with as many views; the first few of them are read by others."""
    return _scenario(Random(seed).choice, views, epochs, tables=3, rows=12)


READ_BY_OTHERS = 3
"""So many views are relations for those that come after them: joins of joins of joins have too many rows."""


def _scenario(choose: Choose, views: int, epochs: int, tables: int = 0, rows: int = 3) -> Scenario:
    """So many views and epochs, with up to ``rows`` changes of each table in an epoch."""
    made: list[TableSpec] = []
    for name in ("r", "s", "t")[: tables or choose(range(1, 4))]:
        made.append(_table(choose, name, [table.name for table in made if table.keyed]))
    # What a stream held before a view came is gone, and nothing can be computed from it again.
    streams = any(table.stream for table in made)
    strategies = ["delta", "viewlet", "joingraph", *([] if streams else ["recompute"])]
    before = 0 if streams else choose(range(2))
    scenario = Scenario(made, [], [choose(strategies) for _ in range(views)], [], before)
    writer = Writer(choose, {table.name: list(table.columns) for table in made})
    for number in range(1, views + 1):
        _add_view(scenario, f"v{number}", writer)
    history = History(choose, made)
    scenario.epochs += [history.epoch(rows if number >= before else 8) for number in range(epochs)]
    return scenario


def _add_view(scenario: Scenario, name: str, writer: Writer) -> None:
    writer.duckdb = True
    query, columns = writer.query(depth=2)
    if not writer.duckdb or any(_reads(query, other) for other in scenario.unlike_duckdb):
        scenario.unlike_duckdb.add(name)
    scenario.views.append((name, query))
    if len(scenario.views) <= READ_BY_OTHERS:
        writer.relations[name] = columns


def _table(choose: Choose, name: str, parents: list[str]) -> TableSpec:
    """A table that may refer to some of ``parents``, or to itself."""
    kinds = [choose(["number", "number", *KINDS]) for _ in range(choose(range(1, 4)))]
    columns = [Col(f"{kind[0]}{position}", kind, small=True) for position, kind in enumerate(kinds)]
    keyed = choose([False, True, True])
    stream = not keyed and choose(range(4)) == 3
    if keyed:
        columns = [Col("id", "number", small=True, keys=name), *columns]
    known = [] if stream else [*parents, *([name] if keyed else ())]
    named = [choose(known) for _ in range(choose(range(3)))] if known else []
    columns += [Col(f"f{position}", "number", keys=parent) for position, parent in enumerate(named)]
    references = tuple((f"f{position}", parent) for position, parent in enumerate(named))
    return TableSpec(name, tuple(columns), keyed, stream, choose([False, True]), references)


class History:
    """What the tables hold as the epochs go by, so that only rows leave that are there."""

    def __init__(self, choose: Choose, tables: list[TableSpec]) -> None:
        self._choose = choose
        self._tables = tables
        self._rows: dict[str, list[Row]] = {table.name: [] for table in tables}

    def epoch(self, most: int) -> Changes:
        first = self._choose(self._tables)
        chosen = [table for table in self._tables if table is first or self._choose([False, True])]
        # In order of the tables, so that rows may refer to others of their epoch; in that order or not.
        changes = {table.name: self._changes(table, most) for table in chosen}
        return dict(reversed(changes.items())) if self._choose([False, True]) else changes

    def _changes(self, table: TableSpec, most: int) -> list[Change]:
        changes: list[Change] = []
        for _ in range(self._choose(range(1, most + 1))):
            rows = self._rows[table.name]
            stays = table.stream or table.append_only or not rows
            act = self._choose(["insert"] if stays else ["insert", "insert", "delete", "update", "update"])
            old = self._choose(rows) if act != "insert" else None
            if act == "delete" and old is not None and self._is_named(table, old):
                continue
            if old is not None:
                rows.remove(old)
                changes.append((-1, old))
            if act != "delete":
                new = self._row(table, old)
                rows.append(new)
                changes.append((1, new))
        return changes

    def _row(self, table: TableSpec, old: Row | None) -> Row:
        """A new row; an update changes one column, often the one that views group or join by."""
        if old is not None:
            position = self._choose(range(int(table.keyed), len(old)))
            return (*old[:position], self._value(table, table.columns[position]), *old[position + 1 :])
        values = [self._value(table, column) for column in table.columns[int(table.keyed) :]]
        if not table.keyed:
            return tuple(values)
        taken = {row[0] for row in self._rows[table.name]}
        return (next(key for key in range(len(taken) + 1) if key not in taken), *values)

    def _is_named(self, table: TableSpec, row: Row) -> bool:
        """True if a row refers to this one, perhaps itself."""
        return any(
            other[place] == row[0]
            for child in self._tables
            for place in child.places(table.name)
            for other in self._rows[child.name]
        )

    def _value(self, table: TableSpec, column: Col) -> Any:
        parent = dict(table.references).get(column.name)
        known = KINDS[column.kind][1] if parent is None else [row[0] for row in self._rows[parent]]
        return self._choose([*known, None, None])
