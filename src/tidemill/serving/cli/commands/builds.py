"""Views that are built in the background: ``tidemill builds``."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.serving.cli.warehouse_options import DEFAULT_FOLDER, FolderOption, JsonOption, RuntimeName, open_folder
from tidemill.serving.render import json_line

if TYPE_CHECKING:
    from tidemill.engine.builds.builds import BuildStatus
    from tidemill.engine.warehouse import Warehouse

__all__ = ["builds"]

TELL_SECONDS = 0.5
"""Seconds between two lines of progress."""

ViewArgument = Annotated[str, typer.Argument(help="The view that is being built.")]

builds = typer.Typer(
    name="builds",
    help="Views that are built in the background: how far they are; run, pause, resume, cancel.",
    epilog="Begin one with:  CREATE MATERIALIZED VIEW v WITH (build = 'background') AS ...",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@builds.callback(invoke_without_command=True)
def show_builds(context: typer.Context, warehouse: FolderOption = DEFAULT_FOLDER, as_json: JsonOption = False) -> None:
    """List the views that are built in the background, or run, pause, resume or cancel a build.

    A build goes on while some process has the warehouse open for writing; tidemill builds run is such a process.

    \b
    Examples:
      tidemill builds -w shop
      tidemill builds run -w shop
      tidemill builds pause spend -w shop
    """
    if context.invoked_subcommand is not None:
        return
    with open_folder(warehouse, RuntimeName.native, read_only=True) as wh:
        for status in wh.builds:
            print(_line(status, as_json))
        if not len(wh.builds) and not as_json:
            print("no view is being built")


@builds.command()
def run(
    views: Annotated[list[str] | None, typer.Argument(help="The views to wait for; default: all.")] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Build until these views, or all, are there; prints how far they are.

    Ctrl-C stops it: the build goes on from its last slice when the warehouse is next opened.

    \b
    Examples:
      tidemill builds run -w shop
      tidemill builds run spend -w shop --json
    """
    told = Teller(as_json)
    with open_folder(warehouse, RuntimeName.native) as wh:
        waiting = views or [status.view for status in wh.builds]
        wh.builds.wait(*waiting, progress=told.tell)
        if not as_json:
            _tell_end(wh, waiting)


def _tell_end(wh: Warehouse, views: list[str]) -> None:
    for view in views:
        done = view.lower() in wh.views()
        print(
            f"{view}: built, {wh.view(view).arrow().num_rows:,} rows" if done else f"{view}: not built, see its status"
        )


@builds.command()
def pause(view: ViewArgument, warehouse: FolderOption = DEFAULT_FOLDER) -> None:
    """Pause a build until it is resumed, also if the warehouse is opened again.

    \b
    Examples:
      tidemill builds pause spend -w shop
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        wh.builds.pause(view)
        print(f"paused the build of {view}")


@builds.command()
def resume(view: ViewArgument, warehouse: FolderOption = DEFAULT_FOLDER) -> None:
    """Resume a build that was paused or has failed; tidemill builds run waits for it.

    \b
    Examples:
      tidemill builds resume spend -w shop
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        wh.builds.resume(view)
        print(f"resumed the build of {view}")


@builds.command()
def cancel(view: ViewArgument, warehouse: FolderOption = DEFAULT_FOLDER) -> None:
    """Give up a build: nothing of the view is left.

    \b
    Examples:
      tidemill builds cancel spend -w shop
    """
    with open_folder(warehouse, RuntimeName.native) as wh:
        wh.builds.cancel(view)
        print(f"cancelled the build of {view}")


class Teller:
    """Prints the status of builds, now and then."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._next = 0.0

    def tell(self, status: BuildStatus) -> None:
        """Print a line, if the last one is some time ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + TELL_SECONDS
            print(_line(status, self._as_json), flush=True)


def _line(status: BuildStatus, as_json: bool) -> str:
    return json_line(asdict(status)) if as_json else str(status)
