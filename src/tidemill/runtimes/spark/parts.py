"""Top-k, windows and patterns: what the touched parts of a map of rows show now, less what they showed before.

A query reads, from the inside out:

1. ``entries``: the rows of the touched parts (their stored rows are found by broadcasting what names a part), each
   with how often it was there and how often it is now.
2. ``sides``: the rows that were there, with sign -1, and those that are there now, with sign +1. From here on a side
   of a part is a part of its own.
3. what the node says of each side, and what stands above it; rows of both sides cancel out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.algebra.matching.match import Match
from tidemill.algebra.relations import TopK, Window
from tidemill.algebra.scalars import Column, Literal
from tidemill.algebra.windows import SESSION, WindowCall
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Struct
from tidemill.program.statements import Parts
from tidemill.runtimes.spark.bags import NEW, OLD, TIMES, Bag, lower_entries
from tidemill.runtimes.spark.spell import join, named, quote, spell, spell_struct
from tidemill.runtimes.spark.stages import lower_linear
from tidemill.runtimes.spark.windows import POSITION, Place, lower_call, spell_interval
from tidemill.runtimes.spark.workers import Workers

_SIGN = quote("the sign")
_COPIES = quote("the copies")
_COPY = quote("the copy")
_UNTIL = quote("the rows until here")
_PEERS = quote("the rows before the peers")
_BEGINS = quote("begins a session")
_SESSION = quote("the session")
_PART = quote("the part")
_ROW = quote("the row")


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows of both sides of the touched parts, as something to select from, and how they stand."""

    rows: str
    columns: tuple[str, ...]
    place: Place


def lower_parts(parts: Parts, fields: Sequence[Field], bag: Bag, workers: Workers) -> str:
    """The change of the rows of a stage, summed; ``bag`` is its map and ``fields`` are the columns of its rows."""
    sides = lower_sides(parts, bag)
    match parts.rows:
        case TopK():
            shown = lower_top(parts.rows, sides)
        case Window():
            shown = lower_window(parts.rows, sides, workers)
        case Match():
            shown = lower_match(parts.rows, sides, workers)
    where = "" if parts.condition is None else f" WHERE {spell(parts.condition)}"
    outputs = [named(spell(output.scalar), field.name) for output, field in zip(parts.outputs, fields, strict=True)]
    return lower_linear([f"SELECT {join([*outputs, quote(WEIGHT)])} FROM ({shown}){where}"], fields)


def most_rows(parts: Parts, changed: int, stored: int) -> int:
    """How many rows the change of a stage has at most, where its map changes by so many rows and has so many."""
    touched = 2 * stored + changed
    node = parts.rows
    if isinstance(node, TopK) and node.limit is not None and not node.ties:
        # Each changed row touches one part, and of that the first rows come and go.
        return min(touched, 2 * node.limit * changed)
    return touched


def lower_sides(parts: Parts, bag: Bag) -> Sides:
    """The rows of the touched parts as they were and as they are, with sign and number of copies."""
    node, columns = parts.rows, tuple(quote(f.name) for f in bag.map.keys)
    partition = columns[: parts.width]
    entries = lower_entries(bag, partition, f"(SELECT DISTINCT {join(partition)} FROM {bag.change})")
    both = f"stack(2, -1L, {TIMES[OLD]}, 1L, {TIMES[NEW]}) sides AS {_SIGN}, {_COPIES}"
    rows = f"SELECT {join([*columns, _SIGN, _COPIES])} FROM ({entries}) LATERAL VIEW {both} WHERE {_COPIES} > 0"
    ordered = {quote(term.scalar.name) for term in node.order if isinstance(term.scalar, Column)}
    ties = [column for column in columns if column not in {*partition, *ordered}]
    return Sides(f"({rows})", columns, Place((_SIGN, *partition), node.order, ties))


