"""Manifests: one small file per commit. The newest one is the warehouse.

A manifest names its parent and what changed; every ``FULL_EVERY``th says everything, so that opening reads few files.
The size of the others follows the change, not the number of runs. The second line of a manifest is the checksum of its
first.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tidemill.model.errors import Corrupt
from tidemill.storage.files import damaged, write_new
from tidemill.storage.runs import StoredRun

FULL_EVERY = 64
"""A manifest in so many says everything."""

_NAME = re.compile(r"\d{20}\.json")


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a warehouse is after a commit: the sum of the manifests so far.

    ``ids`` gives each map the folder of its runs, because names that people choose never become paths. ``log`` is the
    manifest after which the log of the epochs to come begins: this one, or an earlier one whose log goes on.
    """

    sequence: int = 0
    log: int = 0
    token: int = 0
    epoch: int = 0
    oldest: int = 0
    positions: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, object] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, tuple[StoredRun, ...]] = field(default_factory=dict)

    def files(self) -> set[str]:
        """The run files that this state names."""
        return {run.file for runs in self.runs.values() for run in runs}

    def ended(self, oldest: int) -> list[StoredRun]:
        """The runs of replaced maps that no epoch from ``oldest`` on counts."""
        return [run for runs in self.runs.values() for run in runs if run.ended is not None and run.ended <= oldest]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit. ``catalog`` is None where it did not change, ``positions`` has those that did.

    ``reached`` tells of the epochs that it takes in from the log where the positions of sources were after each. One
    that leaves the log as it is names in ``log`` the manifest after which it began; its ``epoch`` is the last one that
    is in runs.

    Maps in ``dropped`` are forgotten and those in ``replaced`` end at this epoch; runs in ``removed`` (by file) go, and
    those in ``added`` come. A *full* manifest changes the empty state instead of its parent's.
    """

    sequence: int
    parent: int
    full: bool
    token: int
    epoch: int
    oldest: int
    written: str
    log: int | None = None
    positions: Mapping[str, str] = field(default_factory=dict)
    reached: tuple[tuple[int, Mapping[str, str]], ...] = ()
    catalog: Mapping[str, object] | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    added: Mapping[str, tuple[StoredRun, ...]] = field(default_factory=dict)

    def apply(self, before: State) -> State:
        """The state after this commit."""
        old = State() if self.full else before
        runs = {name: runs for name, runs in old.runs.items() if name not in self.dropped}
        for name in self.replaced:
            runs[name] = tuple(_ended(run, self.epoch) for run in runs.get(name, ()))
        if self.removed:
            gone = set(self.removed)
            runs = {name: tuple(run for run in kept if run.file not in gone) for name, kept in runs.items()}
        for name, added in self.added.items():
            runs[name] = (*runs.get(name, ()), *added)
        runs = {name: kept for name, kept in runs.items() if kept}
        return State(
            sequence=self.sequence,
            log=self.sequence if self.log is None else self.log,
            token=self.token,
            epoch=self.epoch,
            oldest=self.oldest,
            positions={**old.positions, **self.positions},
            catalog=old.catalog if self.catalog is None else self.catalog,
            ids={name: id_ for name, id_ in {**old.ids, **self.ids}.items() if name in runs},
            runs=runs,
        )

    def whole(self, after: State) -> Manifest:
        """The full manifest that says the same: ``after`` is the state that it leads to."""
        return replace(
            self,
            full=True,
            positions=after.positions,
            catalog=after.catalog,
            ids=after.ids,
            dropped=(),
            replaced=(),
            removed=(),
            added=after.runs,
        )


def _ended(run: StoredRun, epoch: int) -> StoredRun:
    return run if run.ended is not None else replace(run, ended=epoch)


def manifest_file(folder: Path, sequence: int) -> Path:
    """Where the manifest of that number is."""
    return folder / f"{sequence:020}.json"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Create the manifest's file: the instant of the commit. ``FileExistsError`` if another writer was there first."""
    body = json.dumps({key: value for key, value in asdict(manifest).items() if value not in ({}, (), None)})
    crc = zlib.crc32(body.encode())
    write_new(manifest_file(folder, manifest.sequence), f"{body}\ncrc32 {crc:08x}\n".encode())


def read_manifest(folder: Path, sequence: int) -> Manifest:
    """Read a manifest and check it."""
    file = manifest_file(folder, sequence)
    body, _, seal = file.read_bytes().partition(b"\n")
    if seal.strip() != f"crc32 {zlib.crc32(body):08x}".encode():
        raise _damaged(file, "Its checksum differs.")
    try:
        return _decoded(json.loads(body))
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise _damaged(file, f"It is not a manifest: {fault}.") from fault


def _decoded(body: dict[str, Any]) -> Manifest:
    for key in ("dropped", "replaced", "removed"):
        body[key] = tuple(body.get(key, ()))
    body["reached"] = tuple((epoch, positions) for epoch, positions in body.get("reached", ()))
    runs = body.pop("added", {})
    return Manifest(**body, added={name: tuple(StoredRun(**run) for run in added) for name, added in runs.items()})


def sequences(folder: Path) -> list[int]:
    """The numbers of the manifests that are there, in order; other files are not looked at."""
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(int(file.name[:20]) for file in files if _NAME.fullmatch(file.name))


def latest_state(folder: Path) -> State:
    """The state that the newest manifest leads to, from the last full one on."""
    known = sequences(folder)
    chain: list[Manifest] = []
    sequence = known[-1] if known else 0
    while sequence and not (chain and chain[-1].full):
        if sequence not in known:
            raise Corrupt(
                f"manifest {sequence} is missing",
                where=str(manifest_file(folder, sequence)),
                detail=f"Manifest {chain[-1].sequence} builds on it.",
                hint="Restore the file from a backup of the warehouse.",
            )
        chain.append(read_manifest(folder, sequence))
        sequence = chain[-1].parent
    state = State()
    for manifest in reversed(chain):
        state = manifest.apply(state)
    return state


def _damaged(file: Path, detail: str) -> Corrupt:
    hint = "Restore it from a backup. Removing it goes back to the commit before and loses what came after."
    return damaged(file, detail, hint)
