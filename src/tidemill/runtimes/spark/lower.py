"""Queries as Spark SQL: nested loops over sources become joins, with the product of the sources' weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.algebra.scalars import Scalar
from tidemill.model.schema import WEIGHT
from tidemill.program.maps import Map
from tidemill.program.statements import Add, Query, Source, Version
from tidemill.runtimes.spark import rings
from tidemill.runtimes.spark.spell import join, named, quote, spell

Bind = Callable[[Source], str]
"""From a source to the SQL of its weighted rows: a view's name, or a query in parentheses."""

BROADCAST_ROWS = 200_000
"""Up to this many rows a change is sent to every task, and the state that it meets stays where it is."""

FAN_OUT = 8
"""How many rows we expect a row to become in each further join, when we guess whether the result can still be sent."""


def lower_add(add: Add, target: Map, bind: Bind, size: int) -> str:
    """The rows that a statement adds to ``target``, in its stored form (``map_fields`` and the weight), not yet summed.

    ``size`` is how many rows the outermost source has.
    """
    keys, arguments = add.query.outputs[: len(target.keys)], add.query.outputs[len(target.keys) :]
    columns = [named(spell(key.scalar), field.name) for key, field in zip(keys, target.keys, strict=True)]
    for value, argument in zip(target.values, arguments, strict=True):
        terms = rings.lower_terms(value, argument.scalar, quote(WEIGHT))
        columns += [named(term, name) for name, term in terms.items()]
    rows = f"SELECT *, {_weight(add.query)} AS {quote(WEIGHT)} {lower_sources(add.query, bind, size)}"
    if any(map(rings.needs_unit_weights, target.values)):
        rows = _in_units(rows)
    return f"SELECT {join([*columns, quote(WEIGHT)])} FROM ({rows})"


def _in_units(rows: str) -> str:
    """Rows of weight 1 and -1 only: a row of weight -3 becomes three of weight -1."""
    weight, unit = quote(WEIGHT), quote("a unit")
    units = f"explode(array_repeat(CAST(sign({weight}) AS BIGINT), CAST(abs({weight}) AS INT)))"
    return f"SELECT * EXCEPT ({weight}, {unit}), {unit} AS {weight} FROM ({rows}) LATERAL VIEW {units} AS {unit}"


def lower_sources(query: Query, bind: Bind, size: int) -> str:
    """The FROM and WHERE of a query. Conditions stand where their source does; Spark moves them further down.

    Joins follow the order of the loops, and the left side is broadcast while it is small: it starts from the change.
    """
    guard = _where(query.filters)
    if not query.sources:
        return guard
    first, *others = query.sources
    joined = f"(SELECT * FROM {_lower_source(first, bind)}{_where(first.filters)})"
    small = size if first.version is Version.CHANGE else BROADCAST_ROWS + 1
    for source in others:
        hint = "/*+ BROADCAST(l) */ " if small <= BROADCAST_ROWS else ""
        conditions = [f"{quote(f'{source.alias}.{name}')} = {spell(key)}" for name, key in source.lookup]
        conditions += [spell(condition) for condition in source.filters]
        on = f" ON {' AND '.join(conditions)}" if conditions else ""
        joined = f"(SELECT {hint}* FROM {joined} AS l JOIN {_lower_source(source, bind)} AS r{on})"
        small *= FAN_OUT
    return f"FROM {joined}{guard}"


def _lower_source(source: Source, bind: Bind) -> str:
    columns = [f"{quote(f.name)} AS {quote(f'{source.alias}.{f.name}')}" for f in source.columns]
    return f"(SELECT {join([*columns, f'{quote(WEIGHT)} AS {_weight_of(source)}'])} FROM {bind(source)})"


def _weight(query: Query) -> str:
    return " * ".join(map(_weight_of, query.sources)) or "1L"


def _weight_of(source: Source) -> str:
    return quote(f"{source.alias}.{WEIGHT}")


def _where(conditions: Sequence[Scalar]) -> str:
    return f" WHERE {' AND '.join(map(spell, conditions))}" if conditions else ""
