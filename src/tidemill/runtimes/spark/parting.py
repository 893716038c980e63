"""One part of a change, as Spark SQL: what stays and what arrives under each key (see ``program.statements.Split``)."""

from __future__ import annotations

from tidemill.model.schema import WEIGHT
from tidemill.program.statements import Part, Source, Split
from tidemill.runtimes.spark.spell import join, quote


def lower_part(change: str, source: Source, split: Split) -> str:
    """The rows of ``change`` that ``source`` reads, as a query in parentheses.

    Rows that look the same are summed first, so that one which changes in nothing that is read is not there at all.
    """
    weight = quote(WEIGHT)
    columns = join([quote(f.name) for f in source.columns])
    net = f"SELECT {columns}, SUM({weight}) AS {weight} FROM {change} GROUP BY {columns} HAVING SUM({weight}) <> 0"
    under = f"OVER (PARTITION BY {join(map(quote, split.key)) or 'NULL'})"
    fixed = f"struct({join([weight + ' IS NULL', *map(quote, split.fixed)])})"
    left, was = quote("a row left"), quote("what decided")
    before = f"MAX(CASE WHEN {weight} < 0 THEN {fixed} END) {under} AS {was}, MIN({weight}) {under} < 0 AS {left}"
    stays = f"({weight} < 0 OR ({left} AND {was} <=> {fixed}))"
    kept = stays if split.part is Part.STAYING else f"NOT {stays}"
    return f"(SELECT {columns}, {weight} FROM (SELECT *, {before} FROM ({net})) WHERE {kept})"
