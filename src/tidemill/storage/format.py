"""The format of a warehouse folder: its number, and how older numbers become this one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tidemill.model.errors import FormatMismatch, StorageError
from tidemill.storage.files import damaged, make_folder, write_new, write_over

FORMAT = 1
"""The format that this Tidemill writes."""

FORMAT_FILE = "tidemill.json"

Migration = Callable[[Path], None]

MIGRATIONS: Mapping[int, Migration] = {}
"""Migration ``n`` takes a folder from format ``n`` to ``n + 1``. One that was cut short runs again from its start."""


def create_format(folder: Path) -> None:
    """Make an empty or new folder a warehouse; refuse one that holds something else."""
    make_folder(folder)
    if any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise StorageError(
            "the folder is not a warehouse",
            where=str(folder),
            detail=f"It has files but no {FORMAT_FILE}.",
            hint="Give an empty folder, or one that does not exist yet.",
        )
    with suppress(FileExistsError):  # another process may make the same warehouse at the same moment
        write_new(folder / FORMAT_FILE, _encoded(FORMAT))


def require_warehouse(folder: Path, *, create: bool) -> None:
    """Make sure that the folder is a warehouse; where it is none, make it one or refuse."""
    if (folder / FORMAT_FILE).exists():
        return
    if not create:
        raise StorageError(
            "there is no warehouse",
            where=str(folder),
            detail=f"The folder has no {FORMAT_FILE}.",
            hint="Look at the path, or open it for writing to make one.",
        )
    create_format(folder)


def read_format(folder: Path) -> int:
    """The format number of a warehouse; ``FormatMismatch`` where a newer Tidemill wrote it."""
    file = folder / FORMAT_FILE
    try:
        number = json.loads(file.read_bytes())["format"]
    except (ValueError, KeyError, TypeError) as fault:
        raise damaged(file, "It does not say a format number.", f'Write {{"format": {FORMAT}}} into it.') from fault
    if not isinstance(number, int) or number > FORMAT:
        raise FormatMismatch(
            f"the warehouse has format {number}",
            where=str(file),
            detail=f"This Tidemill reads formats up to {FORMAT}.",
            hint="Install the newest Tidemill: pip install --upgrade tidemill",
        )
    return number


def migrate(folder: Path, migrations: Mapping[int, Migration] = MIGRATIONS) -> None:
    """Bring an older folder to this format, one number at a time. The caller holds the writer's lock."""
    for number in range(read_format(folder), FORMAT):
        if number not in migrations:
            raise FormatMismatch(
                f"the warehouse has format {number}",
                where=str(folder / FORMAT_FILE),
                detail=f"This Tidemill has no way from format {number} to {number + 1}.",
                hint="Open it once with the Tidemill release before this one.",
            )
        migrations[number](folder)
        write_over(folder / FORMAT_FILE, _encoded(number + 1))


def require_current(folder: Path) -> None:
    """Refuse an older folder to those who may only read."""
    number = read_format(folder)
    if number < FORMAT:
        raise FormatMismatch(
            f"the warehouse has format {number}",
            where=str(folder / FORMAT_FILE),
            detail=f"This Tidemill reads format {FORMAT}; bringing it there means writing.",
            hint="Open it once for writing.",
        )


def _encoded(number: int) -> bytes:
    return f'{{"format": {number}}}\n'.encode()