def lower_top(node: TopK, sides: Sides) -> str:
    """The rows of each side that are among the first, with how many of their copies are."""
    last = None if node.limit is None else node.offset + node.limit
    place = sides.place
    until = f"sum({_COPIES}) OVER ({place.full} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {_UNTIL}"
    rows = f"SELECT *, {until} FROM {sides.rows}"
    end = _UNTIL if last is None else f"least({_UNTIL}, {last}L)"
    if node.ties and node.limit:
        among = join([*place.partition, *(spell(term.scalar) for term in node.order)])
        rows = f"SELECT *, min({_UNTIL} - {_COPIES}) OVER (PARTITION BY {among}) AS {_PEERS} FROM ({rows})"
        end = f"IF({_PEERS} < {last}L, {_UNTIL}, 0L)"
    taken = f"{end} - greatest({_UNTIL} - {_COPIES}, {node.offset}L)"
    weight = f"{_SIGN} * ({taken}) AS {quote(WEIGHT)}"
    return f"SELECT {join([*sides.columns, weight])} FROM ({rows}) WHERE {taken} > 0"


def lower_window(node: Window, sides: Sides, workers: Workers) -> str:
    """The rows of each side, each copy with what the window functions say of it."""
    if [call.function for call in node.calls] == [SESSION]:
        return _lower_sessions(node.calls[0], sides)
    calls = {call.name: lower_call(call, sides.place) for call in node.calls}
    if any(text is None for text in calls.values()):
        return _lower_by_workers(node, sides, workers)
    copies = f"SELECT * FROM {sides.rows} LATERAL VIEW explode(sequence(1L, {_COPIES})) copies AS {_COPY}"
    placed = f"SELECT *, row_number() OVER ({sides.place.full}) AS {POSITION} FROM ({copies})"
    values = [f"{text} AS {quote(name)}" for name, text in calls.items()]
    return f"SELECT {join([*sides.columns, *values, f'{_SIGN} AS {quote(WEIGHT)}'])} FROM ({placed})"


def _lower_sessions(call: WindowCall, sides: Sides) -> str:
    """The rows of each side, each with the start and the end of its session; copies of a row are in the same one."""
    time, gap = call.arguments
    assert isinstance(call.of, Struct) and isinstance(gap, Literal), "sessions are parted by a constant gap"
    start, end = (f.name for f in call.of.fields)
    moment, pause, place = spell(time), spell_interval(gap.value), sides.place
    goes_on = f"{moment} <= lag({moment}) OVER ({place.full}) + {pause}"
    begun = f"SELECT *, CASE WHEN {goes_on} THEN 0L ELSE 1L END AS {_BEGINS} FROM {sides.rows}"
    number = f"sum({_BEGINS}) OVER ({place.full} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {_SESSION}"
    numbered = f"SELECT *, {number} FROM ({begun})"
    over = f"OVER (PARTITION BY {join([*place.partition, _SESSION])})"
    session = spell_struct({start: f"min({moment}) {over}", end: f"max({moment}) {over} + {pause}"})
    weight = f"{_SIGN} * {_COPIES} AS {quote(WEIGHT)}"
    return f"SELECT {join([*sides.columns, f'{session} AS {quote(call.name)}', weight])} FROM ({numbered})"


def lower_match(node: Match, sides: Sides, workers: Workers) -> str:
    """The rows at which rows of each side match a pattern, with what they measure: the machine runs in workers."""
    return _lower_by_workers(node, sides, workers)


def _lower_by_workers(node: Window | Match, sides: Sides, workers: Workers) -> str:
    """The same, computed by Python workers for each side of a part as a whole."""
    row = {str(i): column for i, column in enumerate(sides.columns)} | {WEIGHT: _COPIES}
    part = f"{workers.rows(node)}(collect_list({spell_struct(row)}))"
    parts = f"SELECT {_SIGN}, {part} AS {_PART} FROM {sides.rows} GROUP BY {join(sides.place.partition)}"
    columns = [f"{_ROW}.{quote(f.name)} AS {quote(f.name)}" for f in node.fields]
    weight = f"{_SIGN} * {_ROW}.{quote(WEIGHT)} AS {quote(WEIGHT)}"
    return f"SELECT {join([*columns, weight])} FROM ({parts}) LATERAL VIEW explode({_PART}) part AS {_ROW}"
