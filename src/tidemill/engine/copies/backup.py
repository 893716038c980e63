"""``tidemill.backup``, ``tidemill.restore`` and ``tidemill.clone``: copies of a warehouse beside its writer.

What is copied is one commit, read as a reader reads it. If its files are vacuumed meanwhile, the copy starts again with
the newest commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tidemill.engine.boundary import public_function
from tidemill.engine.copies.detach import detach
from tidemill.engine.copies.earlier_epoch import catalog_as_of
from tidemill.engine.open_warehouse import MEMORY
from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.model.errors import Corrupt, SetupError, Unsupported
from tidemill.storage.commits.format import require_current, require_warehouse, write_format
from tidemill.storage.commits.layout import Layout, recover
from tidemill.storage.commits.manifest import write_manifest
from tidemill.storage.commits.position_history import positions_by_epoch
from tidemill.storage.copies.backup_place import COPY_OF, BackupPlace, StoredBackup
from tidemill.storage.copies.copied_state import CopiedFiles, CopyPlan, copy_runs
from tidemill.storage.copies.new_folder import new_folder
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.filesystem.durable_files import fault, translate_os_errors
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.vacuumed_files import find_vacuumed

__all__ = ["BackupReport", "CopyReport", "backup", "backups", "clone", "restore"]

RETRIES = 20
"""Number of times that a copy starts again because files were vacuumed meanwhile."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that was made: the epoch that it holds, and its ``files``, of which some were there already."""

    backup: StoredBackup
    files: CopiedFiles

    def __str__(self) -> str:
        new = self.files.files - self.files.shared
        return f"{self.backup}\n{new} of {self.files.files} files are new, {self.files.linked} of them linked"


@dataclass(frozen=True, slots=True)
class CopyReport:
    """A warehouse that was restored or cloned at ``path``: its epoch, its files, views that were computed anew, and
    ``notes`` of what it no longer does."""

    path: str
    epoch: int
    files: CopiedFiles
    rebuilt: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = self.files
        lines = [
            f"{self.path}: epoch {self.epoch}, {said.files} files, {said.bytes:,} bytes, {said.linked} files linked"
        ]
        lines += [f"computed anew: {name}" for name in self.rebuilt]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@public_function
def backup(path: str | Path, place: str | Path, *, keep: int | None = None) -> BackupReport:
    """Back up the newest epoch of a warehouse, with the history that it has, to the folder ``place``.

    Works beside a writer. All backups of a place share the files that they have in common; new ones are hard links on
    one disk, and compared with their checksums. With ``keep`` only so many backups stay.
    """
    source, target = _source(path), BackupPlace(_root(place))
    with translate_os_errors("back up", target.root):
        target.create()
        with target.writing():
            made, files = _of_one_commit(source, None, lambda plan: target.add(plan, keep))
    return BackupReport(made, files)


@public_function
def backups(place: str | Path) -> list[StoredBackup]:
    """The backups in a folder, the oldest first."""
    found = BackupPlace(_root(place))
    found.find()
    return found.stored()


@public_function
def restore(place: str | Path, path: str | Path, *, backup: int | None = None, take_over: bool = False) -> CopyReport:
    """Restore a backup as a new warehouse at ``path``: the newest one, or the one of that number.

    It publishes nothing and follows no source, since the original may: with ``take_over`` it does, in place of one that
    is gone. Every file is compared with its checksum.
    """
    found = BackupPlace(_root(place))
    with translate_os_errors("restore", found.root):
        return _copied(found.plan(backup), _root(path), verify=True, take_over=take_over)


@public_function
def clone(path: str | Path, new: str | Path, *, epoch: int | None = None) -> CopyReport:
    """Make a new warehouse of a warehouse, with its history, or as of an earlier epoch; both can then be written.

    Works beside a writer. Files are shared by hard links on one disk and copied by an object store itself, so it is
    done at once. A clone publishes nothing and follows no source, since the original does.
    """
    target = _root(new)
    with translate_os_errors("clone", target):
        return _of_one_commit(_source(path), epoch, lambda plan: _copied(plan, target, verify=False, take_over=False))


def _source(path: str | Path) -> Layout:
    if str(path) == MEMORY:
        raise SetupError("a warehouse in memory has no files to copy", hint="Open it in a folder.")
    layout = Layout(_root(path))
    require_warehouse(layout.root, create=False)
    require_current(layout.root)
    layout.refuse_links()
    return layout


def _root(path: str | Path) -> FilePath:
    root = warehouse_root(path)
    return root.resolve() if isinstance(root, Path) else root


def _of_one_commit(source: Layout, epoch: int | None, copy: Callable[[CopyPlan], T]) -> T:
    """The result of ``copy`` for the newest commit; again with a newer one if its files are vacuumed meanwhile."""
    for _ in range(RETRIES):
        plan = _newest(source, epoch)
        try:
            return copy(plan)
        except (Corrupt, FileNotFoundError):
            if find_vacuumed(source, plan.now) is None:
                raise
    return copy(_newest(source, epoch))


def _newest(source: Layout, epoch: int | None) -> CopyPlan:
    now = recover(source)
    return CopyPlan(source, now, positions_by_epoch(source), now.epoch if epoch is None else epoch)


def _copied(plan: CopyPlan, target: FilePath, *, verify: bool, take_over: bool) -> CopyReport:
    """A new warehouse with the rows of a plan."""
    stored = {key: said for key, said in plan.now.state.catalog.items() if key != COPY_OF}
    rebuilt: tuple[str, ...] = ()
    if not plan.is_whole:
        found, rebuilt = catalog_as_of(plan.now.state, plan.until)
        stored = dict(found)
    catalog, notes = (stored, []) if take_over else detach(stored)
    if rebuilt and not isinstance(target, Path):
        raise Unsupported(
            f"epoch {plan.until} cannot be cloned into an object store: views are computed anew there",
            detail=f"They are {', '.join(rebuilt)}.",
            hint="Clone it to a folder of this machine, or clone the newest epoch.",
        )
    with new_folder(target) as folder:
        layout = Layout(folder)
        layout.create()
        runs, ids, copied = copy_runs(plan, layout.maps, lambda run: run.file, verify=verify)
        fault("before-manifest")
        write_manifest(layout.manifests, plan.manifest(1, runs, ids, catalog))
        write_format(folder)
        if rebuilt:
            open_warehouse(str(folder), runtime="native").close()
    return CopyReport(str(target), plan.until, copied, rebuilt, tuple(notes))
