"""The nodes that views are made of: frozen, each a function from Z-sets to a Z-set.

Column names are unique within a node's output; a ``Scan`` prefixes them with its alias (``o.amount``), so two scans
of one table never clash and a join is plain concatenation. The meaning of each node is in ``algebra.evaluate``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.node import Relation, memoized
from tidemill.algebra.relational.windows import WindowCall
from tidemill.model.types import Field


@dataclass(frozen=True, slots=True)
class Unary(Relation):
    """A node over one input; its columns are those of the input by default."""

    input: Relation

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Binary(Relation):
    """A node over two inputs; its columns are those of the left one by default."""

    left: Relation
    right: Relation

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@dataclass(frozen=True, slots=True)
class Scan(Relation):
    """The rows of a table, stream or view; ``columns`` are its fields as declared. An empty alias is no prefix."""

    relation: str
    alias: str
    columns: tuple[Field, ...]

    @property
    @memoized
    def fields(self) -> tuple[Field, ...]:
        if not self.alias:
            return self.columns
        return tuple(Field(f"{self.alias}.{f.name}", f.type, f.nullable, char=f.char) for f in self.columns)


@dataclass(frozen=True, slots=True)
class Change(Relation):
    """The change of ``relation`` in an epoch: the leaf that ``compiler.delta.derive`` puts in place of a scan."""

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

    @property
    def has_one_row(self) -> bool:
        return len(self.rows) == 1


@dataclass(frozen=True, slots=True)
class Filter(Unary):
    """The rows for which ``condition`` is true (neither false nor NULL)."""

    condition: Scalar


@dataclass(frozen=True, slots=True)
class Project(Unary):
    """Each row replaced by computed columns; weights of rows that become equal add up."""

    outputs: tuple[Named, ...]

    @property
    @memoized
    def fields(self) -> tuple[Field, ...]:
        return tuple(output.field for output in self.outputs)

    @property
    def has_one_row(self) -> bool:
        return self.input.has_one_row


@dataclass(frozen=True, slots=True)
class Join(Binary):
    """Pairs of rows for which ``condition`` is true, with the product of their weights; without one, all pairs."""

    condition: Scalar | None = None

    @property
    @memoized
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields + self.right.fields

    @property
    def has_one_row(self) -> bool:
        return self.condition is None and self.left.has_one_row and self.right.has_one_row


@dataclass(frozen=True, slots=True)
class OuterJoin(Binary):
    """The pairs of a join, and each row of a preserved side without a partner, with NULLs for the other side."""

    condition: Scalar | None
    keeps_left: bool
    keeps_right: bool

    @property
    @memoized
    def fields(self) -> tuple[Field, ...]:
        left = (replace(f, nullable=f.nullable or self.keeps_right) for f in self.left.fields)
        right = (replace(f, nullable=f.nullable or self.keeps_left) for f in self.right.fields)
        return (*left, *right)


@dataclass(frozen=True, slots=True)
class Unnest(Unary):
    """Each row once for each element of ``array``, which is appended as the last column, its position before it.

    ``columns`` are the element, or the position (an INT counted from 0) and the element. With ``outer`` a row whose
    array is empty or NULL is preserved, with NULLs.
    """

    array: Scalar
    columns: tuple[Field, ...]
    outer: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields + self.columns


@dataclass(frozen=True, slots=True)
class UnionAll(Relation):
    """The sum of the inputs, column by position; names and types are those of the first."""

    inputs: tuple[Relation, ...]

    @property
    @memoized
    def fields(self) -> tuple[Field, ...]:
        first, *rest = (relation.fields for relation in self.inputs)
        nullable = [any(fields[i].nullable for fields in (first, *rest)) for i in range(len(first))]
        return tuple(Field(f.name, f.type, n, char=f.char) for f, n in zip(first, nullable, strict=True))


@dataclass(frozen=True, slots=True)
class Aggregate(Unary):
    """One row for each group of equal keys (NULLs are equal). With no keys there is always exactly one row."""

    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]

    @property
    @memoized
    def fields(self) -> tuple[Field, ...]:
        return tuple(key.field for key in self.keys) + tuple(map(aggregate_field, self.aggregates))

    @property
    def has_one_row(self) -> bool:
        return not self.keys


@dataclass(frozen=True, slots=True)
class Distinct(Unary):
    """Every row of positive weight, once."""

    @property
    def has_one_row(self) -> bool:
        return self.input.has_one_row


@dataclass(frozen=True, slots=True)
class Intersect(Binary):
    """The rows of both inputs, column by position: with the smaller of both multiplicities, or once."""

    all: bool


@dataclass(frozen=True, slots=True)
class Except(Binary):
    """The rows of ``left`` minus those of ``right``: with the difference of multiplicities, or once if ``right`` has
    none."""

    all: bool


@dataclass(frozen=True, slots=True)
class Repeat(Unary):
    """Each row ``times`` times, a BIGINT; none if that is not positive."""

    times: Scalar


@dataclass(frozen=True, slots=True)
class TopK(Unary):
    """Of the rows of each partition, in order, ``limit`` after the first ``offset``.

    A row of weight n occurs n times in the order, and rows that are equal in ``order`` are ordered by their columns,
    from left to right, NULLs first: so the answer is unique. ``ties`` adds the rows that are equal in ``order`` to the
    last one (``RANK() <= limit``).
    """

    partition: tuple[Scalar, ...]
    order: tuple[SortOrder, ...]
    limit: int | None
    offset: int = 0
    ties: bool = False


@dataclass(frozen=True, slots=True)
class Window(Unary):
    """Each row followed by the values of window functions (see ``algebra.relational.windows``).

    Partitions and their order are those of ``TopK``.
    """

    partition: tuple[Scalar, ...]
    order: tuple[SortOrder, ...]
    calls: tuple[WindowCall, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields + tuple(call.field for call in self.calls)


@dataclass(frozen=True, slots=True)
class With(Relation):
    """``body``, where the rows of each of ``definitions`` are a relation of that name, also for later definitions.

    A subquery with many uses is stored once, so that a query is as long as its text.
    """

    definitions: tuple[tuple[str, Relation], ...]
    body: Relation

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.body.fields


DEFAULT_LEVELS = 100
"""Number of iterations of a recursion with UNION ALL that may find rows, as in Spark, unless the query has another."""

DISTINCT_LEVELS = 10_000
"""Number of iterations of a recursion with UNION that may find rows: it ends on cycles, and Spark does not have it."""


@dataclass(frozen=True, slots=True)
class Recursive(Relation):
    """The rows that ``base`` and then repeatedly ``step`` find: ``step`` scans those last found as ``name``.

    With ``distinct`` only rows that were not found before are new, so that it ends on cycles, and each counts once.
    Columns are those of ``base``. ``levels`` iterations may find rows, of which the base is the first; that more do is
    an error, unless ``enough`` rows have been found by then.
    """

    name: str
    base: Relation
    step: Relation
    distinct: bool
    levels: int = DEFAULT_LEVELS
    enough: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        pairs = zip(self.base.fields, self.step.fields, strict=True)
        return tuple(replace(one, nullable=one.nullable or two.nullable) for one, two in pairs)
