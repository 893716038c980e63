"""The entry point of the OQL front end: from a text to relations."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.oql.algebra.events import monitored_events
from tidemill.compiler.frontends.oql.algebra.operators import Operator
from tidemill.compiler.frontends.oql.algebra.unnest import unnest
from tidemill.compiler.frontends.oql.calculus.normalize import normalize
from tidemill.compiler.frontends.oql.calculus.translator import TermTranslator
from tidemill.compiler.frontends.oql.lowering.lower import lower, lower_ordered
from tidemill.compiler.frontends.oql.syntax.parse import parse_statements
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.compiler.frontends.text.source import SourceText, locating_errors
from tidemill.model.classes import ObjectSchema
from tidemill.model.errors import NameTaken, ParseError, Unsupported
from tidemill.model.schema import RelationFields
from tidemill.model.update_events import Listening


@dataclass(frozen=True)
class OqlView:
    """A view: ``define name() as ...``. ``monitored`` are the events that change it; its rows are read in ``order``."""

    name: str
    text: str
    relation: Relation
    tree: Operator
    monitored: frozenset[Listening]
    order: tuple[ColumnOrder, ...] = ()


@dataclass(frozen=True)
class OqlAnswer:
    """A query that is answered once: its first ``visible`` columns. ``order`` may sort by those after them."""

    relation: Relation
    tree: Operator
    visible: int
    order: tuple[ColumnOrder, ...] = ()


def translate_oql(
    text: str, schema: ObjectSchema, views: RelationFields, name: str = "oql"
) -> list[OqlView | OqlAnswer]:
    """The definitions and queries of ``text``, in order; each sees the views before it. ``name`` is for errors."""
    source = SourceText(name, text)
    known, defined, found = dict(views), set[str](), list[OqlView | OqlAnswer]()
    for statement in parse_statements(source):
        term = TermTranslator(source, schema, known).term(statement.query, {})
        with locating_errors(source.span(*statement.query.span)):
            if statement.name in defined or statement.name in schema.extents():
                raise NameTaken(f'"{statement.name}" exists already')
            tree = unnest(normalize(term))
            relation = lower(tree, schema, known)
            ordered, order = lower_ordered(tree, schema, known)
            if statement.name is None:
                found.append(OqlAnswer(ordered, tree, len(relation.fields), order))
                continue
            if any(position >= len(relation.fields) for position, _, _ in order):
                raise Unsupported(
                    f'view "{statement.name}" is ordered by a term that it does not select',
                    detail="Its rows are sorted when they are read, by their own columns.",
                    hint="Select the term as well, or sort in the query that reads the view.",
                )
        found.append(OqlView(statement.name, statement.text, relation, tree, monitored_events(tree, schema), order))
        known[statement.name] = relation.fields
        defined.add(statement.name)
    if not found:
        raise ParseError("a query was expected", where=name)
    return found
