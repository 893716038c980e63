"""Output of the command line: tables for people, JSON lines for programs, errors in their four fields."""

from __future__ import annotations

import base64
import datetime
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidemill.model.intervals import write_interval
from tidemill.model.types import DAY_TIME

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tidemill.engine.results import Result
    from tidemill.model.errors import TidemillError

__all__ = ["as_text", "cell", "console", "fail", "json_line", "print_json", "print_result", "print_table"]

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


def print_result(result: Result, as_json: bool) -> None:
    """Print the result of a statement: rows, an explanation, or a message."""
    if as_json:
        print_json(result.columns, result)
    elif result.columns == ("explanation",):
        print(result[0][0])
    elif result.columns:
        print_table(result.columns, result)
        print(f"{len(result)} row{'' if len(result) == 1 else 's'}")
    elif result.message:
        print(result.message)


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
