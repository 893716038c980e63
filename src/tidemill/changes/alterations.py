"""Alterations: changes of the columns of stored rows, applied when older rows are read.

Files of rows are never rewritten when a column is added, dropped, renamed or gets a wider type. Each file is known to
have been written after so many alterations of its map; the later ones are applied to whatever is read of it. A column
that a file lacks has the value that it was added with, or is computed from others.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from tidemill.changes.arrow import to_arrow
from tidemill.changes.formulas import Formula, columns_of, evaluated
from tidemill.model.types import Field

__all__ = ["Alteration", "PresentColumn", "present_columns", "present_rows", "stored_schema_of"]


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of the columns of a map.

    ``to`` is the new name of a renamed column. ``sample`` is an Arrow stream in base64 with one column: the type of a
    column that is added or gets another type, and the value that older rows have in an added one. In one that is
    computed they have that of its ``formula`` over the columns of now.
    """

    kind: Literal["add", "drop", "rename", "type", "compute"]
    column: str
    to: str = ""
    sample: str = ""
    formula: Formula = ()

    @classmethod
    def add(cls, field: Field, value: object = None) -> Alteration:
        """A new column, in which older rows have ``value``."""
        return cls("add", field.name, sample=_sample(field, value))

    @classmethod
    def compute(cls, field: Field, formula: Formula) -> Alteration:
        """A new column, which older rows have by a formula."""
        return cls("compute", field.name, sample=_sample(field, None), formula=formula)

    @classmethod
    def widen(cls, field: Field) -> Alteration:
        """Another type of an existing column, which holds all values of its present one."""
        return cls("type", field.name, sample=_sample(field, None))

    @property
    def type(self) -> pa.DataType:
        """The type of the column from here on."""
        return _column_of(self.sample).type

    @property
    def value(self) -> pa.Scalar:
        """The value of an added column in older rows."""
        return _column_of(self.sample)[0]


def _sample(field: Field, value: object) -> str:
    rows = to_arrow([((value,), 1)], (field,)).select([field.name])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return b64encode(sink.getvalue()).decode()


def _column_of(sample: str) -> pa.ChunkedArray:
    with pa.ipc.open_stream(b64decode(sample)) as reader:
        return reader.read_all().column(0)


@dataclass(frozen=True, slots=True)
class PresentColumn:
    """A column of a map as it is now: the column of a file that has its values, the value that all rows have, or a
    formula over others."""

    type: pa.DataType
    stored: str | None
    value: pa.Scalar | None = None
    formula: Formula = ()
    inputs: Mapping[str, PresentColumn] = field(default_factory=dict)

    @property
    def reads(self) -> set[str]:
        """The columns of the file that it is made of."""
        own = set() if self.stored is None else {self.stored}
        return own.union(*(one.reads for one in self.inputs.values()))

    def of(self, table: pa.Table) -> pa.Array | pa.ChunkedArray:
        """The column for rows of the file."""
        if self.stored is not None:
            return table.column(self.stored).cast(self.type)
        if self.formula:
            return evaluated(self.formula, lambda name: self.inputs[name].of(table), table.num_rows).cast(self.type)
        return pa.repeat(self.value, table.num_rows)


def present_columns(stored: pa.Schema, alterations: Iterable[Alteration]) -> dict[str, PresentColumn]:
    """The columns that rows of a file have after ``alterations``, by name and in order.

    >>> from tidemill.model.types import INT
    >>> file = pa.schema([("a", pa.int32()), ("b", pa.string())])
    >>> steps = [Alteration("drop", "b"), Alteration("rename", "a", to="b"), Alteration.add(Field("a", INT), 7)]
    >>> {name: (column.stored, column.value and column.value.as_py()) for name, column in
    ...     present_columns(file, steps).items()}
    {'b': ('a', None), 'a': (None, 7)}
    """
    found = {one.name: PresentColumn(one.type, one.name) for one in stored}
    for one in alterations:
        match one.kind:
            case "add":
                found[one.column] = PresentColumn(one.type, None, one.value)
            case "compute":
                inputs = {name: found[name] for name in columns_of(one.formula)}
                found[one.column] = PresentColumn(one.type, None, None, one.formula, inputs)
            case "drop":
                del found[one.column]
            case "rename":
                found = {one.to if name == one.column else name: column for name, column in found.items()}
            case "type":
                before = found[one.column]
                value = None if before.value is None else before.value.cast(one.type)
                found[one.column] = replace(before, type=one.type, value=value)
    return found


def stored_schema_of(columns: Mapping[str, PresentColumn], stored: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The columns of a file that make up the present columns ``names``; at least one, for the number of rows."""
    wanted = set[str]().union(*(columns[name].reads for name in names))
    read = [name for name in stored.names if name in wanted] or stored.names[-1:]
    return pa.schema([stored.field(name) for name in read])


def present_rows(table: pa.Table, schema: pa.Schema, columns: Mapping[str, PresentColumn]) -> pa.Table:
    """Rows of a file with exactly the columns of ``schema``, as they are now."""
    arrays = [columns[one.name].of(table).cast(one.type) for one in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
