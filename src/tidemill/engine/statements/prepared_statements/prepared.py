"""Statements that are prepared once and run with other values: their parameters are columns until these are known.

A statement is translated with a column for each parameter, and every run puts constants in their places; so neither is
its text read again, nor do its names and types. Where a constant is needed to translate it, as for LIMIT, and where its
meaning depends on the time, it is read anew each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import expressions, substitute, transform, with_expressions
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.grammar.markers import selected_values
from tidemill.compiler.frontends.translate import (
    TranslatedQuery,
    parse,
    translate,
    translate_delete,
    translate_insert,
    translate_update,
)
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.engine.statements.dml.changes import apply_deleted, apply_rows, apply_updated, kept_table
from tidemill.engine.statements.prepared_statements.parameters import Parameters, markers_of_script
from tidemill.engine.statements.prepared_statements.point_read import PARAMETER, PointRead, point_read
from tidemill.engine.statements.queries.select import answered
from tidemill.engine.statements.queries.versions import versions_read
from tidemill.model.errors import TidemillError
from tidemill.model.types import Type

__all__ = ["PreparedStatements"]

MOST_STATEMENTS = 256
"""Number of statements that are kept; those that were not used for longest go."""

LONGEST_TEXT = 4_000
"""Characters of a text that is kept at most: longer ones have their values in them."""

Run = Callable[[Engine, Parameters], Result]
Key = tuple[str, tuple[tuple[str, Type], ...]]

_MOMENTS = (datetime(2001, 1, 1), datetime(2002, 2, 2))
"""Two moments: what is the same at both does not depend on the time."""


@dataclass(frozen=True)
class _Prepared:
    """A statement that is ready to run, and what it was translated with: it is out of date where that has changed."""

    run: Run
    point: PointRead | None
    catalog: object
    session: object
    functions: Mapping[str, str]

    def is_current(self, engine: Engine) -> bool:
        same = self.catalog is engine.catalog and self.session is engine.session.definitions
        return same and self.functions == engine.registry.keys


class PreparedStatements:
    """The statements that a warehouse keeps ready, by their text and the types of their parameters."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _Prepared | None] = OrderedDict()

    def find(self, engine: Engine, text: str, given: Parameters, *, at_once: bool = False) -> Run | None:
        """The function that runs a text with its parameters; None if it must be read.

        A text is prepared when it comes for the second time, or ``at_once``: for one that comes once it is no gain.
        """
        if len(text) > LONGEST_TEXT:
            return None
        key = text, tuple((marker, value.of) for marker, value in given.items())
        known = key in self._kept
        kept = self._kept.pop(key, None)
        if kept is None and not known and not at_once:
            self._keep(key, None)
            return None
        if kept is None or not kept.is_current(engine):
            made = _prepared(engine, text, given)
            if made is None:
                return None
            query, run = made
            point = point_read(engine, query) if isinstance(query, TranslatedQuery) else None
            run = run if point is None else partial(_missed, run, point)
            kept = _Prepared(run, point, engine.catalog, engine.session.definitions, dict(engine.registry.keys))
        self._keep(key, kept)
        return kept.run

    def find_point(self, engine: Engine, text: str, given: Parameters, session: object) -> PointRead | None:
        """The point read that a text is kept ready as, if it is one and nothing has changed since."""
        kept = self._kept.get((text, tuple([(marker, value.of) for marker, value in given.items()])))
        if kept is None or kept.point is None or kept.catalog is not engine.catalog or kept.session is not session:
            return None
        return kept.point

    def _keep(self, key: Key, kept: _Prepared | None) -> None:
        self._kept[key] = kept
        while len(self._kept) > MOST_STATEMENTS:
            self._kept.popitem(last=False)


def _prepared(engine: Engine, text: str, given: Parameters) -> tuple[object, Run] | None:
    """A statement as it was translated, and the function that runs it; None where reading it tells why it is none."""
    try:
        first, second = (_translated(engine, text, given, moment) for moment in _MOMENTS)
    except TidemillError:
        return None
    if first is None or second is None or first[:2] != second[:2]:
        return None
    return first[0], first[2]


def _translated(engine: Engine, text: str, given: Parameters, moment: datetime) -> tuple[object, object, Run] | None:
    statements = parse(text)
    if len(statements) != 1 or markers_of_script(statements).keys() != given.keys():
        return None
    (statement,) = statements
    columns = {marker: Column(f"{PARAMETER}{marker}", value.of) for marker, value in given.items()}
    named = replace(engine.named, markers=columns)
    relations, functions = engine.rights.relations, engine.registry.keys
    match statement:
        case sql.Select(query=query) if not versions_read(engine, query):
            found = translate(query, relations, functions=functions, named=named, moment=moment)
            return found, None, partial(_select, found)
        case sql.Insert(overwrite=False, conflict=None):
            table = engine.catalog.table(engine.rights.require(statement.table))
            selected = replace(statement, query=selected_values(statement.query))
            rows = translate_insert(selected, table, relations, named, moment)
            return rows, table, lambda now, values: apply_rows(now, table, now.answer(_bound(rows, values)).pairs())
        case sql.Update():
            table = kept_table(engine, statement.table, statement)
            rows = translate_update(statement, table, relations, named)
            return rows, table, lambda now, values: apply_updated(now, table, _bound(rows, values))
        case sql.Delete():
            table = kept_table(engine, statement.table, statement)
            rows = translate_delete(statement, table, relations, named)
            return rows, table, lambda now, values: apply_deleted(now, table, _bound(rows, values))
    return None


def _missed(run: Run, point: PointRead, engine: Engine, values: Parameters) -> Result:
    """Run a point read that could not be answered at once."""
    found = run(engine, values)
    point.note_missed(engine)
    return found


def _select(query: TranslatedQuery, engine: Engine, values: Parameters) -> Result:
    return answered(engine, replace(query, relation=_bound(query.relation, values)))


def _bound(relation: Relation, values: Parameters) -> Relation:
    """A query with constants in place of its parameters."""
    if not values:
        return relation
    constants: dict[str, Scalar] = {f"{PARAMETER}{marker}": value for marker, value in values.items()}

    def bind(node: Relation) -> Relation:
        found = expressions(node)
        return with_expressions(node, (substitute(one, constants) for one in found)) if found else node

    return transform(relation, bind)
