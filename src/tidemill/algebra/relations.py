"""What a view means: frozen nodes, each a function from Z-sets to a Z-set.

Column names are unique within a node's output; a ``Scan`` prefixes them with its alias (``o.amount``), so two scans
of one table never clash and a join is plain concatenation. The meaning of each node is in ``algebra.evaluate``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tidemill.algebra.aggregates import AggregateCall
from tidemill.algebra.scalars import Named, Scalar
from tidemill.model.types import Field


@dataclass(frozen=True, slots=True)
class Relation(ABC):
    """A node of the algebra."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The columns of the result."""


@dataclass(frozen=True, slots=True)
class Scan(Relation):
    """The rows of a table, stream or view; ``columns`` are its fields as declared."""

    relation: str
    alias: str
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(f"{self.alias}.{f.name}", f.type, f.nullable) for f in self.columns)


@dataclass(frozen=True, slots=True)
class Change(Relation):
    """What an epoch adds to and takes from ``relation``: the leaf that ``compiler.derive`` puts in place of a scan."""

    relation: str
    alias: str
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(f"{self.alias}.{f.name}", f.type, f.nullable) for f in self.columns)

    @property
    def source(self) -> str:
        """The name under which ``algebra.evaluate`` finds the change among its tables."""
        return f"change of {self.relation}"


@dataclass(frozen=True, slots=True)
class Values(Relation):
    """Constant rows, each once. ``Values(((),), ())`` is the one empty row that ``SELECT 1`` reads."""

    rows: tuple[tuple[object, ...], ...]
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows for which ``condition`` is true (neither false nor NULL)."""

    input: Relation
    condition: Scalar

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Project(Relation):
    """Each row computed anew; weights of rows that become equal add up."""

    input: Relation
    outputs: tuple[Named, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(output.field for output in self.outputs)


@dataclass(frozen=True, slots=True)
class Join(Relation):
    """Pairs of rows for which ``condition`` is true, with the product of their weights; without one, all pairs."""

    left: Relation
    right: Relation
    condition: Scalar | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields + self.right.fields


@dataclass(frozen=True, slots=True)
class UnionAll(Relation):
    """The sum of the inputs, column by position; names and types are those of the first."""

    inputs: tuple[Relation, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        first, *rest = (relation.fields for relation in self.inputs)
        nullable = [any(fields[i].nullable for fields in (first, *rest)) for i in range(len(first))]
        return tuple(Field(f.name, f.type, n) for f, n in zip(first, nullable, strict=True))


@dataclass(frozen=True, slots=True)
class Aggregate(Relation):
    """One row for each group of equal keys (NULLs are equal). With no keys there is always exactly one row."""

    input: Relation
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(key.field for key in self.keys) + tuple(call.field for call in self.aggregates)


@dataclass(frozen=True, slots=True)
class Distinct(Relation):
    """Every row of positive weight, once."""

    input: Relation

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields
