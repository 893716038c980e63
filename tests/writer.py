"""Random queries: well typed, over the given relations, with one answer in every engine.

What SQL leaves open is closed here: rows are limited and numbered in an order of all their columns, so that only equal
rows can change places.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

T = TypeVar("T")
Choose = Callable[[Sequence[Any]], Any]
"""Draws one of several: by hypothesis, whose failures shrink, or by a ``random.Random``."""

KINDS: dict[str, tuple[str, Sequence[Any]]] = {
    "number": ("INT", range(-2, 5)),
    "decimal": ("DECIMAL(6,2)", [Decimal(text) for text in ("-1.50", "0.00", "0.10", "2.25", "9.99")]),
    "double": ("DOUBLE", [-2.0, 0.0, 0.5, 1.25, 8.0]),
    "text": ("STRING", ["", "a", "b", "ab", "Ann"]),
    "truth": ("BOOLEAN", [False, True]),
    "day": ("DATE", [datetime.date(2024, 2, 28), datetime.date(2024, 3, 1), datetime.date(2025, 1, 1)]),
}
"""The kinds of values that generated columns have, each with its SQL type and a small domain."""


@dataclass(frozen=True)
class Col:
    """A column that an expression may read. ``small`` ones may be multiplied; inexact ones are only handed on.

    ``keys`` is the table whose primary key it is, or refers to.
    """

    name: str
    kind: str
    small: bool = False
    exact: bool = True
    keys: str = ""


class Writer:
    """Writes well-typed queries over the relations that there are."""

    def __init__(self, choose: Choose, relations: dict[str, list[Col]]) -> None:
        self._choose = choose
        self.relations = relations
        self.duckdb = True
        self._aliases = 0

    def _one(self, *choices: T) -> T:
        chosen: T = self._choose(choices)
        return chosen

    def _maybe(self) -> bool:
        return self._one(False, True)

    # ---- queries

    def query(self, depth: int) -> tuple[str, list[Col]]:
        """A query and the columns that it has."""
        form = self._one(*FORMS) if depth else "select"
        if form in DERIVED:
            return DERIVED[form](self, depth)
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
        # Who else computes them must agree on which values are the same: sums of doubles may differ in a digit.
        same = all(c.exact and c.kind != "double" for c in (*columns, *others))
        word = self._one("UNION ALL", "UNION", *(SET_OPERATIONS if same else ()))
        exact = [Col(c.name, c.kind, exact=c.exact) for c in columns]
        return f"{first} {word} SELECT {items} FROM ({second}) AS u", exact

    def _cte(self, depth: int) -> tuple[str, list[Col]]:
        """A query that is used under two names."""
        inner, columns = self.query(depth - 1)
        left = [Col(f"x.{c.name}", c.kind, exact=c.exact) for c in columns]
        right = [Col(f"y.{c.name}", c.kind, exact=c.exact) for c in columns]
        items, result = self._select_list(left + right)
        return f"WITH c AS ({inner}) SELECT {items} FROM c AS x JOIN c AS y ON {self._on(left, right)}", result

    def _top(self, depth: int) -> tuple[str, list[Col]]:
        """The first rows of a query, in an order of all its columns."""
        inner, columns = self.query(depth - 1)
        if not all(c.exact for c in columns):
            return inner, columns
        order = ", ".join(f"w.{c.name}{self._one('', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST')}" for c in columns)
        offset = self._one("", "", " OFFSET 1")
        items = ", ".join(f"w.{c.name} AS {c.name}" for c in columns)
        return f"SELECT {items} FROM ({inner}) AS w ORDER BY {order} LIMIT {self._one(1, 2, 3)}{offset}", columns

    def _window(self, depth: int) -> tuple[str, list[Col]]:
        """A query with a window function over all its columns."""
        inner, columns = self.query(depth - 1)
        exact = [c for c in columns if c.exact]
        if len(exact) < len(columns):
            return inner, columns
        scope = [Col(f"w.{c.name}", c.kind) for c in columns]
        parts = f"PARTITION BY {self._one(*scope).name} " if self._maybe() else ""
        order = "ORDER BY " + ", ".join(f"{c.name}{self._one('', ' DESC')}" for c in scope)
        text, kind = self._over(scope, parts, order)
        items = ", ".join(f"{c.name} AS {c.name[2:]}" for c in scope)
        added = Col(f"w{len(columns)}", kind)
        return f"SELECT {items}, {text} AS {added.name} FROM ({inner}) AS w", [*columns, added]

    def _over(self, scope: list[Col], parts: str, order: str) -> tuple[str, str]:
        column = self._one(*scope)
        rows = self._one("", f" ROWS BETWEEN {self._one(1, 2)} PRECEDING AND {self._one('CURRENT ROW', '1 FOLLOWING')}")
        match self._one("number", "rank", "dense", "lag", "lead", "first", "count", "sum", "min", "max"):
            case "number":
                return f"ROW_NUMBER() OVER ({parts}{order})", "number"
            case "rank":
                return f"RANK() OVER ({parts}ORDER BY {column.name})", "number"
            case "dense":
                return f"DENSE_RANK() OVER ({parts}ORDER BY {column.name} DESC)", "number"
            case "lag":
                return f"LAG({column.name}) OVER ({parts}{order})", column.kind
            case "lead":
                return f"LEAD({column.name}, 2) OVER ({parts}{order})", column.kind
            case "first":
                return f"FIRST_VALUE({column.name}) OVER ({parts}{order})", column.kind
            case "min" | "max" as name:
                return f"{name.upper()}({column.name}) OVER ({parts}{order}{rows})", column.kind
            case "sum":
                numbers = [c for c in scope if c.kind in ("number", "decimal")]
                if numbers:
                    chosen = self._one(*numbers)
                    return f"SUM({chosen.name}) OVER ({parts}{order}{rows})", chosen.kind
        return f"COUNT({column.name}) OVER ({parts}{order}{rows})", "number"

    def _best(self, depth: int) -> tuple[str, list[Col]]:
        """The first rows of each group, in an order of all columns."""
        inner, columns = self.query(depth - 1)
        if not all(c.exact for c in columns):
            return inner, columns
        order = ", ".join(f"w.{c.name}" for c in columns)
        number = f"ROW_NUMBER() OVER (PARTITION BY w.{self._one(*columns).name} ORDER BY {order}) AS place"
        items = ", ".join(f"b.{c.name} AS {c.name}" for c in columns)
        bound = self._one("= 1", "<= 2", "< 3")
        return f"SELECT {items} FROM (SELECT w.*, {number} FROM ({inner}) AS w) AS b WHERE b.place {bound}", columns

    def _rollup(self, depth: int) -> tuple[str, list[Col]]:
        """Groups and their totals."""
        tables, scope = self._from(depth - 1)
        exact = [c for c in scope if c.exact]
        if len(exact) < 2:
            return self._group(tables, scope, keys=True)
        keys = [self._one(*exact), self._one(*exact)]
        if keys[0] == keys[1]:
            keys = keys[:1]
        text, kind, sure = self._aggregate(scope)
        items = ", ".join(f"{c.name} AS k{i}" for i, c in enumerate(keys))
        columns = [Col(f"k{i}", c.kind) for i, c in enumerate(keys)]
        by = ", ".join(c.name for c in keys)
        self.duckdb = False  # of no rows it has a total, and Spark has none
        return (
            f"SELECT {items}, {text} AS g FROM {tables} GROUP BY {self._one('ROLLUP', 'CUBE')} ({by})",
            [*columns, Col("g", kind, exact=sure)],
        )

    def _recursion(self, depth: int) -> tuple[str, list[Col]]:
        """What can be reached from row to row of a table with two numbers; something simpler where there is none."""
        numbers = {
            name: [c for c in columns if c.kind == "number" and c.small] for name, columns in self.relations.items()
        }
        pairs = [(name, a, b) for name, found in numbers.items() for a in found for b in found if a != b]
        if not pairs:
            return self.query(depth - 1)
        name, a, b = self._one(*pairs)
        base = f"SELECT {a.name}, {b.name} FROM {name}"
        step = f"SELECT c.a, e.{b.name} FROM c JOIN {name} AS e ON e.{a.name} = c.b"
        return (
            f"WITH RECURSIVE c (a, b) AS ({base} UNION {step}) SELECT c.a AS a, c.b AS b FROM c",
            [Col("a", "number"), Col("b", "number")],
        )

    def _from(self, depth: int) -> tuple[str, list[Col]]:
        """One to three relations, joined."""
        text, scope = self._relation(depth)
        for _ in range(self._one(0, 0, 1, 1, 2) if depth else 0):
            other, columns = self._relation(depth - 1)
            kind = self._one(*JOINS)
            if kind == "CROSS JOIN":
                text = f"{text} CROSS JOIN {other}"
            else:
                text = f"{text} {kind} {other} ON {self._on(scope, columns)}"
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
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
        return text, [replace(c, name=f"{alias}.{c.name}") for c in columns]

    def _on(self, left: list[Col], right: list[Col]) -> str:
        """Mostly an equality of two columns, with a further condition now and then."""
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.exact and b.exact]
        if not pairs:
            return self._predicate(left + right, 1)
        keys = [(a, b) for a, b in pairs if a.keys and a.keys == b.keys]
        if keys and self._maybe():
            a, b = self._one(*keys)
            return f"{a.name} = {b.name}"
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
        form = self._one("count", "known", "sum", "sum", "avg", "min", "max", "distinct", "every")
        if form in ("min", "max"):
            kind = self._kind(scope, *KINDS)
            return f"{form.upper()}({self._of_kind(kind, scope)})", kind, True
        if form == "distinct":
            kind = self._kind(scope, "number", "text", "day")
            return f"COUNT(DISTINCT {self._of_kind(kind, scope)})", "number", True
        if form == "every":
            return f"{self._one('BOOL_AND', 'BOOL_OR')}({self._predicate(scope, 0)})", "truth", True
        if form == "count":
            return "COUNT(*)", "number", True
        if form == "known":
            return f"COUNT({self._of_kind(self._kind(scope, *KINDS), scope)})", "number", True
        kind = self._kind(scope, "number", "decimal", "double")
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
            if self._maybe():
                condition = f"({condition}) {self._one('AND', 'AND', 'OR')} {self._quantified(scope)}"
                continue
            text, kind, exact = self._nested(scope)
            test = (
                f"{self._of_kind(kind, scope)} {self._one('=', '<>', '<', '>=', '<=>')} {text}"
                if exact
                else f"{text} IS {self._one('', 'NOT ')}NULL"
            )
            condition = f"({condition}) {self._one('AND', 'AND', 'OR')} {test}"
        return condition

    def _quantified(self, scope: list[Col]) -> str:
        """EXISTS, or a value compared with all values of a subquery."""
        self._aliases += 1
        alias = f"n{self._aliases}"
        name = self._one(*self.relations)
        own = [Col(f"{alias}.{c.name}", c.kind, c.small, c.exact) for c in self.relations[name]]
        conditions = [self._predicate(own, 1)] if self._maybe() else []
        pairs = [(a, b) for a in own for b in scope if a.kind == b.kind and a.exact and b.exact]
        if pairs and self._maybe():
            a, b = self._one(*pairs)
            conditions.append(f"{a.name} {self._one('=', '=', '<', '<=>')} {b.name}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        columns = [c for c in own if c.exact]
        if not columns or self._maybe():
            return f"{self._one('', 'NOT ')}EXISTS (SELECT 1 FROM {name} AS {alias}{where})"
        column = self._one(*columns)
        value = self._of_kind(column.kind, scope, 0)
        return f"{value} {self._one('', 'NOT ')}IN (SELECT {column.name} FROM {name} AS {alias}{where})"

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
            text = f"COALESCE({text}, {_literal(self._choose(KINDS[kind][1]), kind)})"
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT {text} FROM {name} AS {alias}{where})", kind, exact

    # ---- expressions

    def _kind(self, scope: list[Col], *kinds: str) -> str:
        """One of these kinds, of which there is a column if possible: an aggregate of a constant says little."""
        found = [kind for kind in kinds if any(c.kind == kind and c.exact for c in scope)]
        return self._one(*(found or kinds))

    def _of_kind(self, kind: str, scope: list[Col], depth: int = 1) -> str:
        """An expression of a kind: a column, a constant, or something computed."""
        columns = [c for c in scope if c.kind == kind and c.exact]
        if columns and (depth == 0 or self._one(*range(3))):
            return self._one(*columns).name
        if depth == 0 or not columns:
            return _literal(self._choose(KINDS[kind][1]), kind)
        name = self._one(*columns).name
        match kind:
            case "number":
                small = [c.name for c in columns if c.small]
                product = [f"{name} * {self._one(*small)}"] if small and name in small else []
                other = self._of_kind(kind, scope, 0)
                lengths = [f"LENGTH({c.name})" for c in scope if c.kind == "text" and c.exact]
                sums = (f"{name} + {other}", f"{name} - {other}")
                text = self._one(*sums, f"-{name}", f"ABS({name})", f"{name} % 3", *product, *lengths)
            case "decimal":
                text = self._one(f"{name} + {self._of_kind(kind, scope, 0)}", f"-{name}", f"{name} * 2")
            case "double":
                text = self._one(f"{name} + {self._of_kind(kind, scope, 0)}", f"-{name}", f"{name} * 0.5D")
            case "text":
                joined = f"{name} || {self._of_kind(kind, scope, 0)}"
                text = self._one(
                    f"UPPER({name})", f"CONCAT({name}, '!')", f"SUBSTRING({name}, 1, 1)", f"REVERSE({name})", joined
                )
            case "truth":
                return f"({self._predicate(scope, 0)})"
            case _:
                text = f"DATE_ADD({name}, {self._one(-1, 1, 2)})"
        return self._wrapped(text, kind, scope)

    def _wrapped(self, text: str, kind: str, scope: list[Col]) -> str:
        """The expression as it is, with a default for NULL, or as a branch of CASE."""
        other = _literal(self._choose(KINDS[kind][1]), kind)
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
            values = ", ".join(_literal(self._choose(KINDS[kind][1]), kind) for _ in range(2))
            return f"{text} {self._one('', 'NOT ')}IN ({values})"
        if kind == "text" and self._maybe():
            return f"{text} {self._one('', 'NOT ')}LIKE '{self._one('a%', '%b', '%a%', '_', '%', 'Ann', 'A%n%')}'"
        return f"{text} {self._one('=', '<>', '<', '>=', '<=>')} {self._other_than(text, kind, scope)}"

    def _other_than(self, text: str, kind: str, scope: list[Col]) -> str:
        """Something to compare with that is not the same column: a constant, or another one."""
        constant = _literal(self._choose(KINDS[kind][1]), kind)
        return self._one(constant, *(c.name for c in scope if c.kind == kind and c.exact and c.name != text))


FORMS = (
    "select", "select", "group", "group", "group", "distinct", "union", "union", "total", "cte",
    "top", "window", "best", "rollup", "recursion",
)  # fmt: skip
"""How a query may look, the more frequent ones several times."""

DERIVED: dict[str, Callable[[Writer, int], tuple[str, list[Col]]]] = {
    "union": Writer._union,
    "cte": Writer._cte,
    "top": Writer._top,
    "window": Writer._window,
    "best": Writer._best,
    "rollup": Writer._rollup,
    "recursion": Writer._recursion,
}
"""The forms that are made of other queries."""

SET_OPERATIONS = ("INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")

JOINS = (
    "JOIN", "JOIN", "JOIN", "CROSS JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN",
)  # fmt: skip


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
