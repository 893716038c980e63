"""Cogroup: several relations grouped together, where each aggregate reads the rows of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import function_of
from tidemill.algebra.expressions.scalars import Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Project, UnionAll
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class Share:
    """Rows, the keys that they are grouped by, and the aggregates over them."""

    rows: Relation
    keys: tuple[Named, ...]
    calls: tuple[AggregateCall, ...] = ()


def cogroup(shares: Sequence[Share]) -> Aggregate:
    """The groups of all shares. The keys of each have the names of those of the first.

    The result is one aggregate over the union of the rows. Each argument is a column that is NULL in the rows of other
    shares, and aggregates ignore NULLs: such rows only make the group exist.
    """
    names = [key.name for key in shares[0].keys]
    seen: list[dict[Scalar, str]] = []
    taken = set(names)
    for share in shares:
        seen.append({})
        for call in share.calls:
            for scalar in _hidden_by_null(call).scalars:
                taken.add(seen[-1].setdefault(scalar, fresh(f"{call.name}_seen", taken)))
    rows = [_shown(share, names, own, seen) for share, own in zip(shares, seen, strict=True)]
    union = rows[0] if len(rows) == 1 else UnionAll(tuple(rows))
    columns = {field.name: column(field) for field in union.fields}
    calls = []
    for share, own in zip(shares, seen, strict=True):
        for call in map(_hidden_by_null, share.calls):
            calls.append(call.over(columns[own[scalar]] for scalar in call.scalars))
    return Aggregate(union, tuple(Named(name, columns[name]) for name in names), tuple(calls))


def _shown(share: Share, names: Sequence[str], own: dict[Scalar, str], seen: Sequence[dict[Scalar, str]]) -> Relation:
    keys = tuple(Named(name, key.scalar) for name, key in zip(names, share.keys, strict=True))
    columns = []
    for one in seen:
        columns += [Named(name, scalar if one is own else Literal(None, scalar.type)) for scalar, name in one.items()]
    return Project(share.rows, (*keys, *columns))


_THERE = Literal(True, BOOLEAN)
"""Argument given to COUNT(*): TRUE in the rows of its own share, NULL in all others."""


def _hidden_by_null(call: AggregateCall) -> AggregateCall:
    """``call`` changed so that it ignores rows in which all of its arguments are NULL."""
    if not call.scalars:
        return replace(call, argument=_THERE)
    hidden = not function_of(call).sees_nulls or call.filter is not None
    return call if hidden else replace(call, filter=_THERE)
