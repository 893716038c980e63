"""The monoid calculus of Fegaras and Maier: the meaning of an OQL query, before any plan.

A comprehension ``bag{ c.id | c <- CompositeParts, c.id <= 200 }`` goes through all values of its generators, keeps
those for which its predicates are true, and aggregates its head for each of them, by a monoid: into a collection, a
sum, or a truth value. Collections that queries make have no nil in them, as COLLECT_LIST has no NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.text import text_of
from tidemill.compiler.frontends.oql.calculus.types import (
    CollectionType,
    OqlType,
    RecordType,
    ReferenceType,
    column_type,
)
from tidemill.model.classes import Collection


class Monoid(Enum):
    """The monoid by which the heads of a comprehension are aggregated."""

    BAG = "bag"
    SET = "set"
    LIST = "list"
    SUM = "sum"
    COUNT = "count"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    SOME = "some"
    ALL = "all"

    @property
    def collection(self) -> Collection | None:
        """The collection that it makes, if it does."""
        return Collection(self.value) if self in COLLECTIONS else None


COLLECTIONS = (Monoid.BAG, Monoid.SET, Monoid.LIST)

AGGREGATES = (Monoid.COUNT, Monoid.SUM, Monoid.AVG, Monoid.MIN, Monoid.MAX)

IDEMPOTENT = (Monoid.SET, Monoid.MIN, Monoid.MAX, Monoid.SOME, Monoid.ALL)
"""The idempotent monoids, for which duplicates make no difference."""


@dataclass(frozen=True, slots=True)
class CalculusTerm(ABC):
    """An expression; ``str()`` is its text form."""

    @property
    @abstractmethod
    def type(self) -> OqlType:
        """Its type."""


@dataclass(frozen=True, slots=True)
class VariableTerm(CalculusTerm):
    """A variable. Those that users name are in lower case, others are X1, X2 ..."""

    name: str
    of: OqlType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Extent(CalculusTerm):
    """All objects of a class, or all rows of a view, by the name of the relation that holds them."""

    name: str
    of: CollectionType
    shown: str = field(compare=False)

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class ConstantTerm(CalculusTerm):
    """A constant value."""

    literal: Literal

    @property
    def type(self) -> OqlType:
        return column_type(self.literal.of)

    def __str__(self) -> str:
        return "nil" if self.literal.value is None else text_of(self.literal)


@dataclass(frozen=True, slots=True)
class PathTerm(CalculusTerm):
    """An attribute of an object, or a member of a record."""

    base: CalculusTerm
    name: str
    of: OqlType
    shown: str = field(compare=False)

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return f"{self.base}.{self.shown}"


@dataclass(frozen=True, slots=True)
class Operation(CalculusTerm):
    """A function or operator of the algebra, or one of ``oql.functions``."""

    function: str
    arguments: tuple[CalculusTerm, ...]
    of: OqlType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class CastTerm(CalculusTerm):
    """A value converted to another type, or an object as one of a class: nil if it is none of that class."""

    base: CalculusTerm
    of: OqlType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return f"cast({self.base}, {self.of.of if isinstance(self.of, ReferenceType) else self.of})"


@dataclass(frozen=True, slots=True)
class RecordTerm(CalculusTerm):
    """A struct: names as they are written, and their values."""

    members: tuple[tuple[str, CalculusTerm], ...]

    @property
    def type(self) -> OqlType:
        return RecordType(tuple((name.lower(), term.type) for name, term in self.members))

    def member(self, name: str) -> CalculusTerm:
        """The value of the member of this name, in lower case."""
        return next(term for shown, term in self.members if shown.lower() == name)

    def __str__(self) -> str:
        return f"struct({', '.join(f'{name}={term}' for name, term in self.members)})"


@dataclass(frozen=True, slots=True)
class CollectionTerm(CalculusTerm):
    """A collection of the values of some terms."""

    items: tuple[CalculusTerm, ...]
    of: CollectionType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return f"{self.of.collection.value}({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class MergeTerm(CalculusTerm):
    """The ``union``, ``intersect`` or ``except`` of two collections."""

    function: str
    left: CalculusTerm
    right: CalculusTerm
    of: CollectionType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return f"{self.function}({self.left}, {self.right})"


@dataclass(frozen=True, slots=True)
class Generator:
    """``variable <- domain``."""

    variable: VariableTerm
    domain: CalculusTerm

    def __str__(self) -> str:
        return f"{self.variable} <- {self.domain}"


Qualifier = Generator | CalculusTerm


@dataclass(frozen=True, slots=True)
class Comprehension(CalculusTerm):
    """``monoid{ head | qualifiers }``; ``order`` are the terms that a list is in the order of, and which descend."""

    monoid: Monoid
    head: CalculusTerm
    qualifiers: tuple[Qualifier, ...]
    of: OqlType
    order: tuple[tuple[CalculusTerm, bool], ...] = ()

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        body = f" | {', '.join(map(str, self.qualifiers))}" if self.qualifiers else ""
        terms = ", ".join(f"{term}{' desc' if descending else ''}" for term, descending in self.order)
        return f"{self.monoid.value}{f'[{terms}]' if terms else ''}{{ {self.head}{body} }}"


PARTITION = "partition"
"""The name of the members of a group."""


@dataclass(frozen=True, slots=True)
class GroupByTerm(CalculusTerm):
    """The groups of GROUP BY: for each combination of keys a record of them and of ``partition``, its members."""

    keys: tuple[tuple[str, CalculusTerm], ...]
    member: RecordTerm
    qualifiers: tuple[Qualifier, ...]
    of: CollectionType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        keys = ", ".join(f"{name}={term}" for name, term in self.keys)
        return f"group[{keys}]{{ {self.member} | {', '.join(map(str, self.qualifiers))} }}"


def subterms(term: CalculusTerm) -> tuple[CalculusTerm, ...]:
    """The terms of which ``term`` is made; of a comprehension the domains and predicates, head and order."""
    match term:
        case PathTerm(base=base) | CastTerm(base=base):
            return (base,)
        case Operation(arguments=arguments):
            return arguments
        case RecordTerm(members=members):
            return tuple(value for _, value in members)
        case CollectionTerm(items=items):
            return items
        case MergeTerm(left=left, right=right):
            return (left, right)
        case Comprehension(head=head, qualifiers=qualifiers, order=order):
            return (*map(_inside, qualifiers), head, *(one for one, _ in order))
        case GroupByTerm(keys=keys, member=member, qualifiers=qualifiers):
            return (*map(_inside, qualifiers), *(value for _, value in keys), member)
    return ()


def _inside(qualifier: Qualifier) -> CalculusTerm:
    return qualifier.domain if isinstance(qualifier, Generator) else qualifier


def map_subterms(term: CalculusTerm, change: Callable[[CalculusTerm], CalculusTerm]) -> CalculusTerm:
    """``term`` with the terms right below it changed."""
    match term:
        case PathTerm(base=base) | CastTerm(base=base):
            return replace(term, base=change(base))
        case Operation(arguments=arguments):
            return replace(term, arguments=tuple(map(change, arguments)))
        case RecordTerm(members=members):
            return RecordTerm(tuple((name, change(value)) for name, value in members))
        case CollectionTerm(items=items):
            return replace(term, items=tuple(map(change, items)))
        case MergeTerm(left=left, right=right):
            return replace(term, left=change(left), right=change(right))
        case Comprehension(head=head, order=order):
            qualifiers = _rebuilt_all(term.qualifiers, change)
            terms = tuple((change(one), descending) for one, descending in order)
            return replace(term, head=change(head), qualifiers=qualifiers, order=terms)
        case GroupByTerm(keys=keys, member=member):
            qualifiers, named = _rebuilt_all(term.qualifiers, change), tuple((n, change(value)) for n, value in keys)
            record = change(member)
            assert isinstance(record, RecordTerm)
            return replace(term, keys=named, member=record, qualifiers=qualifiers)
    return term


def _rebuilt_all(
    qualifiers: Sequence[Qualifier], change: Callable[[CalculusTerm], CalculusTerm]
) -> tuple[Qualifier, ...]:
    return tuple(replace(q, domain=change(q.domain)) if isinstance(q, Generator) else change(q) for q in qualifiers)


def walk(term: CalculusTerm) -> Iterator[CalculusTerm]:
    """``term`` and all terms below it."""
    yield term
    for one in subterms(term):
        yield from walk(one)


def bound_variables(term: CalculusTerm) -> Iterator[str]:
    """The variables that the generators of ``term`` itself bind."""
    if isinstance(term, Comprehension | GroupByTerm):
        yield from (q.variable.name for q in term.qualifiers if isinstance(q, Generator))


def free_variables(term: CalculusTerm) -> frozenset[str]:
    """The variables that ``term`` reads and does not bind; no two binders of a query share a name."""
    if isinstance(term, VariableTerm):
        return frozenset((term.name,))
    inner = frozenset(name for one in subterms(term) for name in free_variables(one))
    return inner - frozenset(bound_variables(term))


def substitute(
    term: CalculusTerm,
    values: Mapping[str, CalculusTerm],
    copy: Callable[[CalculusTerm], CalculusTerm] = lambda value: value,
) -> CalculusTerm:
    """``term`` with copies of values for variables: beta reduction. Members of records are taken out at once."""
    if isinstance(term, VariableTerm):
        return copy(values[term.name]) if term.name in values else term
    return project_record(map_subterms(term, lambda one: substitute(one, values, copy)))


def project_record(term: CalculusTerm) -> CalculusTerm:
    """``struct(a=x, b=y).a`` is ``x``."""
    if isinstance(term, PathTerm) and isinstance(term.base, RecordTerm):
        return term.base.member(term.name)
    return term
