"""GROUPING SETS, ROLLUP and CUBE: one grouping of rows that are repeated for each set.

The rows of a set have NULL in the keys that it leaves out, and the number of the set. So a group with a NULL key
differs from one that leaves the key out, and a set that is listed twice is output twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Named, Scalar, column, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Project, UnionAll
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import ParseError
from tidemill.model.types import BIGINT, BOOLEAN, INT, TINYINT

Nodes = list[exp.Expr]


def read_grouping_sets(clause: exp.Group) -> list[Nodes] | None:
    """The grouping sets of GROUP BY; None for a plain list of keys.

    Several items of the list are combined, one set of each: ``a, ROLLUP(b)`` is ``(a, b), (a)``.
    """
    for kind in (exp.Rollup, exp.Cube):
        if clause.args.get(kind.__name__.lower()):  # GROUP BY a, b WITH ROLLUP
            return _sets(kind(expressions=clause.expressions))
    if clause.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (...)
        if any(isinstance(node, GROUPING_SET_NODES) for node in clause.expressions):
            raise ParseError("the GROUPING SETS of a list of keys takes no ROLLUP or CUBE in that list")
        return [one for sets in clause.args["grouping_sets"] for one in _sets(sets)]
    if not any(isinstance(node, GROUPING_SET_NODES) for node in clause.expressions):
        return None
    return [[node for part in parts for node in part] for parts in product(*map(_sets, clause.expressions))]


def read_grouping_keys(clause: exp.Group) -> Nodes:
    """The expressions of GROUP BY in the order in which they are written."""
    nodes = list(clause.expressions)
    for sets in clause.args.get("grouping_sets") or ():
        nodes.append(sets)
    return [key for node in nodes for key in _keys(node)]


def _keys(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, (*GROUPING_SET_NODES, exp.Tuple)):
        mark_translated(node)
        for part in node.expressions:
            yield from _keys(part)
    else:
        if isinstance(node, exp.Paren):
            mark_translated(node)
        yield node.this if isinstance(node, exp.Paren) else node


def _sets(node: exp.Expr) -> list[Nodes]:
    match node:
        case exp.Rollup():
            parts = _parts(node)
            return [_joined(parts[:length]) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = _parts(node)
            lengths = range(len(parts), -1, -1)
            return [_joined(chosen) for length in lengths for chosen in combinations(parts, length)]
        case exp.GroupingSets():
            return [one for part in node.expressions for one in _sets(part)]
    return [list(_keys(node))]


def _parts(node: exp.Rollup | exp.Cube) -> list[Nodes]:
    parts = [list(_keys(part)) for part in node.expressions]
    if not all(parts):
        raise ParseError("an empty set of keys belongs to GROUPING SETS, not to ROLLUP or CUBE")
    return parts


def _joined(parts: Sequence[Nodes]) -> Nodes:
    return [node for part in parts for node in part]


GROUPING_SET_NODES = (exp.Rollup, exp.Cube, exp.GroupingSets)
"""The nodes that stand for several sets."""


@dataclass(frozen=True)
class GroupingSets:
    """Sets of keys, and the column with the number of the set that a group belongs to."""

    sets: tuple[frozenset[Scalar], ...]
    number: Column

    def key(self, key: Named) -> Column:
        """The column of a key in the groups: NULL in those of sets that leave it out."""
        nullable = is_nullable(key.scalar) or any(key.scalar not in one for one in self.sets)
        return Column(key.name, key.scalar.type, nullable)

    def grouping_bit(self, scalar: Scalar) -> Scalar:
        """GROUPING(scalar): 1 in the groups of sets that leave the key out, else 0."""
        numbers = [number for number, one in enumerate(self.sets) if scalar not in one]
        if not numbers:
            return Literal(0, TINYINT)
        options = tuple(Literal(number, INT) for number in numbers)
        there = Call("in", (self.number, *options), BOOLEAN)
        return Case(((there, Literal(1, TINYINT)),), Literal(0, TINYINT), TINYINT)

    def identity(self, keys: Sequence[Named]) -> Scalar:
        """GROUPING_ID(): a number with a bit for each key, of which the first is the highest; 1 is left out."""
        branches = []
        for number, one in enumerate(self.sets):
            bits = 0
            for key in keys:
                bits = 2 * bits + (key.scalar not in one)
            same = Call("eq", (self.number, Literal(number, INT)), BOOLEAN)
            branches.append((same, Literal(bits, BIGINT)))
        return Case(tuple(branches[:-1]), branches[-1][1], BIGINT) if len(branches) > 1 else branches[0][1]

    def relation(self, input_: Relation, keys: Sequence[Named], calls: tuple[AggregateCall, ...]) -> Aggregate:
        """The groups of all sets: those of ``input_``, as often as there are sets, each time with its own keys."""
        looked_at = set().union(*(columns_in(scalar) for call in calls for scalar in call.scalars))
        kept = tuple(Named(f.name, column(f)) for f in input_.fields if f.name in looked_at)
        names = NameAllocator([f.name for f in input_.fields])
        own = [names.take(f"{key.name}_in_set") for key in keys]
        inputs = []
        for number, one in enumerate(self.sets):
            values = [key.scalar if key.scalar in one else Literal(None, key.scalar.type) for key in keys]
            shown = tuple(Named(name, value) for name, value in zip(own, values, strict=True))
            inputs.append(Project(input_, (*kept, *shown, Named(self.number.name, Literal(number, INT)))))
        rows = inputs[0] if len(inputs) == 1 else UnionAll(tuple(inputs))
        columns = {f.name: column(f) for f in rows.fields}
        grouped = [Named(key.name, columns[name]) for key, name in zip(keys, own, strict=True)]
        return Aggregate(rows, (*grouped, Named(self.number.name, columns[self.number.name])), calls)
