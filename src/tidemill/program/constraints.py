"""Constraints as runtimes enforce them: conditions of single rows, unique columns, and foreign keys between tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model.schema import CheckConstraint, ReferentialConstraint, Table, UniqueConstraint, names_of

__all__ = ["CheckCondition", "Constraints", "ForeignKey", "UniqueKey"]

ColumnIndexes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CheckCondition:
    """A CHECK of ``table``: ``scalar`` may not be false of any row; it reads columns by their bare names."""

    table: Table
    check: CheckConstraint
    scalar: Scalar


@dataclass(frozen=True, eq=False)
class ForeignKey:
    """A foreign key from ``child`` to the primary key of ``parent``; both are kept. They may be one table.

    The columns correspond by position, in the order of the parent's primary key. ``absent`` means that the parent table
    does not exist yet: nothing can be referenced.
    """

    child: Table
    reference: ReferentialConstraint
    parent: Table
    absent: bool = False

    @cached_property
    def child_places(self) -> ColumnIndexes:
        """Positions of the referring columns in a row of the child."""
        to = self.reference.referenced or self.parent.primary_key
        by_target = dict(zip(to, self.reference.columns, strict=True))
        names = names_of(self.child.fields)
        return tuple(names.index(by_target[column]) for column in self.parent.primary_key)

    @cached_property
    def parent_places(self) -> ColumnIndexes:
        """Positions of the primary key in a row of the parent."""
        return self.parent.key_positions

    @property
    def child_columns(self) -> tuple[str, ...]:
        """The referring columns."""
        return tuple(self.child.fields[place].name for place in self.child_places)


@dataclass(frozen=True, eq=False)
class UniqueKey:
    """Columns of ``table``, which is kept, in which no two rows are equal; NULL equals nothing."""

    table: Table
    constraint: UniqueConstraint

    @cached_property
    def places(self) -> ColumnIndexes:
        """Positions of the columns in a row."""
        names = names_of(self.table.fields)
        return tuple(names.index(column) for column in self.constraint.columns)


@dataclass(frozen=True)
class Constraints:
    """All constraints that a warehouse enforces: conditions and unique columns by table, and foreign keys by each of
    their two tables."""

    conditions: Mapping[str, tuple[CheckCondition, ...]] = field(default_factory=dict)
    keys: Mapping[str, tuple[ForeignKey, ...]] = field(default_factory=dict)
    uniques: Mapping[str, tuple[UniqueKey, ...]] = field(default_factory=dict)

    def touch(self, tables: Collection[str]) -> bool:
        """True if a change of ``tables`` can violate a constraint."""
        if not (self.conditions or self.keys or self.uniques):
            return False
        return any(table in some for table in tables for some in (self.conditions, self.keys, self.uniques))

    def uniques_of(self, tables: Collection[str]) -> list[UniqueKey]:
        """The unique columns of all of ``tables``."""
        return [key for table in tables for key in self.uniques.get(table, ())]

    def conditions_of(self, table: str) -> tuple[CheckCondition, ...]:
        """The conditions of the rows of ``table``."""
        return self.conditions.get(table, ())

    def keys_of(self, tables: Collection[str]) -> list[ForeignKey]:
        """The foreign keys from or to any of ``tables``, each once."""
        return list(dict.fromkeys(key for table in tables for key in self.keys.get(table, ())))
