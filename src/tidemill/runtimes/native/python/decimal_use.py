"""Stages that compute no DECIMAL, which need no context in which decimals are exact."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Scalar
from tidemill.algebra.relational.walk import walk
from tidemill.model.types import Decimal
from tidemill.program.linearity import scalars_of
from tidemill.program.reads import queries_of, triggers_of
from tidemill.program.stages import GroupEmission, Stage

PLAIN_FUNCTIONS = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "is_not_null", "bigint_checked", "coalesce"}
)
"""Functions that compute nothing but truth values, or give one of their arguments."""


def may_compute_decimals(stage: Stage) -> bool:
    """False if all that changes of a stage compute are plain functions of other types than DECIMAL."""
    if not isinstance(stage.finish, GroupEmission | None) or (stage.finish and stage.finish.multiset_reads):
        return True
    if any(isinstance(value.type, Decimal) for map_ in stage.maps for value in map_.values):
        return True
    return not all(_is_plain(node) for scalar in _computed(stage) for node in walk(scalar))


def _computed(stage: Stage) -> Iterator[Scalar]:
    for trigger in triggers_of(stage):
        for statement in trigger.statements:
            for query in queries_of(statement):
                yield from scalars_of(query)
    if isinstance(stage.finish, GroupEmission):
        yield from (output.scalar for output in stage.finish.outputs)
        yield from (scalar for scalar in (stage.finish.condition, stage.finish.times) if scalar is not None)


def _is_plain(node: object) -> bool:
    match node:
        case Column() | Literal():
            return True
        case Call(function=name, arguments=arguments):
            return name in PLAIN_FUNCTIONS and not any(isinstance(one.type, Decimal) for one in arguments)
    return False
