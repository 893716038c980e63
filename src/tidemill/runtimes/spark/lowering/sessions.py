"""Sessions of instants: what an epoch adds to the map of sessions, from the old and the new sums at instants.

Of each key that the epoch touches, all instants are read: their stored sums alone are the old side, and with the change
the new one. The sessions of a side are found by window functions. What the map of sessions takes in are the sums of the
new ones, and those of the old ones negated; where a session is as before they cancel out.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.model.schema import WEIGHT
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import SessionEmission
from tidemill.runtimes.spark.lowering import ring_values
from tidemill.runtimes.spark.lowering.multiset_aggregates import MultisetChange
from tidemill.runtimes.spark.lowering.sql_text import comma_list, quote
from tidemill.runtimes.spark.lowering.stages import lower_stored_map_change
from tidemill.runtimes.spark.lowering.window_functions import interval_sql

_SIDE = quote("the side")
_BEGINS = quote("begins a session")
_SESSION = quote("the session")
_FIRST = quote("the first instant")
_LAST = quote("the last instant")


def lower_session_change(sessions: SessionEmission, instants: MultisetChange, kept: Map) -> list[str]:
    """Additions to the map ``kept`` of sessions, given the change of the map of instants and its stored rows."""
    map_ = instants.map
    stored_sums = (text for value in map_.values for text in ring_values.lower_wide(value))
    columns = comma_list([*(quote(f.name) for f in map_.keys), *stored_sums, quote(WEIGHT)])
    change = f"SELECT {columns} FROM {instants.change}"
    if instants.log is None:
        return [_additions(sessions, map_, kept, [change], 1)]
    keys = [quote(f.name) for f in map_.keys[:-1]]
    near = ""
    if keys:
        match = " AND ".join(f"log.{key} <=> touched.{key}" for key in keys)
        touched = f"(SELECT DISTINCT {comma_list(keys)} FROM {instants.change}) AS touched"
        near = f" LEFT SEMI JOIN {touched} ON {match}"
    stored = f"SELECT /*+ BROADCAST(touched) */ {columns} FROM {instants.log} AS log{near}"
    return [
        _additions(sessions, map_, kept, [stored, change], 1),
        _additions(sessions, map_, kept, [stored], -1),
    ]


def _additions(sessions: SessionEmission, map_: Map, kept: Map, rows: Sequence[str], sign: int) -> str:
    """The sessions of the instants whose sums are those of ``rows``, each instant adding its part of one.

    The first instant adds the length. With ``sign`` -1 everything is negated.
    """
    *others, at = (quote(f.name) for f in map_.keys)
    partition = comma_list([_SIDE, *others])  # Spark wants something to partition by
    place = f"PARTITION BY {partition} ORDER BY {at}"
    entries = f"SELECT *, {sign}L AS {_SIDE} FROM ({lower_stored_map_change(rows, map_)}) WHERE {quote(WEIGHT)} > 0"
    goes_on = f"{at} <= lag({at}) OVER ({place}) + {interval_sql(sessions.gap)}"
    begun = f"SELECT *, CASE WHEN {goes_on} THEN 0L ELSE 1L END AS {_BEGINS} FROM ({entries})"
    number = f"sum({_BEGINS}) OVER ({place} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {_SESSION}"
    numbered = f"SELECT *, {number} FROM ({begun})"
    over = f"OVER (PARTITION BY {comma_list([_SIDE, *others, _SESSION])})"
    ends = f"min({at}) {over} AS {_FIRST}, max({at}) {over} AS {_LAST}"
    length = f"unix_micros({_LAST}) - unix_micros({_FIRST}) + {sessions.gap}L"
    minus = "" if sign > 0 else "-"
    sums = [f"CASE WHEN {at} = {_FIRST} THEN {minus}({length}) ELSE 0L END AS {quote(kept.values[0].name)}"]
    for f in map_fields(map_)[len(map_.keys) :]:
        column = quote(f.name)
        sums.append(f"{column if sign > 0 else ring_values.negated(column, f.type)} AS {column}")
    weight = f"{minus}{quote(WEIGHT)} AS {quote(WEIGHT)}"
    columns = [*others, f"{_FIRST} AS {quote(kept.keys[-1].name)}", *sums, weight]
    return f"SELECT {comma_list(columns)} FROM (SELECT *, {ends} FROM ({numbered}))"
