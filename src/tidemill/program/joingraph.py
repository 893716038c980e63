"""Join graphs: which maps of a stage hold the rows of which relation, and on which values they join.

A *member* is one relation of a join under one of its aliases. Its map holds *projected tuples*: the columns that the
join and the view use, with the number of rows that have them as the weight. The projected tuples of a member that agree
in all of its join columns are one *join tuple*, since they have the same join partners. A *vertex* is an equality
between two members; join tuples touch at its values. A *path* consists of join tuples that touch, one of each of some
members, and is complete with one of each member: then it is a row of the join, with the product of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidemill.algebra.expressions.scalars import Named, Scalar


class Serve(Enum):
    """The use of a view: its changes, its rows when it is read, or both."""

    SUBSCRIBE = "subscribe"
    READ = "read"
    BOTH = "both"


class Lookahead(Enum):
    """Knowledge of a join tuple before it is followed.

    ``LOCAL``: if it touches something at each of its vertices. ``GLOBAL``: if it leads to complete paths, as of the
    last time that it was followed.
    """

    NONE = "none"
    LOCAL = "local"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class GraphMember:
    """One relation of a join: the rows that pass ``filters`` are in ``map``, whose keys are the columns used.

    Members whose maps would be equal share one. ``filters`` are over ``alias.column``, and so are ``sums``: the values
    that the map sums for each of its keys besides the count, under the names of its values. With these a projected
    tuple is an extended one.
    """

    alias: str
    relation: str
    map: str
    filters: tuple[Scalar, ...] = ()
    sums: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True)
class Vertex:
    """The join of two members: the columns of each that must be equal, pair by pair, and none NULL.

    Without columns it is a cross join.
    """

    members: tuple[str, str]
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A join as a tree: ``vertices`` connect all ``members``, one fewer than there are members.

    Every complete path that passes ``filters`` (conditions that are not vertices: other comparisons, and equalities
    that would close a cycle) adds to ``target``, a map of the stage or its own output; its triggers define what is
    added.
    """

    target: str
    members: tuple[GraphMember, ...]
    vertices: tuple[Vertex, ...]
    filters: tuple[Scalar, ...]
    lookahead: Lookahead = Lookahead.GLOBAL
