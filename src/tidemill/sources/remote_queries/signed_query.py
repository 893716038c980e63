"""Signed queries: the queries of a warehouse to a source that keeps changing (sections 4.1 and 4.2 of the ECA paper).

A view is a projection of a selection of a product of relations. A *term* is that view with some of its relations
replaced by updated tuples, which carry their signs as weights; a query is a sum of terms. ``query.after(update)`` is
the paper's ``Q<U>``: the difference that ``update`` makes to the query's answer, once the source has seen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in
from tidemill.changes.zset import Row, ZSet
from tidemill.model.types import Field


@dataclass(frozen=True)
class SpjView:
    """A view: ``outputs`` of the rows of the product of ``leaves`` for which all ``conditions`` are true.

    A relation may occur among the leaves under several aliases. Scalars are over ``alias.column``. A leaf of the
    relation ``""`` does not belong to the source: it is bound in every term, to rows that are sent with the query.

    A view with ``sums`` is grouped by its outputs: its rows are these, the number of rows of the group, and the sum of
    each of ``sums`` over them, in which NULL adds nothing (see ``group_sums``).
    """

    leaves: tuple[Scan, ...]
    conditions: tuple[Scalar, ...]
    outputs: tuple[Named, ...]
    sums: tuple[Named, ...] = ()

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of all leaves, in order: the scope of the conditions and outputs."""
        return tuple(field for leaf in self.leaves for field in leaf.fields)

    @cached_property
    def ties(self) -> tuple[frozenset[str], ...]:
        """For each condition, the aliases of the leaves that it reads."""
        owners = {field.name: leaf.alias for leaf in self.leaves for field in leaf.fields}
        return tuple(frozenset(owners[name] for name in columns_in(condition)) for condition in self.conditions)

    @cached_property
    def read(self) -> frozenset[str]:
        """The columns that conditions, outputs and sums read."""
        scalars = (*self.conditions, *(output.scalar for output in (*self.outputs, *self.sums)))
        return frozenset[str]().union(*map(columns_in, scalars))

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that it reads, each once."""
        return tuple(dict.fromkeys(leaf.relation for leaf in self.leaves))

    @property
    def query(self) -> SignedQuery:
        """The view itself, as a query to a source."""
        return SignedQuery(self, (SignedTerm(1),))


@dataclass(frozen=True)
class SignedTerm:
    """The view with the leaves in ``bound`` replaced by weighted tuples, and a sign in front."""

    sign: int
    bound: Mapping[str, ZSet] = field(default_factory=dict)


@dataclass(frozen=True)
class SignedQuery:
    """A sum of terms of one view."""

    view: SpjView
    terms: tuple[SignedTerm, ...]

    def after(self, relation: str, change: ZSet) -> SignedQuery:
        """``Q<U>``: this query's answer after the change of ``relation`` minus its answer before.

        It is evaluated after the change, so a relation that is not bound has its new rows. If a relation occurs under
        several aliases, its rows are subtracted from every set of them: ``R*R - (R-d)*(R-d) = d*R + R*d - d*d``.

        >>> scan = Scan("r", "a", ())
        >>> view = SpjView((scan, Scan("r", "b", ())), (), ())
        >>> [(term.sign, sorted(term.bound)) for term in view.query.after("r", ZSet({(1,): 1})).terms]
        [(1, ['a']), (1, ['b']), (-1, ['a', 'b'])]
        """
        return replace(self, terms=tuple(new for term in self.terms for new in self._changed(term, relation, change)))

    def _changed(self, term: SignedTerm, relation: str, change: ZSet) -> list[SignedTerm]:
        free = [leaf.alias for leaf in self.view.leaves if leaf.relation == relation and leaf.alias not in term.bound]
        chosen = [some for size in range(1, len(free) + 1) for some in combinations(free, size)]
        return [
            SignedTerm(term.sign * (-1) ** (len(some) + 1), {**term.bound, **dict.fromkeys(some, change)})
            for some in chosen
        ]

    def after_all(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """``Q<U>`` if ``U`` changes several relations at once: a transaction, or a batch of them.

        The changes are taken one after the other. The terms for the earlier ones are also evaluated after the later
        ones, so they are compensated for them: ``D`` becomes ``D + (Q - D)<U>``.

        >>> view = SpjView((Scan("r", "r", ()), Scan("s", "s", ())), (), ())
        >>> print(view.query.after_all({"r": ZSet({(1,): 1}), "s": ZSet({(2,): -1})}))
        pi([1] x s) - pi(r x [2]) + pi([1] x [2])
        """
        total = replace(self, terms=())
        for relation, change in changes.items():
            if change:
                total = total + (self - total).after(relation, change)
        return total

    def __add__(self, other: SignedQuery) -> SignedQuery:
        return replace(self, terms=self.terms + other.terms)

    def __neg__(self) -> SignedQuery:
        return replace(self, terms=tuple(SignedTerm(-term.sign, term.bound) for term in self.terms))

    def __sub__(self, other: SignedQuery) -> SignedQuery:
        return self + -other

    def needs_source(self, term: SignedTerm) -> bool:
        """True if a term reads a relation; one whose leaves are all bound can be evaluated anywhere."""
        return len(term.bound) < len(self.view.leaves)

    @property
    def local(self) -> SignedQuery:
        """The terms that need no source."""
        return replace(self, terms=tuple(term for term in self.terms if not self.needs_source(term)))

    @property
    def remote(self) -> SignedQuery:
        """The terms that only a source can answer."""
        return replace(self, terms=tuple(term for term in self.terms if self.needs_source(term)))

    def __str__(self) -> str:
        """The query as the paper writes it: ``pi_W([4, 2] x r2) - pi_W([4, 2] x [2, 3])``; conditions are left out."""
        return _sum_text([self._text(term) for term in self.terms])

    def _text(self, term: SignedTerm) -> tuple[str, str]:
        """The sign in front of a term, including that of a single bound tuple, and the text after it."""
        sign, factors = term.sign, []
        for leaf in self.view.leaves:
            rows = term.bound.get(leaf.alias)
            if rows is None:
                factors.append(leaf.relation if leaf.relation == leaf.alias else f"{leaf.relation} {leaf.alias}")
            elif len(rows) == 1:
                ((row, weight),) = rows.items()
                sign = sign if weight > 0 else -sign
                factors.append(_tuple_text(row, abs(weight)))
            else:
                factors.append(f"({rows_text(rows)})")
        names = ",".join(output.name for output in self.view.outputs)
        return "+" if sign > 0 else "-", f"pi{'_' if names else ''}{names}({' x '.join(factors)})"


def rows_text(rows: ZSet) -> str:
    """Signed rows as the paper writes them.

    >>> rows_text(ZSet({(1, None): 2, (4, 2): -1})), rows_text(ZSet())
    ('2[1, NULL] - [4, 2]', '0')
    """
    return _sum_text([("+" if weight > 0 else "-", _tuple_text(row, abs(weight))) for row, weight in rows.items()])


def _sum_text(parts: Sequence[tuple[str, str]]) -> str:
    first, *others = parts or [("+", "0")]
    return ("-" if first[0] == "-" else "") + first[1] + "".join(f" {sign} {text}" for sign, text in others)


def _tuple_text(row: Row, times: int) -> str:
    values = ", ".join("NULL" if value is None else str(value) for value in row)
    return f"{times if times > 1 else ''}[{values}]"
