"""The monoid calculus of Fegaras and Maier: what an OQL query means, before anybody thinks of plans.

A comprehension ``bag{ c.id | c <- CompositeParts, c.id <= 200 }`` goes through all values of its generators, keeps
those for which its predicates are true, and gathers what its head is for each, by a monoid: into a collection, a sum,
or a truth value. Collections that queries make have no nil in them, as COLLECT_LIST has no NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tidemill.algebra.scalars import Literal
from tidemill.algebra.text import text_of
from tidemill.compiler.frontends.oql.kinds import Kind, Many, Plain, Structure
from tidemill.model.classes import Collection


class Monoid(Enum):
    """How the heads of a comprehension are gathered."""

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
"""The monoids for which it makes no difference how often a value comes."""


@dataclass(frozen=True, slots=True)
class Term(ABC):
    """An expression; ``str()`` is its text form."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What it stands for."""


@dataclass(frozen=True, slots=True)
class Variable(Term):
    """A variable. Those that users name are in lower case, others are X1, X2 ..."""

    name: str
    of: Kind

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Extent(Term):
    """All objects of a class, or all rows of a view, by the name of the relation that holds them."""

    name: str
    of: Many
    shown: str = field(compare=False)

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class Constant(Term):
    """A constant value."""

    literal: Literal

    @property
    def kind(self) -> Kind:
        return Plain(self.literal.of)

    def __str__(self) -> str:
        return "nil" if self.literal.value is None else text_of(self.literal)


@dataclass(frozen=True, slots=True)
class Path(Term):
    """An attribute of an object, or a member of a record."""

    base: Term
    name: str
    of: Kind
    shown: str = field(compare=False)

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        return f"{self.base}.{self.shown}"


@dataclass(frozen=True, slots=True)
class Operation(Term):
    """A function or operator of the algebra, or one of ``oql.functions``."""

    function: str
    arguments: tuple[Term, ...]
    of: Kind

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Record(Term):
    """A struct: names as they are written, and their values."""

    members: tuple[tuple[str, Term], ...]

    @property
    def kind(self) -> Kind:
        return Structure(tuple((name.lower(), term.kind) for name, term in self.members))

    def member(self, name: str) -> Term:
        """The value of the member of this name, in lower case."""
        return next(term for shown, term in self.members if shown.lower() == name)

    def __str__(self) -> str:
        return f"struct({', '.join(f'{name}={term}' for name, term in self.members)})"


@dataclass(frozen=True, slots=True)
class Gathered(Term):
    """A collection of the values of some terms."""

    items: tuple[Term, ...]
    of: Many

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        return f"{self.of.collection.value}({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Merge(Term):
    """The ``union``, ``intersect`` or ``except`` of two collections."""

    function: str
    left: Term
    right: Term
    of: Many

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        return f"{self.function}({self.left}, {self.right})"


@dataclass(frozen=True, slots=True)
class Generator:
    """``variable <- domain``."""

    variable: Variable
    domain: Term

    def __str__(self) -> str:
        return f"{self.variable} <- {self.domain}"


Qualifier = Generator | Term


@dataclass(frozen=True, slots=True)
class Comprehension(Term):
    """``monoid{ head | qualifiers }``; ``order`` are the terms that a list is in the order of, and which descend."""

    monoid: Monoid
    head: Term
    qualifiers: tuple[Qualifier, ...]
    of: Kind
    order: tuple[tuple[Term, bool], ...] = ()

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        body = f" | {', '.join(map(str, self.qualifiers))}" if self.qualifiers else ""
        terms = ", ".join(f"{term}{' desc' if descending else ''}" for term, descending in self.order)
        return f"{self.monoid.value}{f'[{terms}]' if terms else ''}{{ {self.head}{body} }}"


PARTITION = "partition"
"""What the members of a group are called."""


