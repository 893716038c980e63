"""Commands that bring statements and data in: ``sql``, ``load``, ``objects`` and ``apply``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemill.serving.cli.data_input import FORMATS, apply_file, load_with_progress, run_script
from tidemill.serving.cli.object_classes import CLASS_COLUMNS, declare_classes, list_classes
from tidemill.serving.cli.prompt import prompt
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    FolderOption,
    JsonOption,
    RuntimeName,
    RuntimeOption,
    open_folder,
)
from tidemill.serving.render import print_json, print_table

__all__ = ["apply", "load", "objects", "sql"]


def sql(
    statements: Annotated[str | None, typer.Argument(help="One or more statements, separated by semicolons.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the statements from this file.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    read_only: Annotated[bool, typer.Option("--read-only", help="Read only: works beside a writer.")] = False,
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


def load(
    table: Annotated[str, typer.Argument(help="The table that takes the rows.")],
    files: Annotated[list[str], typer.Argument(help="CSV, JSON lines or Parquet; or folders of them.")],
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    format: Annotated[str | None, typer.Option(help="csv, json or parquet; default: by the file extension.")] = None,
    reject: Annotated[Path | None, typer.Option(help="Write bad rows to this file and load the others.")] = None,
) -> None:
    """Load files into a table, and print the number of rows.

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


def objects(
    file: Annotated[Path | None, typer.Argument(help="A module in ODL; default: list the declared classes.")] = None,
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
