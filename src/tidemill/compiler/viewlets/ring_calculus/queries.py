"""The ring calculus: queries as grouping sums over products of atoms.

Every query maps rows to numbers (a generalized multiset relation); rows that are not there map to zero. The operators
of the calculus, and how the normal form that is used here spells them:

==========================  =============================================================================
relational atom ``R(x, y)`` ``Atom``: each column is bound to a variable
renaming                    other variables on an atom
natural join ``Q1 * Q2``    atoms side by side; a variable that they share is equal in both (never NULL)
union ``Q1 + Q2``           several queries with one target: unions are expanded, so a query holds none
selection, comparison       ``conditions``, each 1 where it is true and 0 elsewhere
constant singleton          a query without atoms; literals as keys and terms
grouping sum ``Sum_A;f Q``  ``CalculusQuery``: ``keys`` A, and several terms f at once, and the count of rows
assignment of an aggregate  ``Lift``: the numbers of a nested query as variables
==========================  =============================================================================

A query that is expanded in this manner is a monomial: the product of its atoms. Its *degree* is their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.analysis.ring import is_ring, ring_type
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, columns_of, scalar_of, substituted
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, BOOLEAN, Field, Type
from tidemill.program.statements import RangeBound

MARK = "\0"
"""Separator in generated names; no name of a user contains it."""


class NotViewlet(Exception):
    """Viewlets cannot maintain a stage, or not well; the message says why."""


@dataclass(frozen=True, slots=True)
class Atom:
    """``relation(variables)``: its rows with their weights, or where ``event`` what one change adds to them.

    Only the columns in use are listed. Two atoms of one relation differ by their ``alias``.
    """

    relation: str
    alias: str
    columns: tuple[Field, ...]
    variables: tuple[str, ...]
    event: bool = False

    def column(self, variable: str) -> Field:
        """The column that a variable is bound to."""
        return self.columns[self.variables.index(variable)]


@dataclass(frozen=True, slots=True)
class Lift:
    """``alias := query``: the numbers of a nested aggregate as variables, zero where the query has no row.

    ``lookup`` are expressions over the variables around it that the query's keys must equal: correlation by equality.
    With ``lower`` or ``upper`` the query's last key is not looked up but lies in a range: correlation by inequality.
    These are the input variables of the nested query; without any it is not correlated. One that is ``inner`` matters
    only where its range begins or ends at or within its keys: beyond all of them another condition decides.
    """

    alias: str
    query: CalculusQuery
    lookup: tuple[Scalar, ...] = ()
    lower: RangeBound | None = None
    upper: RangeBound | None = None
    inner: bool = False

    @property
    def ranged(self) -> bool:
        """True if it sums over a range of keys."""
        return self.lower is not None or self.upper is not None

    @property
    def bounds(self) -> tuple[RangeBound, ...]:
        """The ends of the range that are given."""
        return tuple(bound for bound in (self.lower, self.upper) if bound is not None)

    @property
    def inputs(self) -> set[str]:
        """The variables around it that it reads."""
        scalars = [*self.lookup, *(bound.scalar for bound in self.bounds)]
        return {name for scalar in scalars for name in columns_in(scalar)}

    @property
    def numbers(self) -> tuple[Column, ...]:
        """The variables that it binds: the count of rows, then the sums."""
        sums = (Column(f"{self.alias}.{i}", type_, nullable=False) for i, type_ in enumerate(self.query.types))
        return (Column(f"{self.alias}.{WEIGHT}", BIGINT, nullable=False), *sums)


@dataclass(frozen=True, slots=True)
class CalculusQuery:
    """``Sum_{keys; terms}`` of the product of atoms, conditions and lifts: for each key a count, and a sum per term."""

    keys: tuple[Scalar, ...]
    terms: tuple[Polynomial, ...]
    atoms: tuple[Atom, ...]
    conditions: tuple[Scalar, ...] = ()
    lifts: tuple[Lift, ...] = ()

    @property
    def types(self) -> tuple[Type, ...]:
        """The ring of each term."""
        return tuple(ring_type(scalar_of(term).type) for term in self.terms)

    @property
    def degree(self) -> int:
        """Number of joined relations, including those of nested aggregates; changes do not count."""
        return sum(not atom.event for atom in self.atoms) + sum(lift.query.degree for lift in self.lifts)

    @property
    def rounds(self) -> bool:
        """True if a term is a DOUBLE: products of its sums would round, so it is computed from rows."""
        factors = [factor for polynomial in self.terms for term in polynomial for factor in term.factors]
        return any(not is_ring(factor.type) and factor.type != BOOLEAN for factor in factors)

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that it reads, each once; those of nested aggregates too."""
        nested = (name for lift in self.lifts for name in lift.query.relations)
        return tuple(dict.fromkeys([*(atom.relation for atom in self.atoms if not atom.event), *nested]))

    @property
    def events(self) -> tuple[Atom, ...]:
        """The atoms that stand for the change."""
        return tuple(atom for atom in self.atoms if atom.event)

    @property
    def state(self) -> tuple[Atom, ...]:
        """The atoms that stand for stored rows."""
        return tuple(atom for atom in self.atoms if not atom.event)

    def scalars(self) -> Iterator[Scalar]:
        """All expressions but those of the terms."""
        yield from self.keys
        yield from self.conditions
        for lift in self.lifts:
            yield from lift.lookup
            yield from (bound.scalar for bound in lift.bounds)


def variables(atoms: Sequence[Atom]) -> set[str]:
    """The variables that ``atoms`` bind."""
    return {name for atom in atoms for name in atom.variables}


def renamed(query: CalculusQuery, values: Mapping[str, Scalar]) -> CalculusQuery:
    """The query with expressions in place of variables, in everything but its atoms."""

    def changed(bound: RangeBound | None) -> RangeBound | None:
        return None if bound is None else replace(bound, scalar=substitute(bound.scalar, values))

    lifts = tuple(
        replace(
            lift,
            lookup=tuple(substitute(scalar, values) for scalar in lift.lookup),
            lower=changed(lift.lower),
            upper=changed(lift.upper),
        )
        for lift in query.lifts
    )
    return replace(
        query,
        keys=tuple(substitute(key, values) for key in query.keys),
        terms=tuple(substituted(term, values) for term in query.terms),
        conditions=tuple(substitute(condition, values) for condition in query.conditions),
        lifts=lifts,
    )


def narrowed(query: CalculusQuery) -> CalculusQuery:
    """The query with each atom reduced to the columns that are used, or that join it to another."""
    used = {name for scalar in query.scalars() for name in columns_in(scalar)}
    used |= {name for term in query.terms for name in columns_of(term)}
    counts: dict[str, int] = {}
    for atom in query.atoms:
        for name in set(atom.variables):
            counts[name] = counts.get(name, 0) + 1
    used |= {name for name, count in counts.items() if count > 1}
    return replace(query, atoms=tuple(_reduced(atom, used) for atom in query.atoms))


def _reduced(atom: Atom, used: set[str]) -> Atom:
    pairs = [(f, name) for f, name in zip(atom.columns, atom.variables, strict=True) if name in used]
    return replace(atom, columns=tuple(f for f, _ in pairs), variables=tuple(name for _, name in pairs))
