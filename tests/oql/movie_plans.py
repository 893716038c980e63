"""The plans of MOVIE as trees (sections 5.1.2 to 5.2.2): what is derived from a view so that it can be kept.

``OIDs_for_v`` says which objects each object of the view comes from. ``OID_projecting_v`` is the view with these
objects beside what it shows. From it come the two kinds of plan for an event: the delta is planted where the changed
objects stand, or it is joined with ``OIDs_for_v``. Strategy ``lineage`` does the same to relations; these trees show it
as the paper does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum

from tidemill.compiler.frontends.oql.algebra.attributes_read import AttributeRead, attribute_read_by, attributes_read_in
from tidemill.compiler.frontends.oql.algebra.operators import (
    Combine,
    Get,
    MonoidJoin,
    MonoidUnnest,
    Nest,
    NestValue,
    Operator,
    Reduce,
    walk,
)
from tidemill.compiler.frontends.oql.calculus.functions import operation
from tidemill.compiler.frontends.oql.calculus.terms import (
    COLLECTIONS,
    CalculusTerm,
    Extent,
    Monoid,
    PathTerm,
    RecordTerm,
    VariableTerm,
    free_variables,
    substitute,
)
from tidemill.compiler.frontends.oql.calculus.terms import walk as terms_of
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, ReferenceType
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.classes import Collection
from tidemill.model.errors import Unsupported
from tidemill.model.update_events import Listening, UpdateEvent

ELEMENT_OID, ELEMENT = "elO", "el"


class MonoidViewClass(Enum):
    """The most complex operator of a view."""

    REDUCE_GET = "ReduceGet"
    REDUCE_GET_JOIN = "ReduceGetJoin"
    UNNEST = "Unnest"
    NEST = "Nest"


def view_class(tree: Operator) -> MonoidViewClass:
    """The class of a view."""
    operators = {type(one) for one in walk(tree)}
    if Nest in operators:
        return MonoidViewClass.NEST
    if MonoidUnnest in operators:
        return MonoidViewClass.UNNEST
    return MonoidViewClass.REDUCE_GET_JOIN if MonoidJoin in operators else MonoidViewClass.REDUCE_GET


def condition_attributes(tree: Operator) -> frozenset[AttributeRead]:
    """The attributes that decide which objects meet in the view: those in conditions, in keys, and within paths."""
    return frozenset(step for operator in walk(tree) for step in attributes_read_in(_conditions(operator)))


def _conditions(operator: Operator) -> Iterator[CalculusTerm]:
    conditions = getattr(operator, "predicates", ())
    yield from conditions
    if isinstance(operator, Nest):
        yield from (term for _, term in operator.keys)
        yield from (term for made in operator.made for term in made.predicates)
    for term in operator.terms:
        yield from (one.base for one in terms_of(term) if isinstance(one, PathTerm))


def with_inputs(tree: Operator, change: Callable[[Operator], Operator]) -> Operator:
    """``tree`` over changed inputs."""
    match tree:
        case MonoidJoin() | Combine():
            return replace(tree, left=change(tree.left), right=change(tree.right))
        case MonoidUnnest() | Nest() | Reduce():
            return replace(tree, input=change(tree.input))
    return tree


def oid_projecting_view(tree: Operator) -> Reduce:
    """The view with the oids of the objects that it comes from; with them, no two of its rows are alike.

    The variables by which a nest groups are known from it, so such a view needs the oids of its elements only.
    """
    reduce = _as_sets(_view(tree))
    if view_class(tree) is MonoidViewClass.NEST:
        found = _with_element_oids(reduce)
        assert isinstance(found, Reduce)
        return found
    return replace(reduce, head=RecordTerm((*_oids(reduce), *_shown(reduce.head))))


def oids_for_view(tree: Operator, name: str) -> Reduce:
    """For each object of view ``name`` the objects that it comes from; each of several derivations is one."""
    reduce = _as_sets(_view(tree))
    names = NameAllocator(v.name for v in reduce.input.variables)
    view = VariableTerm(names.take("v"), reduce.head.type)
    rows = Get(Monoid.SET, Extent(name.lower(), CollectionType(Collection.BAG, view.type), name), view)
    same = tuple(
        operation("eq", PathTerm(view, shown.lower(), term.type, shown), term) for shown, term in _shown(reduce.head)
    )
    joined = MonoidJoin(Monoid.SET, reduce.input, rows, same)
    return replace(reduce, input=joined, head=RecordTerm((*_oids(reduce), (_oid_name(view), view))), order=())


def plant(tree: Operator, event: Listening) -> Reduce:
    """``OID_projecting_v`` over the delta of ``event`` in place of what has changed."""
    projecting = oid_projecting_view(tree)
    variable = _changed(projecting, event)
    delta = _delta(event, variable)

    def change(node: Operator) -> Operator:
        match node:
            case Get(variable=found) if found == variable:
                return replace(node, extent=delta)
            case MonoidUnnest(variable=found) if found == variable:
                element = VariableTerm("δ", variable.type)
                objects = Get(Monoid.SET, delta, element)
                return MonoidJoin(Monoid.SET, node, objects, (operation("eq", variable, element),))
        return with_inputs(node, change)

    found = change(projecting)
    assert isinstance(found, Reduce)
    return found


def join_with_oids(tree: Operator, event: Listening, name: str) -> Reduce:
    """The delta of ``event`` joined with ``OIDs_for_v``: which objects of the view it is about, and their new values.

    No extent is read.
    """
    reduce = _as_sets(_view(tree))
    variable = _changed(reduce, event)
    kept = oids_for_view(tree, name)
    oids = VariableTerm("mat_oids", kept.head.type)
    changed = VariableTerm("δ", variable.type)
    lineage = Extent(f"oids_for_{name}".lower(), CollectionType(Collection.SET, oids.type), f"OIDs_for_{name}")
    known = {v.name: PathTerm(oids, _oid_name(v).lower(), v.type, _oid_name(v)) for v in reduce.input.variables}
    same = [operation("eq", known[variable.name], changed)]
    same += [operation("eq", known[v.name], _element(v, changed)) for v in _unnested(reduce, event)]
    joined = MonoidJoin(
        Monoid.SET,
        Get(Monoid.SET, lineage, oids),
        Get(Monoid.SET, _delta(event, variable), changed),
        tuple(same),
    )
    view = _view_member(kept)
    target = PathTerm(oids, view.lower(), kept.head.type, view)
    values: Mapping[str, CalculusTerm] = {**known, variable.name: changed}
    members = tuple((shown, substitute(term, values)) for shown, term in _moved(reduce, event, variable))
    return Reduce(Monoid.SET, joined, reduce.variable, RecordTerm((("mat_obj", target), *members)))


def _view(tree: Operator) -> Reduce:
    if not (isinstance(tree, Reduce) and tree.monoid in COLLECTIONS):
        raise Unsupported("the objects that a view comes from are told for queries that select rows")
    return tree


def _as_sets(tree: Operator) -> Reduce:
    """The operators over sets: with oids nothing comes twice. What a nest gathers stays as it is."""

    def change(node: Operator) -> Operator:
        if isinstance(node, Get | MonoidJoin | MonoidUnnest | Reduce):
            node = replace(node, monoid=Monoid.SET)
        return with_inputs(node, change)

    found = change(tree)
    assert isinstance(found, Reduce)
    return found


def _with_element_oids(tree: Operator) -> Operator:
    """Nested collections whose elements know the objects that they come from."""
    if not isinstance(tree, Nest):
        return with_inputs(tree, _with_element_oids)
    own = [v for v in tree.input.variables if v not in tree.groups]
    made = tuple(_with_oid(one, own) if one.monoid in COLLECTIONS else one for one in tree.made)
    return with_inputs(replace(tree, made=made), _with_element_oids)


def _with_oid(made: NestValue, variables: list[VariableTerm]) -> NestValue:
    names = NameAllocator()
    oids = tuple((names.take(ELEMENT_OID), v) for v in variables)
    return replace(made, monoid=Monoid.SET, head=RecordTerm((*oids, (ELEMENT, made.head))))


def _oids(reduce: Reduce) -> Iterator[tuple[str, CalculusTerm]]:
    """The objects that a binding is made of, but not what nests have gathered."""
    made = {one.variable for node in walk(reduce) if isinstance(node, Nest) for one in node.made}
    return ((_oid_name(v), v) for v in reduce.input.variables if v not in made)


def _oid_name(variable: VariableTerm) -> str:
    return f"{variable.name.upper()}O"


def _view_member(kept: Reduce) -> str:
    assert isinstance(kept.head, RecordTerm)
    return kept.head.members[-1][0]


def _shown(head: CalculusTerm) -> tuple[tuple[str, CalculusTerm], ...]:
    """The members of what a view shows."""
    return head.members if isinstance(head, RecordTerm) else (("value", head),)


def _delta(event: Listening, variable: VariableTerm) -> Extent:
    return Extent(event.place, CollectionType(Collection.SET, variable.type), f"Δ({event.event.value}, {event.place})")


def _changed(reduce: Reduce, event: Listening) -> VariableTerm:
    """The variable whose objects an event is about."""
    for node in walk(reduce):
        if (
            isinstance(node, Get)
            and event.event in (UpdateEvent.INSERT, UpdateEvent.DELETE)
            and node.extent.name == event.place
        ):
            return node.variable
    owner = _step(event).owner
    for node in walk(reduce):
        match node:
            case Get(variable=variable) | MonoidUnnest(variable=variable) if variable.type == ReferenceType(owner):
                return variable
    raise Unsupported(f"the view reads nothing that {event} is about")


def _step(event: Listening) -> AttributeRead:
    """The attribute of a place; of a place within a collection, the collection."""
    owner, _, name = event.place.partition("(")[0].partition(".")
    return AttributeRead(owner, name)


def _moved(reduce: Reduce, event: Listening, variable: VariableTerm) -> Iterator[tuple[str, CalculusTerm]]:
    """The members of the view that show what an event changes."""
    if event.event in (UpdateEvent.INSERT, UpdateEvent.DELETE):
        return
    step = _step(event)
    made = {one.variable.name: (node, one) for node in walk(reduce) if isinstance(node, Nest) for one in node.made}
    for shown, term in _shown(reduce.head):
        if any(attribute_read_by(one) == step and variable.name in free_variables(one) for one in terms_of(term)):
            yield shown, term
        elif isinstance(term, VariableTerm) and term.name in made and _goes_through(made[term.name][0], step):
            node, one = made[term.name]
            own = [v for v in node.input.variables if v not in node.groups]
            yield shown, substitute(_with_oid(one, own).head, {v.name: _element(v, variable) for v in own})


def _unnested(reduce: Reduce, event: Listening) -> Iterator[VariableTerm]:
    """The variables that are bound to an element which an event is about: each is an object of the view by itself."""
    for node in walk(reduce):
        if (
            isinstance(node, MonoidUnnest)
            and not node.outer
            and _is_of_elements(event)
            and attribute_read_by(node.path) == _step(event)
        ):
            yield node.variable


def _is_of_elements(event: Listening) -> bool:
    return event.event in (UpdateEvent.INSERT_ELEMENT, UpdateEvent.DELETE_ELEMENT)


def _goes_through(nest: Nest, step: AttributeRead) -> bool:
    return any(isinstance(node, MonoidUnnest) and attribute_read_by(node.path) == step for node in walk(nest.input))


def _element(variable: VariableTerm, owner: VariableTerm) -> PathTerm:
    """The element of a collection in the delta of its owner."""
    return PathTerm(owner, "element", variable.type, "element")
