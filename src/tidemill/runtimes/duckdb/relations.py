"""Relational nodes as SQL text. A relation is a multiset in both engines, so each node is one SELECT.

Every column gets a generated name when it is made, unique in the whole query: rows of several inputs are joined by
``SELECT *``, a correlated column needs no prefix, and no name of a user becomes text. Columns that nothing reads are
left out of scans, so that values of types without a translation do no harm where they are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from tidemill.algebra.expressions.scalars import Named
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import children, columns_in, expressions, subqueries, walk_all
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.duckdb.aggregates import aggregate_sql
from tidemill.runtimes.duckdb.expressions import Expressions, Names
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, comma_list, literal_sql
from tidemill.runtimes.duckdb.windows import order_sql, partition_sql, total_order_sql, window_call_sql

LONGEST_TEXT = 1_000_000
"""Characters of a query beyond which it is refused: checked expressions repeat the text of their operands."""

Lowered = tuple[str, Names]
"""The SQL text of a relation, and the names of its columns."""


@dataclass(frozen=True)
class ScannedTable:
    """A relation that a query reads: its name in the text, and the columns that are read, with their names there."""

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Field] = field(default_factory=dict)


@dataclass(frozen=True)
class LoweredQuery:
    """A query as SQL text, whose columns are in the order of ``fields``, and the relations that it reads."""

    text: str
    fields: tuple[Field, ...]
    tables: dict[str, ScannedTable]


def lower_query(relation: Relation) -> LoweredQuery:
    """The translation of a query; raises ``NotLowered`` if some part of it has none."""
    lowering = _Lowering(columns_needed(relation))
    try:
        text, names = lowering.relation(relation, {})
    except RecursionError:
        raise NotLowered("a query of such depth") from None
    columns = [cast_sql(names[f.name], f.type) for f in relation.fields]
    if not columns or WEIGHT in names:
        raise NotLowered("rows without columns, or with one of a reserved name")
    listed = comma_list(f"{column} AS o{position}" for position, column in enumerate(columns))
    query = f"SELECT {listed} FROM ({text})"
    if len(query) > LONGEST_TEXT:
        raise NotLowered("a query of such length")
    return LoweredQuery(query, relation.fields, lowering.tables)


_READ_BY_NAME = (r.Filter, r.Project, r.Join, r.OuterJoin, r.Aggregate)
"""Nodes that need no other columns of their inputs than those that are read by name here or above."""


def columns_needed(relation: Relation) -> set[str]:
    """The names of all columns that some expression, or a node as a whole, reads. Errs towards more."""
    names = {f.name for f in relation.fields}
    for node in walk_all(relation):
        for scalar in expressions(node):
            names |= columns_in(scalar)
            names |= {f.name for subquery in subqueries(scalar) for f in subquery.relation.fields}
        if not isinstance(node, _READ_BY_NAME):
            names |= {f.name for child in children(node) for f in child.fields}
    return names


class _Lowering:
    """The state of a translation: the relations read so far, definitions by name, and numbers for new names."""

    def __init__(self, needed: set[str]) -> None:
        self.tables: dict[str, ScannedTable] = {}
        self._needed = needed
        self._definitions: dict[str, tuple[str, list[str]]] = {}
        self._numbers = count()
        self._expressions = Expressions(self.relation)

    def relation(self, node: Relation, outer: Names) -> Lowered:
        """The text of a relation; ``outer`` are the columns of the rows around a subquery."""
        lower = _NODES.get(type(node))
        if lower is None:
            raise NotLowered(type(node).__name__)
        text, names = lower(self, node, outer)
        if len(text) > LONGEST_TEXT:
            raise NotLowered("a query of such length")
        return text, names

    def _new(self, prefix: str = "c") -> str:
        return f"{prefix}{next(self._numbers)}"

    def scan(self, node: r.Scan, outer: Names) -> Lowered:
        wanted = [(given, made) for given, made in zip(node.columns, node.fields, strict=True)]
        if node.relation in self._definitions:
            source, columns = self._definitions[node.relation]
            stored = dict(zip((given.name for given in node.columns), columns, strict=True))
        else:
            table = self.tables.setdefault(node.relation, ScannedTable(f"t{len(self.tables)}"))
            source, stored = table.name, table.columns
            for given in (given for given, made in wanted if made.name in self._needed):
                stored.setdefault(given.name, f"f{len(stored)}")
                table.fields.setdefault(given.name, given)
        names = {made.name: (stored[given.name], self._new()) for given, made in wanted if made.name in self._needed}
        listed = comma_list(f"{there} AS {here}" for there, here in names.values())
        return _select(listed, source), {name: here for name, (_, here) in names.items()}

    def values(self, node: r.Values, outer: Names) -> Lowered:
        names = {f.name: self._new() for f in node.fields}
        if not node.rows:
            raise NotLowered("no rows")
        rows = [
            comma_list(
                f"{literal_sql(value, f.type)} AS {names[f.name]}" for value, f in zip(row, node.fields, strict=True)
            )
            for row in node.rows
        ]
        return " UNION ALL ".join(f"SELECT {row or '1'}" for row in rows), names

    def filter(self, node: r.Filter, outer: Names) -> Lowered:
        text, names = self.relation(node.input, outer)
        condition = self._expressions.lower(node.condition, {**outer, **names})
        return f"SELECT * FROM ({text}) WHERE {condition}", names

    def project(self, node: r.Project, outer: Names) -> Lowered:
        text, names = self.relation(node.input, outer)
        outputs = [output for output in node.outputs if output.name in self._needed]
        listed, made = self._named(outputs, {**outer, **names})
        return _select(comma_list(listed), f"({text})"), made

    def _named(self, outputs: Sequence[Named], names: Names) -> tuple[list[str], dict[str, str]]:
        """Expressions with new names, and these by the names of the outputs."""
        made = {output.name: self._new() for output in outputs}
        if len(made) < len(outputs):
            raise NotLowered("two columns of one name")
        listed = [
            f"{cast_sql(self._expressions.lower(output.scalar, names), output.scalar.type)} AS {made[output.name]}"
            for output in outputs
        ]
        return listed, made

    def join(self, node: r.Join | r.OuterJoin, outer: Names) -> Lowered:
        (left, ours), (right, theirs) = self.relation(node.left, outer), self.relation(node.right, outer)
        if ours.keys() & theirs.keys():
            raise NotLowered("two columns of one name")
        names = {**ours, **theirs}
        condition = "true" if node.condition is None else self._expressions.lower(node.condition, {**outer, **names})
        kind = "INNER" if isinstance(node, r.Join) else _KINDS[node.keeps_left, node.keeps_right]
        return f"SELECT * FROM ({left}) {kind} JOIN ({right}) ON {condition}", names

    def aggregate(self, node: r.Aggregate, outer: Names) -> Lowered:
        text, names = self.relation(node.input, outer)
        around = {**outer, **names}
        listed, made = self._named(node.keys, around)
        for call in node.aggregates:
            if call.name in self._needed:
                made[call.name] = self._new()
                value = aggregate_sql(call, partial(self._expressions.lower, names=around))
                listed.append(f"{value} AS {made[call.name]}")
        # Without keys a group must be asked for by an aggregate: there is one row, also over no rows.
        listed = listed or ["count(*)"]
        places = comma_list(str(place + 1) for place in range(len(node.keys)))
        return f"SELECT {comma_list(listed)} FROM ({text})" + (f" GROUP BY {places}" if places else ""), made

    def distinct(self, node: r.Distinct, outer: Names) -> Lowered:
        text, names = self._whole(node.input, outer)
        return f"SELECT DISTINCT * FROM ({text})", names

    def _whole(self, node: Relation, outer: Names) -> Lowered:
        """A relation with all of its columns and no others, in their order, under new names."""
        text, names = self.relation(node, outer)
        if not node.fields:
            raise NotLowered("rows without columns")
        made = {f.name: self._new() for f in node.fields}
        return f"SELECT {comma_list(f'{names[name]} AS {here}' for name, here in made.items())} FROM ({text})", made

    def union_all(self, node: r.UnionAll, outer: Names) -> Lowered:
        return self._together(node.inputs, "UNION ALL", outer)

    def intersect(self, node: r.Intersect, outer: Names) -> Lowered:
        return self._together((node.left, node.right), f"INTERSECT{' ALL' if node.all else ''}", outer)

    def except_(self, node: r.Except, outer: Names) -> Lowered:
        return self._together((node.left, node.right), f"EXCEPT{' ALL' if node.all else ''}", outer)

    def _together(self, inputs: Sequence[Relation], operator: str, outer: Names) -> Lowered:
        types = [[f.type for f in one.fields] for one in inputs]
        if any(one != types[0] for one in types):
            raise NotLowered(f"{operator} of different types")
        texts = [self._whole(one, outer) for one in inputs]
        return f" {operator} ".join(f"({text})" for text, _ in texts), texts[0][1]

    def top_k(self, node: r.TopK, outer: Names) -> Lowered:
        text, names = self.relation(node.input, outer)
        lower = partial(self._expressions.lower, names={**outer, **names})
        whole = total_order_sql(node, names, lower)
        if not node.partition and not node.ties:
            limit = "" if node.limit is None else f" LIMIT {int(node.limit)}"
            return f"SELECT * FROM ({text}) ORDER BY {whole}{limit} OFFSET {int(node.offset)}", names
        if node.ties and (node.offset or node.limit is None):
            raise NotLowered("ties after an offset")
        place = self._new("p")
        order, function = (comma_list(order_sql(node.order, lower)), "rank()") if node.ties else (whole, "row_number()")
        if not order:
            raise NotLowered("ties without an order")
        placed = f"{function} OVER ({partition_sql(node, lower)}ORDER BY {order}) AS {place}"
        within = f"{place} > {int(node.offset)}"
        if node.limit is not None:
            within += f" AND {place} <= {int(node.offset + node.limit)}"
        return f"SELECT * FROM (SELECT *, {placed} FROM ({text})) WHERE {within}", names

    def window(self, node: r.Window, outer: Names) -> Lowered:
        text, names = self.relation(node.input, outer)
        lower = partial(self._expressions.lower, names={**outer, **names})
        made = {call.name: self._new() for call in node.calls}
        values = [f"{window_call_sql(call, node, names, lower)} AS {made[call.name]}" for call in node.calls]
        return f"SELECT *, {comma_list(values)} FROM ({text})", {**names, **made}

    def with_(self, node: r.With, outer: Names) -> Lowered:
        before = self._definitions
        defined = []
        for name, relation in node.definitions:
            text, names = self._whole(relation, outer)
            source = self._new("d")
            defined.append(f"{source} AS ({text})")
            self._definitions = {**self._definitions, name: (source, list(names.values()))}
        text, names = self.relation(node.body, outer)
        self._definitions = before
        return f"WITH {comma_list(defined)} SELECT * FROM ({text})", names


_KINDS = {(True, False): "LEFT", (False, True): "RIGHT", (True, True): "FULL", (False, False): "INNER"}


def _select(listed: str, source: str) -> str:
    return f"SELECT {listed or '1'} FROM {source}"


_NODES: dict[type[Relation], Callable[[_Lowering, Any, Names], Lowered]] = {
    r.Scan: _Lowering.scan,
    r.Values: _Lowering.values,
    r.Filter: _Lowering.filter,
    r.Project: _Lowering.project,
    r.Join: _Lowering.join,
    r.OuterJoin: _Lowering.join,
    r.Aggregate: _Lowering.aggregate,
    r.Distinct: _Lowering.distinct,
    r.UnionAll: _Lowering.union_all,
    r.Intersect: _Lowering.intersect,
    r.Except: _Lowering.except_,
    r.TopK: _Lowering.top_k,
    r.Window: _Lowering.window,
    r.With: _Lowering.with_,
}
"""Every node that has a translation."""
