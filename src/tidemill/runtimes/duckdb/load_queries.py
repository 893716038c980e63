"""The statements of a load as relational queries: loops are joins, and what they add to a map is a grouped sum.

The rows of a relation are handed over as often as their weights say, so the weight of an entry is a count of rows. All
statements are linear, so a relation may also be handed over as rows that come and rows that go (``signed``): these then
count and add up with their sign, and no row need be looked for that cancels another.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from decimal import Decimal

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project, Scan, UnionAll
from tidemill.model.types import BIGINT, BOOLEAN, Field
from tidemill.model.types import Decimal as DecimalType
from tidemill.program.maps import RingField
from tidemill.program.statements import Query, RelationLoop, Step, Version
from tidemill.runtimes.duckdb.sql_text import NotLowered

ENTRY_WEIGHT = "_weight of the entry"
"""The column with the weight of an entry: its last one, after keys and values."""


def entries_query(
    keys: Sequence[Field], values: Sequence[RingField], queries: Sequence[Query], signed: Set[str] = frozenset()
) -> Relation:
    """The sum of queries as the entries of a map: keys, sums of values, and the weight; NULL adds nothing to a sum.

    The rows of the relations ``signed`` have a column ``ENTRY_WEIGHT``, which is 1 or -1.
    """
    entries = sums_query(keys, values, queries, signed)
    # Without keys there is one group, also over no rows; with signs all rows of a group may have gone.
    there = Call("ne", (Column(ENTRY_WEIGHT, BIGINT), Literal(0, BIGINT)), BOOLEAN)
    return entries if keys and not signed else Filter(entries, there)


def sums_query(
    keys: Sequence[Field], values: Sequence[RingField], queries: Sequence[Query], signed: Set[str]
) -> Relation:
    """The same as amounts to be added to a map: as many rows of a group may go as come, and its sums still change."""
    names = [*(key.name for key in keys), *(value.name for value in values)]
    inputs = [_outputs(query, names, len(keys), signed) for query in queries]
    rows = inputs[0] if len(inputs) == 1 else UnionAll(tuple(inputs))
    given = {f.name: column(f) for f in rows.fields}
    sums = [AggregateCall(value.name, "sum", given[value.name], value.type) for value in values]
    weight = given.get(ENTRY_WEIGHT)
    counted = AggregateCall(ENTRY_WEIGHT, "count" if weight is None else "sum", weight, BIGINT)
    grouped = Aggregate(rows, tuple(Named(key.name, given[key.name]) for key in keys), (*sums, counted))
    totals = (*values, RingField(ENTRY_WEIGHT, BIGINT))
    return Project(grouped, (*grouped.keys, *(Named(total.name, _zero_if_null(total)) for total in totals)))


def unsummed_entries(keys: Sequence[Field], query: Query) -> Relation | None:
    """The rows of a query as entries of a map without values, each of weight 1; None if it may have more than it reads.

    They add up to the entries of the map, so a store may hold them as they are.
    """
    if len(query.sources) != 1:
        return None
    rows = _outputs(query, [key.name for key in keys], len(keys), frozenset())
    columns = tuple(Named(f.name, column(f)) for f in rows.fields)
    return Project(rows, (*columns, Named(ENTRY_WEIGHT, Literal(1, BIGINT))))


def _outputs(query: Query, names: Sequence[str], keys: int, signed: Set[str]) -> Relation:
    """The outputs of a query under the names of the columns that they are added to, and the sign if there is any."""
    if query.weight is not None:
        raise NotLowered("rows with a weight of their own")
    scalars = [output.scalar for output in query.outputs]
    if signed:
        sign = _sign(query, signed)
        scalars = [*scalars[:keys], *(_signed_value(value, sign) for value in scalars[keys:]), sign]
        names = [*names, ENTRY_WEIGHT]
    return Project(joined(query, signed), tuple(map(Named, names, scalars)))


def _sign(query: Query, signed: Set[str]) -> Scalar:
    """The product of the signs of all sources."""
    sign: Scalar | None = None
    for step in query.sources:
        if isinstance(step, RelationLoop) and step.relation in signed:
            own = Column(f"{step.alias}.{ENTRY_WEIGHT}", BIGINT, nullable=False)
            sign = own if sign is None else Call("multiply", (sign, own), BIGINT)
    return Literal(1, BIGINT) if sign is None else sign


def _signed_value(value: Scalar, sign: Scalar) -> Scalar:
    if isinstance(sign, Literal):
        return value
    comes = Call("gt", (sign, Literal(0, BIGINT)), BOOLEAN)
    return Case(((comes, value),), Call("negate", (value,), value.type), value.type)


def joined(query: Query, signed: Set[str] = frozenset()) -> Relation:
    """The loops of a query as joins, with their filters."""
    relation: Relation | None = None
    for step in query.sources:
        scan, condition = _scanned(step, signed)
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


def _scanned(step: Step, signed: Set[str]) -> tuple[Scan, Scalar | None]:
    """The relation of a loop, and the condition of its lookup."""
    if not isinstance(step, RelationLoop) or step.version is not Version.STATE or step.values:
        raise NotLowered(f"{type(step).__name__} over something else than the rows of a relation")
    columns = {f.name: Column(f"{step.alias}.{f.name}", f.type, f.nullable) for f in step.columns}
    equal = [Call("eq", (columns[name], scalar), BOOLEAN) for name, scalar in step.lookup]
    sign = (Field(ENTRY_WEIGHT, BIGINT, nullable=False),) if step.relation in signed else ()
    return Scan(step.relation, step.alias, (*step.columns, *sign)), conjunction(equal)


def _zero_if_null(value: RingField) -> Scalar:
    zero = Decimal(0) if isinstance(value.type, DecimalType) else 0
    return Call("coalesce", (Column(value.name, value.type), Literal(zero, value.type)), value.type)
