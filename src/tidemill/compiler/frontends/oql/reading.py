"""The face of the OQL front end: from a text to the relations that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra.relations import Relation
from tidemill.compiler.frontends.oql import syntax as s
from tidemill.compiler.frontends.oql.calculus import Term
from tidemill.compiler.frontends.oql.events import listens
from tidemill.compiler.frontends.oql.grammar import read_statements
from tidemill.compiler.frontends.oql.lowering import lower, lower_ordered
from tidemill.compiler.frontends.oql.meaning import Meaning
from tidemill.compiler.frontends.oql.normalize import normalize
from tidemill.compiler.frontends.oql.trees import Tree
from tidemill.compiler.frontends.oql.unnesting import tree_of
from tidemill.compiler.frontends.ordering import Order
from tidemill.compiler.frontends.places import Source, placed
from tidemill.model.classes import Schema
from tidemill.model.errors import NameTaken, ParseError, Unsupported
from tidemill.model.events import Listening
from tidemill.model.types import Field

Views = Mapping[str, tuple[Field, ...]]


@dataclass(frozen=True)
class Define:
    """A view: ``define name() as ...``. ``listens`` are the events that change it; its rows are read in ``order``."""

    name: str
    text: str
    relation: Relation
    tree: Tree
    listens: frozenset[Listening]
    order: tuple[Order, ...] = ()


@dataclass(frozen=True)
class Ask:
    """A query that is asked once. Its first ``visible`` columns are the answer, ``order`` may sort by those behind."""

    relation: Relation
    tree: Tree
    visible: int
    order: tuple[Order, ...] = ()


def read(text: str, schema: Schema, views: Views, name: str = "oql") -> list[Define | Ask]:
    """The definitions and queries of ``text``, in order; each sees the views before it. ``name`` is for errors."""
    source = Source(name, text, ())
    known, defined, found = dict(views), set[str](), list[Define | Ask]()
    for statement in read_statements(source):
        term = _meaning(statement, source, schema, known)
        with placed(source.span(*statement.query.span)):
            if statement.name in defined or statement.name in schema.extents():
                raise NameTaken(f'there is "{statement.name}" already')
            tree = tree_of(normalize(term))
            relation = lower(tree, schema, known)
            ordered, order = lower_ordered(tree, schema, known)
            if statement.name is None:
                found.append(Ask(ordered, tree, len(relation.fields), order))
                continue
            if any(position >= len(relation.fields) for position, _, _ in order):
                raise Unsupported(
                    f'view "{statement.name}" is ordered by what it does not show',
                    detail="Its rows are kept as they are shown, and put in order when they are read.",
                    hint="Show it as one more member of the struct, or order when you ask for the rows.",
                )
        found.append(Define(statement.name, statement.text, relation, tree, listens(tree, schema), order))
        known[statement.name] = relation.fields
        defined.add(statement.name)
    if not found:
        raise ParseError("a query was expected", where=name)
    return found


def comprehension_of(text: str, schema: Schema, views: Views) -> Term:
    """What the one query of ``text`` means, before it is brought into normal form."""
    source = Source("oql", text, ())
    (statement,) = read_statements(source)
    return _meaning(statement, source, schema, views)


def _meaning(statement: s.Statement, source: Source, schema: Schema, views: Views) -> Term:
    return Meaning(source, schema, views).term(statement.query, {})
