"""Where things are in a warehouse folder, and what it says when it is read.

::

    warehouse/
      tidemill.json                         the format number
      lock                                  who writes
      manifests/00000000000000000042.json   one per commit; the newest is the warehouse
      maps/<id>/<token>-<number>.parquet    runs: weighted rows with their epochs
      log/<sequence>-<token>.log            small epochs that wait for the next manifest
      staging/                              files that runtimes write for an epoch to come

Files of other names are never read and never deleted, but for those below ``maps`` and ``staging``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.model.errors import Corrupt
from tidemill.storage.files import make_folder
from tidemill.storage.log import logs, replay
from tidemill.storage.manifest import State, latest_state, read_manifest, sequences
from tidemill.storage.parts import Tail
from tidemill.storage.runs import FilePart

RETRIES = 100

FIRST_COMMIT = 2.0
"""How many seconds a reader waits for the manifest of a first commit whose runs it sees."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of a warehouse."""

    root: Path

    @property
    def manifests(self) -> Path:
        """One file per commit."""
        return self.root / "manifests"

    @property
    def maps(self) -> Path:
        """A folder of runs for each map."""
        return self.root / "maps"

    @property
    def log(self) -> Path:
        """Epochs that wait for a manifest."""
        return self.root / "log"

    @property
    def staging(self) -> Path:
        """Files for an epoch to come."""
        return self.root / "staging"

    def create(self) -> None:
        """Make the folders that are not there."""
        for folder in (self.manifests, self.maps, self.log, self.staging):
            make_folder(folder)


@dataclass(frozen=True, slots=True)
class Current:
    """The last committed epoch: the newest manifest's state and the tail that waits in the log."""

    state: State
    tail: Tail
    epoch: int
    positions: Mapping[str, str]

    @classmethod
    def of(cls, state: State) -> Current:
        """What a manifest leaves: nothing waits."""
        return cls(state, Tail(), state.epoch, state.positions)

    def parts(self, maps: Path, name: str) -> list[FilePart]:
        """The runs of a map."""
        return [FilePart(run, maps / run.file) for run in self.state.runs.get(name, ())]


def recover(layout: Layout) -> Current:
    """What the folder says: the newest manifest, and the whole records of the log after it.

    A reader holds no lock, so a writer may move on between the two; then the newest manifest is another one, and
    reading starts again.
    """
    for _ in range(RETRIES):
        newest = _newest(layout)
        try:
            found = _with_log(layout, latest_state(layout.manifests))
        except (Corrupt, FileNotFoundError):
            if _newest(layout) == newest:
                raise
            continue
        if found.state.sequence == _newest(layout):
            if not _lost(layout, found):
                return found
            # A writer's first commit may be under way: its runs are there before its manifest is.
            time.sleep(FIRST_COMMIT / RETRIES)
    if _newest(layout) == 0:
        raise Corrupt(
            "the manifests are missing",
            where=str(layout.manifests),
            detail="The folder has data, but nothing says which of it counts.",
            hint="Restore the folder of manifests from a backup of the warehouse.",
        )
    raise Corrupt(
        "the warehouse changes faster than it can be read",
        where=str(layout.root),
        hint="Try again when its writer is less busy.",
    )


def _lost(layout: Layout, found: Current) -> bool:
    """Whether a warehouse without manifests has data: taken for a new one it would be empty, and a vacuum would make it
    so. A first commit that was cut short also leaves runs without a manifest, but its epochs are in the log."""
    new = found.state.sequence == 0 and not any(sequence == 0 for sequence, _, _ in logs(layout.log))
    return new and next(layout.maps.glob("*/*.parquet"), None) is not None


def _newest(layout: Layout) -> int:
    return max(sequences(layout.manifests), default=0)


def trace(layout: Layout) -> tuple[int, int] | None:
    """What tells a reader that something was committed: the newest manifest and the length of the log. None while a
    writer is between the two."""
    newest = _newest(layout)
    try:
        return newest, sum(file.stat().st_size for _, _, file in logs(layout.log))
    except FileNotFoundError:
        return None


def last_token(layout: Layout) -> int:
    """The highest fencing token that the folder knows."""
    written = [token for _, token, _ in logs(layout.log)]
    newest = _newest(layout)
    return max([*written, *([read_manifest(layout.manifests, newest).token] if newest else [])], default=0)


def _with_log(layout: Layout, state: State) -> Current:
    tail, epoch, positions = Tail(), state.epoch, dict(state.positions)
    # A writer that was overtaken may have left a log of the same sequence; the highest token is the one that counts.
    files = [file for sequence, _, file in logs(layout.log) if sequence == state.log]
    records = replay(files[-1])[0] if files else []
    for record in records:
        for name, change in record.changes.items():
            tail.add(record.epoch, name, change)
        tail.epochs += 1
        epoch = record.epoch
        if record.positions:
            tail.reached.append((epoch, record.positions))
            positions |= record.positions
    return Current(state, tail, epoch, positions)
