"""The inputs of ``apply``: pairs, Arrow tables, pandas frames, and whatever has Arrow's C stream interface.

All become a ``ChangeSet`` of a table.

Columns go by name, in any case and order; a nullable column may be left out. A column ``_weight`` has the weight of
each row; without it every weight is 1. Arrow columns are converted in one vectorised step if Arrow's own cast keeps
every value; all others are converted value by value by ``model.coerce``, which also names the first bad row when a cast
fails. So a frame and the same rows as pairs always mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema, arrow_type, without_negative_zeros
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.coerce import coerce
from tidemill.model.errors import BadValue, NullViolation, TidemillError, UnknownName
from tidemill.model.schema import LARGEST_WEIGHT, WEIGHT, Table, names_of
from tidemill.model.types import Field
from tidemill.sources.ingest.plain_rows import MANY_ROWS, columns_of_pairs

__all__ = ["changes_of", "check_names", "is_frame", "weight_of"]

SMALL_CHUNK = 2_000
"""Rows of a chunk below which the work for each chunk outweighs that for its rows: then chunks are combined."""

_REMADE = (t.Floating, t.Array, t.Map, t.Struct, t.AnsiInterval, t.CalendarInterval)
"""Types whose columns may hold values that are not in our normal form, such as -0.0 or hours in an INTERVAL DAY."""


def changes_of(data: Any, table: Table) -> ChangeSet:
    """The change of ``table`` that ``data`` holds.

    >>> people = Table("people", (Field("id", t.BIGINT), Field("name", t.STRING)))
    >>> changes_of([(+1, (1, "ann")), (-1, {"id": 2, "name": "bob"})], people).zset()
    ZSet({(1, 'ann'): 1, (2, 'bob'): -1})
    >>> changes_of(pa.table({"NAME": ["ann"], "id": [1], "_weight": [2]}), people).zset()
    ZSet({(1, 'ann'): 2})
    """
    if type(data) is list:  # the usual form of small changes skips the other tests
        return _from_pairs(data, table)
    if isinstance(data, ChangeSet):
        return data if data.fields == table.fields else _from_table(data.arrow(), table)
    if type(data).__module__.partition(".")[0] == "pandas":
        return _from_pandas(data, table)
    if isinstance(data, pa.Table):
        return _from_table(data, table)
    if isinstance(data, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([data]), table)
    if hasattr(data, "__arrow_c_stream__"):  # Arrow's readers, polars' frames, DuckDB's relations
        return _from_table(_streamed(data, table), table)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        return _from_pairs(data, table)
    raise _no_changes(data, table)


def is_frame(data: Any) -> bool:
    """True for data in columns: of Arrow, pandas, polars, DuckDB or Spark, or changes in our own form."""
    if type(data) is list:
        return False
    module = type(data).__module__.partition(".")[0]
    return isinstance(data, ChangeSet) or module in ("pandas", "pyspark") or hasattr(data, "__arrow_c_stream__")


def _streamed(data: Any, table: Table) -> pa.Table:
    try:
        return pa.table(data)
    except pa.ArrowException as error:  # one column alone, say
        raise _no_changes(data, table) from error


def _no_changes(data: Any, table: Table) -> BadValue:
    return BadValue(
        f"changes cannot come from a {type(data).__name__}",
        where=table.name,
        hint="Give (weight, row) pairs, or a frame of Arrow, pandas, polars, DuckDB or Spark; collect() a lazy one.",
    )


def weight_of(value: Any, where: str) -> int:
    """A row's weight as a 64-bit integer."""
    if type(value) is int and -MAX_WEIGHT <= value <= MAX_WEIGHT:
        return value
    weight = int(coerce(value, t.BIGINT, where=where, nullable=False))
    if weight < -MAX_WEIGHT:
        raise BadValue(f"a weight is at least {-MAX_WEIGHT}", where=where)
    return weight


MAX_WEIGHT = 2**63 - 1
"""Largest weight: its negative must fit 64 bits, too."""


def _given(data: Iterable[Any], table: Table) -> Iterator[Any]:
    """The elements of a user's own iterable; if it fails, the error says so and has its own as the cause."""
    number = 0
    try:
        for pair in data:
            number += 1
            yield pair
    except TidemillError:
        raise
    except Exception as error:
        raise BadValue(
            f"row {number + 1} could not be read: {type(error).__name__}: {error}",
            where=table.name,
            detail="The iterable that was given raised this error.",
        ) from error


