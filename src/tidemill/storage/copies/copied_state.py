"""The files of a commit at another place, whole or as of an earlier epoch, and the manifest that names them.

Epochs that are still in the log become runs of the copy. Of an earlier epoch, runs that begin later are left out and
runs that reach beyond it are written again without their later rows; all others are the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow.compute as pc

from tidemill.model.errors import EpochGone
from tidemill.model.schema import EPOCH
from tidemill.storage.change_counts import ChangeCounts
from tidemill.storage.commits.layout import CommittedState, Layout
from tidemill.storage.commits.manifest import Manifest
from tidemill.storage.commits.position_history import positions_since
from tidemill.storage.copies.copied_files import copy_file
from tidemill.storage.filesystem.durable_files import damaged, fault
from tidemill.storage.filesystem.fetched_file import compare_copy
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.folder_writer import map_id
from tidemill.storage.runs import RunEntry, RunSegment, open_run, sync_runs, translate_read_errors, write_run

__all__ = ["CopiedFiles", "CopyPlan", "copy_runs"]


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """Files of a copy and their bytes, and how many of them were there already, were linked, or were written."""

    files: int = 0
    bytes: int = 0
    shared: int = 0
    linked: int = 0
    written: int = 0


@dataclass(frozen=True)
class CopyPlan:
    """A commit that is copied: ``now``, with all positions of sources that are remembered, as of epoch ``until``."""

    source: Layout
    now: CommittedState
    history: Mapping[int, Mapping[str, str]]
    until: int

    def __post_init__(self) -> None:
        if not self.now.state.oldest <= self.until <= self.now.epoch:
            raise EpochGone(
                f"epoch {self.until} cannot be copied",
                where=str(self.source.root),
                detail=f"The warehouse reaches from epoch {self.now.state.oldest} to {self.now.epoch}.",
            )

    @property
    def is_whole(self) -> bool:
        """True if the newest epoch is copied."""
        return self.until == self.now.epoch

    def manifest(
        self,
        sequence: int,
        runs: Mapping[str, tuple[RunEntry, ...]],
        ids: Mapping[str, str],
        catalog: Mapping[str, object],
    ) -> Manifest:
        """The full manifest of the copy."""
        state = self.now.state
        history = positions_since(self.history, state.oldest)
        reached = {epoch: positions for epoch, positions in history.items() if epoch <= self.until}
        return Manifest(
            sequence=sequence,
            parent=sequence - 1,
            full=True,
            token=state.token + 1,
            epoch=self.until,
            oldest=state.oldest,
            written=datetime.now(UTC).isoformat(timespec="milliseconds"),
            positions=self.now.positions if self.is_whole else _last(reached),
            reached=tuple(reached.items()),
            catalog=catalog,
            ids={name: ids[name] for name in runs},
            added=runs,
            losses=state.losses,
            counts=self._counts(),
            altered=state.alterations,
        )

    def _counts(self) -> dict[str, ChangeCounts]:
        """The counts of changes; as of an earlier epoch they are unknown, and those of the rows that are there."""
        state, tail = self.now.state, self.now.tail
        return {name: state.counts_of(name) + tail.counts(name) for name in state.counts} if self.is_whole else {}


def _last(reached: Mapping[int, Mapping[str, str]]) -> Mapping[str, str]:
    return reached[max(reached)] if reached else {}


def copy_runs(
    plan: CopyPlan, maps: FilePath, name_of: Callable[[RunEntry], str], *, verify: bool
) -> tuple[dict[str, tuple[RunEntry, ...]], dict[str, str], CopiedFiles]:
    """Copy the rows of a commit below ``maps``, durably: the runs and folders of each map, and what was copied.

    ``name_of`` says the name of a run there. With ``verify`` each file that was not there yet is compared with its
    checksum.
    """
    state, copy = plan.now.state, _Copy(plan, maps, name_of, verify)
    runs = {name: [copy.run(name, run) for run in some] for name, some in state.runs.items()}
    ids = dict(state.ids)
    for name in plan.now.tail.names():
        ids[name] = map_id(name, ids)
        runs.setdefault(name, []).append(copy.tail(name, ids[name]))
    found = {name: tuple(run for run in some if run is not None) for name, some in runs.items()}
    found = {name: some for name, some in found.items() if some}
    sync_runs(maps, (run for some in found.values() for run in some))
    return found, ids, copy.copied


class _Copy:
    """A copy under way."""

    def __init__(self, plan: CopyPlan, maps: FilePath, name_of: Callable[[RunEntry], str], verify: bool) -> None:
        self._plan = plan
        self._maps = maps
        self._name_of = name_of
        self._verify = verify
        self.copied = CopiedFiles()

    def run(self, name: str, run: RunEntry) -> RunEntry | None:
        """A run of the copy with the rows of a run of the source up to the epoch; None if there are none."""
        until = self._plan.until
        if run.first > until:
            return None
        ended = run.ended if run.ended is not None and run.ended <= until else None
        if run.last > until:
            return self._cut(name, replace(run, ended=ended))
        return self._same(replace(run, file=self._name_of(run), ended=ended), self._plan.source.maps / run.file)

    def _same(self, run: RunEntry, source: FilePath) -> RunEntry:
        """The same file under its name in the copy."""
        target, done = self._maps / run.file, self.copied
        shared = target.exists() and target.stat().st_size == run.bytes
        linked = not shared and copy_file(source, target)
        self.copied = CopiedFiles(
            done.files + 1,
            done.bytes + run.bytes,
            done.shared + shared,
            done.linked + linked,
            done.written + (not shared and not linked),
        )
        if self._verify and not shared:
            self._require_sound(target, run)
        fault("during-copy")
        return run

    def _require_sound(self, target: FilePath, run: RunEntry) -> None:
        wrong = compare_copy(target, run.bytes, run.checksum, again=True)
        if wrong is not None:
            target.unlink(missing_ok=True)
            raise damaged(
                target, f"{wrong} It was just copied, so the file that it is a copy of is damaged, or the disk."
            )

    def _cut(self, name: str, run: RunEntry) -> RunEntry | None:
        """The rows of a run up to the epoch, as a run of the copy."""
        part = RunSegment(run, self._plan.source.maps / run.file, name)
        part.require_sound(again=True)  # what is written from it gets a valid checksum
        with translate_read_errors(part.path, part.holds), open_run(part.local) as parquet:
            rows = parquet.read()
        kept = rows.filter(pc.less_equal(rows.column(EPOCH), self._plan.until))
        folder, _, _ = run.file.partition("/")
        return replace(self._write(kept, folder), ended=run.ended, altered=run.altered) if kept.num_rows else None

    def tail(self, name: str, folder: str) -> RunEntry | None:
        """The rows of a map that are in the log, as a run of the copy."""
        part = self._plan.now.tail.part(name, until=self._plan.until)
        if part is None:
            return None
        altered = len(self._plan.now.state.alterations.get(name, ()))
        return replace(self._write(part.table, folder), altered=altered)

    def _write(self, rows: object, folder: str) -> RunEntry:
        file = f"{folder}/{self._plan.now.state.token + 1:08}-{uuid4().hex[:16]}.parquet"
        run = write_run(rows, self._maps, file)
        done = self.copied
        self.copied = replace(done, files=done.files + 1, bytes=done.bytes + run.bytes, written=done.written + 1)
        fault("during-copy")
        return run
