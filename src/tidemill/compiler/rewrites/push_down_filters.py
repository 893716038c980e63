"""Filter pushdown, so that a stage stores and visits as few rows as possible.

Projections need no pass: ``blocks`` merges them, and unread columns are dropped when stages are drafted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Project,
    TopK,
    UnionAll,
    Unnest,
    Window,
)
from tidemill.algebra.relational.walk import (
    children,
    columns_in,
    subqueries,
    substitute,
    with_children,
    with_subqueries,
)
from tidemill.compiler.analysis.canonical import CanonicalForm, canonical
from tidemill.compiler.analysis.common_subqueries import common_subqueries, is_grouped
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.rewrites.factor_disjunctions import factor_disjunctions
from tidemill.compiler.rewrites.subqueries.inline_subqueries import inline_subqueries

ConditionList = list[Scalar]


def push_down_filters(relation: Relation) -> Relation:
    """``relation`` with each condition at the lowest node that has its columns.

    A condition that can fail is not moved, because it may rely on a condition below it (``x <> 0`` before ``10 / x >
    1``). And nothing is pushed into a grouped subquery that occurs more than once: its uses would differ, and be stored
    twice. In a subquery of an expression, outer columns count as constants.
    """
    relation = _with_normal_subqueries(inline_subqueries(relation))
    return _Pushing(common_subqueries(relation)).push(relation, [])


def _with_normal_subqueries(node: Relation) -> Relation:
    node = with_children(node, [_with_normal_subqueries(child) for child in children(node)])
    return with_subqueries(node, lambda subquery: replace(subquery, relation=push_down_filters(subquery.relation)))


class _Pushing:
    """Carries conditions, none of which can fail, down from each node to its inputs."""

    def __init__(self, occurrences: Counter[CanonicalForm]) -> None:
        self._occurrences = occurrences

    def push(self, node: Relation, conditions: ConditionList) -> Relation:
        if conditions and is_grouped(node) and self._occurrences[canonical(node)] > 1:
            return filtered(self.push(node, []), *conditions)
        match node:
            case Filter():
                return self._push_filter(node, conditions)
            case Project():
                return self._push_project(node, conditions)
            case Join():
                return self._push_join(node, conditions)
            case UnionAll():
                return self._push_union_all(node, conditions)
            case Aggregate():
                return self._push_aggregate(node, conditions)
            case Distinct():
                return Distinct(self.push(node.input, conditions))
            case Unnest():
                return self._push_unnest(node, conditions)
            case TopK() | Window() | Match():
                return self._push_parts(node, conditions)
        below = [self.push(child, []) for child in children(node)]
        return filtered(with_children(node, below), *conditions)

    def _push_filter(self, node: Filter, conditions: ConditionList) -> Relation:
        parts = factor_disjunctions(node.condition)
        movable = [part for part in parts if not may_fail(part)]
        fixed = [part for part in parts if may_fail(part)]
        return filtered(self.push(node.input, movable + conditions), *fixed)

    def _push_project(self, node: Project, conditions: ConditionList) -> Relation:
        values = {output.name: output.scalar for output in node.outputs}
        below, above = _translated(conditions, values)
        return filtered(replace(node, input=self.push(node.input, below)), *above)

    def _push_join(self, node: Join, conditions: ConditionList) -> Relation:
        parts = [] if node.condition is None else factor_disjunctions(node.condition)
        fixed = [part for part in parts if may_fail(part)]
        left, right, both = _sides([part for part in parts if not may_fail(part)] + conditions, node)
        return Join(self.push(node.left, left), self.push(node.right, right), conjunction(both + fixed))

    def _push_union_all(self, node: UnionAll, conditions: ConditionList) -> Relation:
        names = [f.name for f in node.fields]
        inputs = []
        for part in node.inputs:
            values = dict(zip(names, map(column, part.fields), strict=True))
            inputs.append(self.push(part, [substitute(condition, values) for condition in conditions]))
        return UnionAll(tuple(inputs))

    def _push_aggregate(self, node: Aggregate, conditions: ConditionList) -> Relation:
        """A condition on grouping columns alone keeps or drops whole groups, so it is applied to their rows."""
        keys = {key.name: key.scalar for key in node.keys}
        # A global aggregate has a row even over no rows, so no condition may be pushed below it.
        sums = {call.name for call in node.aggregates}
        on_keys = [c for c in conditions if keys and columns_in(c).isdisjoint(sums)]
        below, above = _translated(on_keys, keys)
        above += [condition for condition in conditions if condition not in on_keys]
        return filtered(replace(node, input=self.push(node.input, below)), *above)

    def _push_unnest(self, node: Unnest, conditions: ConditionList) -> Relation:
        """Conditions that read no element are tested before a row is multiplied by its elements."""
        own = {f.name for f in node.columns}
        above = [condition for condition in conditions if not columns_in(condition).isdisjoint(own)]
        below = [condition for condition in conditions if condition not in above]
        return filtered(replace(node, input=self.push(node.input, below)), *above)

    def _push_parts(self, node: TopK | Window | Match, conditions: ConditionList) -> Relation:
        """A condition on partition columns keeps or drops whole partitions, as with groups."""
        own = {f.name for f in node.fields}
        parting = {scalar.name for scalar in node.partition if isinstance(scalar, Column)}
        below = [condition for condition in conditions if columns_in(condition) & own <= parting]
        above = [condition for condition in conditions if condition not in below]
        return filtered(replace(node, input=self.push(node.input, below)), *above)


def _translated(conditions: ConditionList, values: Mapping[str, Scalar]) -> tuple[ConditionList, ConditionList]:
    """Conditions with computed columns replaced by their expressions, and those that stay above the projection.

    The latter could fail below it, or would evaluate a subquery twice.
    """
    below: ConditionList = []
    above: ConditionList = []
    for condition in conditions:
        translated = substitute(condition, values)
        if may_fail(translated) or len(subqueries(translated)) > len(subqueries(condition)):
            above.append(condition)
        else:
            below.append(translated)
    return below, above


def _sides(conditions: ConditionList, join: Join) -> tuple[ConditionList, ConditionList, ConditionList]:
    """The conditions that read the left input alone, the right alone, and all others."""
    lefts = {f.name for f in join.left.fields}
    rights = {f.name for f in join.right.fields}
    reads = [columns_in(condition) & (lefts | rights) for condition in conditions]
    left = [c for c, read in zip(conditions, reads, strict=True) if read and read <= lefts]
    right = [c for c, read in zip(conditions, reads, strict=True) if read and read <= rights]
    return left, right, [c for c in conditions if c not in left and c not in right]
