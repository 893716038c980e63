"""The context in which OQL is translated: classes, views and variables by name, and unique variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.algebra.expressions.scalars import Literal
from tidemill.compiler.frontends.oql.calculus.functions import condition, element_type
from tidemill.compiler.frontends.oql.calculus.terms import (
    CalculusTerm,
    Generator,
    VariableTerm,
)
from tidemill.compiler.frontends.oql.calculus.types import (
    OqlType,
)
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.compiler.frontends.text.source import SourceText, locating_errors
from tidemill.model.classes import ObjectSchema
from tidemill.model.schema import RelationFields

VariableScope = Mapping[str, CalculusTerm]


@dataclass(frozen=True)
class GroupScope:
    """The variables of FROM in a query with GROUP BY, visible only in aggregates."""

    variables: Mapping[str, CalculusTerm]
    partition: CalculusTerm


@dataclass
class TermContext(ABC):
    """The names that a query may refer to: the extents of ``schema``, and the rows of ``views``."""

    source: SourceText
    schema: ObjectSchema
    views: RelationFields
    parameters: Mapping[str, Literal] | None = None
    """The values of parameters by marker; None in a definition, which has none."""
    names: NameAllocator = field(default_factory=NameAllocator)
    grouped: GroupScope | None = None

    @abstractmethod
    def term(self, node: s.SyntaxNode, scope: VariableScope) -> CalculusTerm:
        """The term that ``node`` denotes, with ``scope`` for its free names."""

    def condition(self, node: s.SyntaxNode, scope: VariableScope) -> CalculusTerm:
        """A term that is true, false or undefined."""
        with locating_errors(self.source.span(*node.span)):
            return condition(self.term(node, scope))

    def variable(self, wish: str, oql_type: OqlType) -> VariableTerm:
        """A variable with a unique name."""
        return VariableTerm(self.names.take(wish), oql_type)

    def over(self, domain: CalculusTerm, wish: str = "e") -> Generator:
        """A generator of the elements of ``domain``."""
        return Generator(self.variable(wish, element_type(domain)), domain)
