"""CSV lines: read by a schema, and written from records.

`from_csv(line, schema, options)` takes the columns as text; a field that is not of its type is NULL, or an error with
the mode `FAILFAST`. Options are a `map` of constant texts: `sep`, `quote`, `escape`, `comment`, `nullValue`,
`emptyValue`, `nanValue`, `positiveInf`, `negativeInf`, `ignoreLeadingWhiteSpace`, `ignoreTrailingWhiteSpace`, the
mode, the patterns `dateFormat`, `timestampFormat` and `timestampNTZFormat`, `columnNameOfCorruptRecord`, and of
`to_csv` also `quoteAll` and `escapeQuotes`. `schema_of_csv` gives the schema of a constant line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, always, expect_count
from tidemill.algebra.functions.semistructured.json import needs_schema, with_options
from tidemill.algebra.values.records.csv_values import csv_reader, csv_writer
from tidemill.algebra.values.variants import has_variant
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type


def from_csv(of: Type, line: str, schema: str, *options: str) -> Any:
    """The record of a CSV line."""
    assert isinstance(of, t.Struct)
    return csv_reader(of, options).read(line)


def to_csv(types: Sequence[Type], record: tuple[Any, ...], *options: str) -> str | None:
    """A record as a CSV line."""
    assert isinstance(types[0], t.Struct)
    return csv_writer(options).write(record, types[0])


def _record_type(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if isinstance(types[0], t.Void):
        return (types[0],), t.STRING
    if not isinstance(types[0], t.Struct):
        raise TypeMismatch(f"a STRUCT was expected, not {types[0]}")
    if has_variant(types[0]):
        raise TypeMismatch("VARIANT cannot be written as CSV", hint="Write it with TO_JSON first.")
    return (types[0],), t.STRING


def _check_options(values: Sequence[Any]) -> None:
    csv_writer(tuple(values[1:]))


CSV = (
    Function(
        "from_csv",
        needs_schema,
        from_csv,
        "from_csv({args})",
        typed=True,
        null_when=always,
        spelling=with_options("from_csv", 2),
    ),
    Function(
        "to_csv",
        _record_type,
        to_csv,
        "to_csv({args})",
        of_types=True,
        null_when=always,
        check=_check_options,
        spelling=with_options("to_csv", 1),
        total=True,
    ),
)
