"""Signed queries over relations in memory: the joins of a term by index, bound tuples first.

Lookups cost the number of matching rows. Relations keep an index for every set of columns that was ever probed, which
each change maintains.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Call, Column, Scalar
from tidemill.algebra.node import memoized
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.model.schema import names_of
from tidemill.model.types import Decimal, Type
from tidemill.sources.remote_queries.group_sums import add_groups
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView

RowIndex = Mapping[Row, ZSet]
"""Rows by the values of some of their columns; rows with a NULL among these are left out, since NULL equals nothing."""


@dataclass(frozen=True)
class JoinStep:
    """One step of a join: to the rows of a leaf whose ``columns`` equal ``others``, columns of earlier leaves."""

    leaf: int
    columns: tuple[int, ...]
    others: tuple[tuple[int, int], ...]


NOTHING = ZSet()


class IndexedRelations:
    """The rows of relations, with indexes that are created on demand and maintained by every change."""

    def __init__(self, relations: Mapping[str, ZSet] | None = None) -> None:
        self.relations = {name: ZSet(rows) for name, rows in (relations or {}).items()}
        self._indexes: dict[tuple[str, tuple[int, ...]], dict[Row, ZSet]] = {}

    def apply(self, changes: Mapping[str, ZSet]) -> None:
        """Add weighted rows to the relations held here."""
        for relation, change in changes.items():
            if relation in self.relations:
                self.relations[relation].update_by(change)
                for (indexed, columns), index in self._indexes.items():
                    if indexed == relation:
                        _enter(index, columns, change.items())

    def answer(self, query: SignedQuery) -> ZSet:
        """The signed rows of ``query``."""
        total = ZSet()
        for term in query.terms:
            total.update_by(self.rows(query.view, term))
        return total

    def rows(self, view: SpjView, term: SignedTerm) -> ZSet:
        """The signed rows of one term."""
        found: list[tuple[dict[int, Row], int]] = [({}, term.sign)]
        for step in _plan(view, frozenset(term.bound)):
            leaf = view.leaves[step.leaf]
            groups = self.look_up(leaf, step, [rows for rows, _ in found], term.bound.get(leaf.alias))
            found = [
                ({**rows, step.leaf: row}, weight * times)
                for (rows, weight), group in zip(found, groups, strict=True)
                for row, times in group.items()
            ]
        return _finish(view, found)

    def look_up(self, leaf: Scan, step: JoinStep, found: Sequence[Mapping[int, Row]], bound: ZSet | None) -> list[ZSet]:
        """The rows of ``leaf``, or of what it is bound to, that match each of the combinations ``found`` so far."""
        index = self._index(leaf.relation, step.columns, bound)
        return [index.get(tuple([rows[one][column] for one, column in step.others]), NOTHING) for rows in found]

    def _index(self, relation: str, columns: tuple[int, ...], bound: ZSet | None) -> RowIndex:
        if not columns:
            return {(): self.relations[relation] if bound is None else bound}
        if bound is not None:
            return _enter({}, columns, bound.items())
        if (relation, columns) not in self._indexes:
            self._indexes[relation, columns] = _enter({}, columns, self.relations[relation].items())
        return self._indexes[relation, columns]


def _enter(index: dict[Row, ZSet], columns: tuple[int, ...], rows: Iterable[tuple[Row, int]]) -> dict[Row, ZSet]:
    for row, weight in rows:
        key = tuple([row[column] for column in columns])
        if None not in key:
            index.setdefault(key, ZSet()).add(row, weight)
            if not index[key]:
                del index[key]
    return index


@memoized
def _plans(view: SpjView) -> dict[frozenset[str], list[JoinStep]]:
    """The plans of a view that are known, by the leaves that are bound."""
    return {}


def _plan(view: SpjView, bound: frozenset[str]) -> list[JoinStep]:
    known = _plans(view)
    if bound not in known:
        known[bound] = _new_plan(view, bound)
    return known[bound]


def _new_plan(view: SpjView, bound: frozenset[str]) -> list[JoinStep]:
    """Leaves in an order in which each joins on columns of earlier ones, as far as possible; bound ones first."""
    equal = _equal_columns(view)
    left = list(range(len(view.leaves)))
    steps: list[JoinStep] = []
    while left:
        placed = {step.leaf for step in steps}
        ties = {
            leaf: [(mine, other) for (one, mine), other in equal if one == leaf and other[0] in placed] for leaf in left
        }
        leaf = min(left, key=lambda leaf: (not ties[leaf], view.leaves[leaf].alias not in bound, leaf))
        steps.append(JoinStep(leaf, tuple(mine for mine, _ in ties[leaf]), tuple(other for _, other in ties[leaf])))
        left.remove(leaf)
    return steps


def _equal_columns(view: SpjView) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of columns, as leaf and position, that a condition equates; each pair in both orders."""
    places = {
        name: (number, place)
        for number, leaf in enumerate(view.leaves)
        for place, name in enumerate(names_of(leaf.fields))
    }
    pairs = []
    for condition in view.conditions:
        match condition:
            case Call("eq", (Column(one), Column(other))) if places[one][0] != places[other][0]:
                pairs += [(places[one], places[other]), (places[other], places[one])]
    return pairs


def _finish(view: SpjView, found: Iterable[tuple[dict[int, Row], int]]) -> ZSet:
    """The outputs of the combinations for which all conditions are true: indexes check only the equalities."""
    leaves, names = range(len(view.leaves)), names_of(view.fields)
    return answer_rows(
        view,
        view.conditions,
        ((dict(zip(names, [v for leaf in leaves for v in rows[leaf]], strict=True)), n) for rows, n in found),
    )


def answer_rows(view: SpjView, conditions: Sequence[Scalar], found: Iterable[tuple[Mapping[str, Any], int]]) -> ZSet:
    """The rows of a view from weighted combinations of its leaves, of which ``conditions`` are yet to be checked."""
    result = ZSet()
    for values, weight in found:
        if all(evaluate_scalar(condition, values) is True for condition in conditions):
            shown = [evaluate_scalar(output.scalar, values) for output in view.outputs]
            result.add((*shown, *_numbers(view, values)), weight)
    return add_groups(result.items(), len(view.outputs)) if view.sums else result


def _numbers(view: SpjView, values: Mapping[str, Any]) -> list[Any]:
    """The numbers that a row adds to its group."""
    if not view.sums:
        return []
    found = [(evaluate_scalar(one.scalar, values), one.scalar.type) for one in view.sums]
    return [1, *(no_sum(of) if value is None else value for value, of in found)]


def no_sum(of: Type) -> Any:
    """The sum over no rows.

    >>> no_sum(Decimal(38, 2))
    Decimal('0.00')
    """
    return decimal.Decimal(0).scaleb(-of.scale) if isinstance(of, Decimal) else 0


def evaluate_locally(query: SignedQuery) -> ZSet:
    """The rows of the terms of ``query`` that read no relation."""
    return IndexedRelations().answer(query.local)
