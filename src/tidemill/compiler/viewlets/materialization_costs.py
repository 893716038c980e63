"""The cost model of materialization decisions.

Work is counted in entries: those that statements visit, and those that they update (``CONSTANTS.update`` visits each).
A map has to be updated whenever a relation in it changes, at that relation's rate; a statement visits what it joins
with, at the rate of its own trigger. So a map of a join is worth its upkeep where it is read often and its inputs
change rarely. Otherwise it is cheaper to loop over the rows of one relation and look up the others: the atom is
*exposed*.

Rates follow from sizes, since each row arrives once. Where sizes are not given they follow from keys: a relation whose
primary key others are joined by is smaller than these by ``FANOUT``. A join without estimates is materialized: then a
change costs no more than the entries that it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType

from tidemill.compiler.analysis.blocks import RelationKeys
from tidemill.compiler.statistics.sizes import FANOUT, MANY, MATCHES
from tidemill.compiler.statistics.work_counts import CONSTANTS
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, variables


class MaterializationCosts:
    """Estimates for the relations of one stage: ``rows`` are known sizes, ``static`` relations never change."""

    def __init__(
        self,
        keys: RelationKeys,
        queries: Sequence[CalculusQuery],
        static: Set[str] = frozenset(),
        rows: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._keys, self._static, self._rows = keys, static, rows
        self._sizes: dict[str, float] = {}
        self._parents = {pair: parent for query in queries for pair, parent in self._references(query)}

    # --------------------------------------------------------------------------------------------------- statistics

    def size(self, relation: str) -> float:
        """Number of rows of a relation."""
        if relation in self._rows:
            return float(self._rows[relation])
        if relation not in self._sizes:
            self._sizes[relation] = MANY  # a cycle of references does not reduce the estimate
            children = [self.size(child) for (child, _), parent in self._parents.items() if parent == relation]
            self._sizes[relation] = max(1.0, min(children, default=MANY * FANOUT) / FANOUT)
        return self._sizes[relation]

    def rate(self, relation: str) -> float:
        """Number of rows of a relation that change while the largest relation is filled."""
        return 0.0 if relation in self._static else self.size(relation)

    def _references(self, query: CalculusQuery) -> Iterator[tuple[tuple[str, str], str]]:
        """Columns that are joined with the primary key of another relation, as relation and name; and that relation."""
        for parent in query.atoms:
            key = self._key(parent)
            for child in query.atoms:
                if len(key) == 1 and child.relation != parent.relation:
                    pairs = zip(child.variables, child.columns, strict=True)
                    yield from (((child.relation, f.name), parent.relation) for name, f in pairs if name in key)

    def _key(self, atom: Atom) -> set[str]:
        """The variables of the primary key of an atom; none if it has no key or does not use it."""
        bound = dict(zip((f.name for f in atom.columns), atom.variables, strict=True))
        key = self._keys.get(atom.relation, frozenset())
        return {bound[name] for name in key} if key <= bound.keys() else set()

    # ---------------------------------------------------------------------------------------------------- estimates

    def exposed(self, atoms: Sequence[Atom], known: Set[str], rate: float) -> list[Atom]:
        """The atoms of a join to loop over, in that order; none if materializing the join is cheaper.

        The join is read ``rate`` times, once the variables ``known`` have values.
        """
        informed = any(atom.relation in self._rows or self._key(atom) for atom in atoms)
        _, atom = self._cheapest(tuple(atoms), known, rate) if informed else (0.0, None)
        if atom is None:
            return []
        reached = known | set(atom.variables)
        rest = connected([other for other in atoms if other is not atom], reached)
        visits = rate * self._matches(atom, known)
        return [atom, *(one for part in rest for one in self.exposed(part, reached, visits))]

    def _cheapest(self, atoms: tuple[Atom, ...], known: Set[str], rate: float) -> tuple[float, Atom | None]:
        """Cost to read a join ``rate`` times and to maintain the maps that it reads; and the atom to loop over."""
        best, choice = self._joined(atoms, known, rate), None
        for atom in atoms if len(atoms) > 1 else ():
            if not known.isdisjoint(atom.variables):
                cost = self._exposed(atom, atoms, known, rate)
                best, choice = min((best, choice), (cost, atom), key=lambda pair: pair[0])
        return best, choice

    def _joined(self, atoms: tuple[Atom, ...], known: Set[str], rate: float) -> float:
        upkeep = 0.0
        for atom in atoms:
            others = [other for other in atoms if other is not atom]
            upkeep += self.rate(atom.relation) * CONSTANTS.update * self._found(others, set(atom.variables))
        return rate * self._found(atoms, known) + upkeep

    def _exposed(self, atom: Atom, atoms: tuple[Atom, ...], known: Set[str], rate: float) -> float:
        visits = rate * self._matches(atom, known)
        reached = known | set(atom.variables)
        rest = connected([other for other in atoms if other is not atom], reached)
        updates = self.rate(atom.relation) * CONSTANTS.update
        return visits + updates + sum(self._cheapest(p, reached, visits)[0] for p in rest)

    def _found(self, atoms: Sequence[Atom], known: Set[str]) -> float:
        """Number of rows of a join for given values of ``known``."""
        found, reached, left = 1.0, set(known), list(atoms)
        while left:
            atom = min(left, key=lambda atom: self._matches(atom, reached))
            found *= self._matches(atom, reached)
            reached |= set(atom.variables)
            left.remove(atom)
        return found

    def _matches(self, atom: Atom, known: Set[str]) -> float:
        """Number of rows that a lookup in an atom by ``known`` finds."""
        key, bound = self._key(atom), known & set(atom.variables)
        if key and key <= bound:
            return 1.0
        size = self.size(atom.relation)
        return max(1.0, min([size / self._distinct(atom, name) for name in bound] or [size]))

    def _distinct(self, atom: Atom, variable: str) -> float:
        """Number of distinct values of a column: the number of rows of the relation that it refers to."""
        parent = self._parents.get((atom.relation, atom.column(variable).name))
        return self.size(atom.relation) / MATCHES if parent is None else self.size(parent)


def connected(atoms: Sequence[Atom], known: Set[str]) -> list[tuple[Atom, ...]]:
    """Groups of atoms that share variables other than ``known``."""
    parts: list[tuple[Atom, ...]] = []
    for atom in atoms:
        near = [part for part in parts if variables(part) & set(atom.variables) - known]
        parts = [part for part in parts if part not in near]
        parts.append((*(one for part in near for one in part), atom))
    return parts
