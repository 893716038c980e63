"""Python UDFs for what SQL does not compute exactly as we define it, with the evaluator's own code.

Most aggregates and window functions have a SQL text that gives our answer to the last bit (``multiset_aggregates``,
``window_functions``). For the others a group of rows is collected into an array and passed to a UDF that is registered
in the session. Workers import Tidemill, which is sent to them (``execution.worker_packages``).
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, count
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, aggregate_multiset
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Scan, TopK, Window
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import from_arrow, to_arrow
from tidemill.changes.zset import WeightedRow, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, Array, Field, Struct, Type
from tidemill.runtimes.spark.lowering.sql_text import type_sql
from tidemill.runtimes.spark.lowering.udf_forms import udf_over_arrays

_numbers = count()
"""Several warehouses may share a session, so functions are numbered across all of them."""


class PythonUdfs:
    """The UDFs registered in a session: each takes an array of weighted rows."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._names: dict[object, str] = {}

    def total(self, call: AggregateCall) -> str:
        """The name of the function that computes ``call`` over the entries of a multiset."""
        fields = tuple(Field(str(i), scalar.type) for i, scalar in enumerate(call.scalars))
        # Pickled with the UDF, because an aggregate that a user has added is known to this process alone.
        meaning = AGGREGATE_FUNCTIONS[call.function]
        return self._known(call, lambda arrays: _totals(call, meaning, fields, arrays), fields, call.of)

    def rows(self, node: TopK | Window | Match) -> str:
        """The name of the function that gives the weighted rows of ``node`` for one partition of its input."""
        row = Struct((*node.fields, Field(WEIGHT, BIGINT)))
        return self._known(node, lambda arrays: _rows(node, arrays), node.input.fields, Array(row))

    def _known(
        self, meaning: object, function: Callable[[pa.Array], pa.Array], fields: Sequence[Field], of: Type
    ) -> str:
        """The name of a function from arrays of weighted rows of ``fields``, registered when it is first asked for."""
        if meaning not in self._names:
            name = f"tidemill_{next(_numbers)}"
            taken = Array(Struct((*fields, Field(WEIGHT, BIGINT))))
            self._session().udf.register(name, udf_over_arrays(function, taken, type_sql(of)))
            self._names[meaning] = name
        return self._names[meaning]


def _totals(call: AggregateCall, meaning: AggregateFunction, fields: Sequence[Field], arrays: pa.Array) -> pa.Array:
    AGGREGATE_FUNCTIONS.setdefault(call.function, meaning)
    with _computing():
        values = [aggregate_multiset(call, members) for members in _groups(arrays, fields)]
    return _column(values, call.of)


def _rows(node: TopK | Window | Match, arrays: pa.Array) -> pa.Array:
    assert isinstance(node.input, Scan)
    source, fields = node.input.relation, node.input.fields
    with _computing():
        parts = [list(evaluate(node, {source: ZSet.summed(rows)}).items()) for rows in _groups(arrays, fields)]
    return _arrays(parts, node.fields)


@contextmanager
def _computing() -> Iterator[None]:
    """Context in which decimals are exact, and arithmetic errors are raised as faults of the data."""
    try:
        with decimal.localcontext(EXACT):
            yield
    except ArithmeticError as error:
        raise ArithmeticFault(f"an expression cannot be computed: {error}") from error


def _groups(arrays: pa.Array, fields: Sequence[Field]) -> list[list[WeightedRow]]:
    """The weighted rows of each array of a column."""
    table = pa.Table.from_struct_array(arrays.flatten())
    rows = from_arrow(table.rename_columns([*(f.name for f in fields), WEIGHT]), fields)
    ends = list(accumulate(arrays.value_lengths().to_pylist()))
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _arrays(groups: Sequence[list[WeightedRow]], fields: Sequence[Field]) -> pa.Array:
    """The inverse of ``_groups``."""
    table = to_arrow((pair for rows in groups for pair in rows), fields)
    structs = table.to_struct_array().combine_chunks() if table.num_rows else pa.array([], pa.struct(table.schema))
    return pa.ListArray.from_arrays([0, *accumulate(map(len, groups))], structs)


def _column(values: Sequence[Any], of: Type) -> pa.Array:
    return to_arrow((((value,), 1) for value in values), (Field("value", of),)).column(0).combine_chunks()
