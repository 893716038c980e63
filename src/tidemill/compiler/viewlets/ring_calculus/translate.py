"""From a stage to the calculus: each block of its body is a query, each subquery in an expression a lift.

Columns that a condition equates become one variable, so that atoms join by shared variables. A subquery is split at the
conditions that read outer columns: an equality becomes a key that is looked up, an inequality a range of keys;
everything else stays inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count

from tidemill.algebra.aggregates.registry import finalize, needs_multiset, partial_sums
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Lambda, Literal, Scalar, Subquery
from tidemill.algebra.relational.relations import Aggregate, Recursive, Repeat
from tidemill.algebra.relational.walk import children, columns_in, substitute, walk, with_children
from tidemill.algebra.text import text_of
from tidemill.compiler.analysis.blocks import QueryBlock, blocks, indexable
from tidemill.compiler.analysis.common_subqueries import GROUPED
from tidemill.compiler.analysis.failures import is_exact
from tidemill.compiler.analysis.post_aggregation import split_post_aggregation
from tidemill.compiler.analysis.ring import ONE, is_ring
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.viewlets.ring_calculus.conditions import plain
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, as_ring, expand, scalar_of, where
from tidemill.compiler.viewlets.ring_calculus.queries import (
    MARK,
    Atom,
    CalculusQuery,
    Lift,
    NotViewlet,
    narrowed,
    renamed,
)
from tidemill.compiler.viewlets.ring_calculus.ranges import bound_on
from tidemill.model.types import Type
from tidemill.program.statements import RangeBound

MOST_TIMES = 5
"""Limit on the occurrences of a relation in a join: its change has a term for every choice of these occurrences."""


def translate(draft: StageDraft) -> list[CalculusQuery]:
    """The queries whose sum is the body of ``draft``: keys and terms as its map has them."""
    if draft.has_subqueries_above:
        raise NotViewlet("it has a subquery beside aggregates")
    names = count(1)
    arity = len(draft.output) if draft.map is None else len(draft.map.keys)
    queries = []
    for block in blocks(draft.body):
        if block.arrays:
            raise NotViewlet("it unnests an array")
        translation = _BlockTranslation(block, names)
        outputs = [translation.lifted(output.scalar) for output in block.outputs]
        terms = [translation.expanded(scalar) for scalar in outputs[arity:]]
        queries.append(translation.query(outputs[:arity], terms, translation.conditions()))
    _refuse(queries)
    return queries


def _refuse(queries: Sequence[CalculusQuery]) -> None:
    """Refuse queries that viewlets cannot maintain, or not efficiently."""
    nests = any(query.lifts for query in queries)
    for query in queries:
        if nests and query.rounds:
            raise NotViewlet("it sums up DOUBLEs beside a nested aggregate")
        if nests and not query.atoms:
            raise NotViewlet("it has a constant row beside a nested aggregate")
        for relation, times in Counter(atom.relation for atom in query.atoms).items():
            if times > MOST_TIMES:
                raise NotViewlet(f'it joins "{relation}" {times} times with itself')


@dataclass
class _BlockTranslation:
    """Translates one block. ``lifts`` collects the nested aggregates in its expressions."""

    block: QueryBlock
    names: Iterator[int]
    lifts: list[Lift] = field(default_factory=list)
    values: dict[Subquery, Scalar] = field(default_factory=dict)

    @property
    def columns(self) -> set[str]:
        """The columns that the block itself binds."""
        return {f.name for leaf in self.block.leaves for f in leaf.fields}

    def query(self, keys: Sequence[Scalar], terms: Sequence[Polynomial], conditions: Sequence[Scalar]) -> CalculusQuery:
        """The block under ``conditions``, with its lifts."""
        leaves = self.block.leaves
        atoms = tuple(
            Atom(leaf.relation, leaf.alias, leaf.columns, tuple(f.name for f in leaf.fields)) for leaf in leaves
        )
        return narrowed(unified(CalculusQuery(tuple(keys), tuple(terms), atoms, tuple(conditions), tuple(self.lifts))))

    def conditions(self) -> list[Scalar]:
        """The block's conditions, over its columns and the numbers of its lifts."""
        return [plain(self.lifted(condition.scalar)) for condition in self.block.conditions]

    def expanded(self, scalar: Scalar) -> Polynomial:
        """``scalar`` as a sum of products of factors that read one leaf each."""
        owners = {f.name: leaf.alias for leaf in self.block.leaves for f in leaf.fields}
        return expand(scalar, lambda name: owners.get(name, name))

    def lifted(self, scalar: Scalar) -> Scalar:
        """``scalar`` with numbers of lifts in place of its subqueries."""
        if isinstance(scalar, Subquery):
            if scalar not in self.values:
                self.values[scalar] = self._value(scalar)
            return self.values[scalar]
        if isinstance(scalar, Lambda):
            raise NotViewlet("it calls a function for each element of an array")
        below = children(scalar)
        return with_children(scalar, [self.lifted(child) for child in below]) if below else scalar

    def _value(self, subquery: Subquery) -> Scalar:
        """The value of a subquery, in numbers of a lift."""
        above, aggregate = split_post_aggregation(subquery.relation)
        if not isinstance(aggregate, Aggregate) or aggregate.keys:
            raise NotViewlet("a subquery is not a plain aggregate")
        results = _results(aggregate, self._numbers(aggregate))
        value = self.lifted(substitute(above.outputs[0].scalar, results))
        if above.condition is None:
            return value
        holds = self.lifted(substitute(above.condition, results))
        return Case(((holds, value),), Literal(None, value.type), value.type)

    def _numbers(self, aggregate: Aggregate) -> list[Scalar]:
        """The count and the sums of a nested aggregate."""
        if any(map(needs_multiset, aggregate.aggregates)):
            raise NotViewlet("a nested aggregate is not a sum")
        if any(isinstance(node, (*GROUPED, Recursive, Repeat)) for node in walk(aggregate.input)):
            raise NotViewlet("a nested aggregate is over groups")
        inner = blocks(aggregate.input)
        if len(inner) != 1:
            raise NotViewlet("a nested aggregate is over a union")
        if inner[0].arrays:
            raise NotViewlet("a nested aggregate is over the elements of an array")
        translation = _BlockTranslation(inner[0], self.names)
        if not inner[0].leaves:
            return self._constants(translation, aggregate)
        lift, outside = translation.correlated(aggregate)
        self.lifts.append(lift)
        return [number if outside is None else where(outside, number) for number in lift.numbers]

    def _constants(self, inner: _BlockTranslation, aggregate: Aggregate) -> list[Scalar]:
        """An aggregate over no relation has one row, or none if its conditions are not true."""
        condition = conjunction(inner.conditions())
        sums = [as_ring(scalar_of(inner.expanded(part)), of) for part, of in inner.sums(aggregate)]
        self.lifts += inner.lifts
        return [number if condition is None else where(condition, number) for number in (ONE, *sums)]

    def sums(self, aggregate: Aggregate) -> list[tuple[Scalar, Type]]:
        """The term that a nested aggregate sums over the block's rows, and its ring."""
        outputs = {output.name: output.scalar for output in self.block.outputs}
        found = [part for call in aggregate.aggregates for part in partial_sums(call)]
        if not all(is_ring(part.of) for part in found):
            raise NotViewlet("a nested aggregate sums up DOUBLEs")
        return [(self.lifted(substitute(part.argument, outputs)), part.of) for part in found]

    def correlated(self, aggregate: Aggregate) -> tuple[Lift, Scalar | None]:
        """The block as a nested aggregate, and its condition that reads only outer columns."""
        correlation = _Correlation(self.columns)
        inside: list[Scalar] = []
        outside: list[Scalar] = []
        for condition in self.conditions():
            kept = inside if self._reads(condition) <= self.columns else outside
            if kept is outside and not self._reads(condition).isdisjoint(self.columns):
                correlation.take(condition)
            else:
                kept.append(condition)
        terms = [self.expanded(argument) for argument, _ in self.sums(aggregate)]
        query = self.query(correlation.keys, terms, inside)
        free = self._reads(*(f for term in terms for t in term for f in t.factors), *query.scalars()) - self.columns
        if free or (self.lifts and outside):
            raise NotViewlet("a nested aggregate reads outer columns in more than comparisons")
        alias = f"{MARK}n{next(self.names)}"
        lift = Lift(alias, query, tuple(correlation.lookup), correlation.lower, correlation.upper)
        return lift, conjunction(outside)

    def _reads(self, *scalars: Scalar) -> set[str]:
        """The columns that expressions read; the numbers of lifts are none."""
        numbers = {number.name for lift in self.lifts for number in lift.numbers}
        return {name for scalar in scalars for name in columns_in(scalar)} - numbers


