"""Binding patterns: the known variables of a query, those that must be looked up, and its connected parts.

The *input* variables of an expression are those that it reads and does not bind: it can be computed only once they have
values. The *output* variables are those that its atoms bind. After an event some variables have values; the parts of a
query are connected by the variables that are still *unknown*.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from tidemill.algebra.expressions.scalars import Cast, Column, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.failures import is_exact
from tidemill.compiler.viewlets.ring_calculus.conditions import is_fragile
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, columns_of
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, Lift, narrowed, variables
from tidemill.model.types import Type


def outputs(query: CalculusQuery) -> set[str]:
    """The variables that the query binds: those of its atoms, and the numbers of its lifts."""
    return variables(query.atoms) | {number.name for lift in query.lifts for number in lift.numbers}


@dataclass(eq=False)
class QueryPart:
    """A connected part of a query: atoms with the conditions, lifts, keys and sums that need no others."""

    atoms: list[Atom]
    conditions: list[Scalar] = field(default_factory=list)
    lifts: list[Lift] = field(default_factory=list)
    keys: list[Scalar] = field(default_factory=list)
    terms: list[Polynomial] = field(default_factory=list)

    @property
    def variables(self) -> set[str]:
        """The variables that its atoms bind."""
        return variables(self.atoms)

    def columns(self, names: Sequence[str]) -> list[Scalar]:
        """Variables as expressions."""
        pairs = [pair for atom in self.atoms for pair in zip(atom.variables, atom.columns, strict=True)]
        fields = dict(reversed(pairs))
        return [Column(name, fields[name].type, fields[name].nullable) for name in names]

    def query(self, keys: Sequence[Scalar]) -> CalculusQuery:
        """The part under these keys."""
        terms, conditions = tuple(self.terms), tuple(self.conditions)
        return narrowed(CalculusQuery(tuple(keys), terms, tuple(self.atoms), conditions, tuple(self.lifts)))

    def domain(self, keys: Sequence[Scalar]) -> CalculusQuery:
        """A query for a superset of the values of ``keys`` in the part: nested aggregates are left out."""
        numbers = {number.name for lift in self.lifts for number in lift.numbers}
        conditions = tuple(c for c in self.conditions if numbers.isdisjoint(columns_in(c)))
        return narrowed(CalculusQuery(tuple(keys), (), tuple(self.atoms), conditions))


class BindingPattern:
    """A query whose variables ``known`` have values: its parts, and what the statement has to compute.

    Atoms that are ``exposed`` are parts of their own, whose rows are looped over: for the other parts their variables
    are known too. With ``bare``, parts have only rows, no conditions, lifts or sums. With ``whole`` all other atoms are
    one part. Lifts in ``apart``, by alias, belong to no part.
    """

    def __init__(
        self,
        query: CalculusQuery,
        known: Set[str],
        apart: Set[str],
        exposed: Sequence[Atom] = (),
        bare: bool = False,
        whole: bool = False,
    ) -> None:
        self.query, self.apart, self.exposed, self.bare, self.whole = query, apart, exposed, bare, whole
        self.free = variables(query.state) - known
        self.unknown = self.free - variables(exposed)
        self.inside = self._inside()
        self.outside = [lift for lift in query.lifts if lift not in self.inside]
        self.pulled = [condition for condition in query.conditions if self._is_pulled(condition)]
        self.parts = self._parts()

    def home(self, scalar: Scalar) -> QueryPart | None:
        """The part that can compute ``scalar``; None if the statement must."""
        read = columns_in(scalar)
        if not read or not read <= self.free or self.bare or self.query.rounds or is_fragile(scalar):
            return None
        return next((part for part in self.parts if read <= part.variables), None)

    def lifts_in(self, names: Set[str]) -> list[Lift]:
        """The lifts outside the parts whose numbers are among ``names``."""
        return [lift for lift in self.outside if names & {number.name for number in lift.numbers}]

    def reached(self, names: Set[str]) -> set[str]:
        """The variables that ``names`` depend on and that parts bind; for a lift's number, its correlation."""
        behind = {name for lift in self.lifts_in(names) for name in lift.inputs}
        return self.free & (names | behind)

    def joins(self) -> set[str]:
        """The variables by which exposed atoms are joined to other atoms; all of theirs if parts are bare."""
        found: set[str] = set()
        for part in self.parts[: len(self.exposed)]:
            others = set().union(*(other.variables for other in self.parts if other is not part))
            found |= part.variables if self.bare else part.variables & others
        return found & self.free

    # ------------------------------------------------------------------------------------------------------- lifts

    def _inside(self) -> list[Lift]:
        """The lifts that parts may hold: all that their numbers are compared with must be in the same part."""
        inside = [] if self.bare else [lift for lift in self.query.lifts if self._may_be_inside(lift)]
        while True:
            reachable = self.unknown | {number.name for lift in inside for number in lift.numbers}
            left = [lift for lift in inside if self._is_compared_within(lift, reachable)]
            if left == inside:
                return inside
            inside = left

    def _may_be_inside(self, lift: Lift) -> bool:
        given = set().union(*map(columns_of, self.query.terms), *map(columns_in, self.query.keys))
        only_compared = given.isdisjoint(number.name for number in lift.numbers)
        moved = lift.alias in self.apart
        return only_compared and not moved and lift.inputs <= self.unknown and is_restricted(lift, self.query)

    def _is_compared_within(self, lift: Lift, reachable: Set[str]) -> bool:
        own = {number.name for number in lift.numbers}
        comparisons = [condition for condition in self.query.conditions if columns_in(condition) & own]
        return all(columns_in(condition) <= reachable and not is_fragile(condition) for condition in comparisons)

    # ------------------------------------------------------------------------------------------------------- parts

    def _is_pulled(self, condition: Scalar) -> bool:
        """True if a condition stays in the statement: it reads several parts, or could fail on other rows."""
        read = columns_in(condition)
        if self.bare or not read or is_fragile(condition):
            return True
        numbers = {number.name for lift in self.inside for number in lift.numbers}
        return not (read <= self.unknown | numbers or any(read <= self._own(atom) for atom in self.exposed))

    def _own(self, atom: Atom) -> set[str]:
        return self.free & set(atom.variables)

    def _parts(self) -> list[QueryPart]:
        """The exposed atoms, then all others, grouped by shared unknown variables."""
        kept = [condition for condition in self.query.conditions if condition not in self.pulled]
        parts: list[QueryPart] = []
        for atom in self.query.state:
            if atom not in self.exposed:
                near = [part for part in parts if self._are_joined(part, atom, kept)]
                parts = [part for part in parts if part not in near]
                parts.append(QueryPart([*(one for part in near for one in part.atoms), atom]))
        parts = [*(QueryPart([atom]) for atom in self.exposed), *parts]
        for condition in kept:
            _part_with(parts, self._behind(condition)).conditions.append(condition)
        for lift in self.inside:
            _part_with(parts, lift.inputs).lifts.append(lift)
        return parts

    def _are_joined(self, part: QueryPart, atom: Atom, kept: Sequence[Scalar]) -> bool:
        theirs, ours = part.variables & self.unknown, set(atom.variables) & self.unknown
        links = [*map(self._behind, kept), *(lift.inputs for lift in self.inside)]
        return self.whole or bool(theirs & ours) or any(link & theirs and link & ours for link in links)

    def _behind(self, condition: Scalar) -> set[str]:
        """The unknown variables that a condition reads; for the number of a lift, its correlation."""
        read = columns_in(condition)
        lifts = [lift for lift in self.inside if read & {number.name for number in lift.numbers}]
        return (read & self.free).union(*(lift.inputs for lift in lifts))


def _part_with(parts: Sequence[QueryPart], names: Set[str]) -> QueryPart:
    """The part that has all of ``names``."""
    return next(part for part in parts if names <= part.variables)


def is_restricted(lift: Lift, query: CalculusQuery) -> bool:
    """True if a changed row changes ``lift`` only at rows of ``query`` that its own columns determine."""
    plain = len(lift.query.atoms) == 1 and not lift.query.lifts and not lift.ranged
    return plain and bool(tied(lift, query))


def tied(lift: Lift, query: CalculusQuery) -> dict[str, Scalar]:
    """The variables of ``query`` that must equal a key of the lift, each with that key."""
    own = variables(query.state)
    pairs = zip(lift.lookup, lift.query.keys, strict=False)
    found = {key: as_type(scalar, key.type) for key, scalar in pairs if isinstance(key, Column) and key.name in own}
    return {key.name: scalar for key, scalar in found.items() if scalar is not None}


def as_type(scalar: Scalar, type_: Type) -> Scalar | None:
    """``scalar`` cast to ``type_``; None if it might not fit."""
    if scalar.type == type_:
        return scalar
    widened = Cast(scalar, type_)
    return widened if is_exact(widened) else None
