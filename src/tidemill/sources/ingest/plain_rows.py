"""Many weighted rows of plain Python values as columns, without a call for each value.

A value is plain if its type is exactly the one that its column holds, such as ``int`` for BIGINT: then Arrow converts
it as ``model.coerce`` would. The types of a column are tested all at once.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema, arrow_type, without_negative_zeros
from tidemill.model import types as t
from tidemill.model.schema import LARGEST_WEIGHT
from tidemill.model.types import Field

__all__ = ["MANY_ROWS", "columns_of_pairs"]

MANY_ROWS = 64
"""Row count from which columns are worth their cost."""


def columns_of_pairs(pairs: Sequence[Any], fields: tuple[Field, ...]) -> pa.Table | None:
    """The Arrow table of ``(weight, row)`` pairs; None if a value is not plain, or a pair is invalid.

    >>> fields = (Field("id", t.BIGINT, nullable=False), Field("name", t.STRING))
    >>> columns_of_pairs([(1, (7, "ann")), (-1, (8, None))], fields).to_pydict()
    {'id': [7, 8], 'name': ['ann', None], '_weight': [1, -1]}
    >>> columns_of_pairs([(1, (7.0, "ann"))], fields)
    """
    if not set(map(type, pairs)) <= {tuple, list} or set(map(len, pairs)) != {2}:
        return None
    # Not by zip: an iterator for each row would trigger the garbage collector.
    weights, rows = _at(0, pairs), _at(1, pairs)
    if set(map(type, weights)) != {int} or max(map(abs, weights)) > LARGEST_WEIGHT:
        return None
    if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {len(fields)}:
        return None
    columns = [_column(_at(place, rows), field) for place, field in enumerate(fields)]
    if any(column is None for column in columns):
        return None
    return pa.Table.from_arrays([*columns, pa.array(weights, pa.int64())], schema=arrow_schema(fields))


def _at(place: int, rows: Sequence[Any]) -> list[Any]:
    return list(map(itemgetter(place), rows))


def _column(values: Sequence[Any], field: Field) -> pa.Array | None:
    kinds = set(map(type, values))
    if field.nullable:
        kinds.discard(type(None))
    if field.length is not None or not kinds <= {_PLAIN.get(type(field.type))}:
        return None
    if kinds == {datetime.datetime} and set(map(attrgetter("tzinfo"), filter(None, values))) != {None}:
        return None
    try:
        column = pa.array(values, arrow_type(field.type))
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    return without_negative_zeros(column) if isinstance(field.type, t.Double) else column


_PLAIN: dict[type[t.Type], type] = {
    t.Boolean: bool,
    t.TinyInt: int,
    t.SmallInt: int,
    t.Int: int,
    t.BigInt: int,
    t.Decimal: decimal.Decimal,
    t.Double: float,
    t.String: str,
    t.Date: datetime.date,
    t.Binary: bytes,
    t.Timestamp: datetime.datetime,
    t.TimestampNtz: datetime.datetime,
}
