"""The same relation under other column names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project
from tidemill.model.types import Field


def rename(relation: Relation, names: Sequence[str]) -> Relation:
    """``relation`` with its columns called ``names``, by a projection; itself where they are called so already.

    >>> from tidemill.algebra.relational.relations import Values
    >>> from tidemill.model.types import INT, Field
    >>> [f.name for f in rename(Values((), (Field("a", INT),)), ["b"]).fields]
    ['b']
    """
    if [f.name for f in relation.fields] == list(names):
        return relation
    return Project(relation, tuple(Named(name, column(f)) for name, f in zip(names, relation.fields, strict=True)))


def fresh(name: str, taken: Collection[str]) -> str:
    """``name``, or the first of ``name_2``, ``name_3`` ... that is not taken.

    >>> fresh("o", {"o", "o_2"})
    'o_3'
    """
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def short(fields: Sequence[Field]) -> list[str]:
    """Column names for a stage's output: ``amount`` for ``o.amount`` where that is still clear."""
    names: list[str] = []
    for field in fields:
        qualifier, _, name = field.name.rpartition(".")
        names.append(fresh(name if qualifier.isidentifier() and name.isidentifier() else field.name, names))
    return names