@dataclass(frozen=True, slots=True)
class Groups(Term):
    """What GROUP BY makes: for each combination of keys a record of them and of ``partition``, the bag of members."""

    keys: tuple[tuple[str, Term], ...]
    member: Record
    qualifiers: tuple[Qualifier, ...]
    of: Many

    @property
    def kind(self) -> Kind:
        return self.of

    def __str__(self) -> str:
        keys = ", ".join(f"{name}={term}" for name, term in self.keys)
        return f"group[{keys}]{{ {self.member} | {', '.join(map(str, self.qualifiers))} }}"


def below(term: Term) -> tuple[Term, ...]:
    """The terms of which ``term`` is made; of a comprehension the domains and predicates, head and order."""
    match term:
        case Path(base=base):
            return (base,)
        case Operation(arguments=arguments):
            return arguments
        case Record(members=members):
            return tuple(value for _, value in members)
        case Gathered(items=items):
            return items
        case Merge(left=left, right=right):
            return (left, right)
        case Comprehension(head=head, qualifiers=qualifiers, order=order):
            return (*map(_inside, qualifiers), head, *(one for one, _ in order))
        case Groups(keys=keys, member=member, qualifiers=qualifiers):
            return (*map(_inside, qualifiers), *(value for _, value in keys), member)
    return ()


def _inside(qualifier: Qualifier) -> Term:
    return qualifier.domain if isinstance(qualifier, Generator) else qualifier


def rebuilt(term: Term, change: Callable[[Term], Term]) -> Term:
    """``term`` with the terms right below it changed."""
    match term:
        case Path(base=base):
            return replace(term, base=change(base))
        case Operation(arguments=arguments):
            return replace(term, arguments=tuple(map(change, arguments)))
        case Record(members=members):
            return Record(tuple((name, change(value)) for name, value in members))
        case Gathered(items=items):
            return replace(term, items=tuple(map(change, items)))
        case Merge(left=left, right=right):
            return replace(term, left=change(left), right=change(right))
        case Comprehension(head=head, order=order):
            qualifiers = _rebuilt_all(term.qualifiers, change)
            terms = tuple((change(one), descending) for one, descending in order)
            return replace(term, head=change(head), qualifiers=qualifiers, order=terms)
        case Groups(keys=keys, member=member):
            qualifiers, named = _rebuilt_all(term.qualifiers, change), tuple((n, change(value)) for n, value in keys)
            record = change(member)
            assert isinstance(record, Record)
            return replace(term, keys=named, member=record, qualifiers=qualifiers)
    return term


def _rebuilt_all(qualifiers: Sequence[Qualifier], change: Callable[[Term], Term]) -> tuple[Qualifier, ...]:
    return tuple(replace(q, domain=change(q.domain)) if isinstance(q, Generator) else change(q) for q in qualifiers)


def walk(term: Term) -> Iterator[Term]:
    """``term`` and all terms below it."""
    yield term
    for one in below(term):
        yield from walk(one)


def bound_in(term: Term) -> Iterator[str]:
    """The variables that the generators of ``term`` itself bind."""
    if isinstance(term, Comprehension | Groups):
        yield from (q.variable.name for q in term.qualifiers if isinstance(q, Generator))


def free_in(term: Term) -> frozenset[str]:
    """The variables that ``term`` reads and does not bind; no two binders of a query share a name."""
    if isinstance(term, Variable):
        return frozenset((term.name,))
    inner = frozenset(name for one in below(term) for name in free_in(one))
    return inner - frozenset(bound_in(term))


def substituted(term: Term, values: Mapping[str, Term], copy: Callable[[Term], Term] = lambda value: value) -> Term:
    """``term`` with copies of values for variables: beta reduction. Members of records are taken out at once."""
    if isinstance(term, Variable):
        return copy(values[term.name]) if term.name in values else term
    return projected(rebuilt(term, lambda one: substituted(one, values, copy)))


def projected(term: Term) -> Term:
    """``struct(a=x, b=y).a`` is ``x``."""
    if isinstance(term, Path) and isinstance(term.base, Record):
        return term.base.member(term.name)
    return term
