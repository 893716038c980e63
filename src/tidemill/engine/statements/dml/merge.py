"""MERGE INTO: what its clauses change, found by queries, applied as one epoch."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.changes.zset import Row
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.translate_merge import MergeQueries, translate_merge
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.engine.statements.dml.changes import apply_rows, kept_table
from tidemill.engine.statements.queries.clock import now
from tidemill.model.errors import DuplicateKey
from tidemill.model.schema import Table

__all__ = ["merge"]


def merge(engine: Engine, statement: sql.Merge) -> Result:
    """Update, delete and insert rows of a table by those of a source. All is read at one epoch."""
    table = kept_table(engine, statement.table, statement)
    queries = translate_merge(statement, table, engine.rights.relations, engine.named, now())
    with engine.settled():
        _require_one_match(engine, queries, table, statement)
        return apply_rows(engine, table, list(_changes(engine, queries, len(table.fields)).items()))


def _changes(engine: Engine, queries: MergeQueries, width: int) -> Mapping[Row, int]:
    pairs: dict[Row, int] = {}
    for clause in queries.clauses:
        for row, weight in engine.answer(clause.relation).pairs():
            if clause.old:
                pairs[row[:width]] = pairs.get(row[:width], 0) - weight
            if clause.new:
                pairs[row[-width:]] = pairs.get(row[-width:], 0) + weight
    return {row: weight for row, weight in pairs.items() if weight}


def _require_one_match(engine: Engine, queries: MergeQueries, table: Table, statement: sql.Merge) -> None:
    """Refuse a row of the table that matches several of the source: it could become either."""
    if queries.matches is None:
        return
    held = None if queries.matched is None else engine.answer(queries.matched).zset()
    for row, times in engine.answer(queries.matches).zset().items():
        if times > (1 if held is None else held.weight(row)):
            raise DuplicateKey(
                f'a row of "{table.name}" matches several rows of the source',
                where=statement.place,
                detail=f"The row is {row}.",
                hint="Let the source have one row for each, with GROUP BY or ROW_NUMBER for instance.",
            )
