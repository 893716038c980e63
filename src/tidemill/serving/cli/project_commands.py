"""Commands for projects, folders of SQL files: ``plan``, ``deploy`` and ``diff``."""

from __future__ import annotations

from typing import Annotated

import typer

import tidemill
from tidemill.serving.cli.warehouse_options import DEFAULT_FOLDER, FolderOption, RuntimeName, RuntimeOption

__all__ = ["deploy", "diff", "plan"]

ProjectArgument = Annotated[str, typer.Argument(help="The project: a folder of SQL files.")]
KeepOption = Annotated[bool, typer.Option("--no-drop", help="Keep views that the project does not name.")]


def plan(
    folder: ProjectArgument = ".",
    warehouse: FolderOption = DEFAULT_FOLDER,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if the warehouse differs.")] = False,
    no_drop: KeepOption = False,
) -> None:
    """Print what a deployment of a project would do, with estimated costs.

    Definitions are compared by their meaning: blanks and comments do not count. The order of files does not matter.
    Changes nothing, and works beside a writer.

    \b
    Examples:
      tidemill plan models -w shop
      tidemill plan models -w shop --check     (in CI: exit code 1 if something would be done)
    """
    found = tidemill.plan(folder, warehouse, drop=not no_drop)
    print(found)
    if check and found:
        raise typer.Exit(1)


def deploy(
    folder: ProjectArgument = ".",
    warehouse: FolderOption = DEFAULT_FOLDER,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Deploy on a clone, and print the rows that change.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if something is to do.")] = False,
    no_drop: KeepOption = False,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Give a warehouse the definitions of a project.

    Tables get new columns and lose nothing; tables that the project does not name stay. If it is interrupted, run it
    again: it goes on with what is left to do.

    \b
    Examples:
      tidemill deploy models -w shop --dry-run
      tidemill deploy models -w shop
      tidemill deploy models -w shop --check     (in CI, as tidemill plan --check)
    """
    if check:
        plan(folder, warehouse, check=True, no_drop=no_drop)
        return
    print(tidemill.deploy(folder, warehouse, drop=not no_drop, dry_run=dry_run, runtime=runtime.value))


def diff(
    first: Annotated[str, typer.Argument(help="A warehouse, one as of an epoch (shop@12), or a project.")],
    second: Annotated[str, typer.Argument(help="Another version.")],
    names: Annotated[list[str] | None, typer.Argument(help="Tables and views; by default all.")] = None,
) -> None:
    """Print the rows in which two versions differ. The exit code is 1 if some do.

    \b
    Examples:
      tidemill diff shop@12 shop
      tidemill diff shop try-it spend
      tidemill diff shop models
    """
    found = tidemill.diff(first, second, *(names or ()))
    print(found)
    if found:
        raise typer.Exit(1)
