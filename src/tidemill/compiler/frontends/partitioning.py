"""``PARTITION BY``: along which column a table is cut, and how long the partitions of a table or view are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.intervals import span_of
from tidemill.compiler.frontends.names import unknown
from tidemill.compiler.frontends.places import placed
from tidemill.model.errors import ParseError, TypeMismatch
from tidemill.model.schema import Partitioning, names_of
from tidemill.model.types import DATE, TIMESTAMP, Field

if TYPE_CHECKING:
    from tidemill.compiler.frontends.cursor import Cursor

TIMES = (TIMESTAMP, DATE)
"""The types of columns that a table can be cut along."""


def read_partitioning(cursor: Cursor, fields: Sequence[Field]) -> Partitioning:
    """``PARTITION BY column EVERY 1 MINUTE``, of a table with these columns."""
    cursor.next("PARTITION BY")
    place = cursor.place
    name = cursor.next("a column").text.lower()
    if name not in names_of(fields):
        raise unknown("column", name, names_of(fields), place)
    (field,) = (f for f in fields if f.name == name)
    if field.type not in TIMES:
        raise TypeMismatch(
            f'a table cannot be cut along "{name}", which is {field.type}',
            where=place,
            hint="Partitions are stretches of time: use a TIMESTAMP or DATE column.",
        )
    cursor.expect("EVERY")
    return Partitioning(name, read_length(cursor))


def read_length(cursor: Cursor) -> int:
    """``1 MINUTE``, in microseconds, at the end of a statement."""
    length = read_span(cursor)
    cursor.end()
    return length


def read_span(cursor: Cursor) -> int:
    """``1 MINUTE``, in microseconds."""
    place = cursor.place
    cursor.accept("INTERVAL")
    count = cursor.next("a length of time, such as 1 MINUTE").text
    unit = cursor.next("a unit of time, such as MINUTE").text
    with placed(place):
        length = span_of(count, unit).fixed
    if length <= 0:
        raise ParseError("a stretch of time has a length", where=place, hint="Write for example 1 MINUTE.")
    return length


def begins(cursor: Cursor) -> bool:
    """Whether ``PARTITION BY`` comes next; to sqlglot ``PARTITIONED BY`` is the same."""
    following = cursor.rest[:1]
    return any(t.token_type == TokenType.PARTITION_BY and t.text.upper().split()[0] == "PARTITION" for t in following)
