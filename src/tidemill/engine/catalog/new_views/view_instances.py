"""Views whose rows have identities: to OQL such a view is a class, and its rows are the objects of its extent.

Its class follows from its text, and from the views with identities that this reads; it is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.compiler.frontends.script.statements import OqlText
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.catalog.entries.oql_queries import read_oql
from tidemill.engine.catalog.views.view import View
from tidemill.model.classes import ObjectClass
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from tidemill.engine.catalog.catalog import Catalog

__all__ = ["identified_views", "instance_classes", "is_identified", "view_of_instance"]

IDENTITIES = {"none": False, "lineage": True}
"""The values of option ``identity``."""


def is_identified(name: str, options: Mapping[str, str]) -> bool:
    """True for a view whose rows have identities."""
    value = options.get("identity", "none").lower()
    if value not in IDENTITIES:
        raise Unsupported(
            f'view "{name}" cannot have identity = {options["identity"]!r}', hint=f"Known: {', '.join(IDENTITIES)}."
        )
    return IDENTITIES[value]


def identified_views(catalog: Catalog) -> list[View]:
    """The views whose rows have identities."""
    return [view for view in catalog.views.values() if is_identified(view.name, view.options)]


def view_of_instance(catalog: Catalog, oid: str) -> View | None:
    """The view to which a row with an identity belongs, if it does."""
    view = catalog.views.get(oid.partition("/")[0])
    return view if view is not None and is_identified(view.name, view.options) else None


def instance_classes(catalog: Catalog, text: str, excluding: str = "") -> dict[str, ObjectClass]:
    """The classes of the views with identities that a text in OQL may read, and of those that these refer to."""
    module = catalog.module
    if module is None:
        return {}
    words = {word.lower() for word in re.findall(r"\w+", text)}
    found: dict[str, ObjectClass] = {}
    for view in identified_views(catalog):
        if view.name in words and view.name != excluding:
            inner = instance_classes(catalog, view.query, view.name)
            found |= inner
            key = (view.query, tuple(inner.values()))
            if key not in module.instance_classes:
                module.instance_classes[key] = _instance_class(catalog, module, view, inner)
            found[view.name] = module.instance_classes[key]
    return found


def _instance_class(
    catalog: Catalog, module: ObjectModule, view: View, inner: Mapping[str, ObjectClass]
) -> ObjectClass:
    readable = {name: fields for name, fields in catalog.relations.items() if name != view.name}
    (defined,) = read_oql(OqlText(view.query, view.name), module, readable, instances=inner, identified=True)
    found = getattr(defined, "instances", None)
    assert isinstance(found, ObjectClass), "a definition makes a view"
    return found
