"""Domains: the values of a query's variables at which a changed row can make a difference.

A nested aggregate that is correlated by equality changes only for outer rows that have the keys of the changed row, and
the changed row is itself among these if the outer query reads the same relation. So all that a row can affect lies
where some variables have values of the row, and there the query is computed twice: before the change and after it.
Nothing needs to be known of how the aggregate changes, so it may be over a range, a join, or another aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in, substitute, transform
from tidemill.compiler.viewlets.delta_queries import DeltaQuery, event_queries, row_of
from tidemill.compiler.viewlets.ring_calculus.bindings import as_type
from tidemill.compiler.viewlets.ring_calculus.conditions import is_fragile
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery, variables

Bound = Mapping[str, Scalar]
"""Values of variables, as expressions over the changed row."""


@dataclass(frozen=True, slots=True)
class Domain:
    """All of a query that one changed row can affect: its ``parts``, whose sum is taken before the row and after it.

    ``apart`` is the change by rows that have NULL where a domain has a value: they are in none, and no nested aggregate
    that is tied to the domain counts them.
    """

    parts: tuple[DeltaQuery, ...]
    apart: tuple[DeltaQuery, ...]


def domain_of(query: CalculusQuery, relation: str) -> Domain | None:
    """The domain of a changed row of ``relation``; None if it may affect all rows.

    Between two rows of one epoch sums have values that they have neither before nor after it. A condition that may fail
    must not see these.
    """
    factors = (factor for polynomial in query.terms for term in polynomial for factor in term.factors)
    if any(is_fragile(transform(scalar, _without_average)) for scalar in (*query.keys, *query.conditions, *factors)):
        return None
    found = list(_occurrences(query, relation))
    common = dict(set(found[0].items()).intersection(*(bound.items() for bound in found)))
    if not common:
        return None
    nulls = [call("is_null", Column(name, key.type)) for name, key in sorted(common.items()) if is_nullable(key)]
    apart = event_queries(_where(query, reduce(partial(call, "or"), nulls)), relation) if nulls else ()
    return Domain((DeltaQuery(query, bound=common),), tuple(apart))


def _without_average(node: Scalar) -> Scalar:
    """An average of rows is between them, and of no rows it is NULL: it never fails."""
    match node:
        case Case(
            branches=((Call(function="eq", arguments=(count, Literal(value=0))), Literal(value=None)),),
            default=Call(function="mean" | "average", arguments=(_, divisor)),
        ) if count == divisor:
            return Column("average", node.type)
    return node


def _where(query: CalculusQuery, condition: Scalar) -> CalculusQuery:
    return replace(query, conditions=(*query.conditions, condition))


def _occurrences(query: CalculusQuery, relation: str) -> Iterator[Bound]:
    """For each place where ``query`` reads ``relation``: the variables that have values of a row that is read there."""
    for atom in query.state:
        if atom.relation == relation:
            yield row_of(atom, relation)
    own = variables(query.state)
    for lift in query.lifts:
        pairs = list(zip(lift.lookup, lift.query.keys, strict=False))
        for bound in _occurrences(lift.query, relation):
            tied = {
                key.name: as_type(substitute(inner, bound), key.type)
                for key, inner in pairs
                if isinstance(key, Column) and key.name in own and columns_in(inner) <= bound.keys()
            }
            yield {name: value for name, value in tied.items() if value is not None}
