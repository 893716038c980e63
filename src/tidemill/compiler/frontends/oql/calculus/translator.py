"""From the syntax of OQL to typed terms of the calculus; all errors of a query are found here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidemill.algebra.expressions.scalars import Literal
from tidemill.compiler.frontends.oql.calculus.calls import from_apply, from_compared, from_star
from tidemill.compiler.frontends.oql.calculus.casts import from_cast
from tidemill.compiler.frontends.oql.calculus.context import GroupScope, TermContext, VariableScope
from tidemill.compiler.frontends.oql.calculus.functions import common_oql_type, integer, operation
from tidemill.compiler.frontends.oql.calculus.terms import (
    PARTITION,
    CalculusTerm,
    CollectionTerm,
    Comprehension,
    ConstantTerm,
    Extent,
    Generator,
    GroupByTerm,
    Monoid,
    PathTerm,
    Qualifier,
    RecordTerm,
    project_record,
)
from tidemill.compiler.frontends.oql.calculus.types import (
    CollectionType,
    RecordType,
    ReferenceType,
    ValueType,
    column_type,
    member_types,
)
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.compiler.frontends.text.source import locating_errors
from tidemill.model.classes import Collection
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, BOOLEAN


class TermTranslator(TermContext):
    """Translates queries, one ``from_...`` for each kind of node."""

    def term(self, node: s.SyntaxNode, scope: VariableScope) -> CalculusTerm:
        """The term that ``node`` denotes, with ``scope`` for its free names."""
        with locating_errors(self.source.span(*node.span)):
            return TERM_RULES[type(node)](self, node, scope)

    def from_name(self, node: s.NameNode, scope: VariableScope) -> CalculusTerm:
        """A variable, an extent or a view."""
        name = node.text.lower()
        if name in scope:
            return scope[name]
        extents = self.schema.extents()
        if name in extents:
            members = ReferenceType(extents[name].name, extents[name].identity)
            return Extent(name, CollectionType(Collection.SET, members), node.text)
        if name in self.views:
            row = RecordType(tuple((f.name, column_type(f.type)) for f in self.views[name]))
            return Extent(name, CollectionType(Collection.BAG, row), node.text)
        if name in self.schema.constants:
            constant = self.schema.constants[name]
            return ConstantTerm(Literal(constant.value, constant.type))
        raise unknown_name("variable, extent or view", node.text, [*scope, *extents, *self.views])

    def from_constant(self, node: s.ConstantNode, scope: VariableScope) -> CalculusTerm:
        """A constant."""
        return ConstantTerm(node.literal)

    def from_parameter(self, node: s.ParameterNode, scope: VariableScope) -> CalculusTerm:
        """The value of a parameter."""
        if self.parameters is None:
            raise Unsupported(
                f'the definition of a view cannot hold the parameter "{node.marker}"',
                detail="It is stored as it is written, and a parameter has a value for one call only.",
                hint="Write the value itself, or let the view have a column for it and filter what you read.",
            )
        if node.marker not in self.parameters:
            raise unknown_name("value for parameter", node.marker, self.parameters)
        return ConstantTerm(self.parameters[node.marker])

    def from_dot(self, node: s.DotNode, scope: VariableScope) -> CalculusTerm:
        """A step along a path."""
        base = self.term(node.base, scope)
        members = member_types(base.type, self.schema)
        if node.name.lower() in members:
            return project_record(PathTerm(base, node.name.lower(), members[node.name.lower()], node.name))
        if isinstance(base.type, CollectionType):
            raise TypeMismatch(
                f"{base.type} has no attributes",
                detail="Its elements may have some.",
                hint=f"Range over it in FROM: x in {base}, and then x.{node.name}.",
            )
        if not members:
            raise TypeMismatch(f"{base.type} has no attributes")
        raise unknown_name(f"attribute of {base.type} called", node.name, members)

    def from_struct(self, node: s.StructNode, scope: VariableScope) -> CalculusTerm:
        """A struct."""
        return self._record(node.members, scope)

    def _record(self, members: tuple[s.NamedNode, ...], scope: VariableScope) -> RecordTerm:
        """A record of named terms; an unnamed path is named after its last attribute."""
        found: dict[str, tuple[str, CalculusTerm]] = {}
        for position, member in enumerate(members, start=1):
            name = member.name or _last_name(member.node) or f"col{position}"
            if name.lower() in found:
                place = self.source.span(*member.node.span)
                raise ParseError(f'"{name}" names two members', where=place, hint=f"Give it a name: {name}_2: ...")
            found[name.lower()] = name, self.term(member.node, scope)
        return RecordTerm(tuple(found.values()))

    def from_collection(self, node: s.CollectionNode, scope: VariableScope) -> CalculusTerm:
        """A collection of given values."""
        items = tuple(self.term(item, scope) for item in node.items)
        return CollectionTerm(items, CollectionType(node.collection, common_oql_type([item.type for item in items])))

    def from_quantified(self, node: s.QuantifiedNode, scope: VariableScope) -> CalculusTerm:
        """``exists x in e: p`` and ``for all x in e: p``: what is undefined is not true."""
        generator = self.over(self.term(node.domain, scope), node.variable)
        test = self.condition(node.condition, {**scope, node.variable: generator.variable})
        return Comprehension(Monoid.ALL if node.every else Monoid.SOME, test, (generator,), ValueType(BOOLEAN))

    def from_unique(self, node: s.UniqueNode, scope: VariableScope) -> CalculusTerm:
        """``exists unique x in e: p``: a count of one."""
        generator = self.over(self.term(node.domain, scope), node.variable)
        test = self.condition(node.condition, {**scope, node.variable: generator.variable})
        found = Comprehension(Monoid.COUNT, generator.variable, (generator, test), ValueType(BIGINT))
        return operation("eq", found, integer(1))

    def from_select(self, node: s.SelectNode, scope: VariableScope) -> CalculusTerm:
        """A query: a comprehension with FROM and WHERE as qualifiers."""
        qualifiers: list[Qualifier] = []
        inner = dict(scope)
        for item in node.froms:
            if any(isinstance(q, Generator) and inner.get(item.variable) == q.variable for q in qualifiers):
                raise ParseError(f'variable "{item.variable}" is used twice', where=self.source.span(*item.domain.span))
            with locating_errors(self.source.span(*item.domain.span)):
                generator = self.over(self.term(item.domain, inner), item.variable)
            inner[item.variable] = generator.variable
            qualifiers.append(generator)
        if node.where is not None:
            qualifiers.append(self.condition(node.where, inner))
        variables = {item.variable: inner[item.variable] for item in node.froms}
        around = self.grouped
        self.grouped = None
        if node.groups:
            qualifiers, inner = self._grouped(node, qualifiers, variables, inner, scope)
        elif node.having is not None:
            raise ParseError("HAVING belongs to GROUP BY", where=self.source.span(*node.having.span))
        if node.having is not None:
            qualifiers.append(self.condition(node.having, inner))
        head = self._head(node, inner, variables)
        order = tuple((self.term(term.node, _with_head(inner, head)), term.descending) for term in node.order)
        self.grouped = around
        monoid = Monoid.SET if node.distinct else Monoid.LIST if order else Monoid.BAG
        collection = Collection.LIST if order else Collection(monoid.value)
        return Comprehension(monoid, head, tuple(qualifiers), CollectionType(collection, head.type), order)

    def _head(self, node: s.SelectNode, scope: VariableScope, variables: Mapping[str, CalculusTerm]) -> CalculusTerm:
        if not node.members and node.groups:
            return next(term.base for term in scope.values() if isinstance(term, PathTerm) and term.name == PARTITION)
        if not node.members:
            return next(iter(variables.values())) if len(variables) == 1 else RecordTerm(tuple(variables.items()))
        if len(node.members) == 1 and node.members[0].name is None:
            return self.term(node.members[0].node, scope)
        return self._record(node.members, scope)

    def _grouped(
        self,
        node: s.SelectNode,
        qualifiers: list[Qualifier],
        variables: Mapping[str, CalculusTerm],
        inner: VariableScope,
        scope: VariableScope,
    ) -> tuple[list[Qualifier], dict[str, CalculusTerm]]:
        """GROUP BY: the scope then has the keys, by their names, and the members of each group, as ``partition``."""
        keys = self._record(node.groups, inner).members
        member = RecordTerm(tuple(variables.items()))
        of = RecordType(
            (
                *((name.lower(), key.type) for name, key in keys),
                (PARTITION, CollectionType(Collection.BAG, member.type)),
            )
        )
        group = self.variable("g", of)
        steps = {name: PathTerm(group, name, oql_type, name) for name, oql_type in of.members}
        self.grouped = GroupScope(variables, steps[PARTITION])
        groups = GroupByTerm(keys, member, tuple(qualifiers), CollectionType(Collection.BAG, of))
        return [Generator(group, groups)], {**scope, **steps}


def _last_name(node: s.SyntaxNode) -> str | None:
    return node.name if isinstance(node, s.DotNode) else node.text if isinstance(node, s.NameNode) else None


def _with_head(scope: VariableScope, head: CalculusTerm) -> VariableScope:
    """ORDER BY sees the members of the result, too."""
    return {**{name.lower(): term for name, term in head.members}, **scope} if isinstance(head, RecordTerm) else scope


TERM_RULES: dict[type[s.SyntaxNode], Callable[[TermTranslator, Any, VariableScope], CalculusTerm]] = {
    s.ApplyNode: from_apply,
    s.CastNode: from_cast,
    s.ComparedNode: from_compared,
    s.ConstantNode: TermTranslator.from_constant,
    s.StructNode: TermTranslator.from_struct,
    s.DotNode: TermTranslator.from_dot,
    s.StarNode: from_star,
    s.CollectionNode: TermTranslator.from_collection,
    s.NameNode: TermTranslator.from_name,
    s.ParameterNode: TermTranslator.from_parameter,
    s.UniqueNode: TermTranslator.from_unique,
    s.QuantifiedNode: TermTranslator.from_quantified,
    s.SelectNode: TermTranslator.from_select,
}
