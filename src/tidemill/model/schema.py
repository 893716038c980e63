"""Tables and streams as users declare them: fields, keys and constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidemill.model.coerce import RowConverter, row_coercer
from tidemill.model.types import BIGINT, INT, Field

WEIGHT = "_weight"
"""The name under which a row's weight travels in Arrow tables, frames and files."""

LARGEST_WEIGHT = (1 << 63) - 1
"""The greatest weight: weights are 64-bit integers, and so are their sums."""

EPOCH = "_epoch"
"""The name under which the epoch of a change travels in files and feeds."""

RelationFields = Mapping[str, tuple[Field, ...]]
"""The columns of each relation, by its name."""


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """``CONSTRAINT name CHECK (text)``: no row of the table may make the condition false; NULL is as good as true.

    One that is not ``enforced`` only informs; with ``rely`` plans may take it for granted.
    """

    name: str
    text: str
    enforced: bool = True
    rely: bool = False


@dataclass(frozen=True, slots=True)
class UniqueConstraint:
    """``UNIQUE (columns)``: no two rows agree there; a row with a NULL among them agrees with none.

    One that is not ``enforced`` only informs; with ``rely`` plans may take it for granted.
    """

    columns: tuple[str, ...]
    name: str = ""
    enforced: bool = True
    rely: bool = False


@dataclass(frozen=True, slots=True)
class ReferentialConstraint:
    """A foreign key: ``columns`` of this table name a row of ``table`` by ``referenced``, or by its primary key.

    A row with a NULL among ``columns`` names nothing (MATCH SIMPLE). One that is not ``enforced`` only informs; with
    ``rely`` plans may take it for granted.
    """

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]
    name: str = ""
    enforced: bool = True
    rely: bool = False


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partitioning of a relation by time: a row is in the partition of length ``every`` that ``column`` falls into,
    which is so many microseconds, or calendar months (see ``partition_lengths``).

    Partitions are numbered from 1970 on, so those of different lengths agree on where they begin. If the column is
    ``added``, it is the first instant of the partition and not a column of the rows themselves: readers by partitions
    do not see it.

    The *head* is the last partition that has received a row. Changes of partitions that lie more than ``lateness``
    microseconds before it are late (see ``late_table``), and rows more than ``retain`` before it are forgotten; None is
    unlimited. If these are not whole partitions, or there are none (``every`` is 0), the head is the latest time of a
    row, and each change is judged by its own time.

    Where the column ``source`` names the source of a row, each source has a head of its own, by which its changes are
    late; what lies more than ``retain`` behind the head of the table is late in any case.
    """

    column: str
    every: int
    added: bool = False
    lateness: int | None = None
    retain: int | None = None
    source: str = ""

    @property
    def is_cut(self) -> bool:
        """True if there are partitions, rather than bounds of late changes alone."""
        return self.every != 0

    @property
    def head_unit(self) -> int:
        """The length of what heads count: partitions, or microseconds.

        >>> Partitioning("ts", 60, lateness=120).head_unit, Partitioning("ts", 60, lateness=90).head_unit
        (60, 1)
        """
        whole = self.every > 0 and not any((bound or 0) % self.every for bound in (self.lateness, self.retain))
        return self.every if whole else 1


@dataclass(frozen=True)
class Table:
    """A base relation. A *stream* is a table whose rows are not kept (``kept`` is false).

    One with a ``partitioning`` can be read by partitions. From one that is ``append_only`` no row is ever deleted, and
    none is updated; rows that are forgotten (RETAIN) are no deletions.
    """

    name: str
    fields: tuple[Field, ...]
    primary_key: tuple[str, ...] = ()
    references: tuple[ReferentialConstraint, ...] = field(default=())
    kept: bool = True
    partitioning: Partitioning | None = None
    checks: tuple[CheckConstraint, ...] = ()
    append_only: bool = False
    defaults: tuple[tuple[str, str], ...] = ()
    """Columns with the text of their DEFAULT, which INSERT and UPDATE give where no value is."""
    uniques: tuple[UniqueConstraint, ...] = ()

    @property
    def checks_rows(self) -> bool:
        """True if a row can be invalid by itself, beyond the types of its values and NULLs."""
        return any(check.enforced for check in self.checks) or any(f.length is not None for f in self.fields)

    @property
    def forgets(self) -> bool:
        """True if rows are kept at first and forgotten later: views treat it as a stream."""
        return self.kept and self.partitioning is not None and self.partitioning.retain is not None

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Positions of the primary key's columns in a row."""
        names = names_of(self.fields)
        return tuple(names.index(column) for column in self.primary_key)

    @cached_property
    def row_converter(self) -> RowConverter:
        """The conversion of a row as users give it to internal values (see ``coerce``)."""
        return row_coercer(self.fields, self.name)


LATE = "_late"
"""Suffix of the name of the table of late changes."""

CHANGE, WHEN = "change", "epoch"
"""The additional columns of a late change: +1 or -1, and its epoch."""


def late_table(table: Table) -> Table | None:
    """The table that takes the late changes of ``table``, if they may be late at all.

    >>> from tidemill.model.types import TIMESTAMP
    >>> late = late_table(Table("s", (Field("ts", TIMESTAMP),), partitioning=Partitioning("ts", 60, lateness=120)))
    >>> late.name, names_of(late.fields)
    ('s_late', ('ts', 'change', 'epoch'))
    """
    if table.partitioning is None or table.partitioning.lateness is None:
        return None
    added = (Field(CHANGE, INT, nullable=False), Field(WHEN, BIGINT, nullable=False))
    return Table(table.name + LATE, (*table.fields, *added))


def names_of(fields: Iterable[Field]) -> tuple[str, ...]:
    """The field names, in order."""
    return tuple(f.name for f in fields)
