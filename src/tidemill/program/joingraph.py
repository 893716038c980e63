"""Join graphs: which maps of a stage hold the rows of which relation, and on which values they meet.

A *member* is one relation of a join under one of its aliases. Its map holds *projected tuples*: the columns that the
join and the view use, and as its weight how many rows have them. The projected tuples of a member that agree in all of
its join columns are one *join tuple*, since they meet the same others. A *vertex* is an equality between two members;
its values are where their join tuples touch. A *path* takes join tuples that touch, one of each of some members, and is
complete with one of each: then it is a row of the join, as often as the product of the weights says.
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
    """The knowledge of a join tuple before it is followed.

    ``LOCAL``: whether it touches something at each of its vertices. ``GLOBAL``: whether it leads to complete paths, as
    far as that was found out when it was followed last.
    """

    NONE = "none"
    LOCAL = "local"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class GraphMember:
    """One relation of a join: the rows that pass ``filters`` are in ``map``, whose keys are its columns in use.

    Members whose maps would be equal share one. ``filters`` are over ``alias.column``, and so are ``sums``: what the
    map sums up for each of its keys beside the count, under the names of its values. With these a projected tuple is
    an extended one.
    """

    alias: str
    relation: str
    map: str
    filters: tuple[Scalar, ...] = ()
    sums: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True)
class Vertex:
    """The join of two members: the columns of each that must be equal, pair by pair, and none NULL.

    Without columns everything meets everything, as in a cross join.
    """

    members: tuple[str, str]
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A join as a tree: ``vertices`` connect all ``members``, one fewer than there are members.

    Every complete path that passes ``filters`` (conditions that no vertex answers: other comparisons, and equalities
    that would close a cycle) adds to ``target``, a map of the stage or its own output; what it adds, its triggers say.
    """

    target: str
    members: tuple[GraphMember, ...]
    vertices: tuple[Vertex, ...]
    filters: tuple[Scalar, ...]
    lookahead: Lookahead = Lookahead.GLOBAL
