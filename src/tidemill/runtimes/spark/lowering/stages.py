"""A stage's epoch as one query: the additions of its statements, summed by key, and the old entries of those keys.

The query of a stage with a map reads, from the inside out:

1. ``moved``: all added rows, summed by key; keys whose sums are zero are unchanged.
2. ``entries``: for each changed key the stored rows of the map, found by broadcasting the changed keys; summed without
   the change they are the old entry, with it the new one. Only the touched keys of the log are consolidated.
3. the result: the map's change, and the old and the new output row of each key.

With aggregates over multisets, the keys that those touch count as changed, too, even by zero, and
``multiset_aggregates`` gives the values of the aggregates for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from tidemill.model import types as t
from tidemill.model.schema import EPOCH, WEIGHT, names_of
from tidemill.model.types import BIGINT, DOUBLE, Field, Struct
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import GroupEmission, MultisetRead
from tidemill.runtimes.spark.lowering import ring_values
from tidemill.runtimes.spark.lowering.multiset_aggregates import (
    NEW,
    OLD,
    MultisetChange,
    empty_multiset_value,
    lower_multiset_aggregates,
)
from tidemill.runtimes.spark.lowering.python_udfs import PythonUdfs
from tidemill.runtimes.spark.lowering.sql_text import (
    aliased,
    comma_list,
    expression_sql,
    join_hint,
    no_rows_sql,
    quote,
    struct_sql,
    with_nullable_members,
)

CHUNK_ROWS = 1 << 16
"""Maximum number of rows of a large change that are held at once for one DOUBLE sum."""

# Names with a space in them do not clash with ordinary column names.
OLD_ROW = "old row"
NEW_ROW = "new row"
_CHANGE = quote("the change")
_STORED = quote("is stored")
_OLD = quote("old entry")
_NEW = quote("new entry")
_SUMS = quote("the sums")
_CHUNK = quote("the chunk")
_OLD_SUMS = quote("old sums")
_NEW_SUMS = quote("new sums")


def lower_linear(additions: Sequence[str], fields: Sequence[Field]) -> str:
    """Added rows, summed by row; rows whose weights cancel are left out."""
    columns = comma_list(quote(f.name) for f in fields)
    wanted = [aliased(with_nullable_members(quote(f.name), f.type), f.name) for f in fields]
    total = f"sum({quote(WEIGHT)})"
    # Grouping by constants keeps a relation without columns from having a row when it is empty.
    grouping = columns or "true"
    return (
        f"SELECT {comma_list([*wanted, f'{total} AS {quote(WEIGHT)}'])} "
        f"FROM ({_union(additions, fields)}) GROUP BY {grouping} HAVING {total} <> 0"
    )


def lower_negated(map_: Map, rows: str) -> str:
    """The query for the negated entries of a map: added to it, they leave nothing."""
    values = map_fields(map_)[len(map_.keys) :]
    minus = [f"{ring_values.negated(quote(f.name), f.type)} AS {quote(f.name)}" for f in values]
    columns = [*(quote(f.name) for f in map_.keys), *minus, f"-{quote(WEIGHT)} AS {quote(WEIGHT)}"]
    return f"SELECT {comma_list(columns)} FROM {rows}"


def lower_difference(map_: Map, new: str, old: str) -> str:
    """The rows of a map without values that are in ``new`` and not in ``old``, and with negated weights the others."""
    columns = comma_list(quote(name) for name in (*names_of(map_.keys), WEIGHT))
    return lower_linear([f"SELECT {columns} FROM {new}", lower_negated(map_, old)], map_.keys)


def lower_map_change(additions: Sequence[str], map_: Map, *, keep_all: bool = False) -> str:
    """The change of a map: its keys, and a struct of the stored columns and the weight. ``keep_all`` keeps zeros."""
    rows, parts = _summed(additions, map_, keep_all=keep_all)
    columns = [*(quote(f.name) for f in map_.keys), f"{struct_sql(parts)} AS {_CHANGE}"]
    return f"SELECT {comma_list(columns)} FROM {rows}"


def lower_stored_map_change(additions: Sequence[str], map_: Map) -> str:
    """The change of a map in its stored form: columns as in additions to it."""
    rows, parts = _summed(additions, map_)
    weight, *values = parts.items()
    columns = [*(quote(f.name) for f in map_.keys), *(f"{text} AS {quote(name)}" for name, text in (*values, weight))]
    return f"SELECT {comma_list(columns)} FROM {rows}"


def _summed(additions: Sequence[str], map_: Map, *, keep_all: bool = False) -> tuple[str, dict[str, str]]:
    """The additions to a map, summed by key, as a FROM item with its condition, and the texts of the weight and of the
    stored columns."""
    keys = [quote(f.name) for f in map_.keys]
    sums = {WEIGHT: f"coalesce(sum({quote(WEIGHT)}), 0L)"}
    for value in map_.values:
        sums |= ring_values.lower_sum(value)
    sums |= ring_values.lower_halves(map_.values)
    grouped = f" GROUP BY {comma_list(keys)}" if keys else ""
    rows = _union(additions, map_fields(map_))
    summed = f"SELECT {comma_list([*keys, f'{struct_sql(sums)} AS {_SUMS}'])} FROM ({rows}){grouped}"
    parts = _parts(map_, _SUMS, f"{_SUMS}.{quote(ring_values.HALVES)}")
    where = "" if keep_all else f" WHERE {ring_values.any_nonzero(parts.values())}"
    return f"({summed}){where}", parts


def lower_chunks(additions: Sequence[str], map_: Map) -> list[str]:
    """The same additions, first summed within chunks of rows: a DOUBLE sum holds all rows of its group at once."""
    number = f"monotonically_increasing_id() DIV {CHUNK_ROWS} AS {_CHUNK}"
    rows = f"SELECT *, {number} FROM ({_union(additions, map_fields(map_))})"
    chunked = replace(map_, keys=(*map_.keys, Field(_CHUNK.strip("`"), BIGINT)))
    columns = comma_list(quote(name) for name in (*names_of(map_fields(map_)), WEIGHT))
    return [f"SELECT {columns} FROM ({lower_stored_map_change([rows], chunked)})"]


@dataclass(frozen=True, slots=True)
class StageOutput:
    """How the rows of a stage come from ``map``; ``fields`` are their columns, aggregates are over ``multisets``.

    In a ``single_task`` all that is read is one partition.
    """

    map: Map
    finish: GroupEmission
    fields: tuple[Field, ...]
    multisets: tuple[MultisetChange, ...]
    workers: PythonUdfs
    single_task: bool = False

    def touched(self, additions: Sequence[str], *, keep_all: bool = False) -> str:
        """The changed keys of the map, and those under which a multiset has changed."""
        touches = [multiset.touch(self.map) for multiset in self.multisets]
        return lower_map_change([*additions, *touches], self.map, keep_all=keep_all or bool(touches))

    def beside(self, rows: str) -> str:
        """Rows that have the keys of the map, joined with the aggregates over the multisets of their key.

        If the multisets have stored rows, the keys must also be available under the name ``moved``.
        """
        joined, keys = f"({rows}) AS shown", [quote(f.name) for f in self.map.keys]
        for number, multiset in enumerate(self.multisets):
            looked = lower_multiset_aggregates(multiset, self._reads_of(multiset), len(keys), "moved", self.workers)
            match = " AND ".join(f"shown.{key} <=> multiset_{number}.{key}" for key in keys) or "true"
            joined += f" LEFT JOIN ({looked}) AS multiset_{number} ON {match}"
        found = [
            f"multiset_{i}.{quote(side)} AS {_aggregate_values(side, i)}"
            for i in range(len(self.multisets))
            for side in (OLD, NEW)
        ]
        return f"SELECT {comma_list(['shown.*', *found])} FROM {joined}" if found else rows

    def rounded(self, rows: str, entries: Mapping[str, str]) -> str:
        """The same rows with the DOUBLE sums of their entries rounded, which the expressions of a row repeat."""
        sums = {side: ring_values.lower_rounded(self.map.values, entry) for side, entry in entries.items()}
        columns = [f"{struct_sql(values)} AS {_rounded(side)}" for side, values in sums.items() if values]
        return f"SELECT {comma_list(['*', *columns])} FROM ({rows})" if columns else rows

    def row(self, entry: str, side: str) -> str:
        """The output row of a key out of what ``rounded`` gives, as a struct with its weight; NULL if it has none."""
        finish, seen = self.finish, self._seen(entry, side)
        times = "1L" if finish.times is None else expression_sql(finish.times, seen)
        conditions = [] if finish.always else [f"{seen[WEIGHT]} > 0"]
        conditions += [] if finish.condition is None else [expression_sql(finish.condition, seen)]
        conditions += [] if finish.times is None else [f"{times} > 0"]
        outputs = zip(self.fields, finish.outputs, strict=True)
        members = {field.name: expression_sql(output.scalar, seen) for field, output in outputs} | {WEIGHT: times}
        row = with_nullable_members(struct_sql(members), Struct((*self.fields, Field(WEIGHT, BIGINT))))
        return f"CASE WHEN {' AND '.join(conditions) or 'true'} THEN {row} END"

    def _seen(self, entry: str, side: str) -> dict[str, str]:
        """The values of an entry that expressions read, by name."""
        seen = {
            name: text
            for value in self.map.values
            for name, text in ring_values.lower_visible_values(value, entry, _rounded(side)).items()
        }
        for number, multiset in enumerate(self.multisets):
            found = _aggregate_values(side, number)
            for read in self._reads_of(multiset):
                nothing, value = empty_multiset_value(read.call), f"{found}.{quote(read.call.name)}"
                seen[read.call.name] = f"IF({found} IS NULL, {nothing}, {value})"
        return {**seen, WEIGHT: f"{entry}.{quote(WEIGHT)}"}

    def _reads_of(self, multiset: MultisetChange) -> list[MultisetRead]:
        return [read for read in self.finish.multiset_reads if read.map == multiset.map.name]


def _rounded(side: str) -> str:
    return quote(f"{side} sums, rounded")


def _aggregate_values(side: str, number: int) -> str:
    return quote(f"{side} values of multiset {number}")


def lower_output_change(additions: Sequence[str], shown: StageOutput, log: str | None, epoch: int) -> str:
    """The change of a map, and for each touched key the old and the new row (NULL if it has none).

    ``log`` is the stored map (None if it is empty).
    """
    map_ = shown.map
    moved = shown.touched(additions)
    entries = f"WITH moved AS ({moved}) {shown.beside(lower_old_and_new_entries(map_, log, epoch, shown.single_task))}"
    keys = [quote(f.name) for f in map_.keys]
    change = {name: f"{_CHANGE}.{quote(name)}" for name in _stored(map_)}
    for value in map_.values:
        if value.type == DOUBLE:
            # When a key ends, its sum is retracted exactly, whatever rounding has left in it.
            for name in ring_values.stored_columns(value):
                left = f"-{_OLD}.{quote(name)}"
                change[name] = f"IF({_NEW}.{quote(WEIGHT)} = 0, {left}, {change[name]})"
    columns = [*keys, *(f"{text} AS {quote(name)}" for name, text in change.items())]
    old, new = quote(OLD_ROW), quote(NEW_ROW)
    rows = [f"{shown.row(_OLD, OLD)} AS {old}", f"{shown.row(_NEW, NEW)} AS {new}"]
    sides = f"SELECT {comma_list([*columns, *rows])} FROM ({shown.rounded(entries, {OLD: _OLD, NEW: _NEW})})"
    # A key may change and have the same row as before.
    same = _same_row(old, new, shown.fields)
    differing = [f"IF({same}, NULL, {row}) AS {row}" for row in (old, new)]
    return f"SELECT {comma_list([*keys, *map(quote, change), *differing])} FROM ({sides})"


def _same_row(old: str, new: str, fields: Sequence[Field]) -> str:
    """The condition that two output rows are equal. Spark compares no maps: they are compared by their entries, and a
    row that holds maps deeper inside counts as another one, since both rows cancel out where it is not."""
    holding = [field for field in fields if _holds_map(field.type)]
    if not holding:
        return f"{old} <=> {new}"
    if any(not isinstance(f.type, t.Map) or _holds_map(f.type.key) or _holds_map(f.type.value) for f in holding):
        return "false"
    sides = []
    for row in (old, new):
        members = {f.name: f"{row}.{quote(f.name)}" for f in (*fields, Field(WEIGHT, BIGINT))}
        sides.append(struct_sql(members | {f.name: f"map_entries({members[f.name]})" for f in holding}))
    return " <=> ".join(sides)


def _holds_map(type_: t.Type) -> bool:
    match type_:
        case t.Map():
            return True
        case t.Array(element):
            return _holds_map(element)
        case t.Struct(fields):
            return any(_holds_map(field.type) for field in fields)
    return False


def lower_first_output(additions: Sequence[str], shown: StageOutput) -> str:
    """The same for a map that is still empty: there are no old rows, and a global aggregate always has a row."""
    moved = shown.touched(additions, keep_all=shown.finish.always)
    keys = [quote(f.name) for f in shown.map.keys]
    change = [f"{_CHANGE}.{quote(name)} AS {quote(name)}" for name in _stored(shown.map)]
    row = f"{shown.row(_CHANGE, NEW)} AS {quote(NEW_ROW)}"
    return f"SELECT {comma_list([*keys, *change, row])} FROM ({shown.rounded(shown.beside(moved), {NEW: _CHANGE})})"


def lower_old_and_new_entries(map_: Map, log: str | None, epoch: int, single_task: bool) -> str:
    """The keys of ``moved`` with their change, old entry and new entry.

    Both uses of ``moved`` need all its columns, so that Spark computes it once and reuses the exchange.
    """
    keys = [quote(f.name) for f in map_.keys]
    names = _stored(map_)
    own = [f"{_CHANGE}.{quote(name)} AS {quote(name)}" for name in names]
    rows = (
        f"SELECT {comma_list([*keys, _CHANGE, *own, f'{epoch}L AS {quote(EPOCH)}', f'false AS {_STORED}'])} FROM moved"
    )
    if log is not None:
        theirs = [f"log.{quote(name)}" for name in (*names, EPOCH)]
        match = " AND ".join(f"log.{key} <=> moved.{key}" for key in keys) or "true"
        rows += (
            f" UNION ALL SELECT {join_hint('moved', single_task=single_task)} "
            f"{comma_list(f'moved.{column}' for column in (*keys, _CHANGE))}, "
            f"{comma_list(theirs)}, true FROM {log} AS log JOIN moved ON {match}"
        )
    old = {WEIGHT: f"coalesce(sum({quote(WEIGHT)}) FILTER (WHERE {_STORED}), 0L)"}
    new = {WEIGHT: f"sum({quote(WEIGHT)})"}
    for value in map_.values:
        before, after = ring_values.lower_history(value, _STORED)
        old, new = old | before, new | after
    halves = ring_values.lower_halves_history(map_.values, _STORED)
    sums = [f"{struct_sql(old)} AS {_OLD_SUMS}", f"{struct_sql(new)} AS {_NEW_SUMS}"]
    sums += [f"{text} AS {quote(name)}" for name, text in halves.items()]
    grouped = f"SELECT {comma_list([*keys, _CHANGE, *sums])} FROM ({rows}) GROUP BY {comma_list([*keys, _CHANGE])}"
    doubles = sum(value.type == DOUBLE for value in map_.values)
    sides = ((_OLD_SUMS, _OLD, 0), (_NEW_SUMS, _NEW, doubles))
    entries = [
        f"{struct_sql(_parts(map_, side, quote(ring_values.HALVES), first))} AS {name}" for side, name, first in sides
    ]
    return f"SELECT {comma_list([*keys, _CHANGE, *entries])} FROM ({grouped})"


def lower_output_rows(side: str, sign: int, rows: str, fields: Sequence[Field]) -> str:
    """The old or the new rows of a result, each with its weight in the change."""
    row = quote(side)
    columns = [f"{row}.{quote(f.name)} AS {quote(f.name)}" for f in fields]
    weight = f"{sign}L * {row}.{quote(WEIGHT)} AS {quote(WEIGHT)}"
    return f"SELECT {comma_list([*columns, weight])} FROM {rows} WHERE {row} IS NOT NULL"


def _union(additions: Sequence[str], fields: Sequence[Field]) -> str:
    return " UNION ALL ".join(additions) or no_rows_sql(fields)


def _stored(map_: Map) -> tuple[str, ...]:
    """The weight and the columns of the values in the stored map."""
    return (WEIGHT, *(name for value in map_.values for name in ring_values.stored_columns(value)))


def _parts(map_: Map, source: str, halves: str, first: int = 0) -> dict[str, str]:
    """The stored columns of an entry, out of its sums; in the array ``halves`` those of DOUBLEs begin at ``first``."""
    parts, place = {WEIGHT: f"{source}.{quote(WEIGHT)}"}, count(first)
    for value in map_.values:
        pair = f"{halves}[{next(place)}]" if value.type == DOUBLE else ""
        parts |= ring_values.lower_stored_columns(value, source, pair)
    return parts
