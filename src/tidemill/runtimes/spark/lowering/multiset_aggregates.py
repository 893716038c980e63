"""Aggregates over a multiset: the entries under the touched keys, before and after the epoch, and their value.

The multiset of a key is the entries of its map, each repeated by its weight. Only touched keys are read: their stored
entries are found by broadcasting the keys, and summed with and without what the epoch adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_multiset, function_of
from tidemill.model.schema import WEIGHT
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import MultisetRead
from tidemill.runtimes.spark.lowering.python_udfs import PythonUdfs
from tidemill.runtimes.spark.lowering.sql_text import (
    comma_list,
    expression_sql,
    join_hint,
    literal_sql,
    quote,
    struct_sql,
)

OLD = "old"
NEW = "new"

COUNT_COLUMNS = {OLD: quote("old times"), NEW: quote("new times")}
"""The columns with the multiplicity of an entry before and after the epoch."""

_STORED = quote("is stored")


@dataclass(frozen=True, slots=True)
class MultisetChange:
    """A map of entries, what the epoch adds to it (summed), and its stored rows; None if there are none.

    In a ``single_task`` each of them is one partition.
    """

    map: Map
    change: str
    log: str | None
    single_task: bool = False

    def touch(self, target: Map) -> str:
        """The keys that the change touches, as rows of the map ``target`` that add nothing to it."""
        nothing = [f"{literal_sql(None, f.type)} AS {quote(f.name)}" for f in map_fields(target)[len(target.keys) :]]
        columns = [*(quote(f.name) for f in target.keys), *nothing, f"0L AS {quote(WEIGHT)}"]
        return f"SELECT {comma_list(columns)} FROM {self.change}"


def lower_multiset_aggregates(
    multiset: MultisetChange, multiset_reads: Sequence[MultisetRead], width: int, touched: str, workers: PythonUdfs
) -> str:
    """By key, the values of aggregates over ``multiset`` as two structs: before the epoch and after it.

    The first ``width`` columns of the multiset are the key; ``touched`` is a FROM item with the touched keys.
    """
    keys = [quote(f.name) for f in multiset.map.keys[:width]]
    sides = [f"{struct_sql(_values(multiset_reads, side, workers))} AS {quote(side)}" for side in (OLD, NEW)]
    grouped = f" GROUP BY {comma_list(keys)}" if keys else ""
    return f"SELECT {comma_list([*keys, *sides])} FROM ({lower_multiset_entries(multiset, keys, touched)}){grouped}"


def lower_multiset_entries(multiset: MultisetChange, keys: Sequence[str], touched: str) -> str:
    """The entries under the touched keys, each with its multiplicity before and after the epoch."""
    entries = [quote(f.name) for f in multiset.map.keys]
    columns = comma_list([*entries, quote(WEIGHT)])
    rows = f"SELECT {columns}, false AS {_STORED} FROM {multiset.change}"
    if multiset.log is not None:
        near, hint = "", join_hint("touched", single_task=multiset.single_task)
        if keys:
            match = " AND ".join(f"log.{key} <=> touched.{key}" for key in keys)
            near = f" LEFT SEMI JOIN (SELECT {comma_list(keys)} FROM {touched}) AS touched ON {match}"
        rows += f" UNION ALL SELECT {hint} {columns}, true FROM {multiset.log} AS log{near}"
    before = f"coalesce(sum({quote(WEIGHT)}) FILTER (WHERE {_STORED}), 0L) AS {COUNT_COLUMNS[OLD]}"
    after = f"sum({quote(WEIGHT)}) AS {COUNT_COLUMNS[NEW]}"
    return f"SELECT {comma_list([*entries, before, after])} FROM ({rows}) GROUP BY {comma_list(entries)}"


def _values(multiset_reads: Sequence[MultisetRead], side: str, workers: PythonUdfs) -> dict[str, str]:
    return {read.call.name: _value(read.call, COUNT_COLUMNS[side], workers) for read in multiset_reads}


def _value(call: AggregateCall, times: str, workers: PythonUdfs) -> str:
    """The value of an aggregate over entries of multiplicity ``times``; by SQL if that is exactly the same."""
    there = f"FILTER (WHERE {times} > 0)"
    entry = [expression_sql(scalar) for scalar in call.scalars]
    if spelling := function_of(call).spark:
        copies = "1" if call.distinct else f"CAST({times} AS INT)"
        return spelling.format(*entry, copies=copies, there=there)
    member = {str(i): text for i, text in enumerate(entry)} | {WEIGHT: times}
    return f"{workers.total(call)}(collect_list({struct_sql(member)}) {there})"


def empty_multiset_value(call: AggregateCall) -> str:
    """The value of an aggregate over an empty multiset."""
    return literal_sql(aggregate_multiset(call, ()), call.of)
