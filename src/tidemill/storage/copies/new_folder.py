"""A folder that gets its name when it is complete: an interrupted copy is never taken for a whole one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.model.errors import StorageError
from tidemill.storage.filesystem.durable_files import fault, make_folder, sync_folder
from tidemill.storage.filesystem.file_path import FilePath

__all__ = ["new_folder"]


@contextmanager
def new_folder(target: FilePath) -> Iterator[FilePath]:
    """Context in which a folder is filled; it is called ``target`` afterwards, and deleted if that fails.

    In an object store names cannot change: there the last object that is written makes it whole.
    """
    if target.is_dir() and any(True for _ in target.iterdir()):
        raise StorageError(
            "the folder is not empty",
            where=str(target),
            detail="It is left as it is.",
            hint="Name a folder that does not exist yet.",
        )
    if not isinstance(target, Path):
        yield target
        return
    draft = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(draft, ignore_errors=True)  # of a copy that was interrupted
    make_folder(draft)
    try:
        yield draft
        fault("before-name")
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_folder(target.parent)
