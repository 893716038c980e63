"""One file of a warehouse at its new place, as cheaply as the file systems allow.

Runs are never written in place: they are created under names that no run ever had, and deleted. So two warehouses on
one disk can share a run by a hard link, and each of them deletes its own name only.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tidemill.storage.filesystem.durable_files import make_folder, sync_file
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of

__all__ = ["copy_file"]


def copy_file(source: FilePath, target: FilePath) -> bool:
    """Copy a run, durable but for its folder's sync; True if it was linked, or copied by the object store itself."""
    if isinstance(source, Path) and isinstance(target, Path):
        return _link_or_copy(source, target)
    if not isinstance(source, Path) and system_of(target).copy_from(source, target):
        return True
    local = system_of(source).local_copy(source)
    if isinstance(target, Path):
        _copy(local, target)
    else:
        system_of(target).store(local, target)
    return False


def _link_or_copy(source: Path, target: Path) -> bool:
    make_folder(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        target.unlink()  # of a copy that was interrupted
        return _link_or_copy(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        _copy(source, target)  # another disk, a file system without links, or too many of them
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    make_folder(target.parent)
    shutil.copyfile(source, target, follow_symlinks=False)
    sync_file(target)
