"""The auxiliary views of a stage: equal queries share one, whatever names they use.

Two queries are the same view when they are equal after renaming (duplicate view elimination). Their sums may differ:
terms are added to a view when a query needs them, so maps with equal keys over the same rows are one map with several
values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, permutations, product
from math import factorial, prod

from tidemill.algebra.expressions.scalars import Column, Scalar, is_nullable
from tidemill.algebra.text import text_of
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.analysis.ring import ring_type
from tidemill.compiler.viewlets.ring_calculus.conditions import is_fragile
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, collected, scalar_of
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, NotViewlet, narrowed, renamed
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField

MOST_ORDERS = 24
"""Number of atom orders above which equal views may not be recognized, and are then stored twice."""

MOST_VIEWS = 250
"""Number of maps above which a stage is maintained by another strategy."""


@dataclass
class AuxiliaryView:
    """A map and the query that it materializes. Terms are added when statements need them."""

    name: str
    query: CalculusQuery
    keys: tuple[Field, ...]
    values: list[RingField] = field(default_factory=list)

    @property
    def map(self) -> Map:
        """The map of a program that holds the view."""
        return Map(self.name, self.keys, tuple(self.values))


@dataclass(frozen=True, slots=True)
class ViewMatch:
    """A view that materializes a query: for each key of the query the key of the map, for each term the value."""

    view: AuxiliaryView
    keys: tuple[Field, ...]
    values: tuple[RingField, ...]


class AuxiliaryViews:
    """All views of one stage, by canonical query."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._views: dict[CalculusQuery, AuxiliaryView] = {}

    def __iter__(self) -> Iterator[AuxiliaryView]:
        return iter(self._views.values())

    def copy(self) -> AuxiliaryViews:
        """The same views, to which others can be added without an effect on these."""
        copied = AuxiliaryViews(self._stage)
        copied._views = {form: replace(view, values=[*view.values]) for form, view in self._views.items()}
        return copied

    def find(self, query: CalculusQuery) -> ViewMatch:
        """The view for ``query``, created if there is none."""
        named = canonical(query)
        keys = tuple(sorted(dict.fromkeys(named.keys), key=text_of))
        form = narrowed(replace(named, keys=keys, terms=()))
        if form not in self._views:
            if len(self._views) == MOST_VIEWS:
                raise NotViewlet(f"it would need more than {MOST_VIEWS} maps")
            self._views[form] = self._made(form)
        view = self._views[form]
        places = [view.query.keys.index(key) for key in named.keys]
        values = tuple(_value(view, term, named.atoms) for term in named.terms)
        return ViewMatch(view, tuple(view.keys[i] for i in places), values)

    def _made(self, form: CalculusQuery) -> AuxiliaryView:
        names: list[str] = []
        for key in form.keys:
            names.append(fresh(key.name.rpartition(".")[2] if isinstance(key, Column) else "key", names))
        keys = tuple(Field(n, key.type, is_nullable(key)) for n, key in zip(names, form.keys, strict=True))
        name = f"{self._stage}:{'_'.join(atom.relation for atom in form.atoms)}"
        return AuxiliaryView(fresh(name, {view.name for view in self}), form, keys)


def _value(view: AuxiliaryView, term: Polynomial, atoms: Sequence[Atom]) -> RingField:
    """The value of ``view`` that sums ``term`` up."""
    if term in view.query.terms:
        return view.values[view.query.terms.index(term)]
    taken = {f.name.partition(".")[0] for f in view.keys}
    value = RingField(fresh(f"sum_{len(view.values)}", taken), ring_type(scalar_of(term).type))
    wider = tuple(_widened(own, other) for own, other in zip(view.query.atoms, atoms, strict=True))
    view.query = narrowed(replace(view.query, atoms=wider, terms=(*view.query.terms, term)))
    view.values.append(value)
    return value


def _widened(atom: Atom, other: Atom) -> Atom:
    """The atom with the columns of both."""
    columns = dict(zip(atom.columns, atom.variables, strict=True))
    columns |= dict(zip(other.columns, other.variables, strict=True))
    return replace(atom, columns=tuple(columns), variables=tuple(columns.values()))


# ---------------------------------------------------------------------------------------------------- equal queries


def canonical(query: CalculusQuery) -> CalculusQuery:
    """The query under names that depend on its shape alone; keys keep their order.

    Atoms are ordered by relation; of the orders of those that read the same relation, the one with the least text wins.

    >>> x, y = (Atom("r", alias, (), ()) for alias in "xy")
    >>> canonical(CalculusQuery((), (), (x,))) == canonical(CalculusQuery((), (), (y,)))
    True
    """
    return min((_named(query, order) for order in _orders(query.atoms)), key=_shape)


def _shape(query: CalculusQuery) -> tuple[str, str]:
    """Sort key of an order of atoms: first atoms, keys and conditions, then the terms."""
    grouped = replace(query, terms=(), keys=tuple(sorted(query.keys, key=text_of)))
    return repr(narrowed(grouped)), repr(query.terms)


def _orders(atoms: Sequence[Atom]) -> Iterator[tuple[Atom, ...]]:
    ordered = sorted(atoms, key=lambda atom: atom.relation)
    groups = [list(group) for _, group in groupby(ordered, key=lambda atom: atom.relation)]
    if prod(factorial(len(group)) for group in groups) > MOST_ORDERS:
        yield tuple(ordered)
        return
    for choice in product(*map(permutations, groups)):
        yield tuple(atom for group in choice for atom in group)


def _named(query: CalculusQuery, order: Sequence[Atom]) -> CalculusQuery:
    names: dict[str, Scalar] = {}
    atoms: list[Atom] = []
    for atom in order:
        alias = fresh(atom.relation, {known.alias for known in atoms})
        variables = []
        # Columns by name, so that the order in which they were first used makes no difference.
        pairs = sorted(zip(atom.columns, atom.variables, strict=True), key=lambda pair: pair[0].name)
        for column, variable in pairs:
            new = names.setdefault(variable, Column(f"{alias}.{column.name}", column.type, column.nullable))
            assert isinstance(new, Column)
            variables.append(new.name)
        atoms.append(Atom(atom.relation, alias, tuple(column for column, _ in pairs), tuple(variables), atom.event))
    changed = renamed(replace(query, atoms=tuple(atoms)), names)
    return _sorted(_with_lifts_named(changed))


def _with_lifts_named(query: CalculusQuery) -> CalculusQuery:
    """Lifts in canonical order, under canonical names."""
    lifts = [replace(lift, alias="", query=canonical(lift.query)) for lift in query.lifts]
    order = sorted(range(len(lifts)), key=lambda i: repr(lifts[i]))
    names: dict[str, Scalar] = {}
    named = []
    for number, i in enumerate(order, 1):
        lift = replace(lifts[i], alias=f"n{number}")
        old = replace(lift, alias=query.lifts[i].alias)
        names |= {before.name: after for before, after in zip(old.numbers, lift.numbers, strict=True)}
        named.append(lift)
    return renamed(replace(query, lifts=tuple(named)), names)


def _sorted(query: CalculusQuery) -> CalculusQuery:
    # Conditions that can fail come after all others and keep their order, since they may rely on earlier ones.
    safe = sorted((c for c in query.conditions if not is_fragile(c)), key=text_of)
    conditions = dict.fromkeys((*safe, *(c for c in query.conditions if is_fragile(c))))
    return replace(query, terms=tuple(map(collected, query.terms)), conditions=tuple(conditions))
