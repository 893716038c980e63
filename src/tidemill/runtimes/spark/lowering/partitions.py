"""Top-k, windows and patterns: the new output of the touched partitions of a map of rows, minus the old output.

A query reads, from the inside out:

1. ``entries``: the rows of the touched partitions (their stored rows are found by broadcasting the partition keys),
   each with its multiplicity before and after the epoch. 2. ``sides``: the old rows, with sign -1, and the new ones,
   with sign +1. From here on each side of a partition is a partition of its own. 3. the result of the operator on each
   side, and what is above it; rows of both sides cancel out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK, Window
from tidemill.algebra.relational.windows import SESSION, WindowCall
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Struct
from tidemill.program.stages import PartitionEmission
from tidemill.runtimes.spark.lowering.multiset_aggregates import (
    COUNT_COLUMNS,
    NEW,
    OLD,
    MultisetChange,
    lower_multiset_entries,
)
from tidemill.runtimes.spark.lowering.python_udfs import PythonUdfs
from tidemill.runtimes.spark.lowering.sql_text import aliased, comma_list, expression_sql, quote, struct_sql
from tidemill.runtimes.spark.lowering.stages import lower_linear
from tidemill.runtimes.spark.lowering.window_functions import POSITION, WindowSpec, interval_sql, lower_call

_SIGN = quote("the sign")
_COPIES = quote("the copies")
_COPY = quote("the copy")
_UNTIL = quote("the rows until here")
_PEERS = quote("the rows before the peers")
_BEGINS = quote("begins a session")
_SESSION = quote("the session")
_PARTITION = quote("the part")
_ROW = quote("the row")


@dataclass(frozen=True, slots=True)
class OldAndNewRows:
    """The rows of both sides of the touched partitions, as a FROM item, and their window specification."""

    rows: str
    columns: tuple[str, ...]
    place: WindowSpec


def lower_partitions(
    parts: PartitionEmission, fields: Sequence[Field], multiset: MultisetChange, workers: PythonUdfs
) -> str:
    """The change of the rows of a stage, summed; ``multiset`` is its map and ``fields`` are the columns of its rows."""
    sides = lower_old_and_new(parts, multiset)
    match parts.rows:
        case TopK():
            shown = lower_topk(parts.rows, sides)
        case Window():
            shown = lower_window(parts.rows, sides, workers)
        case Match():
            shown = lower_match(parts.rows, sides, workers)
    where = "" if parts.condition is None else f" WHERE {expression_sql(parts.condition)}"
    outputs = [
        aliased(expression_sql(output.scalar), field.name) for output, field in zip(parts.outputs, fields, strict=True)
    ]
    return lower_linear([f"SELECT {comma_list([*outputs, quote(WEIGHT)])} FROM ({shown}){where}"], fields)


def max_changed_rows(parts: PartitionEmission, changed: int, stored: int) -> int:
    """Upper bound of the rows in a stage's change, if its map changes by so many rows and has so many."""
    touched = 2 * stored + changed
    node = parts.rows
    if isinstance(node, TopK) and node.limit is not None and not node.ties:
        # Each changed row touches one partition, of which only the first rows are output.
        return min(touched, 2 * node.limit * changed)
    return touched


def lower_old_and_new(parts: PartitionEmission, multiset: MultisetChange) -> OldAndNewRows:
    """The old and the new rows of the touched partitions, with sign and number of copies."""
    node, columns = parts.rows, tuple(quote(f.name) for f in multiset.map.keys)
    partition = columns[: parts.width]
    entries = lower_multiset_entries(
        multiset, partition, f"(SELECT DISTINCT {comma_list(partition)} FROM {multiset.change})"
    )
    both = f"stack(2, -1L, {COUNT_COLUMNS[OLD]}, 1L, {COUNT_COLUMNS[NEW]}) sides AS {_SIGN}, {_COPIES}"
    rows = f"SELECT {comma_list([*columns, _SIGN, _COPIES])} FROM ({entries}) LATERAL VIEW {both} WHERE {_COPIES} > 0"
    ordered = {quote(term.scalar.name) for term in node.order if isinstance(term.scalar, Column)}
    ties = [column for column in columns if column not in {*partition, *ordered}]
    return OldAndNewRows(f"({rows})", columns, WindowSpec((_SIGN, *partition), node.order, ties))


