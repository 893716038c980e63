"""The syntax tree of OQL: frozen nodes, each with its place in the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.algebra.expressions.scalars import Literal
from tidemill.model.classes import Collection
from tidemill.model.types import Type


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """A part of a query; ``span`` are the offsets of its first and last character."""

    span: tuple[int, int] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NameNode(SyntaxNode):
    """A variable, an extent or a view."""

    text: str


@dataclass(frozen=True, slots=True)
class ConstantNode(SyntaxNode):
    """A number, a text, true, false or nil."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class ParameterNode(SyntaxNode):
    """``:name``, ``$1`` or ``?``: a value that is given with the text; ``?1`` is the marker of the last two."""

    marker: str


@dataclass(frozen=True, slots=True)
class CastNode(SyntaxNode):
    """``(type) operand``: of a ``value`` type, or else of the class called ``name``."""

    value: Type | None
    name: str
    operand: SyntaxNode


@dataclass(frozen=True, slots=True)
class DotNode(SyntaxNode):
    """``base.name``, also written ``base->name``."""

    base: SyntaxNode
    name: str


@dataclass(frozen=True, slots=True)
class ApplyNode(SyntaxNode):
    """A function or an operator, by its name in lower case."""

    function: str
    arguments: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class StarNode(SyntaxNode):
    """The star of ``count(*)``."""


@dataclass(frozen=True, slots=True)
class NamedNode:
    """An expression and the name that it is given, if any."""

    name: str | None
    node: SyntaxNode


@dataclass(frozen=True, slots=True)
class StructNode(SyntaxNode):
    """``struct(a: x, b: y)``."""

    members: tuple[NamedNode, ...]


@dataclass(frozen=True, slots=True)
class CollectionNode(SyntaxNode):
    """``bag(x, y)``, ``set(x, y)`` or ``list(x, y)``."""

    collection: Collection
    items: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class QuantifiedNode(SyntaxNode):
    """``exists x in domain: condition``, or ``for all`` where ``every``."""

    every: bool
    variable: str
    domain: SyntaxNode
    condition: SyntaxNode


@dataclass(frozen=True, slots=True)
class UniqueNode(SyntaxNode):
    """``exists unique x in domain: condition``: true where just one element meets the condition."""

    variable: str
    domain: SyntaxNode
    condition: SyntaxNode


@dataclass(frozen=True, slots=True)
class ComparedNode(SyntaxNode):
    """``left > all right``, or with ``any`` or ``some`` where not ``every``: a comparison with each element."""

    function: str
    every: bool
    left: SyntaxNode
    right: SyntaxNode


@dataclass(frozen=True, slots=True)
class FromNode:
    """``variable in domain``; without a variable, the last name of the domain."""

    variable: str
    domain: SyntaxNode


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of ORDER BY."""

    node: SyntaxNode
    descending: bool


@dataclass(frozen=True, slots=True)
class SelectNode(SyntaxNode):
    """A query. Without ``members`` it selects everything (``*``)."""

    distinct: bool
    members: tuple[NamedNode, ...]
    froms: tuple[FromNode, ...]
    where: SyntaxNode | None = None
    groups: tuple[NamedNode, ...] = ()
    having: SyntaxNode | None = None
    order: tuple[OrderTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class OqlStatement:
    """A query, and the name that ``define`` gives it, if any; ``text`` is its source text."""

    name: str | None
    query: SyntaxNode
    text: str