@dataclass
class _Correlation:
    """Correlation of a nested aggregate with the outer row: keys that are looked up, and at most one in a range."""

    inner: Set[str]
    equal: dict[str, tuple[Column, Scalar]] = field(default_factory=dict)
    ordered: Column | None = None
    lower: RangeBound | None = None
    upper: RangeBound | None = None

    @property
    def keys(self) -> list[Scalar]:
        """The keys of the nested query; that of the range is the last."""
        return [*(column for column, _ in self.equal.values()), *([] if self.ordered is None else [self.ordered])]

    @property
    def lookup(self) -> list[Scalar]:
        """The expressions that the keys must equal."""
        return [key for _, key in self.equal.values()]

    @property
    def _taken(self) -> set[str]:
        return {*self.equal, *([] if self.ordered is None else [self.ordered.name])}

    def take(self, condition: Scalar) -> None:
        """Turn a condition into a key or an end of the range."""
        if not (self._take_equality(condition) or self._take_limit(condition)):
            raise NotViewlet(f"a nested aggregate is correlated by {text_of(condition)}")

    def _take_equality(self, condition: Scalar) -> bool:
        match condition:
            case Call(function="eq", arguments=(left, right)):
                for side, key in ((left, right), (right, left)):
                    found = side.input if isinstance(side, Cast) and is_exact(side) else side
                    outer = indexable(key) and self.inner.isdisjoint(columns_in(key))
                    if isinstance(found, Column) and found.name in self.inner - self._taken and outer:
                        self.equal[found.name] = found, key
                        return True
        return False

    def _take_limit(self, condition: Scalar) -> bool:
        for name in columns_in(condition) & self.inner - self.equal.keys():
            found = bound_on(condition, name)
            if found is None or not self.inner.isdisjoint(columns_in(found.bound.scalar)):
                continue
            taken = self.lower if found.below else self.upper
            if taken is not None or (self.ordered is not None and self.ordered.name != name):
                return False
            self.ordered = next(c for c in walk(condition) if isinstance(c, Column) and c.name == name)
            if found.below:
                self.lower = found.bound
            else:
                self.upper = found.bound
            return True
        return False


