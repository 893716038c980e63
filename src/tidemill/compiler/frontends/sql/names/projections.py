"""Projections that keep, narrow or convert the columns of a relation."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project
from tidemill.algebra.relational.walk import columns_in
from tidemill.model.types import Type


def all_columns(relation: Relation) -> list[Named]:
    """All columns of ``relation`` as they are."""
    return [Named(f.name, column(f)) for f in relation.fields]


def project_to(relation: Relation, shown: Sequence[Scalar]) -> Relation:
    """``relation`` with the columns that are read, in the order in which they are; with one at least."""
    places = {f.name: place for place, f in enumerate(relation.fields)}
    names = dict.fromkeys(
        n for scalar in shown for n in sorted(columns_in(scalar) & places.keys(), key=places.__getitem__)
    )
    kept = [relation.fields[places[name]] for name in names] or list(relation.fields[:1])
    if kept == list(relation.fields):
        return relation
    return Project(relation, tuple(Named(f.name, column(f)) for f in kept))


def cast_columns(relation: Relation, types: list[Type], names: list[str]) -> Relation:
    """``relation`` with its columns converted to ``types`` and called ``names``."""
    if [(f.name, f.type) for f in relation.fields] == list(zip(names, types, strict=True)):
        return relation
    columns = zip(relation.fields, types, names, strict=True)
    return Project(relation, tuple(Named(name, convert(column(f), of)) for f, of, name in columns))