def _from_pairs(data: Iterable[Any], table: Table) -> ChangeSet:
    if isinstance(data, list | tuple) and len(data) >= MANY_ROWS:
        columns = columns_of_pairs(data, table.fields)
        if columns is not None:
            return ChangeSet.of_arrow(columns, table.fields)
    convert = table.row_converter
    pairs: list[tuple[Row, int]] = []
    for number, pair in enumerate(data if isinstance(data, list | tuple) else _given(data, table), start=1):
        try:
            weight, row = pair if type(pair) is tuple and len(pair) == 2 else _split(pair, table)
            if type(weight) is not int or not -LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT:
                weight = weight_of(weight, f"{table.name}.{WEIGHT}")
            pairs.append((convert(row), weight))
        except TidemillError as error:
            error.where = f"row {number}, {error.where}"
            raise
    return ChangeSet(table.fields, pairs=pairs)


def _split(pair: Any, table: Table) -> tuple[Any, Any]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        return pair[0], pair[1]
    raise BadValue(
        f"{pair!r} is not a (weight, row) pair",
        where=table.name,
        hint=f'An insert is (+1, row), a delete (-1, row). upsert("{table.name}", rows) takes rows alone.',
    )


def _from_pandas(frame: Any, table: Table) -> ChangeSet:
    """NaN and NaT count as NULL, as everywhere in pandas."""
    if not hasattr(frame, "columns"):
        raise _no_changes(frame, table)
    check_names(map(str, frame.columns), table)
    try:
        return _from_table(pa.Table.from_pandas(frame, preserve_index=False), table)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # A column of mixed Python objects, such as decimals and their strings, is converted value by value.
        columns = frame.astype(object).where(frame.notna(), None)
        names = [str(name) for name in columns.columns]
        rows = (dict(zip(names, values, strict=True)) for values in columns.itertuples(index=False, name=None))
        return _from_pairs(((row.pop(_spelling(names, WEIGHT), 1), row) for row in rows), table)


def _from_table(data: pa.Table, table: Table) -> ChangeSet:
    if data.num_columns and data.num_rows < SMALL_CHUNK * max(column.num_chunks - 1 for column in data.columns):
        data = data.combine_chunks()
    if _is_ready(data, table):
        return ChangeSet.of_arrow(data, table.fields)
    check_names(data.column_names, table)
    places = {name.lower(): place for place, name in enumerate(data.column_names)}
    schema = arrow_schema(table.fields)
    columns = [
        _column(data, places.get(field.name), field, target, table)
        for field, target in zip((*table.fields, _WEIGHT_FIELD), schema.types, strict=True)
    ]
    return ChangeSet.of_arrow(pa.Table.from_arrays(columns, schema=schema), table.fields)


_WEIGHT_FIELD = Field(WEIGHT, t.BIGINT, nullable=False)


def _is_ready(data: pa.Table, table: Table) -> bool:
    """True if a table is already in the form that conversion would give: streams of small tables then skip it."""
    remade = any(isinstance(f.type, _REMADE) or f.length is not None for f in table.fields)
    if remade or not data.schema.equals(arrow_schema(table.fields)):
        return False
    required = [*(place for place, f in enumerate(table.fields) if not f.nullable), len(table.fields)]
    return not any(batch.column(place).null_count for batch in data.to_batches() for place in required)


def check_names(names: Iterable[str], table: Table) -> None:
    """Refuse columns that ``table`` does not have, and duplicate columns."""
    known = {*names_of(table.fields), WEIGHT}
    seen: set[str] = set()
    for name in names:
        if name.lower() not in known:
            columns = f"Columns: {', '.join(names_of(table.fields))}"
            raise UnknownName(f'table "{table.name}" has no column "{name}"', where=table.name, detail=columns)
        if name.lower() in seen:
            raise BadValue(f'column "{name}" comes twice', where=table.name, detail="Names do not depend on case.")
        seen.add(name.lower())


