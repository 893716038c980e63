"""Commands that follow views, sources, feeds, the schedule and the clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.serving.cli.data_input import take_files
from tidemill.serving.cli.keep_in_sync import Reporter, keep_in_sync
from tidemill.serving.cli.terminal.completion import complete_table, complete_view
from tidemill.serving.cli.terminal.progress import counted_progress
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    CsvOption,
    FolderOption,
    JsonOption,
    QuietOption,
    RuntimeName,
    RuntimeOption,
    open_folder,
    output_form,
    say,
)
from tidemill.serving.cli.watch_changes import as_csv_lines, as_json_lines, as_text_lines, watch_changes
from tidemill.serving.cli.watch_staleness import watch_staleness
from tidemill.serving.render import OutputForm

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["clock", "feed", "schedule", "sync", "watch"]


def watch(
    view: Annotated[
        str | None,
        typer.Argument(help="The view to follow; default: the staleness of all views.", autocompletion=complete_view),
    ] = None,
    since: Annotated[int | None, typer.Option(help="Begin after this epoch; default: the next one.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with this value, as in customer=ann; may be repeated.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two polls of the folder.", min=0.05)] = 1.0,
    timeout: Annotated[float | None, typer.Option(help="End after so many seconds without a change.")] = None,
    follow: Annotated[
        bool,
        typer.Option("--sync", help="Meanwhile follow sources, feeds and the schedule: this process is the writer."),
    ] = False,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Print the changes of a view as they come, or how far each view is behind.

    Without a view: the epochs and partitions of its tables that each view does not show, and for how many seconds.
    Another process may write meanwhile, unless --sync is given. Each line is an epoch, a weight and a row; a row that
    changed is one line, the old row -> the new one. As JSON it is two rows, the old one with weight -1. A column that
    --where names twice may have either value.

    \b
    Examples:
      tidemill watch
      tidemill watch spend
      tidemill watch spend --where customer=ann --where customer=bob
      tidemill watch spend --since 120 --timeout 10
      tidemill watch open_orders --sync
      tidemill watch spend --since 0 --csv > changes.csv
      tidemill watch spend --since 0 --json | tidemill apply - --format pairs -w copy
    """
    form = output_form(as_json, as_csv)
    with open_folder(warehouse, RuntimeName.native, read_only=True):
        pass
    with ExitStack() as stack:
        between = _in_sync(stack.enter_context(open_folder(warehouse))) if follow else lambda: None
        if view is None:
            watch_staleness(warehouse, interval=interval, timeout=timeout, form=form, between=between)
            return
        heard = watch_changes(
            warehouse, view, since=since, where=where or (), interval=interval, timeout=timeout, between=between
        )
        for number, (batch, columns) in enumerate(heard):
            match form:
                case OutputForm.json:
                    lines = as_json_lines(batch, view, columns)
                case OutputForm.csv:
                    lines = as_csv_lines(batch, columns, header=number == 0)
                case OutputForm.table:
                    lines = as_text_lines(batch)
            for line in lines:
                print(line, flush=True)


def _in_sync(warehouse: Warehouse) -> Callable[[], None]:
    """Start following sources, feeds and the schedule; returns the function that reports what has stopped."""
    warehouse.follow()
    return Reporter(warehouse).report


def sync(
    name: Annotated[str | None, typer.Argument(help="A view over sources, a feed or a lake table; else all.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Then follow sources, feeds and the schedule until interrupted.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="End after so many seconds.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    quiet: QuietOption = False,
) -> None:
    """Sync views with their sources, ingest waiting files of feeds, and take the newest versions of lake tables.

    Prints the epoch and the number of rows; with --follow each epoch, and scheduled views are refreshed as well. A
    source that cannot be reached is reported on standard error, and tried again.

    \b
    Examples:
      tidemill sync -w shop
      tidemill sync open_orders --timeout 60
      tidemill sync --follow
    """
    with open_folder(warehouse, runtime) as wh:
        if follow:
            keep_in_sync(wh, timeout, quiet=quiet)
        else:
            with counted_progress("syncing", lambda: str(wh.taken), quiet):
                taken = wh.sync(name, timeout=timeout)
            say(f"epoch {taken}: {taken.counts}", quiet=quiet)
            if taken.published:
                say(f"published {taken.published}", quiet=quiet)


def feed(
    table: Annotated[
        str, typer.Argument(help="The table or stream that takes the rows.", autocompletion=complete_table)
    ],
    folder: Annotated[str, typer.Argument(help="Where files arrive, by renaming: CSV, JSON lines or Parquet.")],
    follow: Annotated[
        bool, typer.Option("--follow", help="Then follow sources, feeds and the schedule until interrupted.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="With --follow: end after so many seconds.")] = None,
    format: Annotated[str | None, typer.Option(help="csv, json or parquet; default: by the file extension.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    quiet: QuietOption = False,
) -> None:
    """Ingest the files of a folder, each once.

    Every file, and every folder of files, is an epoch. Ingested files are moved to _taken there, and refused ones to
    _aside, with the reason. With --follow also sources, other feeds and scheduled views are followed.

    \b
    Examples:
      tidemill feed losses inbox -w net
      tidemill feed losses inbox --follow
    """
    with open_folder(warehouse, runtime) as wh:
        with counted_progress(f"feeding {table}", lambda: str(wh.taken), quiet):
            told = take_files(wh, table, folder, format)
        say(told, quiet=quiet)
        if follow:
            keep_in_sync(wh, timeout, quiet=quiet)


def schedule(
    follow: Annotated[
        bool, typer.Option("--follow", help="Then follow sources, feeds and the schedule until interrupted.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Maximum number of views refreshed in one epoch.", min=1)] = None,
    timeout: Annotated[float | None, typer.Option(help="With --follow: end after so many seconds.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    quiet: QuietOption = False,
) -> None:
    """Refresh scheduled views, the most urgent first.

    Prints their names in that order; with --follow each epoch, and sources and feeds are followed as well.

    \b
    Examples:
      tidemill schedule -w net
      tidemill schedule --follow --limit 4
    """
    with open_folder(warehouse, runtime) as wh:
        with counted_progress("refreshing", lambda: "", quiet):
            names = wh.schedule(limit)
        for name in names:
            print(name)
        if follow:
            keep_in_sync(wh, timeout, limit=limit, quiet=quiet)


def clock(
    to: Annotated[
        str | None, typer.Option(help="The instant to advance to, in UTC; default: the present.", metavar="INSTANT")
    ] = None,
    of: Annotated[
        str, typer.Option(help="Which clock: wall, or the column of a table that an event clock follows.")
    ] = "wall",
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Advance a clock that views compare rows with, as one epoch.

    Prints the instant of each clock. Rows come and go at their time; a clock never goes back.

    \b
    Examples:
      tidemill clock -w shop
      tidemill clock --to "2024-05-01 10:00:00"
      tidemill clock --of orders.placed_at --to "2024-05-01 10:00:00"
    """
    with open_folder(warehouse, runtime) as wh:
        wh.advance_clock(to, clock=of)
        for follows, now in wh.clocks.items():
            print(f"{follows}  {now}")
