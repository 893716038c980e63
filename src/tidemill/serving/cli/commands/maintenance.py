"""Commands for the files of a warehouse: ``compact``, ``vacuum``, ``check`` and ``repair``.

The last two also work on a folder that is too damaged to be opened.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import tidemill
from tidemill.serving.cli.terminal.progress import bytes_progress
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    FolderOption,
    JsonOption,
    QuietOption,
    RuntimeName,
    open_folder,
    say,
)
from tidemill.serving.render import json_line

__all__ = ["check", "compact", "repair", "vacuum"]


def compact(warehouse: FolderOption = DEFAULT_FOLDER, quiet: QuietOption = False) -> None:
    """Merge files and drop rows that cancel.

    \b
    Examples:
      tidemill compact -w shop
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        say(f"{wh.compact():,} bytes freed", quiet=quiet)


def vacuum(
    keep: Annotated[int, typer.Option(help="Number of epochs that stay readable.", min=1)] = 1,
    warehouse: FolderOption = DEFAULT_FOLDER,
    quiet: QuietOption = False,
) -> None:
    """Forget old epochs and delete their files.

    \b
    Examples:
      tidemill vacuum --keep 100
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        say(f"{wh.vacuum(keep):,} bytes freed", quiet=quiet)


def check(
    warehouse: FolderOption = DEFAULT_FOLDER,
    full: Annotated[bool, typer.Option("--full", help="Also read every row, and count.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read every file and compare it with its checksum.

    Prints what is damaged or missing, what it holds, and the affected epochs and views. Changes nothing and works
    beside a writer. The exit code is 1 if anything is damaged.

    \b
    Examples:
      tidemill check -w shop
      tidemill check -w shop --full --json
    """
    with bytes_progress("reading", quiet) as progress:
        found = tidemill.check(warehouse, full=full, progress=progress)
    if as_json:
        print(json_line({**asdict(found), "ok": found.ok}))
    elif not (quiet and found.ok):
        print(found)
    if not found.ok:
        raise typer.Exit(1)


def repair(
    warehouse: FolderOption = DEFAULT_FOLDER,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="Continue without what cannot be read.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rebuild damaged views, and set damaged files aside.

    Nothing is deleted: damaged files are moved to the folder quarantine of the warehouse. If rows of tables or whole
    epochs would be lost, it prints which, and changes nothing unless --accept-loss is given. The exit code is 1 if
    damage is left.

    \b
    Examples:
      tidemill repair -w shop --dry-run
      tidemill repair -w shop
      tidemill repair -w shop --accept-loss
    """
    with bytes_progress("reading", quiet) as progress:
        told = tidemill.repair(warehouse, accept_loss=accept_loss, dry_run=dry_run, progress=progress)
    if as_json:
        print(json_line(asdict(told)))
    else:
        say(told, quiet=quiet)
    if not (told.done or told.check.ok):
        raise typer.Exit(1)
