"""``PARTITION BY``, ``LATENESS`` and ``RETAIN``: the time of a table, its partitions and how late changes may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.sql.expressions.intervals import (
    Interval,
    format_duration,
    format_period,
    interval_of,
    microseconds_of,
)
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.sql.table_references import quoted
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.compiler.frontends.text.source import locating_errors
from tidemill.model.errors import NameTaken, ParseError, TextLocation, TypeMismatch, Unsupported
from tidemill.model.schema import CHANGE, WHEN, Partitioning, names_of
from tidemill.model.types import BIGINT, DATE, INT, SMALLINT, STRING, TIMESTAMP, TINYINT, Field, YearMonthInterval

PARTITION_OPTION = "partition_by"
"""The option of a view whose rows fall into partitions by a column: ``ts EVERY 1 MINUTE``."""

TIME_TYPES = (TIMESTAMP, DATE)
"""The types of columns that a table can be partitioned by."""

SOURCE_TYPES = (STRING, TINYINT, SMALLINT, INT, BIGINT)
"""The types of columns that can name the source of a row."""


def read_partitioning(cursor: StatementCursor, fields: Sequence[Field], kept: bool) -> Partitioning:
    """``PARTITION BY column EVERY 1 MINUTE [LATENESS 1 HOUR] [RETAIN 2 DAYS]``, of a table with these columns.

    Without partitions the first of the bounds names its column: ``LATENESS 90 SECONDS ON column [RETAIN 2 DAYS]``.
    ``LATENESS 90 SECONDS BY device`` is judged for each source by itself.
    """
    cut = Partitioning("", 0)
    if at_partition_by(cursor):
        cursor.next("PARTITION BY")
        cut = Partitioning(_time_column(cursor, fields, "a table cannot be partitioned by"), 0)
        cursor.expect("EVERY")
        cut = replace(cut, every=read_period(cursor))
    bounds: dict[str, int] = {}
    for word in ("LATENESS", "RETAIN"):
        if cursor.accept(word):
            bounds[word] = read_duration(cursor)
            if word == "LATENESS" and cursor.accept("BY"):
                cut = replace(cut, source=_source_column(cursor, fields))
            if not cut.column:
                cursor.expect("ON")
                cut = replace(cut, column=_time_column(cursor, fields, "late changes cannot be judged by"))
    return _with_bounds(cursor, cut, bounds, fields, kept)


def read_view_partitions(cursor: StatementCursor) -> str:
    """``PARTITION BY column EVERY 1 MINUTE`` of a view, as its option ``partition_by`` spells it."""
    cursor.next("PARTITION BY")
    column = cursor.column_name()
    cursor.expect("EVERY")
    every = read_period(cursor)
    for word in ("LATENESS", "RETAIN"):
        if cursor.sees(word):
            raise Unsupported(
                f"a view cannot have {word}",
                where=cursor.place,
                detail="How late its rows change, and how long they matter, follows from what it reads.",
                hint="Say it of the tables that it reads; WITH (retain = '2 days') lets the view forget its rows.",
            )
    return partitions_clause(column, every)


def partitions_clause(column: str, every: int) -> str:
    """The partitions of a view, as its option has them.

    >>> partitions_clause("ts", 60_000_000), partitions_clause("my time", 60_000_000)
    ('ts EVERY 1 MINUTE', '`my time` EVERY 1 MINUTE')
    """
    return f"{column if column.isidentifier() else quoted(column)} EVERY {format_period(every)}"


def view_partitioning(view: str, text: str, fields: Sequence[Field]) -> Partitioning:
    """The partitioning of a view with these columns, by the text of its option ``partition_by``."""
    source = SqlText.of(text, f"partition_by of {view}")
    cursor = StatementCursor(source, source.tokens)
    column = _time_column(cursor, fields, "a view cannot be partitioned by")
    cursor.expect("EVERY")
    return Partitioning(column, read_final_period(cursor))


def _with_bounds(
    cursor: StatementCursor, cut: Partitioning, bounds: Mapping[str, int], fields: Sequence[Field], kept: bool
) -> Partitioning:
    place = cursor.place
    cursor.expect_end("statement")
    lateness, retain = bounds.get("LATENESS"), bounds.get("RETAIN")
    if lateness is not None and retain is not None and retain < lateness:
        raise Unsupported(
            "RETAIN is shorter than LATENESS",
            where=place,
            detail=f"Rows may change for {format_duration(lateness)}, but are retained for {format_duration(retain)}.",
            hint="Increase RETAIN, or reduce LATENESS.",
        )
    if lateness is None and retain is None:
        return cut
    _require_free(fields, place)
    if cut.source and retain is None and not kept:
        raise Unsupported(
            f"a stream whose LATENESS is BY {cut.source} needs RETAIN",
            where=place,
            detail="A source may be behind the others for as long as what it changes is retained.",
            hint="Say how far sources may be apart: RETAIN 1 HOUR.",
        )
    # Expired rows cannot change, so with RETAIN alone it is the lateness as well. A stream keeps no rows, so with
    # LATENESS alone it retains what may change; a table keeps all rows without RETAIN.
    lateness = retain if lateness is None else lateness
    return replace(cut, lateness=lateness, retain=lateness if retain is None and not kept else retain)


def _time_column(cursor: StatementCursor, fields: Sequence[Field], refused: str) -> str:
    place = cursor.place
    name = cursor.column_name()
    if name not in names_of(fields):
        raise unknown_name("column", name, names_of(fields), place)
    (field,) = (f for f in fields if f.name == name)
    if field.type not in TIME_TYPES:
        raise TypeMismatch(
            f'{refused} "{name}", which is {field.type}',
            where=place,
            hint="Partitions are spans of time: use a TIMESTAMP or DATE column.",
        )
    return name


def _source_column(cursor: StatementCursor, fields: Sequence[Field]) -> str:
    """The column that names the source of a row."""
    place = cursor.place
    name = cursor.column_name()
    if name not in names_of(fields):
        raise unknown_name("column", name, names_of(fields), place)
    (field,) = (f for f in fields if f.name == name)
    if field.type not in SOURCE_TYPES:
        raise TypeMismatch(
            f'"{name}", which is {field.type}, cannot name the source of a row',
            where=place,
            hint="Use a column of type STRING, or one of integers.",
        )
    return name


def _require_free(fields: Sequence[Field], place: TextLocation) -> None:
    """The names that the table of late changes adds must be free."""
    for taken in {CHANGE, WHEN}.intersection(names_of(fields)):
        raise NameTaken(
            f'a table with LATENESS or RETAIN cannot have a column "{taken}"',
            where=place,
            detail="The table of its late changes has one of that name.",
            hint="Give the column another name.",
        )


def read_final_period(cursor: StatementCursor) -> int:
    """``1 MINUTE`` or ``1 MONTH`` at the end of a statement."""
    length = read_period(cursor)
    cursor.expect_end("statement")
    return length


def read_period(cursor: StatementCursor) -> int:
    """The length of partitions: ``1 MINUTE``, or calendar months: ``1 QUARTER`` (``model.partition_lengths``)."""
    place = cursor.place
    (value, of), quarters = _read_length(cursor)
    if isinstance(of, YearMonthInterval):
        return -_positive(value * (3 if quarters else 1), place)
    return _positive(value, place)


def read_duration(cursor: StatementCursor) -> int:
    """``1 MINUTE``, in microseconds."""
    place = cursor.place
    interval, _ = _read_length(cursor)
    with locating_errors(place):
        return _positive(microseconds_of(interval), place)


def _read_length(cursor: StatementCursor) -> tuple[Interval, bool]:
    """A number and a unit; true if the unit was quarters, of which there are as many months."""
    place = cursor.place
    cursor.accept("INTERVAL")
    count = cursor.next("a length of time, such as 1 MINUTE").text
    unit = cursor.next("a unit of time, such as MINUTE").text
    quarters = unit.upper() in ("QUARTER", "QUARTERS")
    with locating_errors(place):
        return interval_of(f"{count} {'MONTHS' if quarters else unit}"), quarters


def _positive(length: int, place: TextLocation) -> int:
    if length <= 0:
        raise ParseError("a duration is positive", where=place, hint="Write for example 1 MINUTE.")
    return length


def at_partitioning(cursor: StatementCursor) -> bool:
    """True if ``PARTITION BY`` comes next, or after the columns of a table its bounds."""
    after_columns = cursor.position > 0 and cursor.tokens[cursor.position - 1].text in (")", "ONLY")
    return at_partition_by(cursor) or (after_columns and (cursor.sees("LATENESS") or cursor.sees("RETAIN")))


def at_partition_by(cursor: StatementCursor) -> bool:
    """True if ``PARTITION BY`` comes next; sqlglot reads ``PARTITIONED BY`` as the same token."""
    following = cursor.rest[:1]
    return any(t.token_type == TokenType.PARTITION_BY and t.text.upper().split()[0] == "PARTITION" for t in following)
