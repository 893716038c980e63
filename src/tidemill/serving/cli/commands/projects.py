"""Commands for projects, folders of SQL files: ``plan``, ``deploy``, ``promote``, ``drop-stage`` and ``diff``."""

from __future__ import annotations

from typing import Annotated

import typer

import tidemill
from tidemill.serving.cli.warehouse_options import DEFAULT_FOLDER, FolderOption, RuntimeName, RuntimeOption

__all__ = ["deploy", "diff", "drop_stage", "plan", "promote"]

ProjectArgument = Annotated[str, typer.Argument(help="The project: a folder of SQL files.")]
StageArgument = Annotated[str, typer.Argument(help="The stage, as it was named by tidemill deploy --stage.")]
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
    stage: Annotated[
        str | None, typer.Option("--stage", help="Build the views that change beside the present ones.")
    ] = None,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Give a warehouse the definitions of a project, as one epoch: all of it, or nothing if it is interrupted.

    Tables get new columns and lose nothing; tables that the project does not name stay. With --stage the present views
    stay as they are, and the new ones live beside them until tidemill promote.

    \b
    Examples:
      tidemill deploy models -w shop --dry-run
      tidemill deploy models -w shop
      tidemill deploy models -w shop --stage blue
      tidemill deploy models -w shop --check     (in CI, as tidemill plan --check)
    """
    if check:
        plan(folder, warehouse, check=True, no_drop=no_drop)
        return
    made = tidemill.deploy(folder, warehouse, drop=not no_drop, dry_run=dry_run, stage=stage, runtime=runtime.value)
    print(made)


def promote(
    stage: StageArgument,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Put the views of a stage in the place of the present ones, as one epoch.

    \b
    Examples:
      tidemill promote blue -w shop
    """
    print(tidemill.promote(warehouse, stage, runtime=runtime.value))


def drop_stage(stage: StageArgument, warehouse: FolderOption = DEFAULT_FOLDER) -> None:
    """Give up a stage: its views are gone, and the present ones are as they were.

    \b
    Examples:
      tidemill drop-stage blue -w shop
    """
    tidemill.drop_stage(warehouse, stage)
    print(f"dropped stage {stage}")


def diff(
    first: Annotated[str, typer.Argument(help="A warehouse, one as of an epoch (shop@12), or a project.")],
    second: Annotated[str | None, typer.Argument(help="Another version, such as shop@13 or shop@blue.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Tables and views; by default all.")] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="Compare a warehouse with this stage of it.")] = None,
) -> None:
    """Print the rows in which two versions differ. The exit code is 1 if some do.

    \b
    Examples:
      tidemill diff shop@12 shop
      tidemill diff shop try-it spend
      tidemill diff shop models
      tidemill diff shop --stage blue
    """
    named = [*([second] if stage and second else []), *(names or ())]
    other = f"{first}@{stage}" if stage else second
    if other is None:
        raise typer.BadParameter("there is one version, and two are compared: tidemill diff shop@12 shop")
    found = tidemill.diff(first, other, *named)
    print(found)
    if found:
        raise typer.Exit(1)
