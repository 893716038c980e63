"""The change of a query when one relation changes.

The rules of the calculus, for a change of any size and sign:

==============================  ====================================================================
union, grouping sum, selection  they pass the change through, so expanded queries are taken one by one
join ``Q1 * Q2``                ``dQ1 * Q2 + Q1 * dQ2 + dQ1 * dQ2``: each choice of atoms that change
assignment of an aggregate      new minus old: the nested sum before the change, and with what it adds
==============================  ====================================================================

So the change of a product without nested aggregates has one relation less: its degree falls. A nested aggregate does
not get simpler, but it changes at few keys only: those of the changed row. By equality correlation these keys are
variables of the outer query, which are then *bound* (range restriction).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.relational.walk import substitute
from tidemill.compiler.viewlets.plans import EventStep, weight
from tidemill.compiler.viewlets.ring_calculus.bindings import tied
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, ProductTerm, multiplied, substituted
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, Lift
from tidemill.program.joins import AppendedReference

Moves = Mapping[str, tuple[Polynomial, ...]]
"""The change of each lift: its count, then its sums."""


@dataclass(frozen=True, slots=True)
class DeltaQuery:
    """A product with some atoms replaced by events, counted ``sign`` times.

    ``bound`` are variables that the event binds. Lifts in ``moves`` are read as of after the change, all others as of
    before.
    """

    query: CalculusQuery
    sign: int = 1
    bound: Mapping[str, Scalar] = field(default_factory=dict)
    moves: Moves = field(default_factory=dict)


def delta_queries(query: CalculusQuery, relation: str) -> Iterator[DeltaQuery]:
    """The products whose sum is the change of ``query`` when ``relation`` changes.

    With nested aggregates over ``relation`` they hold for one row at a time, and every such aggregate must be one that
    ``is_restricted``.
    """
    moves = {lift.alias: moved(lift, relation) for lift in query.lifts if relation in lift.query.relations}
    yield from (replace(delta, moves=moves) for delta in event_queries(query, relation))
    settled: dict[str, tuple[Polynomial, ...]] = {}
    for bound, lifts in _restrictions(query, relation):
        # Telescoping sum: the lifts before these are new, those after them old.
        yield DeltaQuery(query, -1, bound, dict(settled))
        settled |= {lift.alias: moves[lift.alias] for lift in lifts}
        yield DeltaQuery(query, 1, bound, dict(settled))


def event_queries(query: CalculusQuery, relation: str) -> Iterator[DeltaQuery]:
    """The products whose sum is the change of ``query`` by its atoms alone, as if nested aggregates stayed."""
    for chosen in _choices([atom for atom in query.atoms if atom.relation == relation and not atom.event]):
        atoms = tuple(replace(atom, event=True) if atom in chosen else atom for atom in query.atoms)
        yield DeltaQuery(replace(query, atoms=atoms))


def unmatched_reference(query: CalculusQuery, references: Sequence[AppendedReference]) -> AppendedReference | None:
    """A foreign key by which a product with events has no rows: new parents meet no child that is there already."""
    for parent, child in product(query.events, query.state):
        keys, own = ({f.name: name for f, name in zip(a.columns, a.variables, strict=True)} for a in (parent, child))
        for found in references:
            if (found.child, found.parent) == (child.relation, parent.relation) and all(
                column in own and own[column] == keys.get(key) for column, key in found.columns
            ):
                return found
    return None


def _choices(atoms: Sequence[Atom]) -> Iterator[tuple[Atom, ...]]:
    """All non-empty choices of atoms, those of one atom first."""
    return chain.from_iterable(combinations(atoms, n) for n in range(1, len(atoms) + 1))


def moved(lift: Lift, relation: str) -> tuple[Polynomial, ...]:
    """The change of a nested aggregate over ``relation`` alone by one changed row, at the keys that are read."""
    (atom,) = lift.query.atoms
    row = row_of(atom, relation)
    keys = [substitute(key, row) for key in lift.query.keys]
    conditions = [substitute(condition, row) for condition in lift.query.conditions]
    conditions += [call("eq", key, own) for key, own in zip(lift.lookup, keys, strict=False)]
    if lift.lower is not None:
        conditions.append(call("ge" if lift.lower.closed else "gt", keys[-1], lift.lower.scalar))
    if lift.upper is not None:
        conditions.append(call("le" if lift.upper.closed else "lt", keys[-1], lift.upper.scalar))
    amount: Polynomial = (ProductTerm(1, (weight(EventStep(relation, "").id), *conditions)),)
    return amount, *(multiplied(amount, substituted(term, row)) for term in lift.query.terms)


def _restrictions(query: CalculusQuery, relation: str) -> list[tuple[Mapping[str, Scalar], list[Lift]]]:
    """The lifts over ``relation``, grouped by the variables that a change of them binds."""
    groups: dict[tuple[tuple[str, Scalar], ...], list[Lift]] = {}
    for lift in query.lifts:
        if relation in lift.query.relations:
            row = row_of(lift.query.atoms[0], relation)
            bound = tuple((name, substitute(key, row)) for name, key in sorted(tied(lift, query).items()))
            groups.setdefault(bound, []).append(lift)
    return [(dict(bound), lifts) for bound, lifts in groups.items()]


def row_of(atom: Atom, relation: str) -> dict[str, Scalar]:
    """The variables of an atom as columns of the one changed row."""
    event = EventStep(relation, "")
    return {name: event.column(f) for name, f in zip(atom.variables, atom.columns, strict=True)}
