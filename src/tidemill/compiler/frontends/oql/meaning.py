"""What OQL means: from syntax to terms of the calculus, with the kind of each, and every error found on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.compiler.frontends.names import Allotment, unknown
from tidemill.compiler.frontends.oql import syntax as s
from tidemill.compiler.frontends.oql.calculus import (
    PARTITION,
    Comprehension,
    Constant,
    Extent,
    Gathered,
    Generator,
    Groups,
    Monoid,
    Path,
    Qualifier,
    Record,
    Term,
    Variable,
    projected,
)
from tidemill.compiler.frontends.oql.calls import from_apply, from_everything
from tidemill.compiler.frontends.oql.functions import (
    common_kind,
    condition,
    element_of,
)
from tidemill.compiler.frontends.oql.kinds import Kind, Many, Plain, Reference, Structure, kind_of_type, members_of
from tidemill.compiler.frontends.places import Source, placed
from tidemill.model.classes import Collection, Schema
from tidemill.model.errors import ParseError, TypeMismatch
from tidemill.model.types import BOOLEAN, Field

Scope = Mapping[str, Term]


@dataclass(frozen=True)
class Grouped:
    """Inside of a query with GROUP BY: the variables of its FROM, which only aggregates still see."""

    variables: Mapping[str, Term]
    partition: Term


@dataclass
class Meaning:
    """Translates queries over the extents of ``schema`` and the rows of ``views``."""

    source: Source
    schema: Schema
    views: Mapping[str, tuple[Field, ...]]
    names: Allotment = field(default_factory=Allotment)
    grouped: Grouped | None = None

    def term(self, node: s.Node, scope: Scope) -> Term:
        """The term that ``node`` means, with ``scope`` for its free names."""
        with placed(self.source.span(*node.span)):
            return RULES[type(node)](self, node, scope)

    def condition(self, node: s.Node, scope: Scope) -> Term:
        """A term that is true, false or undefined."""
        with placed(self.source.span(*node.span)):
            return condition(self.term(node, scope))

    def variable(self, wish: str, kind: Kind) -> Variable:
        """A variable that no other one in the query is called as."""
        return Variable(self.names.take(wish), kind)

    def over(self, domain: Term, wish: str = "e") -> Generator:
        """A generator of the elements of ``domain``."""
        return Generator(self.variable(wish, element_of(domain)), domain)


def from_name(self: Meaning, node: s.Name, scope: Scope) -> Term:
    """A variable, an extent or a view."""
    name = node.text.lower()
    if name in scope:
        return scope[name]
    extents = self.schema.extents()
    if name in extents:
        return Extent(name, Many(Collection.SET, Reference(extents[name].name)), node.text)
    if name in self.views:
        row = Structure(tuple((f.name, kind_of_type(f.type)) for f in self.views[name]))
        return Extent(name, Many(Collection.BAG, row), node.text)
    raise unknown("variable, extent or view", node.text, [*scope, *extents, *self.views])


def from_constant(self: Meaning, node: s.Constant, scope: Scope) -> Term:
    """A constant."""
    return Constant(node.literal)


def from_dot(self: Meaning, node: s.Dot, scope: Scope) -> Term:
    """A step along a path."""
    base = self.term(node.base, scope)
    members = members_of(base.kind, self.schema)
    if node.name.lower() in members:
        return projected(Path(base, node.name.lower(), members[node.name.lower()], node.name))
    if isinstance(base.kind, Many):
        raise TypeMismatch(
            f"{base.kind} has no attributes",
            detail="Its elements may have some.",
            hint=f"Range over it in FROM: x in {base}, and then x.{node.name}.",
        )
    if not members:
        raise TypeMismatch(f"{base.kind} has no attributes")
    raise unknown(f"attribute of {base.kind} called", node.name, members)


def from_construct(self: Meaning, node: s.Construct, scope: Scope) -> Term:
    """A struct."""
    return record(self, node.members, scope)


def record(self: Meaning, members: tuple[s.Member, ...], scope: Scope) -> Record:
    """A record of named terms; one that has no name is called as the last part of its path."""
    found: dict[str, tuple[str, Term]] = {}
    for position, member in enumerate(members, start=1):
        name = member.name or _last_name(member.node) or f"col{position}"
        if name.lower() in found:
            place = self.source.span(*member.node.span)
            raise ParseError(f'"{name}" names two members', where=place, hint=f"Give it a name: {name}_2: ...")
        found[name.lower()] = name, self.term(member.node, scope)
    return Record(tuple(found.values()))


def _last_name(node: s.Node) -> str | None:
    return node.name if isinstance(node, s.Dot) else node.text if isinstance(node, s.Name) else None


def from_gather(self: Meaning, node: s.Gather, scope: Scope) -> Term:
    """A collection of given values."""
    items = tuple(self.term(item, scope) for item in node.items)
    return Gathered(items, Many(node.collection, common_kind([item.kind for item in items])))


def from_quantify(self: Meaning, node: s.Quantify, scope: Scope) -> Term:
    """``exists x in e: p`` and ``for all x in e: p``: what is undefined is not true."""
    generator = self.over(self.term(node.domain, scope), node.variable)
    test = self.condition(node.condition, {**scope, node.variable: generator.variable})
    return Comprehension(Monoid.ALL if node.every else Monoid.SOME, test, (generator,), Plain(BOOLEAN))


def from_select(self: Meaning, node: s.Select, scope: Scope) -> Term:
    """A query: a comprehension over what stands in FROM and WHERE."""
    qualifiers: list[Qualifier] = []
    inner = dict(scope)
    for item in node.froms:
        if any(isinstance(q, Generator) and inner.get(item.variable) == q.variable for q in qualifiers):
            raise ParseError(f'variable "{item.variable}" is used twice', where=self.source.span(*item.domain.span))
        with placed(self.source.span(*item.domain.span)):
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
    return Comprehension(monoid, head, tuple(qualifiers), Many(collection, head.kind), order)


def _head(self: Meaning, node: s.Select, scope: Scope, variables: Mapping[str, Term]) -> Term:
    if not node.members and node.groups:
        return next(term.base for term in scope.values() if isinstance(term, Path) and term.name == PARTITION)
    if not node.members:
        return next(iter(variables.values())) if len(variables) == 1 else Record(tuple(variables.items()))
    if len(node.members) == 1 and node.members[0].name is None:
        return self.term(node.members[0].node, scope)
    return record(self, node.members, scope)


def _with_head(scope: Scope, head: Term) -> Scope:
    """ORDER BY sees the members of the result, too."""
    return {**{name.lower(): term for name, term in head.members}, **scope} if isinstance(head, Record) else scope


def grouped(
    self: Meaning,
    node: s.Select,
    qualifiers: list[Qualifier],
    variables: Mapping[str, Term],
    inner: Scope,
    scope: Scope,
) -> tuple[list[Qualifier], dict[str, Term]]:
    """GROUP BY: from here on there are the keys, by their names, and the members of each group, as ``partition``."""
    keys = record(self, node.groups, inner).members
    member = Record(tuple(variables.items()))
    of = Structure((*((name.lower(), key.kind) for name, key in keys), (PARTITION, Many(Collection.BAG, member.kind))))
    group = self.variable("g", of)
    steps = {name: Path(group, name, kind, name) for name, kind in of.members}
    self.grouped = Grouped(variables, steps[PARTITION])
    groups = Groups(keys, member, tuple(qualifiers), Many(Collection.BAG, of))
    return [Generator(group, groups)], {**scope, **steps}


RULES: dict[type[s.Node], Callable[[Meaning, Any, Scope], Term]] = {
    s.Apply: from_apply,
    s.Constant: from_constant,
    s.Construct: from_construct,
    s.Dot: from_dot,
    s.Everything: from_everything,
    s.Gather: from_gather,
    s.Name: from_name,
    s.Quantify: from_quantify,
    s.Select: from_select,
}
