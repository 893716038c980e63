"""Sums pushed down to the members of a join, whose maps then hold sums besides keys (GraphIVM's extended tuples).

``SUM(t.likes)`` over followers and their tweets is the sum of likes of each user's tweets times the number of
followers, and ``SUM(f.x * t.y)`` the sum of ``x`` times that of ``y``. So the member ``t`` stores that sum and its
count, and ``likes`` is no key of its map. A value is pushed down if its sums are exact (a product of sums is then the
sum of products), if it cannot fail (it is also computed for rows without partners) and if it is a sum of products of
what single members have; and only if some column is needed for nothing else. NULL adds nothing in either place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.blocks import QueryBlock
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.analysis.ring import is_ring, plus, ring_type, times
from tidemill.compiler.delta.nested_loops import narrow
from tidemill.model import types
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT
from tidemill.program.maps import Map, RingField
from tidemill.program.statements import Query, RelationLoop, Step, Version


@dataclass(frozen=True, slots=True)
class MemberSum:
    """A sum that a member holds for each of its keys: ``scalar``, over its columns, as ``value`` of its map."""

    value: RingField
    scalar: Scalar


MemberSums = Mapping[str, tuple[MemberSum, ...]]
"""By alias, what the members sum up themselves."""

NO_SUMS: MemberSums = {}


@dataclass(frozen=True, slots=True)
class SumTerm:
    """``coefficient`` times one factor of each of some members, by alias; that of all others is their count."""

    coefficient: int
    factors: tuple[tuple[str, Scalar], ...]


Terms = tuple[SumTerm, ...]
TermsOf = Callable[[Scalar, Mapping[str, str]], Terms | None]
"""A value as a sum of products of factors that read one leaf each, given the alias of each column, if it is one."""


@dataclass(frozen=True, slots=True)
class PushedSums:
    """The sums of members, and for each value that can be computed from these the terms that make it up."""

    members: MemberSums
    values: Mapping[Scalar, Terms]


def push_down(block: QueryBlock, target: Map | None, terms_of: TermsOf | None) -> PushedSums:
    """The values of ``block``, which adds to ``target``, that are sums of products of what single leaves sum up.

    Without ``terms_of``, those that read a single leaf.
    """
    if target is None or not all(is_ring(value.type) for value in target.values):
        return PushedSums({}, {})
    keys, values = block.outputs[: len(target.keys)], block.outputs[len(target.keys) :]
    split = {o.scalar: terms for o in values if (terms := sum_terms(o.scalar, block, terms_of)) is not None}
    others = [output.scalar for output in (*keys, *values) if output in keys or output.scalar not in split]
    others += [condition.scalar for condition in block.conditions if len(condition.needs) != 1]
    kept = {name for scalar in others for name in columns_in(scalar)}
    found: dict[str, tuple[MemberSum, ...]] = {}
    for alias, factor in dict.fromkeys(pair for terms in split.values() for term in terms for pair in term.factors):
        if not columns_in(factor) <= kept:
            before = found.get(alias, ())
            field = RingField(_name(block, alias, len(before)), ring_type(factor.type))
            found[alias] = (*before, MemberSum(field, factor))
    return PushedSums(found, split)


def sum_terms(scalar: Scalar, block: QueryBlock, terms_of: TermsOf | None) -> Terms | None:
    """A value as terms: one, where it reads one leaf. A factor that can fail is computed where rows meet."""
    owners = block.aliases
    read = {owners.get(name) for name in columns_in(scalar)}
    if not is_ring(scalar.type) or None in read or not read:
        return None
    if len(read) == 1:
        return None if may_fail(scalar) else (SumTerm(1, ((next(filter(None, read)), scalar),)),)
    terms = None if terms_of is None else terms_of(scalar, owners)
    fails = terms is None or any(may_fail(factor) for term in terms for _, factor in term.factors)
    return None if fails else terms


def _name(block: QueryBlock, alias: str, number: int) -> str:
    """A name for a sum that does not depend on the alias, so that equal members can share a map."""
    columns = next(leaf.columns for leaf in block.leaves if leaf.alias == alias)
    return fresh(f"sum_{number}", {f.name.partition(".")[0] for f in columns})


def column_of(alias: str, sum_: MemberSum) -> Column:
    """A sum as queries see it."""
    return Column(f"{alias}.{sum_.value.name}", sum_.value.type, nullable=False)


def with_sums(query: Query, keys: int, pushed: PushedSums) -> Query:
    """``query`` reading the sums that members hold, in place of what they sum up; its first ``keys`` outputs are keys.

    A sum is already multiplied by the count of its member, so the query multiplies each amount on its own.
    """
    held = [step for step in query.sources if _is_state(step) and step.alias in pushed.members]
    sums = {
        (step.alias, sum_.scalar): column_of(step.alias, sum_) for step in held for sum_ in pushed.members[step.alias]
    }
    read = [pair for o in query.outputs[keys:] for term in pushed.values.get(o.scalar, ()) for pair in term.factors]
    if sums.keys().isdisjoint(read):
        return query
    weights = {step.alias: _weight(step) for step in query.sources}

    def product(term: SumTerm, *, counted: bool) -> Scalar:
        """One term; ``counted``: a factor that is NULL is 0, so that other terms still count."""
        numbers = [sums.get(pair) or (null_as_zero(pair[1]) if counted else pair[1]) for pair in term.factors]
        summed = {alias for alias, factor in term.factors if (alias, factor) in sums}
        others = (weight for alias, weight in weights.items() if alias not in summed)
        return _product(Literal(term.coefficient, BIGINT), *numbers, *others)

    def amount(value: Scalar) -> Scalar:
        terms = pushed.values.get(value)
        if terms is None:
            return _product(value, *weights.values())
        return reduce(plus, [product(term, counted=len(terms) > 1) for term in terms])

    outputs = (*query.outputs[:keys], *(Named(o.name, amount(o.scalar)) for o in query.outputs[keys:]))
    sources = tuple(_summing(step, pushed.members) if step in held else step for step in query.sources)
    return narrow(replace(query, sources=sources, outputs=outputs, weight=_product(*weights.values())))


def null_as_zero(factor: Scalar) -> Scalar:
    """A factor that is 0 where it is NULL."""
    zero = Literal(Decimal(0) if isinstance(factor.type, types.Decimal) else 0, factor.type)
    return call("coalesce", factor, zero) if is_nullable(factor) else factor


def _weight(step: Step) -> Scalar:
    return Column(f"{step.alias}.{WEIGHT}", BIGINT, nullable=False)


def _product(*factors: Scalar) -> Scalar:
    return reduce(times, factors)


def _is_state(step: Step) -> bool:
    return isinstance(step, RelationLoop) and step.version is Version.STATE


def _summing(step: Step, sums: MemberSums) -> Step:
    assert isinstance(step, RelationLoop)
    return replace(step, values=tuple(sum_.value for sum_ in sums[step.alias]))
