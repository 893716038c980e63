"""One part of a change, as Spark SQL: what stays and what arrives under each key (see ``program.statements.Split``)."""

from __future__ import annotations

from tidemill.model.schema import WEIGHT
from tidemill.program.statements import ChangeSubset, RelationLoop, Split
from tidemill.runtimes.spark.lowering.sql_text import comma_list, quote


def lower_split(change: str, source: RelationLoop, split: Split) -> str:
    """The rows of ``change`` that ``source`` reads, as a query in parentheses.

    Rows that are equal in the columns read are summed first, so that an update of other columns cancels out.
    """
    weight = quote(WEIGHT)
    columns = comma_list([quote(f.name) for f in source.columns])
    net = f"SELECT {columns}, SUM({weight}) AS {weight} FROM {change} GROUP BY {columns} HAVING SUM({weight}) <> 0"
    under = f"OVER (PARTITION BY {comma_list(map(quote, split.key)) or 'NULL'})"
    fixed = f"struct({comma_list([weight + ' IS NULL', *map(quote, split.fixed)])})"
    left, was = quote("a row left"), quote("what decided")
    before = f"MAX(CASE WHEN {weight} < 0 THEN {fixed} END) {under} AS {was}, MIN({weight}) {under} < 0 AS {left}"
    stays = f"({weight} < 0 OR ({left} AND {was} <=> {fixed}))"
    kept = stays if split.part is ChangeSubset.STAYING else f"NOT {stays}"
    return f"(SELECT {columns}, {weight} FROM (SELECT *, {before} FROM ({net})) WHERE {kept})"
