"""Commands for copies of a warehouse: ``backup``, ``restore`` and ``clone``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import tidemill
from tidemill.serving.cli.warehouse_options import DEFAULT_FOLDER, FolderOption, JsonOption
from tidemill.serving.render import json_line

__all__ = ["backup", "clone", "restore"]


def backup(
    place: Annotated[str, typer.Argument(help="The folder of backups, or an address such as s3://bucket/path.")],
    warehouse: FolderOption = DEFAULT_FOLDER,
    keep: Annotated[int | None, typer.Option(help="Number of backups that stay; by default all.", min=1)] = None,
    listed: Annotated[bool, typer.Option("--list", help="Only print the backups that there are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Back up a warehouse, beside its writer.

    The backup holds the newest epoch and the history that the warehouse has. All backups in a folder share the files
    that they have in common, so a second one takes the time of what is new. Files are compared with their checksums
    after they are written; on one disk they are hard links, which protect from mistakes, but not from a broken disk.

    \b
    Examples:
      tidemill backup backups -w shop
      tidemill backup s3://bucket/shop-backups -w shop --keep 7
      tidemill backup backups --list
    """
    if listed:
        for found in tidemill.backups(place):
            print(json_line(asdict(found)) if as_json else found)
        return
    made = tidemill.backup(warehouse, place, keep=keep)
    print(json_line(asdict(made)) if as_json else made)


def restore(
    place: Annotated[str, typer.Argument(help="The folder of backups.")],
    new: Annotated[str, typer.Argument(help="The folder of the restored warehouse, which must not exist.")],
    number: Annotated[
        int | None, typer.Option("--backup", help="A backup by its number; by default the newest.")
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Publish and follow sources in place of the original, which is gone.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup as a new warehouse.

    Every file is compared with its checksum. The restored warehouse publishes nothing and follows no source unless
    --take-over is given: the original may still do that.

    \b
    Examples:
      tidemill restore backups shop-again
      tidemill restore backups shop --take-over
      tidemill restore backups shop-last-week --backup 3
    """
    made = tidemill.restore(place, new, backup=number, take_over=take_over)
    print(json_line(asdict(made)) if as_json else made)


def clone(
    new: Annotated[str, typer.Argument(help="The folder of the clone, which must not exist.")],
    warehouse: FolderOption = DEFAULT_FOLDER,
    epoch: Annotated[int | None, typer.Option(help="An earlier epoch; by default the newest.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a second warehouse of a warehouse, beside its writer, without copying its files.

    Both can then be written, and neither sees what the other does. The clone publishes nothing and follows no source:
    the original does. Of an earlier epoch it has the definitions of now over the rows of then.

    \b
    Examples:
      tidemill clone try-it -w shop
      tidemill clone yesterday -w shop --epoch 1200
    """
    made = tidemill.clone(warehouse, new, epoch=epoch)
    print(json_line(asdict(made)) if as_json else made)
