"""The statements of a load as relational queries: loops are joins, and what they add to a map is a grouped sum.

The rows of a relation are handed over as often as their weights say, so the weight of an entry is a count of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project, Scan, UnionAll
from tidemill.model.types import BIGINT, BOOLEAN, Field
from tidemill.model.types import Decimal as DecimalType
from tidemill.program.maps import RingField
from tidemill.program.statements import Query, RelationLoop, Step, Version
from tidemill.runtimes.duckdb.sql_text import NotLowered

ENTRY_WEIGHT = "_weight of the entry"
"""The column with the weight of an entry: its last one, after keys and values."""


def entries_query(keys: Sequence[Field], values: Sequence[RingField], queries: Sequence[Query]) -> Relation:
    """What queries add to a map: its keys, the sums of its values, and the weight; NULL adds nothing to a sum."""
    names = [*(key.name for key in keys), *(value.name for value in values)]
    inputs = [_outputs(query, names) for query in queries]
    rows = inputs[0] if len(inputs) == 1 else UnionAll(tuple(inputs))
    given = {f.name: Column(f.name, f.type, f.nullable) for f in rows.fields}
    sums = [AggregateCall(value.name, "sum", given[value.name], value.type) for value in values]
    grouped = Aggregate(
        rows,
        tuple(Named(key.name, given[key.name]) for key in keys),
        (*sums, AggregateCall(ENTRY_WEIGHT, "count", None, BIGINT)),
    )
    return Project(
        grouped,
        (
            *grouped.keys,
            *(Named(value.name, _zero_if_null(value)) for value in values),
            Named(ENTRY_WEIGHT, Column(ENTRY_WEIGHT, BIGINT, nullable=False)),
        ),
    )


def _outputs(query: Query, names: Sequence[str]) -> Relation:
    """The outputs of a query under the names of the columns that they are added to."""
    if query.weight is not None:
        raise NotLowered("rows with a weight of their own")
    outputs = [Named(name, output.scalar) for name, output in zip(names, query.outputs, strict=True)]
    return Project(_joined(query), tuple(outputs))


def _joined(query: Query) -> Relation:
    """The loops of a query as joins, with their filters."""
    relation: Relation | None = None
    for step in query.sources:
        scan, condition = _scanned(step)
        if relation is not None:
            relation = Join(relation, scan, condition)
        else:
            relation = scan if condition is None else Filter(scan, condition)
        for condition in step.filters:
            relation = Filter(relation, condition)
    if relation is None:
        raise NotLowered("rows from no relation")
    for condition in query.filters:
        relation = Filter(relation, condition)
    return relation


def _scanned(step: Step) -> tuple[Scan, Scalar | None]:
    """The relation of a loop, and the condition of its lookup."""
    if not isinstance(step, RelationLoop) or step.version is not Version.STATE or step.values:
        raise NotLowered(f"a {type(step).__name__} that is not over the rows of a relation")
    columns = {f.name: Column(f"{step.alias}.{f.name}", f.type, f.nullable) for f in step.columns}
    equal = [Call("eq", (columns[name], scalar), BOOLEAN) for name, scalar in step.lookup]
    return Scan(step.relation, step.alias, step.columns), conjunction(equal)


def _zero_if_null(value: RingField) -> Scalar:
    zero = Decimal(0) if isinstance(value.type, DecimalType) else 0
    return Call("coalesce", (Column(value.name, value.type), Literal(zero, value.type)), value.type)
