"""Commands that show what epochs and views cost, ``refreshes``, ``costs`` and ``top``, and ``doctor``."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    CsvOption,
    FolderOption,
    JsonOption,
    RuntimeName,
    open_folder,
    output_form,
)
from tidemill.serving.render import OutputForm, json_line, print_result

__all__ = ["costs", "doctor", "refreshes", "top"]

SinceOption = Annotated[
    str | None, typer.Option(help='An epoch, a time in UTC, or a period such as "10 minutes"; default: all there is.')
]


class Order(StrEnum):
    """Order of views."""

    time = "time"
    rows = "rows"
    bytes = "bytes"
    state = "state"


def refreshes(
    view: Annotated[str | None, typer.Argument(help="A view; default: all, and whole epochs.")] = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option(help="Maximum number of entries.", min=1)] = 20,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Show the refresh log, the newest entries first.

    Rows in and out, time by phase, the way that was taken and why. Works beside a writer.

    \b
    Examples:
      tidemill refreshes
      tidemill refreshes spend --since "1 hour" --limit 100
      tidemill refreshes --since 1200 --json
    """
    of = "" if view is None else f" OF {_quoted(view)}"
    _print(warehouse, f"SHOW REFRESHES{of}{_since(since)} LIMIT {limit}", output_form(as_json, as_csv))


def costs(
    since: SinceOption = None,
    by: Annotated[Order, typer.Option(help="What views are sorted by.")] = Order.time,
    limit: Annotated[int, typer.Option(help="Maximum number of views.", min=1)] = 20,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Show which views cost most: time, rows, bytes written, and state.

    \b
    Examples:
      tidemill costs
      tidemill costs --since "1 day" --by state
    """
    _print(warehouse, f"SHOW COSTS{_since(since)} ORDER BY {by.value} LIMIT {limit}", output_form(as_json, as_csv))


def top(
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 2.0,
    window: Annotated[float, typer.Option(help="Seconds that rates are taken over.", min=1)] = 10.0,
    rounds: Annotated[int, typer.Option(help="Stop after so many looks; 0 goes on until Ctrl-C.", min=0)] = 0,
    limit: Annotated[int, typer.Option(help="Maximum number of views.", min=1)] = 20,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Watch what views cost while another process writes.

    Reads the refresh log only: no lock, and nothing of the warehouse itself. Small epochs appear within a second of
    the next one.

    \b
    Examples:
      tidemill top -w shop
      tidemill top -w shop --interval 5 --window 60
      tidemill top -w shop --rounds 1 --json
    """
    from tidemill.serving.cli.observing.watch_costs import watch_costs

    watch_costs(warehouse, interval=interval, window=window, rounds=rounds, limit=limit, as_json=as_json)


def _print(folder: str, statement: str, form: OutputForm) -> None:
    with open_folder(folder, RuntimeName.native, read_only=True) as wh:
        print_result(wh.sql(statement), form)


def _since(text: str | None) -> str:
    if text is None:
        return ""
    return f" SINCE {text}" if text.isdigit() else f" SINCE '{text.replace(chr(39), '')}'"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '')}`"


def doctor(
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Check this machine, the installation and a warehouse folder.

    Versions, Java and Spark, free disk space, the cache folder, optional packages; of the folder its format, its newest
    epoch, who writes, and the refresh log. Changes nothing and works beside a writer. The exit code is 1 if something
    is wrong.

    \b
    Examples:
      tidemill doctor
      tidemill doctor -w shop --json
    """
    from tidemill.serving.cli.observing.doctor import described, examined

    findings = examined(warehouse)
    for one in findings:
        print(json_line(asdict(one)) if as_json else described(one))
    if any(one.state == "error" for one in findings):
        raise typer.Exit(1)