def lower_topk(node: TopK, sides: OldAndNewRows) -> str:
    """The rows of each side that are among the first, with the number of their copies that are."""
    last = None if node.limit is None else node.offset + node.limit
    place = sides.place
    until = f"sum({_COPIES}) OVER ({place.full} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {_UNTIL}"
    rows = f"SELECT *, {until} FROM {sides.rows}"
    end = _UNTIL if last is None else f"least({_UNTIL}, {last}L)"
    if node.ties and node.limit:
        among = comma_list([*place.partition, *(expression_sql(term.scalar) for term in node.order)])
        rows = f"SELECT *, min({_UNTIL} - {_COPIES}) OVER (PARTITION BY {among}) AS {_PEERS} FROM ({rows})"
        end = f"IF({_PEERS} < {last}L, {_UNTIL}, 0L)"
    taken = f"{end} - greatest({_UNTIL} - {_COPIES}, {node.offset}L)"
    weight = f"{_SIGN} * ({taken}) AS {quote(WEIGHT)}"
    return f"SELECT {comma_list([*sides.columns, weight])} FROM ({rows}) WHERE {taken} > 0"


def lower_window(node: Window, sides: OldAndNewRows, workers: PythonUdfs) -> str:
    """The rows of each side, each copy with the values of the window functions."""
    if [call.function for call in node.calls] == [SESSION]:
        return _lower_sessions(node.calls[0], sides)
    calls = {call.name: lower_call(call, sides.place) for call in node.calls}
    if any(text is None for text in calls.values()):
        return _lower_by_workers(node, sides, workers)
    copies = f"SELECT * FROM {sides.rows} LATERAL VIEW explode(sequence(1L, {_COPIES})) copies AS {_COPY}"
    placed = f"SELECT *, row_number() OVER ({sides.place.full}) AS {POSITION} FROM ({copies})"
    values = [f"{text} AS {quote(name)}" for name, text in calls.items()]
    return f"SELECT {comma_list([*sides.columns, *values, f'{_SIGN} AS {quote(WEIGHT)}'])} FROM ({placed})"


def _lower_sessions(call: WindowCall, sides: OldAndNewRows) -> str:
    """The rows of each side, each with the start and the end of its session; copies of a row are in the same one."""
    assert isinstance(call.of, Struct), "a session has a start and an end"
    start, end = (f.name for f in call.of.fields)
    moment, place = expression_sql(call.arguments[0]), sides.place
    until = _end_of_gap(moment, call.arguments[1])
    before = f"{place.full} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    goes_on = f"{moment} <= max({until}) OVER ({before})"
    begun = f"SELECT *, CASE WHEN {goes_on} THEN 0L ELSE 1L END AS {_BEGINS} FROM {sides.rows}"
    number = f"sum({_BEGINS}) OVER ({place.full} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {_SESSION}"
    numbered = f"SELECT *, {number} FROM ({begun})"
    over = f"OVER (PARTITION BY {comma_list([*place.partition, _SESSION])})"
    session = struct_sql({start: f"min({moment}) {over}", end: f"max({until}) {over}"})
    weight = f"{_SIGN} * {_COPIES} AS {quote(WEIGHT)}"
    return f"SELECT {comma_list([*sides.columns, f'{session} AS {quote(call.name)}', weight])} FROM ({numbered})"


def _end_of_gap(moment: str, gap: Scalar) -> str:
    """Until when a row continues its session."""
    if isinstance(gap, Literal):
        return f"{moment} + {interval_sql(gap.value)}"
    return f"timestamp_micros(unix_micros({moment}) + {expression_sql(gap)})"


def lower_match(node: Match, sides: OldAndNewRows, workers: PythonUdfs) -> str:
    """The rows at which a pattern matches on each side, with their measures: the matcher runs in Python workers."""
    return _lower_by_workers(node, sides, workers)


def _lower_by_workers(node: Window | Match, sides: OldAndNewRows, workers: PythonUdfs) -> str:
    """The same, computed by Python workers for each side of a partition as a whole."""
    row = {str(i): column for i, column in enumerate(sides.columns)} | {WEIGHT: _COPIES}
    part = f"{workers.rows(node)}(collect_list({struct_sql(row)}))"
    parts = f"SELECT {_SIGN}, {part} AS {_PARTITION} FROM {sides.rows} GROUP BY {comma_list(sides.place.partition)}"
    columns = [f"{_ROW}.{quote(f.name)} AS {quote(f.name)}" for f in node.fields]
    weight = f"{_SIGN} * {_ROW}.{quote(WEIGHT)} AS {quote(WEIGHT)}"
    return f"SELECT {comma_list([*columns, weight])} FROM ({parts}) LATERAL VIEW explode({_PARTITION}) part AS {_ROW}"
