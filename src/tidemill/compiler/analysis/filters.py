"""Filters around relations, where there may be no condition."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Scalar, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter
from tidemill.model.types import BOOLEAN


def filtered(relation: Relation, *conditions: Scalar | None) -> Relation:
    """The rows of ``relation`` for which all ``conditions`` are true; None is no condition."""
    condition = conjunction([one for one in conditions if one is not None])
    return relation if condition is None else Filter(relation, condition)


def without_nulls(relation: Relation, scalars: Sequence[Scalar]) -> Relation:
    """The rows of ``relation`` in which none of ``scalars`` is NULL."""
    tests = [Call("is_not_null", (scalar,), BOOLEAN) for scalar in scalars if is_nullable(scalar)]
    return filtered(relation, *tests)
