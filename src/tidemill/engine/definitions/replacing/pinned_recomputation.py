"""Readers of a view with another query that are computed again, since more changes of it than their triggers like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.definitions.replacing.pinned_contents import PinnedContents
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.placement import Placement
from tidemill.engine.epochs.recomputation import NotRecomputed
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.runtimes.runtime import FilledStage
from tidemill.storage.compaction.consolidate import difference

__all__ = ["PinnedRecomputation"]


@dataclass
class PinnedRecomputation:
    """The views that are computed again over pinned contents, with the reason for each."""

    placement: Placement
    contents: PinnedContents
    reasons: Mapping[str, str]

    def compute(self, placed: PlacedProgram, stage: Stage, changed: Mapping[str, Sequence[ChangeSet]]) -> FilledStage:
        """The change of the rows of a stage, and its new maps; ``changed`` are the changes of relations so far."""

        def read(name: str, fields: Sequence[Field]) -> pa.Table:
            names = [*(f.name for f in fields), WEIGHT]
            parts = [self.contents.read(name, fields), *(change.arrow() for change in changed.get(name, ()))]
            return pa.concat_tables([part.select(names) for part in parts])

        work = sum(map(self.contents.rows, placed.inputs))
        filled = self.placement.compute_in_columns(stage, work, read)
        if filled is None:
            raise NotRecomputed(f'view "{placed.program.view}" cannot be computed again')
        placed.runtime.leave_maps_in_store(stage)
        old = self.contents.read(stage.name, stage.output)
        rows = difference(old, filled.rows.arrow(), Map(stage.name, stage.output))
        return FilledStage(ChangeSet.of_arrow(rows, stage.output), filled.maps)
