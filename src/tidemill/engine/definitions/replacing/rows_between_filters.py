"""The rows of a relation that pass one of two filters alone: those by which views differ that differ in a filter.

They are few of many as a rule. So the columns that the filters read are scanned, and the others are read where a row
was found. A row and its deletion are both found, and taken out then: nothing has to be summed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.scalars import Case, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Scan
from tidemill.algebra.relational.walk import columns_in
from tidemill.changes.arrow import integer_array, to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import WeightedRow
from tidemill.engine.epochs.placement import Placement
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, BOOLEAN, Field
from tidemill.program.changed_filters import ALIAS, ChangedFilter, is_true
from tidemill.program.maps import Map
from tidemill.runtimes.runtime import NotAnswered
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.segments import PLACE
from tidemill.storage.snapshot import StoreSnapshot

__all__ = ["rows_between", "rows_passing_one", "signed_rows"]

PASSES = "_passes"
"""Column that says if a row passes the new filter."""

EVALUATED_ROWS = 10_000
"""Rows that are evaluated at once where DuckDB does not know a filter."""


def rows_between(
    found: ChangedFilter, fields: Sequence[Field], snapshot: StoreSnapshot, placement: Placement
) -> ChangeSet:
    """The rows of a snapshot that pass one of two filters alone, as a change: those that pass the old one go."""
    read = {name for scalar in (*found.before, *found.after) for name in columns_in(scalar)}
    columns = [f for f in fields if f"{ALIAS}.{f.name}" in read] or fields[:1]
    rows = snapshot.find(found.relation, fields, columns, partial(_find, found, columns, placement))
    signed = signed_rows(rows.select([*(f.name for f in fields), WEIGHT, PASSES]), fields).arrow()
    return ChangeSet.of_arrow(difference(signed.slice(0, 0), signed, Map(found.relation, tuple(fields))), fields)


def rows_passing_one(found: ChangedFilter, fields: Sequence[Field]) -> Relation:
    """The rows of a relation that pass one of two filters alone, with a column ``PASSES``, true for the new one."""
    scan = Scan(found.relation, ALIAS, tuple(fields))
    old, new = is_true(found.before), is_true(found.after)
    one = Case(((old, is_true(found.after, negated=True)),), new, BOOLEAN)
    outputs = [Named(f.name, column(inner)) for f, inner in zip(fields, scan.fields, strict=True)]
    return Project(Filter(scan, one), (*outputs, Named(PASSES, new)))


def signed_rows(rows: pa.Table, fields: Sequence[Field]) -> ChangeSet:
    """Weighted rows that pass one of two filters, as a change: those that pass the old one alone go."""
    weights = rows.column(WEIGHT)
    signed = pc.if_else(rows.column(PASSES), weights, pc.negate(weights))
    return ChangeSet.of_arrow(rows.drop_columns([PASSES, WEIGHT]).append_column(WEIGHT, signed), fields)


def _find(found: ChangedFilter, columns: Sequence[Field], placement: Placement, rows: pa.Table) -> pa.Table:
    """The places of the rows that pass one filter alone, and if that is the new one."""
    place = Field(PLACE, BIGINT, nullable=False)
    query = rows_passing_one(found, (*columns, place))
    ones = np.ones(rows.num_rows, dtype=np.int64)
    given = rows.append_column(PLACE, integer_array(np.arange(rows.num_rows))).append_column(
        WEIGHT, integer_array(ones)
    )
    if placement.answers_in_columns(rows.num_rows):
        with suppress(NotAnswered):
            return placement.answer_in_columns(query, lambda name, fields: given).arrow().select([PLACE, PASSES])
    parts: list[WeightedRow] = []
    for start in range(0, rows.num_rows, EVALUATED_ROWS):
        some = ChangeSet.of_arrow(given.slice(start, EVALUATED_ROWS), (*columns, place))
        parts += evaluate(query, {found.relation: some.zset()}).items()
    return to_arrow(parts, query.fields).select([PLACE, PASSES])
