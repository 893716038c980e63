"""Output of the command line: tables for people, JSON lines for programs, errors in their four fields."""

from __future__ import annotations

import base64
import datetime
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tidemill.model.intervals import write_interval
from tidemill.model.types import DAY_TIME

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tidemill.engine.results import Result
    from tidemill.model.errors import TidemillError

__all__ = [
    "OutputForm",
    "as_text",
    "cell",
    "console",
    "csv_line",
    "fail",
    "json_line",
    "print_json",
    "print_result",
    "print_rows",
    "print_table",
    "row_count",
]

_WIDE = 10_000
_MICROSECOND = datetime.timedelta(microseconds=1)


def console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr. In a pipe it is as wide as its rows, so that nothing is cut off."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _WIDE, highlight=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """Rows as a table; numbers stand to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for position, column in enumerate(columns):
        numeric = any(_is_number(row[position]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console().print(table)


class OutputForm(StrEnum):
    """The form in which rows are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: OutputForm) -> None:
    """Rows as a table, as JSON lines, or as CSV with a header."""
    match form:
        case OutputForm.table:
            print_table(columns, rows)
        case OutputForm.json:
            print_json(columns, rows)
        case OutputForm.csv:
            print(csv_line(columns))
            for row in rows:
                print(csv_line(row))


def print_result(result: Result, form: OutputForm) -> None:
    """Print the rows of a statement, or an explanation."""
    if result.columns == ("explanation",) and form is OutputForm.table:
        print(result[0][0])
    elif result.columns:
        print_rows(result.columns, result, form)


def row_count(rows: Sequence[Any]) -> str:
    """The number of rows, in words.

    >>> row_count([1]), row_count(range(1200))
    ('1 row', '1,200 rows')
    """
    return f"{len(rows):,} row{'' if len(rows) == 1 else 's'}"


def csv_line(values: Iterable[Any]) -> str:
    """Values as a line of CSV: NULL is nothing, an empty text is two quotes, arrays and structs are JSON.

    >>> print(csv_line(["a,b", None, "", Decimal("9.50"), True, [1, None], 'say "no" twice']))
    "a,b",,"",9.50,true,"[1, null]","say ""no"" twice"
    """
    return ",".join(map(_csv_cell, values))


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else as_text(value)
    special = not text or any(character in text for character in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if special else text


def cell(value: Any) -> Text:
    """A value as a table shows it; NULL is set apart from the text "NULL"."""
    from rich.text import Text

    return Text("NULL", style="dim italic") if value is None else Text(as_text(value))


def as_text(value: Any) -> str:
    """A value as text: the SQL spelling of what Python would spell its own way."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.timedelta):
        return write_interval(value // _MICROSECOND, DAY_TIME)
    if isinstance(value, (list, dict)):
        return json_line(value)
    return str(value)


def print_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Rows as JSON lines, one object each."""
    for row in rows:
        print(json_line(dict(zip(columns, row, strict=True))))


def json_line(value: Any) -> str:
    """A value as one line of JSON. Decimals, dates and times are strings, bytes Base64: nothing is lost on the way.

    >>> json_line({"amount": Decimal("9.50"), "ratio": math.nan, "code": b"a", "days": {datetime.date(2024, 1, 2): 1}})
    '{"amount": "9.50", "ratio": "NaN", "code": "YQ==", "days": {"2024-01-02": 1}}'
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def fail(error: TidemillError) -> None:
    """Print an error on stderr as everything that serves Tidemill renders it."""
    from rich.text import Text

    what, *rest = error.render().splitlines()
    output = console(stderr=True)
    output.print(Text(what, style="bold red"), soft_wrap=True)
    for line in rest:
        output.print(Text(line), soft_wrap=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case Decimal() | datetime.date() | datetime.time():
            return str(value) if isinstance(value, Decimal) else value.isoformat()
        case datetime.timedelta():
            return as_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {as_text(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value
