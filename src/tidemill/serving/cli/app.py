"""The command line. Each command opens a warehouse folder, asks the engine one thing and prints the answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill import __version__
from tidemill.model.errors import InternalError, SetupError, TidemillError
from tidemill.serving.cli.bench import bench
from tidemill.serving.cli.check_repair import check, repair
from tidemill.serving.cli.data_input import FORMATS, apply_file, load_with_progress, run_script, take_files
from tidemill.serving.cli.keep_in_sync import Reporter, keep_in_sync
from tidemill.serving.cli.object_classes import CLASS_COLUMNS, declare_classes, list_classes
from tidemill.serving.cli.prompt import prompt
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    FolderOption,
    JsonOption,
    OracleName,
    RuntimeName,
    RuntimeOption,
    find_relation,
    list_relations,
    open_folder,
)
from tidemill.serving.cli.watch_changes import as_json_lines, as_text_lines, watch_changes
from tidemill.serving.cli.watch_staleness import watch_staleness
from tidemill.serving.render import fail, json_line, print_json, print_table

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["app", "main"]

app = typer.Typer(
    name="tidemill",
    epilog="Start with:  tidemill demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tidemill {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep SQL views fresh at the cost of the change, not at the cost of the data."""


def main() -> None:
    """Run the command line: errors in their four fields with exit code 1, our own faults with 70, never a traceback."""
    try:
        app(prog_name="tidemill")
    except TidemillError as error:
        _stop(error)
    except BrokenPipeError:
        # The reader, such as head, has seen enough. Python must not find the closed pipe again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _stop(SetupError("a file cannot be used", where=str(error.filename or ""), detail=error.strerror or str(error)))
    except Exception as error:
        if os.environ.get("TIDEMILL_DEBUG"):
            raise
        from tidemill.engine.fault_reports import fault_report

        fault = InternalError("the command failed because of a fault in Tidemill")
        fault.reported(fault_report(error, f"tidemill {' '.join(sys.argv[1:2])}", {}, None))
        _stop(fault)


def _stop(error: TidemillError) -> None:
    fail(error)
    sys.exit(FAULT if isinstance(error, InternalError) else 1)


FAULT = 70
"""The exit code for faults of Tidemill itself, as BSD's sysexits has it."""


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="How long changes stream in.")] = 60,
    runtime: RuntimeOption = RuntimeName.spark,
    folder: Annotated[Path | None, typer.Option(help="Keep the warehouse in this new folder.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another history.")] = 7,
) -> None:
    """Watch views stay fresh while orders stream in.

    Six views over a small shop follow every change for a minute; at the end each is verified.

    \b
    Examples:
      tidemill demo
      tidemill demo --seconds 15 --runtime native
      tidemill demo --folder shop     (then: tidemill show -w shop)
    """
    from tidemill.serving.demo.run_demo import run_demo

    if not run_demo(seconds=seconds, runtime=runtime.value, folder=folder, seed=seed):
        raise typer.Exit(1)


