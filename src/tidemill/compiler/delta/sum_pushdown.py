"""Sums pushed down to the members of a join, whose maps then hold sums besides keys (GraphIVM's extended tuples).

``SUM(t.likes)`` over followers and their tweets is the sum of likes of each user's tweets times the number of
followers. So the member ``t`` stores that sum and its count, and ``likes`` is no key of its map. A value is pushed down
if its sums are exact (a product of sums is then the sum of products), if it cannot fail (it is also computed for rows
without partners) and if it reads one member alone; and only if some column is needed for nothing else. NULL adds
nothing in either place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.blocks import QueryBlock
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.analysis.ring import is_ring, times
from tidemill.compiler.delta.nested_loops import narrow
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


def push_down(block: QueryBlock, target: Map | None) -> dict[str, tuple[MemberSum, ...]]:
    """The values of ``block``, which adds to ``target``, that single leaves can sum up."""
    if target is None or not all(is_ring(value.type) for value in target.values):
        return {}
    keys, values = block.outputs[: len(target.keys)], block.outputs[len(target.keys) :]
    alone = {
        output.scalar: (alias, value)
        for output, value in zip(values, target.values, strict=True)
        for alias in _alone(output.scalar, block)
    }
    others = [output.scalar for output in (*keys, *values) if output in keys or output.scalar not in alone]
    others += [condition.scalar for condition in block.conditions if len(condition.needs) != 1]
    kept = {name for scalar in others for name in columns_in(scalar)}
    found: dict[str, tuple[MemberSum, ...]] = {}
    for scalar, (alias, value) in alone.items():
        if not columns_in(scalar) <= kept:
            before = found.get(alias, ())
            found[alias] = (*before, MemberSum(RingField(_name(block, alias, len(before)), value.type), scalar))
    return found


def _alone(scalar: Scalar, block: QueryBlock) -> Iterator[str]:
    """The one leaf that a value reads, if it can be summed up there."""
    owners = block.aliases
    read = {owners.get(name) for name in columns_in(scalar)}
    if len(read) == 1 and is_ring(scalar.type) and not may_fail(scalar):
        yield from (alias for alias in read if alias is not None)


def _name(block: QueryBlock, alias: str, number: int) -> str:
    """A name for a sum that does not depend on the alias, so that equal members can share a map."""
    columns = next(leaf.columns for leaf in block.leaves if leaf.alias == alias)
    return fresh(f"sum_{number}", {f.name.partition(".")[0] for f in columns})


def column_of(alias: str, sum_: MemberSum) -> Column:
    """A sum as queries see it."""
    return Column(f"{alias}.{sum_.value.name}", sum_.value.type, nullable=False)


def with_sums(query: Query, keys: int, sums: MemberSums) -> Query:
    """``query`` reading the sums that members hold, in place of what they sum up; its first ``keys`` outputs are keys.

    A sum is already multiplied by the count of its member, so the query multiplies each amount on its own.
    """
    held = [step for step in query.sources if _is_state(step) and step.alias in sums]
    found = {sum_.scalar: (step.alias, sum_) for step in held for sum_ in sums[step.alias]}
    if not any(output.scalar in found for output in query.outputs[keys:]):
        return query
    weights = {step.alias: _weight(step) for step in query.sources}

    def amount(value: Scalar) -> Scalar:
        if value not in found:
            return _product(value, *weights.values())
        own, sum_ = found[value]
        others = (weight for alias, weight in weights.items() if alias != own)
        return _product(column_of(own, sum_), *others)

    outputs = (*query.outputs[:keys], *(Named(o.name, amount(o.scalar)) for o in query.outputs[keys:]))
    sources = tuple(_summing(step, sums) if step in held else step for step in query.sources)
    return narrow(replace(query, sources=sources, outputs=outputs, weight=_product(*weights.values())))


def _weight(step: Step) -> Scalar:
    return Column(f"{step.alias}.{WEIGHT}", BIGINT, nullable=False)


def _product(*factors: Scalar) -> Scalar:
    return reduce(times, factors)


def _is_state(step: Step) -> bool:
    return isinstance(step, RelationLoop) and step.version is Version.STATE


def _summing(step: Step, sums: MemberSums) -> Step:
    assert isinstance(step, RelationLoop)
    return replace(step, values=tuple(sum_.value for sum_ in sums[step.alias]))
