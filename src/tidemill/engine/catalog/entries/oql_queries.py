"""OQL translated in a warehouse: over the classes of its objects, and over all other tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.algebra.expressions.scalars import Literal
from tidemill.compiler.frontends.script.statements import OqlText
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.translate import TranslatedQuery
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.model.classes import ObjectClass
from tidemill.model.errors import Unsupported
from tidemill.model.schema import RelationFields

if TYPE_CHECKING:
    from tidemill.compiler.frontends.oql.statements import OqlAnswer, OqlView

NO_PARAMETERS: Mapping[str, Literal] = {}

InstanceClasses = Mapping[str, ObjectClass]
NO_INSTANCES: InstanceClasses = {}

__all__ = ["as_oql", "object_events", "oql_view", "read_oql"]


def as_oql(
    query: str | ParsedText | PartitionedView | OqlText, name: str
) -> str | ParsedText | PartitionedView | OqlText:
    """The query of a view, marked as OQL if it begins with DEFINE, which no SQL query does."""
    return OqlText(query, name) if isinstance(query, str) and query[:6].lower() == "define" else query


def oql_view(
    text: OqlText,
    module: ObjectModule | None,
    readable: RelationFields,
    instances: InstanceClasses = NO_INSTANCES,
    identified: bool = False,
) -> TranslatedQuery:
    """The relation of a view that OQL defines, and the order in which its rows are read."""
    found = read_oql(text, module, readable, instances=instances, identified=identified)[0]
    return TranslatedQuery(found.relation, len(found.relation.fields), found.order)


def object_events(
    query: str,
    name: str,
    module: ObjectModule | None,
    readable: RelationFields,
    instances: InstanceClasses = NO_INSTANCES,
) -> list[str]:
    """The object events that a view listens to, including inverses of relationships; none if it is not in OQL."""
    text = as_oql(query, name)
    if not isinstance(text, OqlText):
        return []
    from tidemill.compiler.frontends.oql.statements import OqlView  # as in read_oql

    found = read_oql(text, module, readable, instances=instances)
    return sorted({str(event) for view in found if isinstance(view, OqlView) for event in view.monitored})


def read_oql(
    text: OqlText,
    module: ObjectModule | None,
    readable: RelationFields,
    parameters: Mapping[str, Literal] = NO_PARAMETERS,
    *,
    instances: InstanceClasses = NO_INSTANCES,
    identified: bool = False,
) -> list[OqlView | OqlAnswer]:
    """The definitions and queries of a text; ``readable`` are all tables and views, ``parameters`` values by marker.

    ``instances`` are the classes of views whose rows have identities, and so have those that are defined, with
    ``identified``.
    """
    if module is None:
        raise Unsupported(
            "OQL needs objects, and the warehouse has none",
            where=text.name,
            hint="Declare their classes first: tidemill.objects(wh, odl), or tidemill objects FILE.",
        )
    from tidemill.compiler.frontends.oql.statements import (
        translate_oql,  # a front end of its own, which few warehouses need
    )

    others = {name: fields for name, fields in readable.items() if name not in module.tables}
    schema = module.schema.with_classes(instances)
    return translate_oql(text.text, schema, others, text.name, parameters, identified)
