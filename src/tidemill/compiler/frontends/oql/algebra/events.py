"""The events that can change a view: ``specifyEventsToMonitor`` of MOVIE (Figure 8), over the operators of the view."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.compiler.frontends.oql.algebra.attributes_read import CollectionUse, attributes_read, collection_roles
from tidemill.compiler.frontends.oql.algebra.operators import Get, Operator, walk
from tidemill.compiler.frontends.oql.calculus.terms import CastTerm
from tidemill.compiler.frontends.oql.calculus.terms import walk as terms_of
from tidemill.compiler.frontends.oql.calculus.types import ReferenceType
from tidemill.model.classes import Attribute, ObjectSchema
from tidemill.model.update_events import Listening, UpdateEvent

MEMBERSHIP = (UpdateEvent.INSERT, UpdateEvent.DELETE)
ELEMENTS = (UpdateEvent.INSERT_ELEMENT, UpdateEvent.DELETE_ELEMENT)


def monitored_events(tree: Operator, schema: ObjectSchema) -> frozenset[Listening]:
    """The events that can change a view, and the classes and attributes where they occur."""
    return frozenset((*_of_scans(tree), *_of_paths(tree, schema), *_of_casts(tree, schema)))


def _of_scans(tree: Operator) -> Iterator[Listening]:
    """Objects created in or deleted from an extent that is scanned, or rows of a view."""
    for get in walk(tree):
        if isinstance(get, Get):
            yield from _all(MEMBERSHIP, get.extent.name)


def _of_casts(tree: Operator, schema: ObjectSchema) -> Iterator[Listening]:
    """Objects of a class to which something is cast: they may come after what refers to them as a number."""
    for operator in walk(tree):
        for term in (one for each in operator.terms for one in terms_of(each)):
            if isinstance(term, CastTerm) and isinstance(term.of, ReferenceType):
                extent = schema.classes[term.of.of].extent
                yield from _all(MEMBERSHIP, extent) if extent is not None else ()


def _of_paths(tree: Operator, schema: ObjectSchema) -> Iterator[Listening]:
    """Each step of each path."""
    roles, read = collection_roles(tree), set(attributes_read(tree))
    for step in read:
        attribute, place = schema.attributes(step.owner)[step.name], str(step)
        if attribute.collection is None:
            yield Listening(UpdateEvent.MODIFY, place)
        else:
            yield from _all(ELEMENTS, place)
        if attribute.target is None:
            continue
        # Of a relationship, objects of its class come and go; of a collection of objects, its elements do.
        members = schema.declares(step.owner, step.name) if attribute.collection is None else attribute.target
        extent = schema.classes[members].extent
        yield from _all(MEMBERSHIP, extent) if extent is not None else ()
        yield from _of_inverse(attribute, schema)
        if CollectionUse.NESTED in roles.get(step, ()):
            # An element of a collection that is output is only its oid; an element of an unnested one is a row.
            inner = (one for one in read if one.owner == attribute.target)
            yield from (Listening(UpdateEvent.MODIFY_ELEMENT, f"{place}({one})") for one in inner)


def _of_inverse(attribute: Attribute, schema: ObjectSchema) -> Iterator[Listening]:
    """The other end of a relationship changes with this one."""
    if attribute.target is None or attribute.inverse is None:
        return
    other = schema.attributes(attribute.target)[attribute.inverse]
    place = f"{attribute.target}.{attribute.inverse}"
    yield from _all((UpdateEvent.MODIFY,) if other.collection is None else ELEMENTS, place)


def _all(events: tuple[UpdateEvent, ...], place: str) -> Iterator[Listening]:
    return (Listening(event, place) for event in events)
