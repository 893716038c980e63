"""Filling a map from whole relations."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.expressions.scalars import Call, Column, Named, Scalar
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.analysis.blocks import BlockCondition, QueryBlock, RelationKeys
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.delta.nested_loops import nested_loops
from tidemill.compiler.viewlets.ring_calculus.polynomials import as_value
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery
from tidemill.model.types import BOOLEAN
from tidemill.program import statements as s
from tidemill.program.maps import Map


def load_of(query: CalculusQuery, target: Map, keys: RelationKeys) -> s.Query:
    """The contents of ``target`` for ``query``, as nested loops over whole relations."""
    columns: dict[str, list[Scalar]] = {}
    for atom in query.atoms:
        for name, f in zip(atom.variables, atom.columns, strict=True):
            columns.setdefault(name, []).append(Column(f"{atom.alias}.{f.name}", f.type, f.nullable))
    first = {name: own[0] for name, own in columns.items()}
    equal = [Call("eq", (one, other), BOOLEAN) for one, *others in columns.values() for other in others]
    conditions = [*equal, *(substitute(condition, first) for condition in query.conditions)]
    sums = (as_value(term, value.type) for term, value in zip(query.terms, target.values, strict=True))
    names = [f.name for f in target.keys] + [value.name for value in target.values]
    outputs = [Named(n, substitute(scalar, first)) for n, scalar in zip(names, (*query.keys, *sums), strict=True)]
    leaves = tuple(Scan(atom.relation, atom.alias, atom.columns) for atom in query.atoms)
    return nested_loops(QueryBlock(leaves, tuple(_placed(conditions, leaves)), tuple(outputs)), keys)


def _placed(conditions: list[Scalar], leaves: tuple[Scan, ...]) -> Iterator[BlockCondition]:
    """Each condition with the leaves that must be bound before it is evaluated: all of them if it can fail."""
    owners = {f.name: leaf.alias for leaf in leaves for f in leaf.fields}
    everything = frozenset(owners.values())
    for condition in conditions:
        needs = frozenset(owners[name] for name in columns_in(condition))
        yield BlockCondition(condition, everything if may_fail(condition) else needs)