def _spelling(names: Iterable[str], wanted: str) -> str:
    """The frame's spelling of the column that we call ``wanted``."""
    return next((name for name in names if name.lower() == wanted), wanted)


def _column(data: pa.Table, place: int | None, field: Field, target: pa.DataType, table: Table) -> pa.ChunkedArray:
    """The column of ``field``, which ``data`` has at ``place``, in the Arrow type ``target``."""
    if place is None:
        return _absent(data.num_rows, field, table)
    column = data.column(place)
    if not field.nullable and column.null_count:
        row = pc.index(pc.is_null(column), True).as_py() + 1
        raise NullViolation("NULL where a value is required", where=f"row {row}, {table.name}.{field.name}")
    if column.type == target and field.length is None and not isinstance(field.type, _REMADE):
        return column
    converted = _cast(column, field, target)
    return _each(column, field, table) if converted is None else converted


def _absent(rows: int, field: Field, table: Table) -> pa.ChunkedArray:
    if field.name == WEIGHT:
        return pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows)])
    if not field.nullable and rows:
        raise NullViolation(
            f'column "{field.name}" is missing', where=f"{table.name}.{field.name}", detail="It is declared NOT NULL."
        )
    return pa.chunked_array([pa.nulls(rows, arrow_type(field.type))])


def _cast(column: pa.ChunkedArray, field: Field, target: pa.DataType) -> pa.ChunkedArray | None:
    """The column in the field's Arrow type, or None if Arrow's cast fails or differs from ``coerce``."""
    if not _casts(column.type, field.type):
        return None
    try:
        if pa.types.is_duration(column.type):
            column = column.cast(pa.duration("us"))
        if pa.types.is_integer(column.type) and pa.types.is_decimal(target):
            # Arrow first requires space for any 64-bit integer, and only then looks at the values.
            column = column.cast(pa.decimal128(t.MAX_PRECISION, target.scale))
        converted = column.cast(target)
        if isinstance(field.type, t.Floating):
            converted = without_negative_zeros(converted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # not these values, or not from this form of them
        return None
    return converted if _fits(converted, field) else None


def _fits(column: pa.ChunkedArray, field: Field) -> bool:
    """True if no text of a column is longer than declared, nor shorter where it is a CHAR."""
    if field.length is None:
        return True
    shortest, longest = pc.min_max(pc.utf8_length(column)).as_py().values()
    return longest is None or (longest <= field.length and (field.char is None or shortest == field.char))


def _casts(source: pa.DataType, target: t.Type) -> bool:
    """True if Arrow's safe cast from ``source`` either keeps each value or fails."""
    kinds = pa.types
    if kinds.is_dictionary(source):
        return _casts(source.value_type, target)
    match target:
        case t.Boolean():
            return bool(kinds.is_boolean(source))
        case t.Integral():
            return bool(kinds.is_integer(source) or kinds.is_floating(source))
        case t.Decimal(_, scale):
            return bool(kinds.is_decimal(source) or (kinds.is_integer(source) and scale < 19))
        case t.Float():
            return bool(kinds.is_float16(source) or kinds.is_float32(source))
        case t.Double():
            return bool(kinds.is_floating(source) or kinds.is_integer(source))
        case t.String():
            return bool(kinds.is_string(source) or kinds.is_large_string(source) or kinds.is_string_view(source))
        case t.Binary():
            return bool(kinds.is_binary(source) or kinds.is_large_binary(source) or kinds.is_fixed_size_binary(source))
        case t.Date():
            return bool(kinds.is_date(source))
        case t.Time(precision):
            return bool(kinds.is_time(source)) and precision == t.TIME_DIGITS
        case t.Timestamp():
            return bool(kinds.is_timestamp(source))
        case t.DayTimeInterval(end="SECOND"):
            return bool(kinds.is_duration(source))
    return False


def _each(column: pa.ChunkedArray, field: Field, table: Table) -> pa.ChunkedArray:
    """The column value by value, with the meaning and the errors of ``coerce``."""
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError, pa.ArrowException) as error:
        where = f"{table.name}.{field.name}"
        raise BadValue(f"a value of type {column.type} is beyond all {field.type} values", where=where) from error
    return _from_pairs([(1, (value,)) for value in values], Table(table.name, (field,))).arrow().column(0)
