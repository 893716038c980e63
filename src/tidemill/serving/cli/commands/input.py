"""Commands that bring statements and data in: ``sql``, ``shell``, ``load``, ``objects`` and ``apply``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.model.errors import TransactionState
from tidemill.serving.cli.data_input import FORMATS, apply_file, load_with_progress
from tidemill.serving.cli.object_classes import CLASS_COLUMNS, declare_classes, list_classes
from tidemill.serving.cli.run_script import run_script
from tidemill.serving.cli.shell.open_shell import open_shell
from tidemill.serving.cli.terminal.completion import complete_table
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
from tidemill.serving.render import print_rows

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["apply", "load", "objects", "shell", "sql"]


ReadOnlyOption = Annotated[bool, typer.Option("--read-only", help="Read only: works beside a writer.")]


def sql(
    statements: Annotated[str | None, typer.Argument(help="One or more statements, separated by semicolons.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the statements from this file.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run SQL.

    From the argument, a file, standard input, or in a shell. Every statement is reported, and its rows are printed.

    \b
    Examples:
      tidemill sql "SELECT * FROM spend"
      tidemill sql -f views.sql -w shop
      echo "SHOW VIEWS" | tidemill sql --json
      tidemill sql "SELECT * FROM information_schema.columns" --csv > columns.csv
      tidemill sql                    (on a terminal: a shell)
    """
    form = output_form(as_json, as_csv)
    if statements is not None and file is not None:
        raise typer.BadParameter("give statements or --file, not both")
    with open_folder(warehouse, runtime, new=not read_only, read_only=read_only) as wh:
        if statements is not None:
            run_script(wh, statements, "sql", form, quiet=quiet)
        elif file is not None:
            run_script(wh, file.read_text(encoding="utf-8"), str(file), form, quiet=quiet)
        elif sys.stdin.isatty():
            open_shell(wh, form, quiet=quiet)
        else:
            run_script(wh, sys.stdin.read(), "stdin", form, quiet=quiet)
        _require_no_transaction(wh)


def _require_no_transaction(wh: Warehouse) -> None:
    """Refuse a script that ends before its transaction does."""
    if wh.in_transaction:
        raise TransactionState(
            "the input ends within a transaction", detail="Nothing of it is applied.", hint="End it with COMMIT."
        )


def shell(
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Open a shell for SQL.

    It has history, highlighting and completion; a statement ends with a semicolon, help lists the other commands.

    \b
    Examples:
      tidemill shell -w shop
      tidemill shell -w shop --read-only     (beside a writer)
    """
    form = output_form(as_json, as_csv)
    with open_folder(warehouse, runtime, new=not read_only, read_only=read_only) as wh:
        open_shell(wh, form, quiet=quiet)


def load(
    table: Annotated[str, typer.Argument(help="The table that takes the rows.", autocompletion=complete_table)],
    files: Annotated[list[str], typer.Argument(help="CSV, JSON lines or Parquet; or folders of them.")],
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    format: Annotated[str | None, typer.Option(help="csv, json or parquet; default: by the file extension.")] = None,
    reject: Annotated[Path | None, typer.Option(help="Write bad rows to this file and load the others.")] = None,
    quiet: QuietOption = False,
    mode: Annotated[str, typer.Option(help="append, upsert (by primary key) or overwrite.")] = "append",
    separator: Annotated[str | None, typer.Option("--separator", help="CSV: between cells; default: guessed.")] = None,
    header: Annotated[bool, typer.Option(help="CSV: the first line has the names of columns.")] = True,
    quote: Annotated[str | None, typer.Option(help='CSV: around texts; default: ".')] = None,
    null: Annotated[str | None, typer.Option(help="CSV: the text for NULL; default: an empty cell.")] = None,
    date_format: Annotated[str | None, typer.Option(help="CSV: such as dd.MM.yyyy.")] = None,
    timestamp_format: Annotated[str | None, typer.Option(help="CSV: such as 'dd.MM.yyyy HH:mm'.")] = None,
) -> None:
    """Load files into a table, and print the number of rows.

    One epoch: all files and all rows, or nothing; with --reject, all but the bad rows. A folder stands for all files
    below it; folders named column=value give that column of their rows, as Spark writes them. Files may be compressed
    (.gz, .zst, .bz2). With --mode upsert a row takes the place of the one with its primary key.

    \b
    Examples:
      tidemill load orders orders.csv
      tidemill load orders 2024/*.parquet -w shop
      tidemill load orders orders.jsonl --reject bad.jsonl
      tidemill load orders new.csv.gz --mode upsert
      tidemill load orders 'year=2024/*.csv' --separator ';' --null NA --date-format dd.MM.yyyy
    """
    given = {"sep": separator, "quote": quote, "nullvalue": null}
    given |= {"dateformat": date_format, "timestampformat": timestamp_format}
    options = {name: text for name, text in given.items() if text is not None} | ({} if header else {"header": "false"})
    with open_folder(warehouse, runtime) as wh:
        told = load_with_progress(
            wh, table, files, format=format, reject=reject, quiet=quiet, mode=mode, options=options
        )
        say(told, quiet=quiet)


def objects(
    file: Annotated[Path | None, typer.Argument(help="A module in ODL; default: list the declared classes.")] = None,
    odl: Annotated[bool, typer.Option("--odl", help="Print the module itself.")] = False,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
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
    form = output_form(as_json, as_csv)
    with open_folder(warehouse, RuntimeName.native, new=file is not None, read_only=file is None) as wh:
        db = declare_classes(wh, file)
        if odl:
            print(db.text)
        else:
            print_rows(CLASS_COLUMNS, list(list_classes(db)), form)


def apply(
    file: Annotated[Path, typer.Argument(help="The change records; - is standard input.")],
    format: Annotated[str, typer.Option(help=" or ".join(FORMATS))] = "debezium",
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    quiet: QuietOption = False,
    upsert: Annotated[bool, typer.Option("--upsert", help="Rows take the place of those with their key.")] = False,
) -> None:
    """Apply change records to their tables, as one epoch.

    \b
    Examples:
      tidemill apply changes.jsonl --format debezium
      tidemill apply changes.jsonl --format pairs
      tidemill apply changes.jsonl --format pairs --upsert     (weight -1 deletes the row of that key)
      a line of pairs: {"table": "orders", "weight": -1, "row": {"id": 1, "customer": "ann"}}
    """
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(FORMATS)}", param_hint="--format")
    with open_folder(warehouse, runtime) as wh:
        say(apply_file(wh, file, format, upsert=upsert), quiet=quiet)
