"""Queries as Spark SQL: nested loops over sources become joins, loops over arrays lateral views.

A row of a join has the product of the sources' weights, or the weight and the amounts that its query gives. Queries
here are linear in every source (``reads.row_wise``), so the logs of relations and maps are joined as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.model.schema import WEIGHT
from tidemill.model.types import DOUBLE, Field
from tidemill.program.maps import Map
from tidemill.program.statements import Add, ArrayLoop, Query, RelationLoop
from tidemill.runtimes.spark.lowering import ring_values
from tidemill.runtimes.spark.lowering.sql_text import aliased, comma_list, expression_sql, join_hint, quote

BindSource = Callable[[RelationLoop], str]
"""From a source to the SQL of its weighted rows: a view's name, or a query in parentheses."""

SourceSize = Callable[[RelationLoop], int]
"""Approximate number of rows of a source."""

BROADCAST_ROWS = 1_000_000
"""Row count up to which the smaller side of a join is broadcast."""

FAN_OUT = 2
"""Expected number of matches of a row in a larger relation: filters reject part of them."""


def lower_add(
    add: Add, target: Map, bind: BindSource, size: SourceSize | None = None, *, single_task: bool = False
) -> str:
    """The rows that a statement adds to ``target``, in its stored form (``map_fields`` and the weight), not yet summed.

    ``size`` gives the number of rows of sources; without it Spark plans the joins itself. In a ``single_task`` all of
    them are one partition.
    """
    query = add.query
    keys, arguments = query.outputs[: len(target.keys)], query.outputs[len(target.keys) :]
    columns = [aliased(expression_sql(key.scalar), field.name) for key, field in zip(keys, target.keys, strict=True)]
    computed = [f"{_weight(query)} AS {quote(WEIGHT)}"]
    for value, argument in zip(target.values, arguments, strict=True):
        summed = argument.scalar
        if value.type == DOUBLE and not isinstance(summed, Column | Literal):
            # Its two halves and its specials repeat it a dozen times.
            computed.append(aliased(expression_sql(summed), f"{value.name} of a row"))
            summed = Column(f"{value.name} of a row", summed.type)
        if query.weight is None:
            terms = ring_values.lower_terms(value, summed, quote(WEIGHT))
        else:
            terms = ring_values.lower_amounts(value, summed)
        columns += [aliased(term, name) for name, term in terms.items()]
    rows = f"SELECT *, {comma_list(computed)} {lower_sources(query, bind, size, single_task=single_task)}"
    return f"SELECT {comma_list([*columns, quote(WEIGHT)])} FROM ({rows})"


def lower_sources(query: Query, bind: BindSource, size: SourceSize | None = None, *, single_task: bool = False) -> str:
    """The FROM and WHERE of a query. Conditions are placed at their source; Spark pushes them further down.

    Joins follow the order of the loops. Spark's size estimates grow with each join until it shuffles everything, so the
    side to broadcast is named here: the left one starts from a change, the right one may be a small table.
    """
    guard = _where(query.filters)
    joined, left = "", 0
    for step in query_loops(query):
        if isinstance(step, ArrayLoop):
            joined = f"(SELECT * FROM {_lower_each(step, joined)}{_where(step.filters)})"
        elif not joined:
            left = size(step) if size else 0
            joined = _lower_source(step, bind)
            if step.filters:
                joined = f"(SELECT * FROM {joined}{_where(step.filters)})"
        else:
            right = size(step) if size else 0
            on = _lower_match(step)
            hint = join_hint("l", single_task=True) if single_task else _hint(left, right)
            joined = f"(SELECT {hint and f'{hint} '}* FROM {joined} AS l JOIN {_lower_source(step, bind)} AS r{on})"
            left *= FAN_OUT if right > left else 1
    return f"FROM {joined}{guard}" if joined else guard


def _hint(left: int, right: int) -> str:
    """Broadcast the smaller side of a join, if it is small enough; nothing is known of sides without rows."""
    if not left or not right or min(left, right) > BROADCAST_ROWS:
        return ""
    return join_hint("l" if left <= right else "r")


def query_loops(query: Query) -> list[RelationLoop | ArrayLoop]:
    """The steps of a query, all loops: statements that read sums run in one process and never here."""
    steps = [step for step in query.sources if isinstance(step, RelationLoop | ArrayLoop)]
    assert len(steps) == len(query.sources), "a read or seek has no SQL"
    return steps


def fields_read(source: RelationLoop) -> tuple[Field, ...]:
    """The stored columns that a source reads: keys and values."""
    return (*source.columns, *(Field(value.name, value.type) for value in source.values))


def _lower_source(source: RelationLoop, bind: BindSource) -> str:
    texts = {name: quote(name) for name in (*(f.name for f in source.columns), WEIGHT)}
    # In a row that this epoch adds to a map, NULL stands for a value to which nothing is added.
    texts |= {value.name: f"coalesce({quote(value.name)}, 0)" for value in source.values}
    columns = [f"{text} AS {quote(f'{source.alias}.{name}')}" for name, text in texts.items()]
    return f"(SELECT {comma_list(columns)} FROM {bind(source)})"


def _lower_match(source: RelationLoop) -> str:
    conditions = [f"{quote(f'{source.alias}.{name}')} = {expression_sql(key)}" for name, key in source.lookup]
    conditions += [expression_sql(condition) for condition in source.filters]
    return f" ON {' AND '.join(conditions)}" if conditions else ""


def _lower_each(step: ArrayLoop, rows: str) -> str:
    """Rows joined with the elements of one of their arrays."""
    *position, element = [quote(f"{step.alias}.{field.name}") for field in step.columns]
    outer = "OUTER " if step.outer else ""
    beside = f"{rows or '(SELECT true)'} AS l LATERAL VIEW {outer}"
    if not position:
        return f"{beside}explode({expression_sql(step.array)}) elements AS {element}"
    # Spark counts positions as INT, which is not our type of them.
    place = quote(f"{step.alias}.place in the array")
    counted = f"SELECT *, CAST({place} AS BIGINT) AS {position[0]} FROM "
    return f"({counted}{beside}posexplode({expression_sql(step.array)}) elements AS {place}, {element})"


def _weight(query: Query) -> str:
    if query.weight is not None:
        return f"coalesce(CAST({expression_sql(query.weight)} AS BIGINT), 0L)"
    return " * ".join(_weight_of(step) for step in query_loops(query) if isinstance(step, RelationLoop)) or "1L"


def _weight_of(source: RelationLoop) -> str:
    return quote(f"{source.alias}.{WEIGHT}")


def _where(conditions: Sequence[Scalar]) -> str:
    return f" WHERE {' AND '.join(map(expression_sql, conditions))}" if conditions else ""
