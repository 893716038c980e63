"""What OQL means: from syntax to terms of the calculus, with the kind of each, and every error found on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.compiler.frontends.oql.calculus.calls import from_apply, from_star
from tidemill.compiler.frontends.oql.calculus.functions import common_oql_type, condition, element_type
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
    VariableTerm,
    project_record,
)
from tidemill.compiler.frontends.oql.calculus.types import (
    CollectionType,
    OqlType,
    RecordType,
    ReferenceType,
    ValueType,
    column_type,
    member_types,
)
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText, locating_errors
from tidemill.compiler.frontends.sql.names.scope import NameAllocator, unknown_name
from tidemill.model.classes import Collection, ObjectSchema
from tidemill.model.errors import ParseError, TypeMismatch
from tidemill.model.types import BOOLEAN, Field

VariableScope = Mapping[str, CalculusTerm]


@dataclass(frozen=True)
class GroupScope:
    """Inside of a query with GROUP BY: the variables of its FROM, which only aggregates still see."""

    variables: Mapping[str, CalculusTerm]
    partition: CalculusTerm


@dataclass
class TermTranslator:
    """Translates queries over the extents of ``schema`` and the rows of ``views``."""

    source: SqlText
    schema: ObjectSchema
    views: Mapping[str, tuple[Field, ...]]
    names: NameAllocator = field(default_factory=NameAllocator)
    grouped: GroupScope | None = None

    def term(self, node: s.Node, scope: VariableScope) -> CalculusTerm:
        """The term that ``node`` means, with ``scope`` for its free names."""
        with locating_errors(self.source.span(*node.span)):
            return TERM_RULES[type(node)](self, node, scope)

    def condition(self, node: s.Node, scope: VariableScope) -> CalculusTerm:
        """A term that is true, false or undefined."""
        with locating_errors(self.source.span(*node.span)):
            return condition(self.term(node, scope))

    def variable(self, wish: str, kind: OqlType) -> VariableTerm:
        """A variable that no other one in the query is called as."""
        return VariableTerm(self.names.take(wish), kind)

    def over(self, domain: CalculusTerm, wish: str = "e") -> Generator:
        """A generator of the elements of ``domain``."""
        return Generator(self.variable(wish, element_type(domain)), domain)


def from_name(self: TermTranslator, node: s.Name, scope: VariableScope) -> CalculusTerm:
    """A variable, an extent or a view."""
    name = node.text.lower()
    if name in scope:
        return scope[name]
    extents = self.schema.extents()
    if name in extents:
        return Extent(name, CollectionType(Collection.SET, ReferenceType(extents[name].name)), node.text)
    if name in self.views:
        row = RecordType(tuple((f.name, column_type(f.type)) for f in self.views[name]))
        return Extent(name, CollectionType(Collection.BAG, row), node.text)
    raise unknown_name("variable, extent or view", node.text, [*scope, *extents, *self.views])


def from_constant(self: TermTranslator, node: s.Constant, scope: VariableScope) -> CalculusTerm:
    """A constant."""
    return ConstantTerm(node.literal)


def from_dot(self: TermTranslator, node: s.Dot, scope: VariableScope) -> CalculusTerm:
    """A step along a path."""
    base = self.term(node.base, scope)
    members = member_types(base.kind, self.schema)
    if node.name.lower() in members:
        return project_record(PathTerm(base, node.name.lower(), members[node.name.lower()], node.name))
    if isinstance(base.kind, CollectionType):
        raise TypeMismatch(
            f"{base.kind} has no attributes",
            detail="Its elements may have some.",
            hint=f"Range over it in FROM: x in {base}, and then x.{node.name}.",
        )
    if not members:
        raise TypeMismatch(f"{base.kind} has no attributes")
    raise unknown_name(f"attribute of {base.kind} called", node.name, members)


def from_construct(self: TermTranslator, node: s.Construct, scope: VariableScope) -> CalculusTerm:
    """A struct."""
    return record(self, node.members, scope)


def record(self: TermTranslator, members: tuple[s.Member, ...], scope: VariableScope) -> RecordTerm:
    """A record of named terms; one that has no name is called as the last part of its path."""
    found: dict[str, tuple[str, CalculusTerm]] = {}
    for position, member in enumerate(members, start=1):
        name = member.name or _last_name(member.node) or f"col{position}"
        if name.lower() in found:
            place = self.source.span(*member.node.span)
            raise ParseError(f'"{name}" names two members', where=place, hint=f"Give it a name: {name}_2: ...")
        found[name.lower()] = name, self.term(member.node, scope)
    return RecordTerm(tuple(found.values()))


def _last_name(node: s.Node) -> str | None:
    return node.name if isinstance(node, s.Dot) else node.text if isinstance(node, s.Name) else None


def from_gather(self: TermTranslator, node: s.Gather, scope: VariableScope) -> CalculusTerm:
    """A collection of given values."""
    items = tuple(self.term(item, scope) for item in node.items)
    return CollectionTerm(items, CollectionType(node.collection, common_oql_type([item.kind for item in items])))


def from_quantify(self: TermTranslator, node: s.Quantify, scope: VariableScope) -> CalculusTerm:
    """``exists x in e: p`` and ``for all x in e: p``: what is undefined is not true."""
    generator = self.over(self.term(node.domain, scope), node.variable)
    test = self.condition(node.condition, {**scope, node.variable: generator.variable})
    return Comprehension(Monoid.ALL if node.every else Monoid.SOME, test, (generator,), ValueType(BOOLEAN))


def from_select(self: TermTranslator, node: s.Select, scope: VariableScope) -> CalculusTerm:
    """A query: a comprehension over what stands in FROM and WHERE."""
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
        qualifiers, inner = grouped(self, node, qualifiers, variables, inner, scope)
    elif node.having is not None:
        raise ParseError("HAVING belongs to GROUP BY", where=self.source.span(*node.having.span))
    if node.having is not None:
        qualifiers.append(self.condition(node.having, inner))
    head = _head(self, node, inner, variables)
    order = tuple((self.term(term.node, _with_head(inner, head)), term.descending) for term in node.order)
    self.grouped = around
    monoid = Monoid.SET if node.distinct else Monoid.LIST if order else Monoid.BAG
    collection = Collection.LIST if order else Collection(monoid.value)
    return Comprehension(monoid, head, tuple(qualifiers), CollectionType(collection, head.kind), order)


def _head(
    self: TermTranslator, node: s.Select, scope: VariableScope, variables: Mapping[str, CalculusTerm]
) -> CalculusTerm:
    if not node.members and node.groups:
        return next(term.base for term in scope.values() if isinstance(term, PathTerm) and term.name == PARTITION)
    if not node.members:
        return next(iter(variables.values())) if len(variables) == 1 else RecordTerm(tuple(variables.items()))
    if len(node.members) == 1 and node.members[0].name is None:
        return self.term(node.members[0].node, scope)
    return record(self, node.members, scope)


def _with_head(scope: VariableScope, head: CalculusTerm) -> VariableScope:
    """ORDER BY sees the members of the result, too."""
    return {**{name.lower(): term for name, term in head.members}, **scope} if isinstance(head, RecordTerm) else scope


def grouped(
    self: TermTranslator,
    node: s.Select,
    qualifiers: list[Qualifier],
    variables: Mapping[str, CalculusTerm],
    inner: VariableScope,
    scope: VariableScope,
) -> tuple[list[Qualifier], dict[str, CalculusTerm]]:
    """GROUP BY: from here on there are the keys, by their names, and the members of each group, as ``partition``."""
    keys = record(self, node.groups, inner).members
    member = RecordTerm(tuple(variables.items()))
    of = RecordType(
        (*((name.lower(), key.kind) for name, key in keys), (PARTITION, CollectionType(Collection.BAG, member.kind)))
    )
    group = self.variable("g", of)
    steps = {name: PathTerm(group, name, kind, name) for name, kind in of.members}
    self.grouped = GroupScope(variables, steps[PARTITION])
    groups = GroupByTerm(keys, member, tuple(qualifiers), CollectionType(Collection.BAG, of))
    return [Generator(group, groups)], {**scope, **steps}


TERM_RULES: dict[type[s.Node], Callable[[TermTranslator, Any, VariableScope], CalculusTerm]] = {
    s.Apply: from_apply,
    s.Constant: from_constant,
    s.Construct: from_construct,
    s.Dot: from_dot,
    s.Everything: from_star,
    s.Gather: from_gather,
    s.Name: from_name,
    s.Quantify: from_quantify,
    s.Select: from_select,
}
