"""Filters and projections above a grouping, as one select list and one condition over its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Repeat
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.model.types import Field
from tidemill.program.stages import GroupEmission


@dataclass(frozen=True, slots=True)
class PostAggregation:
    """Select list, condition and repetition above a grouping, all over its columns."""

    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    times: Scalar | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that come out."""
        return tuple(output.field for output in self.outputs)

    @property
    def columns_read(self) -> set[str]:
        """The columns of the grouping that are read."""
        scalars = (*(output.scalar for output in self.outputs), self.condition, self.times)
        return {name for scalar in scalars if scalar is not None for name in columns_in(scalar)}

    def over(self, values: Mapping[str, Scalar]) -> PostAggregation:
        """The same with expressions in place of columns of the grouping."""
        return PostAggregation(
            tuple(Named(o.name, substitute(o.scalar, values)) for o in self.outputs),
            None if self.condition is None else substitute(self.condition, values),
            None if self.times is None else substitute(self.times, values),
        )

    def finish(self, source: str) -> GroupEmission:
        """The rows of the map ``source``."""
        return GroupEmission(source, self.outputs, self.condition, times=self.times)


def split_post_aggregation(relation: Relation) -> tuple[PostAggregation, Relation]:
    """The filters and projections above a grouping, and the grouping itself."""
    if not isinstance(relation, Filter | Project | Repeat):
        return PostAggregation(tuple(Named(f.name, column(f)) for f in relation.fields)), relation
    above, node = split_post_aggregation(relation.input)
    values = {output.name: output.scalar for output in above.outputs}
    match relation:
        case Filter():
            added = substitute(relation.condition, values)
            condition = conjunction([*([] if above.condition is None else [above.condition]), added])
            return replace(above, condition=condition), node
        case Project():
            outputs = tuple(Named(o.name, substitute(o.scalar, values)) for o in relation.outputs)
            return replace(above, outputs=outputs), node
        case Repeat():
            assert above.times is None, "rows are repeated once"
            return replace(above, times=substitute(relation.times, values)), node
        case _:
            assert_never(relation)
