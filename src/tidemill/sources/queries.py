"""Signed queries: what a warehouse asks a source that keeps changing (sections 4.1 and 4.2 of the ECA paper).

A view is a projection of a selection of a product of relations. A *term* is that view with some of its relations
replaced by updated tuples, which carry their signs as weights; a query is a sum of terms. ``query.after(update)`` is
the paper's ``Q<U>``: what the query says differently because of ``update``, once the source has seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relations import Filter, Join, Project, Relation, Scan
from tidemill.algebra.scalars import Named, Scalar
from tidemill.algebra.walk import conjunction
from tidemill.changes.zset import ZSet


@dataclass(frozen=True)
class Product:
    """A view: ``outputs`` of the rows of the product of ``leaves`` for which all ``conditions`` hold.

    A relation may stand among the leaves under several aliases. Scalars are over ``alias.column``.
    """

    leaves: tuple[Scan, ...]
    conditions: tuple[Scalar, ...]
    outputs: tuple[Named, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that it reads, each once."""
        return tuple(dict.fromkeys(leaf.relation for leaf in self.leaves))

    @property
    def algebra(self) -> Relation:
        """The same as algebra, for the evaluator and for the compiler."""
        first, *others = self.leaves
        tree: Relation = first
        for leaf in others:
            tree = Join(tree, leaf)
        condition = conjunction(self.conditions)
        return Project(tree if condition is None else Filter(tree, condition), self.outputs)

    @property
    def query(self) -> SignedQuery:
        """The view itself, as a query that a source can be asked."""
        return SignedQuery(self, (Term(1),))


@dataclass(frozen=True)
class Term:
    """The view with the leaves in ``bound`` replaced by weighted tuples, and a sign in front."""

    sign: int
    bound: Mapping[str, ZSet] = field(default_factory=dict)


@dataclass(frozen=True)
class SignedQuery:
    """A sum of terms of one view."""

    view: Product
    terms: tuple[Term, ...]

    def after(self, relation: str, change: ZSet) -> SignedQuery:
        """``Q<U>``: what this query answers after the change of ``relation``, less what it answered before.

        It is asked after the change, so a relation that is not bound shows its new rows. Where a relation stands under
        several aliases, its rows are taken out of every set of them: ``R*R - (R-d)*(R-d) = d*R + R*d - d*d``.

        >>> scan = Scan("r", "a", ())
        >>> view = Product((scan, Scan("r", "b", ())), (), ())
        >>> [(term.sign, sorted(term.bound)) for term in view.query.after("r", ZSet({(1,): 1})).terms]
        [(1, ['a']), (1, ['b']), (-1, ['a', 'b'])]
        """
        return replace(self, terms=tuple(new for term in self.terms for new in self._changed(term, relation, change)))

    def _changed(self, term: Term, relation: str, change: ZSet) -> list[Term]:
        free = [leaf.alias for leaf in self.view.leaves if leaf.relation == relation and leaf.alias not in term.bound]
        chosen = [some for size in range(1, len(free) + 1) for some in combinations(free, size)]
        return [
            Term(term.sign * (-1) ** (len(some) + 1), {**term.bound, **dict.fromkeys(some, change)})
            for some in chosen
        ]

    def __add__(self, other: SignedQuery) -> SignedQuery:
        return replace(self, terms=self.terms + other.terms)

    def __neg__(self) -> SignedQuery:
        return replace(self, terms=tuple(replace(term, sign=-term.sign) for term in self.terms))

    def __sub__(self, other: SignedQuery) -> SignedQuery:
        return self + -other

    def needs_source(self, term: Term) -> bool:
        """Whether a term reads a relation; one whose leaves are all bound can be evaluated anywhere."""
        return len(term.bound) < len(self.view.leaves)

    @property
    def local(self) -> SignedQuery:
        """The terms that need no source."""
        return replace(self, terms=tuple(term for term in self.terms if not self.needs_source(term)))

    @property
    def remote(self) -> SignedQuery:
        """The terms that only a source can answer."""
        return replace(self, terms=tuple(term for term in self.terms if self.needs_source(term)))

    def answer(self, relations: Mapping[str, ZSet]) -> ZSet:
        """The signed rows of the query in a state of the source: its meaning, and what the oracle says."""
        total = ZSet()
        for term in self.terms:
            total.update_by(self._rows(term, relations))
        return total

    def _rows(self, term: Term, relations: Mapping[str, ZSet]) -> ZSet:
        """Each leaf has a name of its own here, under which the evaluator finds what stands for it."""
        leaves = tuple(replace(leaf, relation=leaf.alias) for leaf in self.view.leaves)
        contents = {leaf.alias: term.bound.get(leaf.alias, relations.get(leaf.relation)) for leaf in self.view.leaves}
        known = {alias: rows for alias, rows in contents.items() if rows is not None}
        rows = evaluate(replace(self.view, leaves=leaves).algebra, known)
        return rows if term.sign > 0 else -rows
