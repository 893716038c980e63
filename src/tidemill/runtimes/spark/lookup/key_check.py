"""Checking a change against a table. ``runtimes.integrity`` checks rows; this module fetches as few as possible.

The cheapest way comes first. A change that only inserts into a table without a key needs no check. For a table of
moderate size this process looks the rows under the touched keys up in mapped files, as tasks do: that costs what the
change touches, and less than Spark needs to start a job. Everything else is left to Spark: a semi join with the touched
keys, or for a large change a search for one invalid row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.arrow import arrow_schema, from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT, Table, names_of
from tidemill.runtimes.integrity import check_change
from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow, rows_as_arrow
from tidemill.runtimes.spark.execution.job_settings import is_small
from tidemill.runtimes.spark.execution.results import COLLECT_ROWS, ResultCollector
from tidemill.runtimes.spark.execution.temporary_views import VIEW_PREFIX, TemporaryViews
from tidemill.runtimes.spark.lookup.bulk_key_check import Mask, rows_to_check
from tidemill.runtimes.spark.lookup.lookup_task import find_in_runs
from tidemill.runtimes.spark.lowering.sql_text import comma_list, join_hint, quote
from tidemill.runtimes.spark.lowering.stages import lower_linear
from tidemill.storage.store import RunFile

LOOKUP_ROWS = 100_000_000
"""Stored rows up to which this process makes mapped files of a table, to look rows up in them: once, at some million
rows a second. Above, tasks make them and look up."""

_KEYS = (t.Integral, t.String, t.Date, t.Time, t.Timestamp)
"""Types of columns by which Arrow finds rows."""

_OFFENDER = f"{VIEW_PREFIX}offender"


def needs_no_check(table: Table, change: ChangeSet) -> bool:
    """True if nothing can be wrong: rows are only inserted, and there is no key."""
    return not table.primary_key and smallest_weight(change) > 0


def smallest_weight(change: ChangeSet) -> int:
    """The smallest weight in a change; 1 for an empty one."""
    weights = read_columns(change, [WEIGHT]).column(WEIGHT)
    return pc.min(weights).as_py() if len(weights) else 1


def read_columns(change: ChangeSet, names: Sequence[str]) -> pa.Table:
    """Some columns of a change; from files only these are read."""
    if change.files is None:
        return change.arrow().select(list(names))
    return pa.concat_tables([pq.read_table(file, columns=list(names)) for file in change.files])


def can_look_up(table: Table) -> bool:
    """True if the rows that a change touches can be found in mapped files."""
    return bool(_found_by(table))


def _found_by(table: Table) -> tuple[str, ...]:
    """The columns by which rows are found: the key if there is one, else the first suitable column."""
    plain = [f.name for f in table.fields if isinstance(f.type, _KEYS)]
    if table.primary_key:
        return table.primary_key if set(table.primary_key) <= set(plain) else ()
    return tuple(plain[:1])


def only_new_keys(table: Table, change: ChangeSet, stored: Sequence[RunFile]) -> bool:
    """True if a change only inserts rows under new and distinct keys, so that no row need be checked."""
    if not table.primary_key or smallest_weight(change) < 1:
        return False
    key = list(table.primary_key)
    keys = read_columns(change, [*key, WEIGHT])
    if pc.max(keys.column(WEIGHT)).as_py() != 1 or keys.group_by(key).aggregate([]).num_rows < keys.num_rows:
        return False
    near = _look_up(table, change, stored, key)
    return not near.num_rows or not keys.join(near, keys=key, join_type="left semi").num_rows


def check_by_lookup(table: Table, change: ChangeSet, stored: Sequence[RunFile]) -> ChangeSet | None:
    """A change checked by this process against the rows of ``stored`` files under its keys.

    Comparing columns clears most rows; only the others are checked one by one. None if those are too many.
    """
    if not table.primary_key and len(change) > COLLECT_ROWS:
        return None
    if not table.primary_key:
        held = _look_up(table, change, stored, [*names_of(table.fields), WEIGHT])
        return check_in_driver(table, change, ZSet.summed(from_arrow(held, table.fields)))
    doubted, held = rows_in_doubt(table, change, stored)
    if not doubted.any():
        return change
    if doubted.sum() > COLLECT_ROWS:
        return None
    rows = change.arrow()
    unsure = ChangeSet.of_arrow(rows.filter(doubted), table.fields)
    found = check_in_driver(table, unsure, ZSet.summed(from_arrow(held, table.fields)))
    if found is unsure:
        return change
    return ChangeSet.of_arrow(pa.concat_tables([rows.filter(~doubted), found.arrow()]), table.fields)


def rows_in_doubt(table: Table, change: ChangeSet, stored: Sequence[RunFile]) -> tuple[Mask, pa.Table]:
    """A mask of the rows of a change that need a closer check against the rows of ``stored`` files under their keys,
    and these rows. The table has a primary key."""
    held = _look_up(table, change, stored, [*names_of(table.fields), WEIGHT])
    ours, theirs = rows_to_check(table, change.arrow(), held)
    return ours, held.filter(theirs)


def _look_up(table: Table, change: ChangeSet, stored: Sequence[RunFile], columns: Sequence[str]) -> pa.Table:
    """Columns of the stored rows under the keys of a change, and rarely of others."""
    schema = arrow_schema(table.fields)
    wanted, by = (pa.schema([schema.field(name) for name in names]) for names in (columns, _found_by(table)))
    return find_in_runs(stored, wanted, read_columns(change, by.names).cast(by))


def check_in_driver(table: Table, change: ChangeSet, held: ZSet) -> ChangeSet:
    """A change summed and checked in this process, against the rows that the table holds under the touched keys."""
    summed = change.zset()
    positions = table.key_positions
    by_key: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, weight in held.items():
        by_key[tuple(row[position] for position in positions)].append((row, weight))
    check_change(table, summed, held.weight, lambda key: by_key.get(key, ()))
    return change if len(summed) == len(change) else ChangeSet.of(summed.items(), table.fields)


def lower_rows_under_keys(table: Table, change: ChangeSet, frames: TemporaryViews) -> str:
    """The query for a table's rows under the keys of a change (without a primary key: for the deleted rows)."""
    columns = table.primary_key or names_of(table.fields)
    leaving = "" if table.primary_key else f" WHERE {quote(WEIGHT)} < 0"
    touched = f"SELECT DISTINCT {comma_list(map(quote, columns))} FROM {frames.change(change)}{leaving}"
    hint = join_hint("touched", single_task=is_small(len(change) + frames.rows(table.name)))
    return lower_linear([_near(table, frames.state(table.name), f"({touched})", hint)], table.fields)


