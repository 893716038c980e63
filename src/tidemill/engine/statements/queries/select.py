"""One-off queries: a runtime computes the multiset; order and limit are applied on top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from textwrap import indent
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import column
from tidemill.algebra.node import Relation
from tidemill.algebra.plan_text import plan_text
from tidemill.algebra.relational.relations import TopK
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import Row
from tidemill.compiler.frontends.script.statements import ExplainQuery, OqlText
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.compiler.frontends.translate import TranslatedQuery, translate
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.catalog.entries.oql_queries import read_oql
from tidemill.engine.catalog.new_views.view_instances import instance_classes
from tidemill.engine.definitions.stored_statistics import counted_rows
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.information_schema import INFORMATION_RELATIONS, with_information
from tidemill.engine.results import Result, present_rows
from tidemill.engine.statements.queries.clock import now
from tidemill.engine.statements.queries.versions import versions_read
from tidemill.model.array_tree import ArrayTree
from tidemill.model.errors import ParseError, Unsupported
from tidemill.model.types import STRING, Field


def select(engine: Engine, query: str | ParsedText, *, until: int | None = None) -> Result:
    """The rows of a SELECT over the present contents, or over those of epoch ``until``."""
    versions = versions_read(engine, query) if until is None else {}
    relations = {name: engine.catalog.fields_at(name, until) for name in engine.rights.relations}
    relations |= {version: engine.catalog.fields_at(name, epoch) for version, (name, epoch) in versions.items()}
    readable = {**relations, **INFORMATION_RELATIONS} if until is None else relations
    translated = translate(query, readable, functions=engine.registry.keys, named=engine.named, moment=now())
    translated = replace(translated, relation=with_information(engine, translated.relation))
    if not versions and until is None:
        return answered(engine, translated)
    read = scans(translated.relation)
    engine.reads.update(versions[name][0] if name in versions else name for name in read)
    stored = {name: versions.get(name, (name, until)) for name in read}
    found = engine.allowed.answer_at(stored, translated.relation, _first_rows(translated))
    return _shown(engine, translated, found.zset().expand())


def explain_query(engine: Engine, statement: ExplainQuery) -> Result:
    """Explanation of a SELECT: the place where its rows are looked for, the relations that it reads, and its plan."""
    if versions_read(engine, statement.query):
        raise Unsupported("a query over earlier epochs cannot be explained", where=statement.place)
    relations = {**engine.rights.relations, **INFORMATION_RELATIONS}
    found = translate(statement.query, relations, functions=engine.registry.keys, named=engine.named, moment=now())
    plan = push_down_filters(_first_rows(found) or found.relation)
    relation = with_information(engine, found.relation)
    reads = [f"{name}, {counted_rows(engine.catalog, engine.store, name):,} rows" for name in sorted(scans(relation))]
    facts = {"answered by": engine.reader.way_of(relation), "reads": "; ".join(reads) or "nothing"}
    if notes := engine.notes(scans(relation)):
        facts["notes"] = "; ".join(notes)
    lines = [f"{name}: {fact}" for name, fact in facts.items()]
    return Result([("\n".join([*lines, "plan:", indent(plan_text(plan), "  ")]),)], (Field("plan", STRING),))


def answered(engine: Engine, query: TranslatedQuery) -> Result:
    """The rows of a translated SELECT over the present contents."""
    engine.reads.update(scans(query.relation))
    found = engine.answer(query.relation, _first_rows(query))
    return _shown(engine, query, found.zset().expand())


def select_oql(engine: Engine, query: OqlText) -> Result:
    """The result of an OQL query over the present contents, in its order."""
    from tidemill.compiler.frontends.oql.statements import (
        OqlAnswer,  # a front end of its own, which few warehouses need
    )

    instances = instance_classes(engine.catalog, query.text)
    found = read_oql(query, engine.catalog.module, engine.catalog.relations, engine.parameters, instances=instances)
    if len(found) != 1 or not isinstance(found[0], OqlAnswer):
        raise ParseError("one query was expected", where=query.name, hint="A view is made by define().")
    asked = TranslatedQuery(found[0].relation, found[0].visible, found[0].order)
    return _shown(engine, asked, engine.answer(asked.relation).zset().expand())


def _first_rows(query: TranslatedQuery) -> Relation | None:
    """The rows that LIMIT leaves, and those before its OFFSET; None if the query has no limit."""
    if query.limit is None:
        return None
    fields = query.relation.fields
    order = tuple(SortOrder(column(fields[position]), *how) for position, *how in query.order)
    return TopK(query.relation, (), order, query.limit + (query.offset or 0))


def _shown(engine: Engine, query: TranslatedQuery, rows: Iterable[Row]) -> Result:
    fields = query.relation.fields[: query.visible]
    shown = [row[: query.visible] for row in order_and_limit(list(rows), query)]
    return Result(present_rows(shown, fields), fields, frame=engine.placement.frame)


def order_and_limit(rows: Sequence[Row], query: TranslatedQuery) -> Sequence[Row]:
    """The rows in the order of the query, cut to its limit."""
    ordered = ordered_rows(rows, query.order)
    start = query.offset or 0
    return ordered[start:] if query.limit is None else ordered[start : start + query.limit]


def ordered_rows(rows: Iterable[Row], order: Sequence[ColumnOrder]) -> list[Row]:
    """The rows sorted by some of their columns; a stable sort."""
    ordered = list(rows)
    for position, descending, nulls_first in reversed(order):
        ordered.sort(key=lambda row, i=position: _rank(row[i]), reverse=descending)  # type: ignore[misc]
        ordered.sort(key=lambda row, i=position: (row[i] is None) != nulls_first)  # type: ignore[misc]
    return ordered


def _rank(value: Any) -> tuple[Any, ...]:
    """Sort key for values of one column: NULL anywhere (it is sorted separately), NaN above all numbers."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2, 0.0) if value != value else (1, value)
    if isinstance(value, tuple | ArrayTree):
        return (1, tuple(map(_rank, value)))
    return (1, value)
