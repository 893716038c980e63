"""Groups over tables of a source, as partial sums that the source computes.

The source is asked for the number of rows of each group and for the sums that its aggregates need, and the rest of the
view adds these up. Columns of aggregates that no sum can replace, such as MIN, become columns of the groups: each
value comes once. That is exact where all the others see no difference between one row and many equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_type, finalize, function_of, partial_sums
from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Project
from tidemill.algebra.relational.walk import subqueries
from tidemill.compiler.analysis.failures import may_fail
from tidemill.model import types as t
from tidemill.model.types import BIGINT, Field, Type
from tidemill.sources.remote_queries.group_sums import sum_type

__all__ = ["PartialGroups", "partial_groups"]

_SUMS = frozenset({"count", "sum", "avg"})
_ONCE = frozenset({"min", "max"})
_WIDEST = 27
"""Digits of a DECIMAL up to which sums of 10 ** 11 rows fit 38 digits."""


@dataclass(frozen=True)
class PartialGroups:
    """The groups that a source is asked for: their columns, and the sums over their rows."""

    node: Aggregate
    outputs: tuple[Named, ...]
    sums: tuple[Named, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the groups, of the number of rows, and of the sums."""
        numbers = [Field("rows", BIGINT, nullable=False)]
        numbers += [Field(one.name, sum_type(one.scalar.type), nullable=False) for one in self.sums]
        return (*(output.field for output in self.outputs), *numbers)

    def total(self, groups: Relation) -> Relation:
        """The relation of the aggregates, given one of the rows of the groups, whose columns are ``fields``."""
        at = dict(zip([f.name for f in self.fields], map(column, groups.fields), strict=True))
        keys = tuple(Named(key.name, at[f"key_{i}"]) for i, key in enumerate(self.node.keys))
        names = {name: f"{groups.fields[0].name}.{name}" for name in ("rows", *(one.name for one in self.sums))}
        sums = [
            AggregateCall(new, "sum", at[name], aggregate_type("sum", at[name].type)) for name, new in names.items()
        ]
        others = [self._over(call, at) for call in self.node.aggregates if call.function not in _SUMS]
        added = Aggregate(groups, keys, (*sums, *others))
        found = {field.name: column(field) for field in added.fields}
        totals = {name: _or_nothing(found[new]) for name, new in names.items()}
        values = [Named(call.name, self._value(call, totals, found)) for call in self.node.aggregates]
        return Project(added, (*(Named(key.name, found[key.name]) for key in self.node.keys), *values))

    def _value(self, call: AggregateCall, totals: dict[str, Scalar], found: dict[str, Column]) -> Scalar:
        if call.function not in _SUMS:
            return found[call.name]
        names = {one.scalar: one.name for one in self.sums}
        return finalize(call, [totals[names[part.argument]] for part in partial_sums(call)], totals["rows"])

    def _over(self, call: AggregateCall, at: dict[str, Column]) -> AggregateCall:
        names = {output.scalar: output.name for output in self.outputs}
        return call.over(iter([at[names[scalar]] for scalar in call.scalars]))


def partial_groups(node: Aggregate) -> PartialGroups | None:
    """The groups to ask for in place of the rows of ``node``; None if these rows are needed, or are as few."""
    if any(map(subqueries, _scalars(node))) or any(map(may_fail, _scalars(node))):
        return None
    if not all(_is_summed(call) or call.function in _ONCE for call in node.aggregates):
        return None
    sums = {part.argument: part for call in node.aggregates if _is_summed(call) for part in partial_sums(call)}
    if not sums:
        return None  # COUNT(*) is the weight of a row
    outputs = {key.scalar: Named(f"key_{i}", key.scalar) for i, key in enumerate(node.keys)}
    given = tuple(Named(f"key_{i}", key.scalar) for i, key in enumerate(node.keys))
    others = [scalar for call in node.aggregates if not _is_summed(call) for scalar in call.scalars]
    for scalar in others:
        outputs.setdefault(scalar, Named(f"value_{len(outputs)}", scalar))
    extra = tuple(output for output in outputs.values() if output.name.startswith("value_"))
    named = tuple(Named(f"sum_{i}", argument) for i, argument in enumerate(sums))
    return PartialGroups(node, (*given, *extra), named)


def _is_summed(call: AggregateCall) -> bool:
    """True if a call is computed from sums that are exact whoever adds them up."""
    if call.function not in _SUMS or call.distinct or call.others or call.order:
        return False
    counts = not function_of(call).nullable
    return counts or (call.argument is not None and _is_exact(call.argument.type))


def _is_exact(of: Type) -> bool:
    return isinstance(of, t.Integral) or (isinstance(of, t.Decimal) and of.precision <= _WIDEST)


def _scalars(node: Aggregate) -> list[Scalar]:
    return [*(key.scalar for key in node.keys), *(scalar for call in node.aggregates for scalar in call.scalars)]


def _or_nothing(total: Scalar) -> Scalar:
    """A sum of numbers that are never NULL: over no rows it is nothing."""
    none = Literal(Decimal(0).scaleb(-total.type.scale) if isinstance(total.type, t.Decimal) else 0, total.type)
    return Call("coalesce", (total, none), total.type)
