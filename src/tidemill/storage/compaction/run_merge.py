"""Merging runs in a folder: new runs are written beside the old ones, for a manifest to swap in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.schema import EPOCH
from tidemill.program.maps import Map, map_fields
from tidemill.storage.commits.layout import CommittedState
from tidemill.storage.commits.manifest import WarehouseState
from tidemill.storage.compaction.consolidate import choose_runs, consolidate
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.folder_writer import FolderWriter
from tidemill.storage.runs import RunEntry, RunSegment, open_run, translate_read_errors
from tidemill.storage.segments import is_visible_at, stored_schema


@dataclass(frozen=True, slots=True)
class RunMerge:
    """Runs of a map, and the runs with the same content in fewer rows that replace them."""

    name: str
    before: tuple[RunEntry, ...]
    after: tuple[RunEntry, ...]

    @property
    def freed(self) -> int:
        """Bytes by which the map becomes smaller."""
        return sum(run.bytes for run in self.before) - sum(run.bytes for run in self.after)

    def holds(self, state: WarehouseState) -> bool:
        """True if the map still has the old runs: an epoch may have dropped or replaced it meanwhile."""
        return set(self.before) <= set(state.runs.get(self.name, ()))


def merge_map(
    maps: FilePath, writer: FolderWriter, now: CommittedState, map_: Map, name: str, most: int | None = None
) -> RunMerge | None:
    """Merge the runs of a map that are worth it; None if none are. Holds those runs, up to ``most`` rows, in memory."""
    stored, oldest = now.state.runs.get(name, ()), now.state.oldest
    chosen = choose_runs(stored, oldest, most)
    if not chosen:
        return None
    schema = stored_schema(map_fields(map_))
    parts = [part for part in now.parts(maps, name) if part.run in chosen]
    for part in parts:
        part.require_sound(again=True)  # the merged run gets a valid checksum of its own
    table = pa.concat_tables([part.load(schema) for part in parts])
    whole = all(run in chosen or run.ended is not None or run.first > oldest for run in stored)
    folded = consolidate(table, map_, oldest, whole=whole)
    return RunMerge(name, chosen, tuple(writer.write(table, now, name) for table, _, _ in folded))


def rewrite_altered(maps: FilePath, writer: FolderWriter, now: CommittedState, name: str, until: int) -> RunMerge:
    """The runs of a map that are older than its present columns, and the same rows with these columns."""
    old = [part for part in now.parts(maps, name) if part.alterations and is_visible_at(part, until)]
    after = []
    for part in old:
        part.require_sound(again=True)
        after.append(replace(writer.write(part.load(part.present_schema), now, name), ended=part.ended))
    return RunMerge(name, tuple(part.run for part in old), tuple(after))


def trim_runs(
    maps: FilePath, writer: FolderWriter, now: CommittedState, name: str, runs: Sequence[RunEntry], until: int
) -> tuple[RunEntry, ...]:
    """The rows of ``runs`` of epochs after ``until``, written as new runs."""
    kept = []
    for run in runs:
        if run.last > until:
            part = RunSegment(run, maps / run.file, name)
            part.require_sound(again=True)
            with translate_read_errors(part.path, part.holds), open_run(part.local) as parquet:
                rows = parquet.read()
            kept.append(writer.write(rows.filter(pc.greater(rows.column(EPOCH), until)), now, name, run.altered))
    return tuple(kept)