def check_in_spark(table: Table, change: ChangeSet, frames: TemporaryViews, landing: ResultCollector) -> ChangeSet:
    """The same for a change that is too large for this process: Spark sums it, and searches for one invalid row."""
    rows = [_rows(table, frames.change(change))]
    summed = landing.collect_change(lower_linear(rows, table.fields), table.name, table.fields, len(change))
    offender = rows_as_arrow(frames.spark.sql(_lower_offender(table, summed, frames)))
    if offender.num_rows:
        _raise_for(table, summed, offender, frames)
    return summed


def _raise_for(table: Table, summed: ChangeSet, offender: pa.Table, frames: TemporaryViews) -> None:
    """Check the rows around the invalid one, so that the error is the one that ``check_in_driver`` would raise."""
    frame_of_arrow(frames.spark, offender, table.fields).createOrReplaceTempView(quote(_OFFENDER))
    try:
        change, held = (
            ChangeSet.of_arrow(
                rows_as_arrow(frames.spark.sql(_near(table, rows, quote(_OFFENDER), join_hint("touched")))),
                table.fields,
            )
            for rows in (frames.change(summed), frames.state(table.name))
        )
    finally:
        frames.spark.catalog.dropTempView(_OFFENDER)
    check_in_driver(table, change, held.zset())


def _lower_offender(table: Table, summed: ChangeSet, frames: TemporaryViews) -> str:
    """The key (without a key: the row) of one row whose weight would be negative, or that would be a duplicate."""
    change = frames.change(summed)
    near = _near(table, frames.state(table.name), change)
    by_row, weight = lower_linear([_rows(table, change), near], table.fields), quote(WEIGHT)
    if not table.primary_key:
        return f"SELECT {comma_list(map(quote, names_of(table.fields)))} FROM ({by_row}) WHERE {weight} < 0 LIMIT 1"
    key = comma_list(map(quote, table.primary_key))
    return f"SELECT {key} FROM ({by_row}) GROUP BY {key} HAVING sum({weight}) <> 1 OR min({weight}) < 0 LIMIT 1"


def _near(table: Table, rows: str, touched: str, hint: str = "") -> str:
    """The weighted rows of a table whose key (without a key: whose columns) are among ``touched``."""
    columns = table.primary_key or names_of(table.fields)
    match = " AND ".join(f"held.{quote(column)} <=> touched.{quote(column)}" for column in columns)
    wanted = comma_list(f"held.{quote(name)}" for name in (*names_of(table.fields), WEIGHT))
    semi = f"LEFT SEMI JOIN {touched} AS touched ON {match}"
    return f"SELECT {hint} {wanted} FROM {rows} AS held {semi}"


def _rows(table: Table, rows: str) -> str:
    return f"SELECT {comma_list(map(quote, (*names_of(table.fields), WEIGHT)))} FROM {rows}"
