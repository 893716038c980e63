"""OQL as it is written: a tree of frozen nodes, each knowing where it stands in the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.algebra.expressions.scalars import Literal
from tidemill.model.classes import Collection


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a query; ``span`` are the offsets of its first and last character."""

    span: tuple[int, int] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable, an extent or a view."""

    text: str


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A number, a text, true, false or nil."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class Dot(Node):
    """``base.name``, also written ``base->name``."""

    base: Node
    name: str


@dataclass(frozen=True, slots=True)
class Apply(Node):
    """A function or an operator, by its name in lower case."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Everything(Node):
    """The star of ``count(*)``."""


@dataclass(frozen=True, slots=True)
class Member:
    """An expression and the name that it is given, if any."""

    name: str | None
    node: Node


@dataclass(frozen=True, slots=True)
class Construct(Node):
    """``struct(a: x, b: y)``."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Gather(Node):
    """``bag(x, y)``, ``set(x, y)`` or ``list(x, y)``."""

    collection: Collection
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Quantify(Node):
    """``exists x in domain: condition``, or ``for all`` where ``every``."""

    every: bool
    variable: str
    domain: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class From:
    """``variable in domain``; where no variable is given it is called as the last name of the domain."""

    variable: str
    domain: Node


@dataclass(frozen=True, slots=True)
class Term:
    """One term of ORDER BY."""

    node: Node
    descending: bool


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A query. Without ``members`` it selects everything (``*``)."""

    distinct: bool
    members: tuple[Member, ...]
    froms: tuple[From, ...]
    where: Node | None = None
    groups: tuple[Member, ...] = ()
    having: Node | None = None
    order: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, and the name that ``define`` gives it, if any; ``text`` is all of it as it is written."""

    name: str | None
    query: Node
    text: str
