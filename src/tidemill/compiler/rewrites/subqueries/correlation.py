"""The equalities that correlate a subquery with outer rows, extracted from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.scalars import Call, Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Join, Project, TopK, Window
from tidemill.algebra.relational.walk import columns_in, expressions, outer_columns, subqueries
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.filters import filtered
from tidemill.model.types import VOID


@dataclass(frozen=True, slots=True)
class Equality:
    """``inner = outer``: an expression over the rows of a subquery, and one over the outer row."""

    inner: Scalar
    outer: Scalar


Uncorrelated = tuple[Relation, list[Equality]]
"""A relation that reads no outer column, and the equalities that were extracted from it."""


def equalities(relation: Relation) -> Uncorrelated | None:
    """``relation`` without its correlating equalities, and these; None if it is correlated in another way.

    >>> from tidemill.algebra.relational.relations import Scan
    >>> from tidemill.algebra.expressions.scalars import Column
    >>> from tidemill.model.types import BOOLEAN, INT, Field
    >>> inner, outer = Column("t.k", INT), Column("o.k", INT)
    >>> scan = Scan("t", "t", (Field("k", INT),))
    >>> equalities(Filter(scan, Call("eq", (outer, inner), BOOLEAN))) == (scan, [Equality(inner, outer)])
    True
    """
    if not outer_columns(relation):
        return relation, []
    match relation:
        case Filter(input=input_, condition=condition):
            return _where(equalities(input_), condition)
        case Join(left=left, right=right):
            return _from_join(relation, equalities(left), equalities(right))
        case Project(input=input_):
            return _from_project(relation, equalities(input_))
        case Aggregate(keys=keys, input=input_) if keys:
            return _from_groups(relation, equalities(input_))
        case Window(input=input_) | TopK(input=input_):
            return _from_partitions(relation, equalities(input_))
        case Distinct(input=input_):
            return _from_distinct(equalities(input_))
    return None


def _where(below: Uncorrelated | None, condition: Scalar) -> Uncorrelated | None:
    """``below`` under the conjuncts of a condition that are no correlating equalities."""
    if below is None:
        return None
    relation, found = below
    own = {field.name for field in relation.fields}
    kept, taken = [], []
    for part in conjuncts(condition):
        if columns_in(part) <= own:
            kept.append(part)
        elif (equality := _equality(part, own)) is not None:
            taken.append(equality)
        else:
            return None
    rest = conjunction(kept)
    return filtered(relation, rest), [*found, *taken]


def _equality(condition: Scalar, own: set[str]) -> Equality | None:
    match condition:
        case Call("eq", (left, right)) if not may_fail(condition) and left.type != VOID:
            for inner, outer in ((left, right), (right, left)):
                own_side = columns_in(inner) and columns_in(inner) <= own
                if own_side and own.isdisjoint(columns_in(outer)) and not subqueries(outer):
                    return Equality(inner, outer)
    return None


def _from_join(join: Join, left: Uncorrelated | None, right: Uncorrelated | None) -> Uncorrelated | None:
    if left is None or right is None:
        return None
    both = Join(left[0], right[0]), left[1] + right[1]
    return both if join.condition is None else _where(both, join.condition)


def _from_project(project: Project, below: Uncorrelated | None) -> Uncorrelated | None:
    """A projection also outputs the columns that the extracted equalities compare."""
    if below is None:
        return None
    relation, found = below
    fields = {field.name: field for field in relation.fields}
    needed = {name for equality in found for name in columns_in(equality.inner)}
    given = {output.name: output.scalar for output in project.outputs}
    reads = set().union(*map(columns_in, given.values()))
    if not reads <= fields.keys() or any(
        given.get(name, column(fields[name])) != column(fields[name]) for name in needed
    ):
        return None
    added = tuple(Named(name, column(fields[name])) for name in sorted(needed - given.keys()))
    return replace(project, input=relation, outputs=project.outputs + added), found


def _from_groups(groups: Aggregate, below: Uncorrelated | None) -> Uncorrelated | None:
    """Equalities of grouping keys: a group has one value of each, so they select groups as well as rows."""
    if below is None or not _reads_alone(groups, below[0]):
        return None
    relation, found = below
    keys = {key.scalar: column(key.field) for key in groups.keys}
    if any(equality.inner not in keys for equality in found):
        return None
    return replace(groups, input=relation), [replace(equality, inner=keys[equality.inner]) for equality in found]


def _from_partitions(node: Window | TopK, below: Uncorrelated | None) -> Uncorrelated | None:
    """Equalities of columns of the partition: they select whole partitions."""
    if below is None or not _reads_alone(node, below[0]):
        return None
    relation, found = below
    if any(equality.inner not in node.partition for equality in found):
        return None
    return replace(node, input=relation), found


def _from_distinct(below: Uncorrelated | None) -> Uncorrelated | None:
    """Equalities of columns: these have one value for an outer row, so they add no distinct rows."""
    if below is None or not all(isinstance(equality.inner, Column) for equality in below[1]):
        return None
    return Distinct(below[0]), below[1]


def _reads_alone(node: Relation, input_: Relation) -> bool:
    """True if the expressions of ``node`` read columns of ``input_`` alone, and no outer ones."""
    own = {field.name for field in input_.fields}
    return all(columns_in(scalar) <= own and not subqueries(scalar) for scalar in expressions(node))
