"""Classes of joins, by which the cost of keeping them is bounded, and foreign keys by which parts of them are empty.

EXPLAIN shows them; runtimes do not read them.

The *variables* of a join are its columns, those that equalities make equal being one; its *atoms* are the relations,
each with its variables, and its *head* are the variables that come out: the columns of a SELECT, or of a GROUP BY.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class JoinClass(Enum):
    """The classes of joins, each contained in the next."""

    Q_HIERARCHICAL = "q-hierarchical"
    FREE_CONNEX = "free-connex"
    ACYCLIC = "acyclic"
    CYCLIC = "cyclic"


class DegreeRole(Enum):
    """The role of a stage in a join of relations that are kept in parts, by how many of their rows share a value.

    The threshold is one row, which changes once in about as many changes as there are rows. A partition is one of the
    relations with a column that says if a value is heavy. The rows of both follow from the order of all changes, and
    not from the contents of their inputs alone. A triangle is the join.
    """

    THRESHOLD = "threshold"
    PARTITION = "partition"
    TRIANGLE = "triangle"


@dataclass(frozen=True, slots=True)
class ClassifiedJoin:
    """A join of the relations ``aliases``, and its class.

    ``by_keys``: only declared keys make it one of this class. ``triangle``: it is three relations, of which each two
    share a variable of their own. ``further``: it has conditions or results over several relations that are neither
    equalities nor sums of products, for which the class says nothing. ``bounded_below``: lower bounds are known for it.
    They are proven for joins that read no relation twice, and in which no relation has a key.
    """

    aliases: tuple[str, ...]
    kind: JoinClass
    by_keys: bool = False
    triangle: bool = False
    further: bool = False
    bounded_below: bool = True


@dataclass(frozen=True, slots=True)
class AppendedReference:
    """A foreign key of ``child`` to the primary key of ``parent``, a table that is APPEND ONLY.

    ``columns`` are pairs of a column of the child and one of the parent.
    """

    child: str
    parent: str
    columns: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        own = ", ".join(column for column, _ in self.columns)
        return (
            f"new rows of {self.parent} meet no row of {self.child}, by its foreign key ({own}): "
            f"{self.parent} is APPEND ONLY"
        )
