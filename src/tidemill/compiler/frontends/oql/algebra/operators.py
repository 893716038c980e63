"""The monoid algebra of Fegaras and Maier: reduce, get, join, nest and unnest, with the text form of MOVIE's figures.

Operators pass bindings of variables from leaf to root. ``get`` binds a variable to each object of an extent, ``join``
puts the bindings of two operators together, ``unnest`` binds one to each element of a collection, ``nest`` aggregates
what it is given for each combination of some variables, and ``reduce`` aggregates everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidemill.compiler.frontends.oql.calculus.terms import (
    CalculusTerm,
    Extent,
    Monoid,
    PathTerm,
    VariableTerm,
    map_subterms,
)
from tidemill.compiler.frontends.oql.calculus.terms import walk as terms_of
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, OqlType


@dataclass(frozen=True, slots=True)
class Operator(ABC):
    """An operator; ``str()`` is its text form."""

    @property
    @abstractmethod
    def variables(self) -> tuple[VariableTerm, ...]:
        """The variables that it binds."""

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The operators below it."""
        return ()

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        """The terms that it computes itself."""
        return ()

    @abstractmethod
    def lines(self) -> Sequence[str]:
        """Its text form, line by line."""

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True, slots=True)
class Unit(Operator):
    """One binding of no variables: the input of a query without generators."""

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return ()

    def lines(self) -> Sequence[str]:
        return ["unit()"]


@dataclass(frozen=True, slots=True)
class Get(Operator):
    """``variable`` for each object of an extent, or row of a view, for which all ``predicates`` are true."""

    monoid: Monoid
    extent: Extent
    variable: VariableTerm
    predicates: tuple[CalculusTerm, ...] = ()

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return (self.variable,)

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        return self.predicates

    def lines(self) -> Sequence[str]:
        return [f"get({self.monoid.value}, {self.extent}, {self.variable}, {conjunction(self.predicates)})"]


@dataclass(frozen=True, slots=True)
class MonoidJoin(Operator):
    """The bindings of both sides for which ``predicates`` are true; with ``outer`` also those of ``left`` alone."""

    monoid: Monoid
    left: Operator
    right: Operator
    predicates: tuple[CalculusTerm, ...] = ()
    outer: bool = False

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return self.left.variables + self.right.variables

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        return self.predicates

    def lines(self) -> Sequence[str]:
        manner = "left" if self.outer else "none"
        return _lines("join", self.monoid, self.inputs, [f"{conjunction(self.predicates)},", manner])


@dataclass(frozen=True, slots=True)
class MonoidUnnest(Operator):
    """``variable`` for each element of ``path``; with ``outer`` bindings without an element stay as well."""

    monoid: Monoid
    input: Operator
    variable: VariableTerm
    path: CalculusTerm
    predicates: tuple[CalculusTerm, ...] = ()
    outer: bool = False

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return (*self.input.variables, self.variable)

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.input,)

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        return (self.path, *self.predicates)

    def lines(self) -> Sequence[str]:
        manner = f"{conjunction(self.predicates)}, {str(self.outer).lower()}"
        return _lines("unnest", self.monoid, self.inputs, [f"{self.variable},", f"{alone(self.path)},", manner])


@dataclass(frozen=True, slots=True)
class NestValue:
    """The value that a nest binds to ``variable``: ``head``, aggregated by ``monoid`` where all predicates are true."""

    monoid: Monoid
    variable: VariableTerm
    head: CalculusTerm
    predicates: tuple[CalculusTerm, ...] = ()
    order: tuple[tuple[CalculusTerm, bool], ...] = ()

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        """The terms that it computes."""
        return (self.head, *self.predicates, *(term for term, _ in self.order))


