"""Constraints on Spark: one query finds a row that violates any of them, for all tables of an epoch together.

A CHECK is a filter on inserted rows. UNIQUE counts the rows that have their values. A foreign key is two joins of the
epoch's changes with stored tables: inserted rows without a parent, and deleted parents with children. Which row it is,
is queried only if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.errors import DataError
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import BIGINT, Field
from tidemill.program.constraints import CheckCondition, Constraints, ForeignKey, UniqueKey
from tidemill.runtimes.integrity import check_violated, duplicate_value, missing_parent, parent_still_referenced
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.temporary_views import TemporaryViews
from tidemill.runtimes.spark.lookup.key_check import smallest_weight
from tidemill.runtimes.spark.lowering.sql_text import comma_list, expression_sql, quote
from tidemill.runtimes.spark.lowering.stages import lower_linear

_COUNT = "children"


@dataclass(frozen=True)
class ViolationQuery:
    """A query for rows of ``fields`` that violate a constraint, and the error for such a row."""

    query: str
    fields: tuple[Field, ...]
    error: Callable[[Row], DataError]


def violation_queries(
    changes: Mapping[str, ChangeSet], constraints: Constraints, frames: TemporaryViews
) -> list[ViolationQuery]:
    """Every way in which the summed ``changes`` of an epoch can violate a constraint."""
    found: list[ViolationQuery] = []
    for name, change in changes.items():
        if len(change):
            found += [_false_of(condition, change, frames) for condition in constraints.conditions_of(name)]
    for unique in constraints.uniques_of(changes):
        if len(changes[unique.table.name]):
            found.append(_twice(unique, changes[unique.table.name], frames))
    for key in constraints.keys_of(changes):
        found += _broken(key, changes, frames)
    return found


def raise_first_violation(wanted: Sequence[ViolationQuery], frames: TemporaryViews) -> None:
    """Refuse the epoch if one of the queries finds a row."""
    if not wanted:
        return
    parts = (f"(SELECT {number} AS found FROM ({search.query}) LIMIT 1)" for number, search in enumerate(wanted))
    found = _rows(f"SELECT min(found) AS found FROM ({' UNION ALL '.join(parts)})", frames)
    (number,) = found.column("found").to_pylist()
    if number is not None:
        search = wanted[number]
        offender = _rows(f"SELECT * FROM ({search.query}) LIMIT 1", frames)
        ((row, _),) = from_arrow(offender, search.fields)
        raise search.error(row)


def _rows(query: str, frames: TemporaryViews) -> pa.Table:
    return rows_as_arrow(frames.spark.sql(query))


def _false_of(condition: CheckCondition, change: ChangeSet, frames: TemporaryViews) -> ViolationQuery:
    """The inserted rows for which a CHECK is false. Changes of a stream have not been summed yet."""
    table = condition.table
    columns, rows = comma_list(map(quote, names_of(table.fields))), frames.change(change)
    if not table.kept:
        rows = f"({lower_linear([f'SELECT {columns}, {quote(WEIGHT)} FROM {rows}'], table.fields)})"
    query = f"SELECT {columns} FROM {rows} WHERE {quote(WEIGHT)} > 0 AND NOT {expression_sql(condition.scalar)}"
    return ViolationQuery(query, table.fields, lambda row: check_violated(condition, row))


def _twice(key: UniqueKey, change: ChangeSet, frames: TemporaryViews) -> ViolationQuery:
    """The values of unique columns that come, and that several rows have after the epoch."""
    columns = key.constraint.columns
    names, there = comma_list(map(quote, columns)), " AND ".join(f"{quote(column)} IS NOT NULL" for column in columns)
    coming = f"SELECT DISTINCT {names} FROM {frames.change(change)} WHERE {quote(WEIGHT)} > 0 AND {there}"
    match = " AND ".join(f"held.{quote(column)} = sought.{quote(column)}" for column in columns)
    held = f"{_after(key.table.name, columns, change, frames)} AS held LEFT SEMI JOIN ({coming}) AS sought ON {match}"
    query = f"SELECT {names} FROM {held} GROUP BY {names} HAVING sum({quote(WEIGHT)}) > 1"
    fields = tuple(key.table.fields[place] for place in key.places)
    return ViolationQuery(query, fields, lambda value: duplicate_value(key, value))


def _broken(key: ForeignKey, changes: Mapping[str, ChangeSet], frames: TemporaryViews) -> Iterator[ViolationQuery]:
    children, parents = changes.get(key.child.name), changes.get(key.parent.name)
    if children is not None and len(children):
        yield ViolationQuery(
            _lower_orphans(key, children, parents, frames), key.child.fields, lambda row: _orphan(key, row)
        )
    if parents is not None and smallest_weight(parents) < 0:
        query = _lower_abandoned(key, children, parents, frames)
        fields = (*(key.parent.fields[place] for place in key.parent_places), Field(_COUNT, BIGINT))
        yield ViolationQuery(query, fields, lambda row: parent_still_referenced(key, row[:-1], row[-1]))


def _orphan(key: ForeignKey, row: Row) -> DataError:
    return missing_parent(key, row, tuple(row[place] for place in key.child_places))


def _lower_orphans(key: ForeignKey, children: ChangeSet, parents: ChangeSet | None, frames: TemporaryViews) -> str:
    """The rows inserted into the child whose parent does not exist after the epoch."""
    there = " AND ".join(f"{quote(column)} IS NOT NULL" for column in key.child_columns)
    columns = comma_list(map(quote, names_of(key.child.fields)))
    coming = f"SELECT {columns} FROM {frames.change(children)} WHERE {quote(WEIGHT)} > 0 AND {there}"
    if key.absent:
        return coming
    sought = f"(SELECT DISTINCT {comma_list(map(quote, key.child_columns))} FROM ({coming}))"
    near = f"held LEFT SEMI JOIN {sought} AS sought ON {_match(key, 'sought', 'held')}"
    primary = comma_list(map(quote, key.parent.primary_key))
    held = f"SELECT {primary} FROM {_after(key.parent.name, key.parent.primary_key, parents, frames)} AS {near}"
    present = f"({held} GROUP BY {primary} HAVING sum({quote(WEIGHT)}) > 0)"
    return (
        f"SELECT coming.* FROM ({coming}) AS coming LEFT ANTI JOIN {present} AS held ON {_match(key, 'coming', 'held')}"
    )


def _lower_abandoned(key: ForeignKey, children: ChangeSet | None, parents: ChangeSet, frames: TemporaryViews) -> str:
    """The keys of deleted parents that the child references after the epoch, with the number of such rows."""
    primary = comma_list(map(quote, key.parent.primary_key))
    left = f"SELECT {primary} FROM {frames.change(parents)} GROUP BY {primary} HAVING sum({quote(WEIGHT)}) < 0"
    named = _after(key.child.name, key.child_columns, children, frames)
    of_left = comma_list(f"gone.{quote(column)}" for column in key.parent.primary_key)
    count = f"CAST(sum(named.{quote(WEIGHT)}) AS BIGINT)"
    joined = f"({left}) AS gone JOIN {named} AS named ON {_match(key, 'named', 'gone')}"
    return f"SELECT {of_left}, {count} AS {_COUNT} FROM {joined} GROUP BY {of_left} HAVING {count} > 0"


def _match(key: ForeignKey, child: str, parent: str) -> str:
    pairs = zip(key.child_columns, key.parent.primary_key, strict=True)
    return " AND ".join(f"{child}.{quote(ours)} = {parent}.{quote(theirs)}" for ours, theirs in pairs)


def _after(relation: str, columns: Sequence[str], change: ChangeSet | None, frames: TemporaryViews) -> str:
    """Some columns of a table after the epoch, weighted."""
    wanted = tuple({f.name: f for f in frames.fields(relation)}[column] for column in columns)
    state = f"SELECT * FROM {frames.state(relation, wanted)}"
    names = comma_list(map(quote, (*columns, WEIGHT)))
    moved = "" if change is None else f" UNION ALL SELECT {names} FROM {frames.change(change)}"
    return f"({state}{moved})"
