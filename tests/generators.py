"""Random warehouses: tables, views as SQL text, rows and changes, drawn by hypothesis so that failures shrink.

The SQL is well typed and computes nothing that can overflow or divide by zero, so whatever goes wrong is a bug. Domains
are small on purpose: rows repeat, keys meet, groups empty and NULL is everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.conversation import write_row
from tests.writer import KINDS, Col, Draw, Writer
from tidemill.changes.zset import Row

Change = tuple[int, Row]
Changes = dict[str, list[Change]]


@dataclass(frozen=True)
class TableSpec:
    """A generated table: with a key its first column is ``id``."""

    name: str
    columns: tuple[Col, ...]
    keyed: bool
    stream: bool

    def sql(self) -> str:
        columns = [
            f"{c.name} {KINDS[c.kind][0]}{' PRIMARY KEY' if self.keyed and c.name == 'id' else ''}"
            for c in self.columns
        ]
        return f"{self.name} ({', '.join(columns)})"


@dataclass
class Scenario:
    """A warehouse and its history: tables, the rows before the views come, the views, and then epochs of changes."""

    tables: list[TableSpec]
    views: list[tuple[str, str]]
    strategies: list[str]
    epochs: list[Changes]
    before: int
    duckdb: bool = True

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


@st.composite
def scenarios(draw: Draw, *, views: int = 3, epochs: int = 6, least: int = 2) -> Scenario:
    """A warehouse with up to ``views`` views and from ``least`` to ``epochs`` epochs."""
    tables = [_table(draw, name) for name in ("r", "s", "t")[: draw(st.integers(1, 3))]]
    writer = Writer(draw, {table.name: list(table.columns) for table in tables})
    made = []
    for number in range(1, draw(st.integers(1, views)) + 1):
        query, columns = writer.query(depth=2)
        made.append((f"v{number}", query))
        writer.relations[f"v{number}"] = columns
    history = _History(draw, tables)
    # What a stream held before a view came is gone, and nothing can be computed from it again.
    streams = any(table.stream for table in tables)
    strategies = ["delta", "viewlet", "joingraph", *([] if streams else ["recompute"])]
    before = 0 if streams else draw(st.integers(0, 1))
    count = draw(st.integers(least, epochs))
    return Scenario(
        tables,
        made,
        [draw(st.sampled_from(strategies)) for _ in made],
        [history.epoch(few=number >= before) for number in range(count)],
        before,
        writer.duckdb,
    )


def _table(draw: Draw, name: str) -> TableSpec:
    kinds = draw(st.lists(st.sampled_from(["number", "number", *KINDS]), min_size=1, max_size=3))
    columns = [Col(f"{kind[0]}{position}", kind, small=True) for position, kind in enumerate(kinds)]
    keyed = draw(st.booleans())
    stream = not keyed and draw(st.integers(0, 5)) == 5
    return TableSpec(name, (Col("id", "number", small=True), *columns) if keyed else tuple(columns), keyed, stream)


class _History:
    """What the tables hold as the epochs go by, so that only rows leave that are there."""

    def __init__(self, draw: Draw, tables: list[TableSpec]) -> None:
        self._draw = draw
        self._tables = tables
        self._rows: dict[str, list[Row]] = {table.name: [] for table in tables}

    def epoch(self, *, few: bool) -> Changes:
        chosen = self._draw(st.lists(st.sampled_from(self._tables), min_size=1, unique_by=lambda table: table.name))
        return {table.name: self._changes(table, 3 if few else 8) for table in chosen}

    def _changes(self, table: TableSpec, most: int) -> list[Change]:
        changes: list[Change] = []
        for _ in range(self._draw(st.integers(1, most))):
            rows = self._rows[table.name]
            acts = ["insert"] if table.stream or not rows else ["insert", "insert", "delete", "update", "update"]
            act = self._draw(st.sampled_from(acts))
            old = self._draw(st.sampled_from(rows)) if act != "insert" else None
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
            position = self._draw(st.integers(int(table.keyed), len(old) - 1))
            return (*old[:position], self._value(table.columns[position]), *old[position + 1 :])
        values = [self._value(column) for column in table.columns[int(table.keyed) :]]
        if not table.keyed:
            return tuple(values)
        taken = {row[0] for row in self._rows[table.name]}
        return (next(key for key in range(len(taken) + 1) if key not in taken), *values)

    def _value(self, column: Col) -> Any:
        _, domain = KINDS[column.kind]
        return self._draw(st.one_of(domain, domain, domain, st.none()))
