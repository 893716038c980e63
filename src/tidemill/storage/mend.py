"""Mending a folder: one manifest that says what is left, and the damaged files set aside.

The manifest is full and newer than all that there was, so it needs none of them, and it is written first: a crash on
the way leaves damaged files where they are, which nothing names any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tidemill.model.errors import Corrupt
from tidemill.storage.examine import Damage, Examination, Kind
from tidemill.storage.files import explained, make_folder, sync_folder
from tidemill.storage.format import write_format
from tidemill.storage.layout import Current, Layout
from tidemill.storage.lock import WriterLock
from tidemill.storage.log import logs
from tidemill.storage.manifest import Loss, manifest_file, read_manifest, sequences
from tidemill.storage.mark import read_mark
from tidemill.storage.runs import FilePart, StoredRun
from tidemill.storage.salvage import salvage
from tidemill.storage.writer import Writer


@dataclass(frozen=True, slots=True)
class Remedy:
    """The content of a repair's manifest: the epoch from which it goes on, its catalog, and what cannot be read.

    Of runs ``saved`` the rows are taken that are right; others that are damaged go as a whole.
    """

    epoch: int
    catalog: Mapping[str, object]
    losses: tuple[Loss, ...]
    saved: tuple[FilePart, ...] = ()


@contextmanager
def alone(layout: Layout) -> Iterator[WriterLock]:
    """The writer's lock of a folder in any state; ``LockHeld`` if somebody writes."""
    with explained("repair the warehouse", layout.root, "Nothing was changed. Look at the folder and its rights."):
        lock = WriterLock.acquire(layout.root, lambda: _highest_token(layout))
    try:
        yield lock
    finally:
        lock.release()


def _highest_token(layout: Layout) -> int:
    mark = read_mark(layout.root)
    tokens = [mark.token if mark else 0, *(token for _, token, _ in logs(layout.log))]
    for sequence in sequences(layout.manifests):
        with suppress(Corrupt):
            tokens.append(read_manifest(layout.manifests, sequence).token)
    return max(tokens)


def mend(layout: Layout, lock: WriterLock, found: Examination, remedy: Remedy) -> tuple[Path, ...]:
    """Commit what can be read and set aside what is damaged; returns where the files are now."""
    assert found.now is not None
    with explained(
        "repair the warehouse", layout.root, "Run the repair again once there is room and the right to write."
    ):
        layout.create()
        if any(damage.kind is Kind.FORMAT for damage in found.damages):
            write_format(layout.root)
        _publish(layout, lock, found, remedy)
        return tuple(_set_aside(layout, _bad_files(layout, found)))


def _publish(layout: Layout, lock: WriterLock, found: Examination, remedy: Remedy) -> None:
    assert found.now is not None
    now = replace(found.now, state=replace(found.now.state, sequence=found.top))
    writer = Writer(layout, lock, now, synced=True)
    gone = [damage.part.run.file for damage in found.damages if damage.part is not None]
    manifest = replace(
        writer.next(now),
        epoch=remedy.epoch,
        catalog=remedy.catalog,
        removed=tuple(gone),
        added=_saved(writer, now, remedy.saved),
        losses=(*now.state.losses, *remedy.losses),
    )
    try:
        writer.publish(now, manifest, whole=True)
    finally:
        writer.close()


def _saved(writer: Writer, now: Current, parts: Sequence[FilePart]) -> dict[str, tuple[StoredRun, ...]]:
    """New runs of the rows that damaged ones still hold."""
    added: dict[str, tuple[StoredRun, ...]] = {}
    for part in parts:
        found = salvage(part)
        if found is not None:
            added[part.name] = (*added.get(part.name, ()), writer.write(found.rows, now, part.name))
    return added


def _bad_files(layout: Layout, found: Examination) -> list[Path]:
    """The damaged files, and manifests and logs that are newer than the state that could be read."""
    assert found.now is not None
    last = found.now.state.sequence
    newer = [manifest_file(layout.manifests, n) for n in sequences(layout.manifests) if last < n <= found.top]
    orphans = [file for sequence, _, file in logs(layout.log) if sequence > last]
    damaged = [damage.file for damage in found.damages if damage.kind in (Kind.MANIFEST, Kind.LOG, Kind.RUN)]
    return list(dict.fromkeys([*damaged, *newer, *orphans]))


def _set_aside(layout: Layout, files: Sequence[Path]) -> Iterator[Path]:
    for file in files:
        target = _free(layout.quarantine / file.relative_to(layout.root))
        make_folder(target.parent)
        with suppress(FileNotFoundError):
            os.rename(file, target)
            sync_folder(target.parent)
            yield target


def _free(file: Path) -> Path:
    """A name in quarantine that no file has yet: a second repair may set aside a file of the same name."""
    number = 1
    while file.exists():
        file, number = file.with_name(f"{file.name}.{number}"), number + 1
    return file


def unrepairable(layout: Layout, damages: Sequence[Damage]) -> Corrupt:
    """The error for a folder of which nothing says which files count."""
    return Corrupt(
        "no manifest can be read",
        where=str(layout.manifests),
        detail=f"{len(damages)} files are damaged, and nothing says which of the others count.",
        hint="Restore the folder of manifests from a backup of the warehouse.",
    )