def _results(aggregate: Aggregate, numbers: Sequence[Scalar]) -> dict[str, Scalar]:
    """The value of each aggregate, from the numbers of all of them."""
    weight, *sums = numbers
    results = {}
    for call in aggregate.aggregates:
        own = len(partial_sums(call))
        results[call.name] = finalize(call, sums[:own], weight)
        sums = sums[own:]
    return results


def unified(query: CalculusQuery) -> CalculusQuery:
    """The query with one variable for columns of different atoms that are said to be equal.

    An equality that would give an atom the same variable twice stays a condition, and so does one of unlike types.
    """
    owners = {name: {atom.alias} for atom in query.atoms for name in atom.variables}
    same: dict[str, str] = {}
    left_over = []
    for condition in query.conditions:
        pair = _equal_columns(condition, same, owners)
        if pair is None:
            left_over.append(condition)
            continue
        one, other = pair
        owners[one] |= owners.pop(other)
        same = {name: one if to == other else to for name, to in same.items()} | {other: one}
    fields = {
        v: Column(v, f.type, f.nullable) for a in query.atoms for f, v in zip(a.columns, a.variables, strict=True)
    }
    atoms = tuple(replace(a, variables=tuple(same.get(name, name) for name in a.variables)) for a in query.atoms)
    values = {name: fields[to] for name, to in same.items()}
    return renamed(replace(query, atoms=atoms, conditions=tuple(left_over)), values)


def _equal_columns(
    condition: Scalar, same: Mapping[str, str], owners: Mapping[str, Set[str]]
) -> tuple[str, str] | None:
    match condition:
        case Call(function="eq", arguments=(Column() as left, Column() as right)) if (
            left.type == right.type and indexable(left)
        ):
            one, other = same.get(left.name, left.name), same.get(right.name, right.name)
            if one in owners and other in owners and owners[one].isdisjoint(owners[other]):
                return one, other
    return None
