"""Aggregates over DISTINCT become plain ones over distinct rows.

``COUNT(DISTINCT x)`` is COUNT over ``SELECT DISTINCT keys, x``. Beside other aggregates the rows of all are grouped
together, and each aggregate reads its own::

    SELECT k, SUM(n), COUNT(DISTINCT x) FROM t GROUP BY k

    SELECT k, SUM(n), COUNT(x) FROM (SELECT k, n, NULL AS x FROM t
                                     UNION ALL SELECT k, NULL, x FROM (SELECT DISTINCT k, x FROM t)) GROUP BY k

Aggregates over multisets stay as they are: their state has each value once, with its count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import needs_multiset, required_arguments
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Case, Literal, Named, Scalar, column, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Project
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.rewrites.cogroup import Share, cogroup
from tidemill.model.types import BOOLEAN

DistinctTerm = tuple[tuple[Scalar, ...], Scalar | None]
"""The arguments and the FILTER of an aggregate over DISTINCT; equal terms share their distinct rows."""


def expand_distinct_aggregates(relation: Relation) -> Relation:
    """``relation`` without aggregates over DISTINCT, but for those over multisets."""
    return transform(relation, _changed)


def _changed(node: Relation) -> Relation:
    if not isinstance(node, Aggregate) or not any(map(_is_distinct, node.aggregates)):
        return node
    groups = cogroup(list(_shares(node)))
    calls = {call.name: call for call in groups.aggregates}
    return replace(groups, aggregates=tuple(calls[call.name] for call in node.aggregates))


def _is_distinct(call: AggregateCall) -> bool:
    return call.distinct and not needs_multiset(call)


def _shares(node: Aggregate) -> Iterator[Share]:
    """The rows as they are, then the distinct rows of each term. A group exists if the first share has a row of it."""
    plain = tuple(call for call in node.aggregates if not _is_distinct(call))
    there = not node.keys or bool(plain)
    if plain:
        yield Share(node.input, node.keys, plain)
    terms: dict[DistinctTerm, list[AggregateCall]] = {}
    for call in node.aggregates:
        if _is_distinct(call):
            terms.setdefault((call.scalars[: 1 + len(call.others)], call.filter), []).append(call)
    for (arguments, condition), calls in terms.items():
        yield _known_share(node, calls, condition) if there else _whole_share(node, calls, arguments, condition)
        there = True


def _known_share(node: Aggregate, calls: Sequence[AggregateCall], condition: Scalar | None) -> Share:
    """The distinct arguments of the rows that the aggregates read, and no others."""
    conditions = [] if condition is None else [condition]
    conditions += [Call("is_not_null", (one,), BOOLEAN) for one in required_arguments(calls[0]) if is_nullable(one)]
    looked_at = conjunction(conditions)
    rows = filtered(node.input, looked_at)
    return _share(node, rows, calls, calls[0].scalars[: 1 + len(calls[0].others)])


def _whole_share(
    node: Aggregate, calls: Sequence[AggregateCall], arguments: Sequence[Scalar], condition: Scalar | None
) -> Share:
    """The distinct arguments of all rows, NULL where FILTER excludes the row, so that no group is missing."""
    if condition is not None:
        arguments = [Case(((condition, one),), Literal(None, one.type), one.type) for one in arguments]
    return _share(node, node.input, calls, arguments)


def _share(node: Aggregate, rows: Relation, calls: Sequence[AggregateCall], arguments: Sequence[Scalar]) -> Share:
    taken = [key.name for key in node.keys]
    for _ in arguments:
        taken.append(fresh(f"{calls[0].name}_distinct", taken))
    scalars = (*(key.scalar for key in node.keys), *arguments)
    once = Distinct(Project(rows, tuple(Named(name, one) for name, one in zip(taken, scalars, strict=True))))
    columns = [column(field) for field in once.fields]
    keys = tuple(Named(key.name, one) for key, one in zip(node.keys, columns, strict=False))
    values = columns[len(keys) :]
    return Share(once, keys, tuple(replace(call, distinct=False, filter=None).over(iter(values)) for call in calls))
