"""Random warehouses: tables, views as SQL text, rows and changes, drawn by hypothesis so that failures shrink.

The SQL is well typed and computes nothing that can overflow or divide by zero, so whatever goes wrong is a bug. Domains
are small on purpose: rows repeat, keys meet, groups empty and NULL is everywhere.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.conversation import write_row
from tidemill.changes.zset import Row

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]
Change = tuple[int, Row]
Changes = dict[str, list[Change]]

DAYS = [datetime.date(2024, 2, 28), datetime.date(2024, 3, 1), datetime.date(2025, 1, 1)]
KINDS = {
    "number": ("INT", st.integers(-2, 4)),
    "decimal": ("DECIMAL(6,2)", st.sampled_from([Decimal(text) for text in ("-1.50", "0.00", "0.10", "2.25", "9.99")])),
    "double": ("DOUBLE", st.sampled_from([-2.0, 0.0, 0.5, 1.25, 8.0])),
    "text": ("STRING", st.sampled_from(["", "a", "b", "ab", "Ann"])),
    "truth": ("BOOLEAN", st.booleans()),
    "day": (
        "DATE",
        st.sampled_from([datetime.date(2024, 2, 28), datetime.date(2024, 3, 1), datetime.date(2025, 1, 1)]),
    ),
}
"""The kinds of values that generated columns have, each with its SQL type and a small domain."""


@dataclass(frozen=True)
class Col:
    """A column that an expression may read. ``small`` ones may be multiplied; inexact ones are only handed on."""

    name: str
    kind: str
    small: bool = False
    exact: bool = True


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
def scenarios(draw: Draw, *, views: int = 3, epochs: int = 6) -> Scenario:
    """A warehouse with up to ``views`` views and ``epochs`` epochs."""
    tables = [_table(draw, name) for name in ("r", "s", "t")[: draw(st.integers(1, 3))]]
    writer = _Writer(draw, {table.name: list(table.columns) for table in tables})
    made = []
    for number in range(1, draw(st.integers(1, views)) + 1):
        query, columns = writer.query(depth=2)
        made.append((f"v{number}", query))
        writer.relations[f"v{number}"] = columns
    history = _History(draw, tables)
    # What a stream held before a view came is gone, and nothing can be computed from it again.
    streams = any(table.stream for table in tables)
    strategies = ["delta"] if streams else ["delta", "delta", "recompute"]
    before = 0 if streams else draw(st.integers(0, 1))
    count = draw(st.integers(2, epochs))
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


class _Writer:
    """Writes well-typed queries over the relations that there are."""

    def __init__(self, draw: Draw, relations: dict[str, list[Col]]) -> None:
        self._draw = draw
        self.relations = relations
        self.duckdb = True
        self._aliases = 0

    def _one(self, *choices: T) -> T:
        chosen: T = self._draw(st.sampled_from(choices))
        return chosen

    def _maybe(self) -> bool:
        return self._one(False, True)

    # ---- queries

    def query(self, depth: int) -> tuple[str, list[Col]]:
        """A query and the columns that it has."""
        form = self._one("select", "group", "group", "distinct", "union", "total", "cte") if depth else "select"
        if form == "union":
            return self._union(depth)
        if form == "cte":
            return self._cte(depth)
        tables, scope = self._from(depth)
        where = f" WHERE {self._where(scope)}" if self._maybe() else ""
        if form in ("group", "total"):
            return self._group(tables + where, scope, keys=form == "group")
        items, columns = self._select_list(scope)
        if self._one(*range(5)) == 0:
            text, kind, exact = self._nested(scope)
            columns.append(Col(f"{kind[0]}{len(columns)}", kind, exact=exact))
            items = f"{items}, {text} AS {columns[-1].name}"
        return f"SELECT {'DISTINCT ' if form == 'distinct' else ''}{items} FROM {tables}{where}", columns

    def _union(self, depth: int) -> tuple[str, list[Col]]:
        """Two queries with the same kinds; the second one's columns are put into the order and kinds of the first."""
        first, columns = self.query(depth - 1)
        second, others = self.query(depth - 1)
        scope = [Col(f"u.{c.name}", c.kind, exact=c.exact) for c in others]
        items = ", ".join(f"{self._of_kind(c.kind, scope)} AS {c.name}" for c in columns)
        word = self._one("UNION ALL", "UNION ALL", "UNION")
        exact = [Col(c.name, c.kind, exact=c.exact) for c in columns]
        return f"{first} {word} SELECT {items} FROM ({second}) AS u", exact

    def _cte(self, depth: int) -> tuple[str, list[Col]]:
        """A query that is used under two names."""
        inner, columns = self.query(depth - 1)
        left = [Col(f"x.{c.name}", c.kind, exact=c.exact) for c in columns]
        right = [Col(f"y.{c.name}", c.kind, exact=c.exact) for c in columns]
        items, result = self._select_list(left + right)
        return f"WITH c AS ({inner}) SELECT {items} FROM c AS x JOIN c AS y ON {self._on(left, right)}", result

    def _from(self, depth: int) -> tuple[str, list[Col]]:
        """One to three relations, joined."""
        text, scope = self._relation(depth)
        for _ in range(self._one(0, 0, 1, 1, 2) if depth else 0):
            other, columns = self._relation(depth - 1)
            if self._one(*range(6)) == 0:
                text = f"{text} CROSS JOIN {other}"
            else:
                text = f"{text} JOIN {other} ON {self._on(scope, columns)}"
            scope = scope + columns
        return text, scope

    def _relation(self, depth: int) -> tuple[str, list[Col]]:
        self._aliases += 1
        alias = f"q{self._aliases}"
        if depth > 0 and self._one(*range(4)) == 0:
            inner, columns = self.query(depth - 1)
            text = f"({inner}) AS {alias}"
        else:
            name = self._one(*self.relations)
            columns, text = self.relations[name], f"{name} AS {alias}"
        return text, [Col(f"{alias}.{c.name}", c.kind, c.small, c.exact) for c in columns]

    def _on(self, left: list[Col], right: list[Col]) -> str:
        """Mostly an equality of two columns, with a further condition now and then."""
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.exact and b.exact]
        if not pairs:
            return self._predicate(left + right, 1)
        a, b = self._one(*pairs)
        condition = f"{a.name} {self._one('=', '=', '=', '<=>', '<')} {b.name}"
        return f"{condition} AND {self._predicate(left + right, 1)}" if self._one(*range(4)) == 0 else condition

    def _select_list(self, scope: list[Col]) -> tuple[str, list[Col]]:
        items, columns = [], []
        for position in range(self._one(1, 2, 3)):
            given = self._one(*scope, None)
            kind = given.kind if given else self._one(*KINDS)
            text = given.name if given else self._of_kind(kind, scope)
            columns.append(Col(f"{kind[0]}{position}", kind, exact=given is None or given.exact))
            items.append(f"{text} AS {columns[-1].name}")
        return ", ".join(items), columns

    def _group(self, source: str, scope: list[Col], *, keys: bool) -> tuple[str, list[Col]]:
        by = [self._key(scope) for _ in range(self._one(1, 1, 2))] if keys else []
        items = [f"{text} AS k{position}" for position, (text, _) in enumerate(by)]
        columns = [Col(f"k{position}", kind) for position, (_, kind) in enumerate(by)]
        for position in range(self._one(1, 2, 3)):
            text, kind, exact = self._aggregate(scope)
            columns.append(Col(f"g{position}", kind, exact=exact))
            items.append(f"{text} AS g{position}")
        tail = f" GROUP BY {', '.join(text for text, _ in by)}" if by else ""
        having = (
            f" HAVING COUNT(*) {self._one('>', '<', '=', '>=')} {self._one(1, 2)}" if self._one(*range(4)) == 0 else ""
        )
        return f"SELECT {', '.join(items)} FROM {source}{tail}{having}", columns

    def _key(self, scope: list[Col]) -> tuple[str, str]:
        exact = [c for c in scope if c.exact]
        if exact and self._one(*range(4)):
            column = self._one(*exact)
            return column.name, column.kind
        # A key must read a column: a constant is taken for a position in the select list.
        kind = self._one("number", "text")
        columns = [c for c in exact if c.kind == kind]
        if not columns:
            return f"COALESCE({self._of_kind('number', scope)}, 0) + 0", "number"
        name = self._one(*columns).name
        return (f"{name} % 2", kind) if kind == "number" else (f"UPPER({name})", kind)

    def _aggregate(self, scope: list[Col]) -> tuple[str, str, bool]:
        """An aggregate, its kind, and whether its value is exact."""
        form = self._one("count", "known", "sum", "sum", "avg")
        if form == "count":
            return "COUNT(*)", "number", True
        if form == "known":
            return f"COUNT({self._of_kind(self._one(*KINDS), scope)})", "number", True
        kind = self._one("number", "decimal", "double")
        argument = self._of_kind(kind, scope)
        if form == "sum":
            return f"SUM({argument})", kind, True
        self.duckdb &= kind != "decimal"  # its averages of decimals are doubles
        return f"AVG({argument})", "decimal" if kind == "decimal" else "double", False

    # ---- subqueries in expressions

    def _where(self, scope: list[Col]) -> str:
        """A condition that may compare with subqueries. Spark takes these in WHERE, but not in ON."""
        condition = self._predicate(scope, 2)
        for _ in range(self._one(0, 0, 0, 1, 2)):
            text, kind, exact = self._nested(scope)
            test = (
                f"{self._of_kind(kind, scope)} {self._one('=', '<>', '<', '>=', '<=>')} {text}"
                if exact
                else f"{text} IS {self._one('', 'NOT ')}NULL"
            )
            condition = f"({condition}) {self._one('AND', 'AND', 'OR')} {test}"
        return condition

    def _nested(self, scope: list[Col], depth: int = 1) -> tuple[str, str, bool]:
        """An aggregate over a relation, correlated with ``scope`` or not; its kind, and whether its value is exact."""
        self._aliases += 1
        alias = f"n{self._aliases}"
        name = self._one(*self.relations)
        own = [Col(f"{alias}.{c.name}", c.kind, c.small, c.exact) for c in self.relations[name]]
        conditions = [self._predicate(own, 1)] if self._maybe() else []
        pairs = [(a, b) for a in own for b in scope if a.kind == b.kind and a.exact and b.exact]
        for _ in range(self._one(0, 1, 1, 1, 2) if pairs else 0):
            a, b = self._one(*pairs)
            conditions.append(f"{a.name} {self._one('=', '=', '=', '<', '<>', '<=>')} {b.name}")
        if depth and self._one(*range(5)) == 0:
            text, kind, exact = self._nested(own, depth - 1)
            conditions += [f"{self._of_kind(kind, own)} <= {text}"] if exact else []
        text, kind, exact = self._aggregate(own)
        if exact and self._maybe():
            text = f"COALESCE({text}, {_literal(self._draw(KINDS[kind][1]), kind)})"
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT {text} FROM {name} AS {alias}{where})", kind, exact

    # ---- expressions

    def _of_kind(self, kind: str, scope: list[Col], depth: int = 1) -> str:
        """An expression of a kind: a column, a constant, or something computed."""
        columns = [c for c in scope if c.kind == kind and c.exact]
        if columns and (depth == 0 or self._one(*range(3))):
            return self._one(*columns).name
        if depth == 0 or not columns:
            return _literal(self._draw(KINDS[kind][1]), kind)
        name = self._one(*columns).name
        match kind:
            case "number":
                small = [c.name for c in columns if c.small]
                product = [f"{name} * {self._one(*small)}"] if small and name in small else []
                other = self._of_kind(kind, scope, 0)
                text = self._one(
                    f"{name} + {other}", f"{name} - {other}", f"-{name}", f"ABS({name})", f"{name} % 3", *product
                )
            case "decimal":
                text = self._one(f"{name} + {self._of_kind(kind, scope, 0)}", f"-{name}", f"{name} * 2")
            case "double":
                text = self._one(f"{name} + {self._of_kind(kind, scope, 0)}", f"-{name}", f"{name} * 0.5D")
            case "text":
                text = self._one(f"UPPER({name})", f"CONCAT({name}, '!')", f"{name} || {self._of_kind(kind, scope, 0)}")
            case "truth":
                return f"({self._predicate(scope, 0)})"
            case _:
                text = f"DATE_ADD({name}, {self._one(-1, 1, 2)})"
        return self._wrapped(text, kind, scope)

    def _wrapped(self, text: str, kind: str, scope: list[Col]) -> str:
        """The expression as it is, with a default for NULL, or as a branch of CASE."""
        other = _literal(self._draw(KINDS[kind][1]), kind)
        match self._one("plain", "plain", "coalesce", "case"):
            case "coalesce":
                return f"COALESCE({text}, {other})"
            case "case":
                return f"CASE WHEN {self._predicate(scope, 0)} THEN {text} ELSE {other} END"
        return f"({text})"

    def _predicate(self, scope: list[Col], depth: int) -> str:
        """A condition, NULL for some rows."""
        form = (
            self._one("compare", "compare", "null", "in", "and", "or", "not") if depth else self._one("compare", "null")
        )
        match form:
            case "and" | "or":
                return f"({self._predicate(scope, depth - 1)} {form.upper()} {self._predicate(scope, depth - 1)})"
            case "not":
                return f"NOT ({self._predicate(scope, depth - 1)})"
        kinds = sorted({c.kind for c in scope if c.exact}) or ["number"]
        kind = self._one(*kinds)
        text = self._of_kind(kind, scope, 0)
        if form == "null":
            return f"{text} IS {self._one('', 'NOT ')}NULL"
        if form == "in" and kind != "truth":
            values = ", ".join(_literal(self._draw(KINDS[kind][1]), kind) for _ in range(2))
            return f"{text} {self._one('', 'NOT ')}IN ({values})"
        return f"{text} {self._one('=', '<>', '<', '>=', '<=>')} {self._of_kind(kind, scope, 0)}"


def _literal(value: Any, kind: str) -> str:
    """A constant as SQL text."""
    match kind:
        case "text":
            return f"'{value}'"
        case "truth":
            return str(value).upper()
        case "day":
            return f"DATE '{value}'"
        case "double":
            return f"{value!r}D" if math.copysign(1, value) > 0 else f"(-{-value!r}D)"
    return f"({value})" if value < 0 else str(value)