@app.command()
def sql(
    statements: Annotated[str | None, typer.Argument(help="One or more statements, separated by semicolons.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the statements from this file.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only read: works beside a writer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run SQL.

    From the argument, a file, standard input, or at a prompt.

    \b
    Examples:
      tidemill sql "SELECT * FROM spend"
      tidemill sql -f views.sql -w shop
      echo "SHOW VIEWS" | tidemill sql --json
      tidemill sql                    (on a terminal: a prompt)
    """
    if statements is not None and file is not None:
        raise typer.BadParameter("give statements or --file, not both")
    with open_folder(warehouse, runtime, new=not read_only, read_only=read_only) as wh:
        if statements is not None:
            run_script(wh, statements, "sql", as_json)
        elif file is not None:
            run_script(wh, file.read_text(encoding="utf-8"), str(file), as_json)
        elif sys.stdin.isatty():
            prompt(lambda statement: run_script(wh, statement, "sql", as_json))
        else:
            run_script(wh, sys.stdin.read(), "stdin", as_json)


@app.command()
def load(
    table: Annotated[str, typer.Argument(help="The table that takes the rows.")],
    files: Annotated[list[str], typer.Argument(help="CSV, JSON lines or Parquet; or folders of them.")],
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    format: Annotated[str | None, typer.Option(help="csv, json or parquet; else the ending tells.")] = None,
    reject: Annotated[Path | None, typer.Option(help="Set bad rows aside in this file and take the others.")] = None,
) -> None:
    """Load files into a table, and say how many rows that were.

    One epoch: all files and all rows, or nothing; with --reject, all but the bad rows. A folder stands for all files
    below it; folders named column=value give that column of their rows, as Spark writes them.

    \b
    Examples:
      tidemill load orders orders.csv
      tidemill load orders 2024/*.parquet -w shop
      tidemill load orders orders.jsonl --reject bad.jsonl
    """
    with open_folder(warehouse, runtime) as wh:
        print(load_with_progress(wh, table, files, format=format, reject=reject))


@app.command()
def objects(
    file: Annotated[Path | None, typer.Argument(help="A module in ODL; left out: what was declared before.")] = None,
    odl: Annotated[bool, typer.Option("--odl", help="Print the module itself.")] = False,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Declare classes of objects, or list them.

    Each has its extent, keys, and how many objects there are. Then load takes nested files into extents, and sql takes
    definitions in OQL.

    \b
    Examples:
      tidemill objects parts.odl -w design
      tidemill objects -w design
      tidemill load CompositeParts parts.jsonl -w design
      tidemill sql "DEFINE old() AS select c.id from c in CompositeParts where c.buildDate < 1000" -w design
      tidemill sql "OQL count(CompositeParts)" -w design
    """
    with open_folder(warehouse, RuntimeName.native, new=file is not None, read_only=file is None) as wh:
        db = declare_classes(wh, file)
        if odl:
            print(db.text)
        else:
            (print_json if as_json else print_table)(CLASS_COLUMNS, list(list_classes(db)))


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(help="The change records; - is standard input.")],
    format: Annotated[str, typer.Option(help=" or ".join(FORMATS))] = "debezium",
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Apply change records to their tables, as one epoch.

    \b
    Examples:
      tidemill apply changes.jsonl --format debezium
      tidemill apply changes.jsonl --format pairs
      a line of pairs: {"table": "orders", "weight": -1, "row": {"id": 1, "customer": "ann"}}
    """
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(FORMATS)}", param_hint="--format")
    with open_folder(warehouse, runtime) as wh:
        print(apply_file(wh, file, format))


@app.command()
def watch(
    view: Annotated[str | None, typer.Argument(help="The view to follow; left out: how far each is behind.")] = None,
    since: Annotated[int | None, typer.Option(help="Begin after this epoch; else with what comes next.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with this value, as in customer=ann; may be repeated.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks at the folder.", min=0.05)] = 1.0,
    timeout: Annotated[float | None, typer.Option(help="End when nothing came for so many seconds.")] = None,
    follow: Annotated[
        bool,
        typer.Option("--sync", help="Meanwhile follow sources, feeds and the schedule: this process is the writer."),
    ] = False,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
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
      tidemill watch spend --since 0 --json | tidemill apply - --format pairs -w copy
    """
    open_folder(warehouse, RuntimeName.native, read_only=True).close()
    with ExitStack() as stack:
        between = _in_sync(stack.enter_context(open_folder(warehouse))) if follow else lambda: None
        if view is None:
            watch_staleness(warehouse, interval=interval, timeout=timeout, as_json=as_json, between=between)
            return
        heard = watch_changes(
            warehouse, view, since=since, where=where or (), interval=interval, timeout=timeout, between=between
        )
        for batch, columns in heard:
            for line in as_json_lines(batch, view, columns) if as_json else as_text_lines(batch):
                print(line, flush=True)


def _in_sync(warehouse: Warehouse) -> Callable[[], None]:
    """Start following sources, feeds and the schedule; returns the function that reports what has stopped."""
    warehouse.follow()
    return Reporter(warehouse).report


@app.command()
def sync(
    name: Annotated[str | None, typer.Argument(help="A view over sources, or a feed; left out: all of them.")] = None,
    following: Annotated[bool, typer.Option("--follow", help="Go on until interrupted, with everything.")] = False,
    timeout: Annotated[float | None, typer.Option(help="End after so many seconds.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Bring views over sources up to what the sources have committed, and take in what waits for feeds.

    Prints the epoch and how many rows came; with --follow each that it comes to, and scheduled views are refreshed as
    well. A source that cannot be reached is told on standard error, and tried again.

    \b
    Examples:
      tidemill sync -w shop
      tidemill sync open_orders --timeout 60
      tidemill sync --follow
    """
    with open_folder(warehouse, runtime) as wh:
        if following:
            keep_in_sync(wh, timeout)
        else:
            taken = wh.sync(name, timeout=timeout)
            print(f"epoch {taken}: {taken.counts}")


@app.command()
def feed(
    table: Annotated[str, typer.Argument(help="The table or stream that takes the rows.")],
    folder: Annotated[str, typer.Argument(help="Where files arrive, by renaming: CSV, JSON lines or Parquet.")],
    following: Annotated[bool, typer.Option("--follow", help="Go on until interrupted, with everything.")] = False,
    timeout: Annotated[float | None, typer.Option(help="With --follow: end after so many seconds.")] = None,
    format: Annotated[str | None, typer.Option(help="csv, json or parquet; else the ending tells.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Take in the files of a folder, each once.

    Every file, and every folder of files, is an epoch. What was taken in is moved to _taken there, and what is refused
    to _aside, with the reason. With --follow also sources, other feeds and scheduled views go on.

    \b
    Examples:
      tidemill feed losses inbox -w net
      tidemill feed losses inbox --follow
    """
    with open_folder(warehouse, runtime) as wh:
        print(take_files(wh, table, folder, format))
        if following:
            keep_in_sync(wh, timeout)


@app.command()
def schedule(
    following: Annotated[bool, typer.Option("--follow", help="Go on until interrupted, with everything.")] = False,
    limit: Annotated[int | None, typer.Option(help="So many views share an epoch, at most.", min=1)] = None,
    timeout: Annotated[float | None, typer.Option(help="With --follow: end after so many seconds.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Refresh scheduled views, the most urgent first.

    Prints their names in that order; with --follow each epoch, and sources and feeds go on as well.

    \b
    Examples:
      tidemill schedule -w net
      tidemill schedule --follow --limit 4
    """
    with open_folder(warehouse, runtime) as wh:
        for name in wh.schedule(limit):
            print(name)
        if following:
            keep_in_sync(wh, timeout, limit=limit)


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="A table or view; left out: a list of all.")] = None,
    at: Annotated[int | None, typer.Option(help="As it was at this epoch.")] = None,
    limit: Annotated[int, typer.Option(help="Print so many rows at most; 0 is all.", min=0)] = 50,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Show all tables and views, or the rows of one.

    \b
    Examples:
      tidemill show
      tidemill show spend --at 12
      tidemill show spend --limit 0 --json > spend.jsonl
    """
    with open_folder(warehouse, RuntimeName.native, read_only=True) as wh:
        if name is None:
            rows = list(list_relations(wh))
            (print_json if as_json else print_table)(("name", "kind", "rows"), rows)
            return
        relation = find_relation(wh, name, at)
        rows = relation.rows()
        shown = rows[:limit] if limit else rows
        (print_json if as_json else print_table)(relation.columns, shown)
        if len(shown) < len(rows) and not as_json:
            print(f"{len(shown)} of {len(rows)} rows; --limit 0 shows all")


@app.command()
def explain(
    view: Annotated[str, typer.Argument(help="The view.")],
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Say how a view is kept fresh, and why so.

    Strategy, runtime, program, predicted and measured cost.

    \b
    Examples:
      tidemill explain spend
    """
    with open_folder(warehouse, runtime, read_only=True) as wh:
        print(wh.view(view).explain())


@app.command()
def verify(
    views: Annotated[list[str] | None, typer.Argument(help="The views; left out: all.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    files: Annotated[bool, typer.Option("--files", help="First compare every file with its checksum.")] = False,
    against: Annotated[
        OracleName | None, typer.Option(help="Who recomputes: spark takes each view's own text. Left out: by size.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare views with their recomputation.

    Both ways and with duplicates; says who recomputed them. The exit code is 1 where one differs.

    \b
    Examples:
      tidemill verify
      tidemill verify spend top_customers
      tidemill verify --against spark
      tidemill verify --files
    """
    with open_folder(warehouse, runtime, read_only=True) as wh:
        if files:
            seen = wh.check_files()
            print(f"{seen.files:,} files, {seen.bytes:,} bytes: as written", file=sys.stderr if as_json else sys.stdout)
        checks = wh.verify(*(views or ()), against=against and against.value)
    for one in checks:
        if as_json:
            print(json_line({"view": one.view, "ok": one.ok, "rows": one.rows, "oracle": one.oracle}))
        else:
            print(one)
    if not all(checks):
        raise typer.Exit(1)


@app.command()
def audit(
    view: Annotated[str | None, typer.Argument(help="A view over sources.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Check this recorded history instead; - is standard input.")
    ] = None,
    level: Annotated[str, typer.Option(help="What the history promises: convergent, weak, consistent, ...")] = "strong",
    stored: Annotated[bool, typer.Option("--stored", help="Only what is stored: works beside a writer.")] = False,
    patience: Annotated[float, typer.Option(help="How many seconds sources may go on changing.")] = 30,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Check how consistent a view over sources is.

    Of a view: which states of its sources it showed at which epoch; then it is brought up to date and compared with
    what the sources answer themselves. Of a recorded history: which of the five levels convergent, weak, consistent,
    strong and complete it keeps, and what breaks the others. The exit code is 1 where what was promised is not kept.

    \b
    Examples:
      tidemill audit spend -w shop
      tidemill audit spend --stored --json
      tidemill audit --history history.jsonl --level complete
      lines of a history, in order: {"source": [[1, "ann"]]} and {"warehouse": [[1, "ann"]]}, all rows of one state
    """
    from tidemill.serving.cli.audit import check_history, check_view

    if (view is None) == (history is None):
        raise typer.BadParameter("name a view, or a file with --history")
    if history is not None:
        kept = check_history(history, level, as_json=as_json)
    else:
        with open_folder(warehouse, RuntimeName.native, read_only=stored) as wh:
            kept = check_view(wh.view(view or ""), None if stored else patience, as_json=as_json)
    if not kept:
        raise typer.Exit(1)


@app.command()
def compact(warehouse: FolderOption = DEFAULT_FOLDER) -> None:
    """Merge files and drop rows that cancel.

    \b
    Examples:
      tidemill compact -w shop
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        print(f"{wh.compact():,} bytes freed")


@app.command()
def vacuum(
    keep: Annotated[int, typer.Option(help="How many epochs stay readable.", min=1)] = 1,
    warehouse: FolderOption = DEFAULT_FOLDER,
) -> None:
    """Forget old epochs and delete their files.

    \b
    Examples:
      tidemill vacuum --keep 100
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        print(f"{wh.vacuum(keep):,} bytes freed")


app.command()(check)
app.command()(repair)
app.command()(bench)