@dataclass(frozen=True, slots=True)
class Nest(Operator):
    """The aggregates ``made`` over the bindings below, for each combination of ``groups`` and of the terms in ``keys``.

    Bindings in which a variable has no value, because an outer operator found none, are not aggregated: so an empty
    collection stays empty.
    """

    input: Operator
    made: tuple[NestValue, ...]
    groups: tuple[VariableTerm, ...]
    keys: tuple[tuple[VariableTerm, CalculusTerm], ...] = ()

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return (*self.groups, *(key for key, _ in self.keys), *(made.variable for made in self.made))

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.input,)

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        return (*(term for _, term in self.keys), *(term for made in self.made for term in made.terms))

    def lines(self) -> Sequence[str]:
        groups = ", ".join([*map(str, self.groups), *(f"{key}={term}" for key, term in self.keys)])
        if len(self.made) != 1:
            made = [f"{m.monoid.value}({m.variable}, {m.head}, {conjunction(m.predicates)})," for m in self.made]
            return _lines("nest", Monoid.BAG, self.inputs, [*made, f"vars({groups})"])
        (one,) = self.made
        tail = [f"{one.variable},", f"{alone(one.head)},", f"vars({groups}), {conjunction(one.predicates)}"]
        return _lines("nest", one.monoid, self.inputs, tail)


@dataclass(frozen=True, slots=True)
class Reduce(Operator):
    """``head`` of all bindings for which ``predicates`` are true, aggregated by ``monoid``; ``variable`` is bound to
    it.

    As an input of another operator it binds ``variable`` to each element of its collection.
    """

    monoid: Monoid
    input: Operator
    variable: VariableTerm
    head: CalculusTerm
    predicates: tuple[CalculusTerm, ...] = ()
    order: tuple[tuple[CalculusTerm, bool], ...] = ()

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return (self.variable,)

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.input,)

    @property
    def terms(self) -> tuple[CalculusTerm, ...]:
        return (self.head, *self.predicates, *(term for term, _ in self.order))

    def lines(self) -> Sequence[str]:
        tail = [f"{self.variable},", f"{alone(self.head)},", conjunction(self.predicates)]
        if self.order:
            terms = ", ".join(f"{term}{' desc' if descending else ''}" for term, descending in self.order)
            tail = [*tail[:-1], f"{tail[-1]},", f"order({terms})"]
        return _lines("reduce", self.monoid, self.inputs, tail)


@dataclass(frozen=True, slots=True)
class Combine(Operator):
    """The ``union``, ``intersect`` or ``except`` of two collections; binds ``variable`` to each element."""

    function: str
    left: Operator
    right: Operator
    variable: VariableTerm
    of: CollectionType

    @property
    def variables(self) -> tuple[VariableTerm, ...]:
        return (self.variable,)

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    def lines(self) -> Sequence[str]:
        return _lines(self.function, Monoid(self.of.collection.value), self.inputs, [str(self.variable)])


@dataclass(frozen=True, slots=True)
class ClosedTerm(CalculusTerm):
    """The value of an uncorrelated tree, in a term."""

    tree: Operator
    of: OqlType

    @property
    def type(self) -> OqlType:
        return self.of

    def __str__(self) -> str:
        return " ".join(line.strip() for line in self.tree.lines())


def conjunction(predicates: Sequence[CalculusTerm]) -> str:
    """The text of conditions that must all be true."""
    return f"and({', '.join(map(str, predicates))})"


def alone(term: CalculusTerm) -> str:
    """The text of a term that is an argument of an operator: a path is written as a projection."""
    return f"project({term.base}, {term.shown})" if isinstance(term, PathTerm) else str(term)


def _lines(operator: str, monoid: Monoid, inputs: Sequence[Operator], tail: Sequence[str]) -> list[str]:
    found = [f"{operator}({monoid.value},"]
    for tree in inputs:
        *lines, last = tree.lines()
        found += [f"  {line}" for line in (*lines, f"{last},")]
    found += [f"  {line}" for line in tail]
    return [*found[:-1], f"{found[-1]})"]


def walk(tree: Operator) -> Iterator[Operator]:
    """``tree`` and all operators below it, and in the closed trees of their terms; inputs come first."""
    for one in tree.inputs:
        yield from walk(one)
    for term in tree.terms:
        for below in closed_operators(term):
            yield from walk(below.tree)
    yield tree


def closed_operators(term: CalculusTerm) -> Iterator[ClosedTerm]:
    """The closed trees in a term."""
    return (one for one in terms_of(term) if isinstance(one, ClosedTerm))


def with_terms(term: CalculusTerm, change: Callable[[CalculusTerm], CalculusTerm | None]) -> CalculusTerm:
    """``term`` with its parts replaced by the results of ``change``; None keeps a part."""
    changed = change(term)
    return map_subterms(term, lambda one: with_terms(one, change)) if changed is None else changed
