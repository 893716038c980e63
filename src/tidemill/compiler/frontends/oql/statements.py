"""The entry point of the OQL front end: from a text to relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.oql.algebra.events import monitored_events
from tidemill.compiler.frontends.oql.algebra.operators import Combine, Operator, Reduce
from tidemill.compiler.frontends.oql.algebra.unnest import unnest
from tidemill.compiler.frontends.oql.calculus.normalize import normalize
from tidemill.compiler.frontends.oql.calculus.terms import COLLECTIONS
from tidemill.compiler.frontends.oql.calculus.translator import TermTranslator
from tidemill.compiler.frontends.oql.calculus.types import RecordType, column_type, instance_class
from tidemill.compiler.frontends.oql.lowering.lower import lower, lower_ordered
from tidemill.compiler.frontends.oql.syntax.parse import parse_statements
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.compiler.frontends.text.source import SourceText, locating_errors
from tidemill.model.classes import ObjectClass, ObjectSchema
from tidemill.model.errors import NameTaken, ParseError, Unsupported
from tidemill.model.schema import RelationFields
from tidemill.model.update_events import Listening


@dataclass(frozen=True)
class OqlView:
    """A view: ``define name() as ...``. ``monitored`` are the events that change it; its rows are read in ``order``.

    One whose rows have identities is a class to queries that read it.
    """

    name: str
    text: str
    relation: Relation
    tree: Operator
    monitored: frozenset[Listening]
    order: tuple[ColumnOrder, ...] = ()
    instances: ObjectClass | None = None


@dataclass(frozen=True)
class OqlAnswer:
    """A query that is answered once: its first ``visible`` columns. ``order`` may sort by those after them."""

    relation: Relation
    tree: Operator
    visible: int
    order: tuple[ColumnOrder, ...] = ()


NO_PARAMETERS: Mapping[str, Literal] = {}


def translate_oql(
    text: str,
    schema: ObjectSchema,
    views: RelationFields,
    name: str = "oql",
    parameters: Mapping[str, Literal] = NO_PARAMETERS,
    identified: bool = False,
) -> list[OqlView | OqlAnswer]:
    """The definitions and queries of ``text``, in order; each sees the views before it. ``name`` is for errors.

    ``parameters`` are values by marker, for queries that are answered once; rows of views that are ``identified`` have
    identities.
    """
    source = SourceText(name, text)
    known, defined, found = dict(views), set[str](), list[OqlView | OqlAnswer]()
    for statement in parse_statements(source):
        given = parameters if statement.name is None else None
        term = TermTranslator(source, schema, known, given).term(statement.query, {})
        with locating_errors(source.span(*statement.query.span)):
            if statement.name in defined or statement.name in schema.extents():
                raise NameTaken(f'"{statement.name}" exists already')
            tree = unnest(normalize(term))
            identity = statement.name if identified and statement.name is not None else ""
            relation = lower(tree, schema, known, identity)
            ordered, order = lower_ordered(tree, schema, known, identity)
            if statement.name is None:
                found.append(OqlAnswer(ordered, tree, len(relation.fields), order))
                continue
            if any(position >= len(relation.fields) for position, _, _ in order):
                raise Unsupported(
                    f'view "{statement.name}" is ordered by a term that it does not select',
                    detail="Its rows are sorted when they are read, by their own columns.",
                    hint="Select the term as well, or sort in the query that reads the view.",
                )
        events = monitored_events(tree, schema)
        instances = _instances(statement.name, tree, relation) if identity else None
        found.append(OqlView(statement.name, statement.text, relation, tree, events, order, instances))
        known[statement.name] = relation.fields
        schema = schema if instances is None else schema.with_classes({instances.name: instances})
        defined.add(statement.name)
    if not found:
        raise ParseError("a query was expected", where=name)
    return found


def _instances(name: str, tree: Operator, relation: Relation) -> ObjectClass:
    """The class of the rows of a view, whose first column is their identity."""
    of = tree.head.type if isinstance(tree, Reduce) else tree.of.element if isinstance(tree, Combine) else None
    if isinstance(tree, Reduce) and tree.monoid not in COLLECTIONS:
        of = None
    if isinstance(of, RecordType):
        return instance_class(name, of.by_name)
    (_, value) = relation.fields
    return instance_class(name, {value.name: column_type(value.type) if of is None else of})
