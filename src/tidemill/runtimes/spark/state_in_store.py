"""The part of the ``Runtime`` protocol that is about state in memory, for a runtime that has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.stages import Stage


class StateInStore:
    """A runtime whose state is all in the store: there is nothing to pause, to release or to forget."""

    def prepare(self, stage: Stage, rows: int) -> bool:
        """Refuse: a forked process has no session of Spark."""
        return False

    def pause(self, stage: Stage) -> None:
        """Do nothing: no state is kept in memory."""

    def release_paused(self) -> None:
        """Do nothing: no state is kept in memory."""

    def release_state(self, wanted: int) -> int:
        """Do nothing: no state is kept in memory."""
        return 0

    def leave_maps_in_store(self, stage: Stage) -> None:
        """Do nothing: no state is kept in memory."""

    def left_in_store(self, stage: Stage) -> Sequence[str]:
        """All maps of ``stage``, and its inputs."""
        return *(map_.name for map_ in stage.maps), *stage.inputs

    def forget(self, relation: str) -> None:
        """Do nothing: no state is kept in memory."""

    def forget_entries(self, stage: Stage, forgotten: Sequence[ExpiredEntries]) -> None:
        """Do nothing: no state is kept in memory."""

    def forget_rows(self, forgotten: ExpiredEntries) -> None:
        """Do nothing: no state is kept in memory."""

    def forget_files(self, relation: str) -> None:
        """Do nothing: files are listed for each query."""

    def free(self) -> None:
        """Do nothing: no state is kept in memory."""

    def held_sizes(self, stage: Stage) -> Mapping[str, tuple[int, int]]:
        """An empty mapping: no state is kept in memory."""
        return {}

    def base_reads(self, stage: str) -> Mapping[str, int]:
        """An empty mapping: Spark reads the rows, not this process."""
        return {}

    def machine_code(self, stage: Stage) -> None:
        """None: events of streams go through epochs."""
