"""Common options of commands, and the warehouse and relations that they name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tidemill
from tidemill.model.errors import SetupError, UnknownName
from tidemill.serving.cli.terminal.interrupts import INTERRUPTS
from tidemill.serving.render import OutputForm
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.filesystem.durable_files import translate_os_errors

if TYPE_CHECKING:
    from tidemill.engine.results import LazyRows
    from tidemill.engine.warehouse import Warehouse

FolderOption = Annotated[
    str,
    typer.Option(
        "--warehouse",
        "-w",
        metavar="FOLDER",
        envvar="TIDEMILL_WAREHOUSE",
        help="The warehouse: a folder, or an address such as s3://bucket/path.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines, for other programs to read.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print rows as CSV with a header.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print rows and errors only: no messages, counts or progress.")
]

UsersOption = Annotated[
    Path | None, typer.Option("--users", help="The file of users, if it is not users.json in the warehouse.")
]


def output_form(as_json: bool, as_csv: bool) -> OutputForm:
    """The form that a command was asked for."""
    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    return OutputForm.json if as_json else OutputForm.csv if as_csv else OutputForm.table


def say(message: object, *, quiet: bool = False, form: OutputForm = OutputForm.table) -> None:
    """Print a message: on standard output, unless programs read rows from that; none if quiet was asked for."""
    if not quiet:
        print(message, file=sys.stdout if form is OutputForm.table else sys.stderr, flush=True)


class RuntimeName(StrEnum):
    """The runtime that refreshes views."""

    auto = "auto"
    native = "native"
    spark = "spark"


class OracleName(StrEnum):
    """The engine that recomputes a view that is verified."""

    spark = "spark"
    duckdb = "duckdb"
    evaluator = "evaluator"


RuntimeOption = Annotated[RuntimeName, typer.Option("--runtime", "-r", help="The runtime that refreshes views.")]

DEFAULT_FOLDER = "warehouse"
"""The folder of the warehouse if none is given."""


@contextmanager
def open_folder(
    folder: str, runtime: RuntimeName = RuntimeName.auto, *, new: bool = False, read_only: bool = False
) -> Iterator[Warehouse]:
    """Open a folder; only commands that may create tables create it, so that a misspelled name is an error.

    If the command is interrupted, what it has committed is found out before the warehouse is closed.
    """
    if not new and not is_there(folder):
        raise SetupError(
            "there is no warehouse here",
            where=folder,
            hint='Name its folder with -w, or create one: tidemill sql "CREATE TABLE ...".',
        )
    with tidemill.open(folder, runtime=runtime.value, read_only=read_only) as warehouse:
        warehouse.before_spark(_tell_spark)
        if read_only:
            yield warehouse
        else:
            with INTERRUPTS.telling_commits(warehouse, folder):
                yield warehouse


def is_there(folder: str) -> bool:
    """True if there is a folder of that name."""
    root = warehouse_root(folder)
    with translate_os_errors("find the warehouse", root, "Look at its address, and at what gives access to it."):
        return root.is_dir()


def local_folder(warehouse: str) -> Path | None:
    """The folder of a warehouse on this machine; None where it is in an object store."""
    root = warehouse_root(warehouse)
    return root if isinstance(root, Path) else None


def _tell_spark(reason: str) -> None:
    """Print why Spark is started, which takes some seconds."""
    print(f"starting Spark: {reason}", file=sys.stderr, flush=True)


def list_relations(wh: Warehouse) -> Iterator[tuple[str, str, int | None]]:
    """Tables, streams and views: name, kind, and number of rows where they are kept."""
    known = wh.statistics()
    for name in wh.tables():
        kind = "table" if wh.table(name).definition.kept else "stream"
        yield name, kind, known[name].rows if name in known else None
    for name in wh.views():
        rows = known[name].rows if name in known else None
        yield name, "view", len(wh.view(name)) if rows is None else rows
    for build in wh.builds:
        yield build.view, f"view, {build.state}", None


def find_relation(wh: Warehouse, name: str, at: int | None) -> LazyRows:
    """A table or view, as it is or as it was at an epoch."""
    source = wh if at is None else wh.at(at)
    if name.lower() in (*wh.views(), *(build.view for build in wh.builds)):
        return source.view(name)
    if name.lower() in wh.tables():
        return source.table(name)
    known = ", ".join((*wh.tables(), *wh.views())) or "nothing yet"
    raise UnknownName(f'there is no table or view "{name}"', hint=f"The warehouse has: {known}.")
