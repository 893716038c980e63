"""Short aliases in place of the ids of steps, once the steps of a statement are ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.viewlets.plans import EventStep
from tidemill.compiler.viewlets.plans import PlanStep as Planned
from tidemill.compiler.viewlets.ring_calculus.queries import MARK
from tidemill.program.statements import ArrayLoop, MapRead, MapSeek, Query, Range, RangeBound, RelationLoop, Step


def named(query: Query, steps: Sequence[Planned]) -> Query:
    """The query with short aliases in place of ids."""
    aliases: dict[str, str] = {}
    for step in steps:
        name = step.alias if isinstance(step, EventStep) else step.view.name.rpartition(":")[2]
        aliases[step.id] = fresh(name, aliases.values())
    naming = _Naming(aliases)
    return Query(
        tuple(map(naming.step, query.sources)),
        tuple(Named(output.name, naming.scalar(output.scalar)) for output in query.outputs),
        tuple(map(naming.scalar, query.filters)),
        None if query.weight is None else naming.scalar(query.weight),
    )


@dataclass(frozen=True, slots=True)
class _Naming:
    """Renames steps and the columns that expressions read of them."""

    aliases: Mapping[str, str]

    def scalar(self, scalar: Scalar) -> Scalar:
        def renamed(node: Scalar) -> Scalar:
            if not isinstance(node, Column):
                return node
            id_, _, name = node.name.rpartition(MARK)
            return replace(node, name=f"{self.aliases[id_]}.{name}")

        return transform(scalar, renamed)

    def step(self, step: Step) -> Step:
        alias, filters = self.aliases[step.alias], tuple(map(self.scalar, step.filters))
        lookup = tuple((name, self.scalar(key)) for name, key in step.lookup)
        match step:
            case RelationLoop():
                return replace(step, alias=alias, lookup=lookup, filters=filters)
            case MapRead():
                ends = step.range and Range(step.range.column, *map(self._bound, (step.range.lower, step.range.upper)))
                return replace(step, alias=alias, lookup=lookup, filters=filters, range=ends)
            case MapSeek():
                condition = self.scalar(step.condition)
                return replace(step, alias=alias, lookup=lookup, filters=filters, condition=condition)
            case ArrayLoop():
                return replace(step, alias=alias, array=self.scalar(step.array), filters=filters)
            case _:
                assert_never(step)

    def _bound(self, bound: RangeBound | None) -> RangeBound | None:
        return None if bound is None else RangeBound(self.scalar(bound.scalar), bound.closed)


def under(scalar: Scalar, before: str, after: str) -> Scalar:
    """``scalar`` with the columns of one id under another."""

    def renamed(node: Scalar) -> Scalar:
        if not isinstance(node, Column):
            return node
        id_, _, name = node.name.rpartition(MARK)
        return replace(node, name=f"{after}{MARK}{name}") if id_ == before else node

    return transform(scalar, renamed)
