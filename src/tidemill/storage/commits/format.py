"""The format number of a warehouse folder, and migrations from older formats."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from tidemill.model.errors import FormatMismatch, StorageError
from tidemill.storage.filesystem.durable_files import damaged, missing
from tidemill.storage.filesystem.file_system import FilePath, system_of

FORMAT = 5
"""The format that this version writes.

In format 1, log records and manifests do not name their predecessor. Up to format 2, log records repeat the schemas of
all maps that they change. Up to format 3, manifests do not count changes. Up to format 4, maps have the columns that
they were created with.
"""

FORMAT_FILE = "tidemill.json"

Migration = Callable[[FilePath], None]


def _leave_as_it_is(folder: FilePath) -> None:
    """Rewrite nothing: manifests and records of the format stay readable."""


MIGRATIONS: Mapping[int, Migration] = {1: _leave_as_it_is, 2: _leave_as_it_is, 3: _leave_as_it_is, 4: _leave_as_it_is}
"""Migration ``n`` takes a folder from format ``n`` to ``n + 1``. An interrupted one is run again from its start."""


def create_format(folder: FilePath) -> None:
    """Make an empty or new folder a warehouse; refuse one that holds anything else."""
    system_of(folder).make_folder(folder)
    if any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise StorageError(
            "the folder is not a warehouse",
            where=str(folder),
            detail=f"It has files but no {FORMAT_FILE}.",
            hint="Give an empty folder, or one that does not exist yet.",
        )
    with suppress(FileExistsError):  # another process may create the same warehouse concurrently
        system_of(folder).create(folder / FORMAT_FILE, _encoded(FORMAT))


def require_warehouse(folder: FilePath, *, create: bool) -> None:
    """Check that the folder is a warehouse; if it is not, create one or refuse."""
    if (folder / FORMAT_FILE).exists():
        return
    if (folder / "manifests").is_dir():
        raise missing(folder / FORMAT_FILE, "The folder has manifests, so it was a warehouse.")
    if not create:
        raise StorageError(
            "there is no warehouse",
            where=str(folder),
            detail=f"The folder has no {FORMAT_FILE}.",
            hint="Look at the path, or open it for writing to make one.",
        )
    create_format(folder)


def read_format(folder: FilePath) -> int:
    """The format number of a warehouse; ``FormatMismatch`` if a newer Tidemill wrote it."""
    file = folder / FORMAT_FILE
    number = _decoded(file)
    if number > FORMAT:
        raise FormatMismatch(
            f"the warehouse has format {number}",
            where=str(file),
            detail=f"This Tidemill reads formats up to {FORMAT}.",
            hint="Install the newest Tidemill: pip install --upgrade tidemill",
        )
    return number


def _decoded(file: FilePath) -> int:
    """The number in the file. From format 2 on it has a checksum: a changed digit would be another format."""
    number = 0
    try:
        said = json.loads(system_of(file).read(file))
        number = said["format"]
        sound = type(number) is int and (said.get("crc32") == _crc(number) or (number < 2 and "crc32" not in said))
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise damaged(file, "It does not say a format number. No rows are affected.", "Run `tidemill repair`.")
    return number


def migrate(folder: FilePath, migrations: Mapping[int, Migration] = MIGRATIONS) -> None:
    """Migrate an older folder to this format, one number at a time. The caller holds the writer's lock."""
    for number in range(read_format(folder), FORMAT):
        if number not in migrations:
            raise FormatMismatch(
                f"the warehouse has format {number}",
                where=str(folder / FORMAT_FILE),
                detail=f"This Tidemill has no way from format {number} to {number + 1}.",
                hint="Open it once with the Tidemill release before this one.",
            )
        migrations[number](folder)
        system_of(folder).replace(folder / FORMAT_FILE, _encoded(number + 1))


def require_current(folder: FilePath) -> None:
    """Refuse an older folder to readers, which cannot migrate it."""
    number = read_format(folder)
    if number < FORMAT:
        raise FormatMismatch(
            f"the warehouse has format {number}",
            where=str(folder / FORMAT_FILE),
            detail=f"This Tidemill reads format {FORMAT}; bringing it there means writing.",
            hint="Open it once for writing.",
        )


def write_format(folder: FilePath) -> None:
    """Write this format's number, replacing any other."""
    system_of(folder).replace(folder / FORMAT_FILE, _encoded(FORMAT))


def _encoded(number: int) -> bytes:
    return f'{{"format": {number}, "crc32": "{_crc(number)}"}}\n'.encode()


def _crc(number: int) -> str:
    return f"{zlib.crc32(str(number).encode()):08x}"
