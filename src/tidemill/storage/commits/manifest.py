"""Manifests: one small file per commit. The newest one defines the state of the warehouse.

A manifest names its parent and the changes to it; every ``FULL_EVERY``th is full, so that opening reads few files. The
size of the others follows the change, not the number of runs. The second line of a manifest is the checksum of the
first, its *seal*; each manifest has the seal of its parent, which detects an intact file that is not the original one.
Both lines are stored twice, since losing one manifest would lose all later ones: it is readable as long as one copy is
whole.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from tidemill.changes.alterations import Alteration
from tidemill.model.errors import Corrupt
from tidemill.storage.change_counts import ChangeCounts
from tidemill.storage.filesystem.durable_files import RESTORE_HINT, damaged
from tidemill.storage.filesystem.file_system import FilePath, system_of
from tidemill.storage.runs import RunEntry

FULL_EVERY = 64
"""Interval of full manifests: one in so many."""

P = TypeVar("P", bound=FilePath)
T = TypeVar("T")

_NAME = re.compile(r"\d{20}\.json")
_ID = re.compile(r"[0-9a-z][0-9a-z-]*")
_RUN = re.compile(rf"{_ID.pattern}/[0-9a-z][0-9a-z.-]*")


@dataclass(frozen=True, slots=True)
class LostEpochs:
    """Epochs of one map or of all that a repair could not restore: reading as of them is refused."""

    first: int
    last: int
    reason: str
    map: str | None = None


@dataclass(frozen=True, slots=True)
class WarehouseState:
    """The state of a warehouse after a commit: the sum of its manifests.

    ``ids`` maps each map to the folder of its runs, because user-chosen names never become paths. ``seal`` is the
    checksum of the manifest that leads here. ``log`` is the number and seal of an earlier manifest whose log continues.
    ``alterations`` are those of the columns of each map, the oldest first.
    """

    sequence: int = 0
    log: tuple[int, int] | None = None
    token: int = 0
    epoch: int = 0
    oldest: int = 0
    positions: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, object] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, tuple[RunEntry, ...]] = field(default_factory=dict)
    losses: tuple[LostEpochs, ...] = ()
    counts: Mapping[str, ChangeCounts] = field(default_factory=dict)
    alterations: Mapping[str, tuple[Alteration, ...]] = field(default_factory=dict)
    seal: int = field(default=0, compare=False)

    @property
    def log_start(self) -> tuple[int, int]:
        """The manifest after which the log of the next epochs begins, and its seal."""
        return self.log or (self.sequence, self.seal)

    def counts_of(self, name: str) -> ChangeCounts:
        """The counts of a map; one that was stored before maps were counted has the rows that it holds."""
        if name in self.counts:
            return self.counts[name]
        rows = sum(run.rows - 2 * run.retracted for run in self.runs.get(name, ()) if run.ended is None)
        return ChangeCounts.of_uncounted(max(rows, 0), self.epoch)

    def later_alterations(self, name: str, run: RunEntry) -> tuple[Alteration, ...]:
        """The alterations of a map's columns that came after one of its runs was written."""
        return self.alterations.get(name, ())[run.altered :]

    def files(self) -> set[str]:
        """The run files that this state references."""
        return {run.file for runs in self.runs.values() for run in runs}

    def ended(self, oldest: int) -> list[RunEntry]:
        """The runs of replaced maps that are visible to no epoch from ``oldest`` on."""
        return [run for runs in self.runs.values() for run in runs if run.ended is not None and run.ended <= oldest]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit. ``catalog`` is None if it is unchanged; ``positions`` has the changed ones.

    ``reached`` lists the epochs of the log that it includes, with the source positions after each. A manifest that
    leaves the log as it is names in ``log`` the manifest after which that log began, by number and seal; its ``epoch``
    is then the last one that is in runs.

    Maps in ``dropped`` are removed and those in ``replaced`` end at this epoch; runs in ``removed`` (by file) are
    removed, and those in ``added`` are added. ``counts`` are those of the changes that it adds. A *full* manifest
    applies to the empty state instead of its parent's. Maps in ``renamed`` have other names from here on, before all
    else, and ``altered`` are new alterations of columns. ``previous`` is the checksum of its parent and ``seal`` its
    own; ``losses`` are those of all earlier repairs, if any.
    """

    sequence: int
    parent: int
    full: bool
    token: int
    epoch: int
    oldest: int
    written: str
    log: tuple[int, int] | None = None
    positions: Mapping[str, str] = field(default_factory=dict)
    reached: tuple[tuple[int, Mapping[str, str]], ...] = ()
    catalog: Mapping[str, object] | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    added: Mapping[str, tuple[RunEntry, ...]] = field(default_factory=dict)
    losses: tuple[LostEpochs, ...] | None = None
    counts: Mapping[str, ChangeCounts] = field(default_factory=dict)
    altered: Mapping[str, tuple[Alteration, ...]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    previous: int | None = None
    seal: int = field(default=0, compare=False)

    def apply(self, before: WarehouseState) -> WarehouseState:
        """The state after this commit."""
        old = WarehouseState() if self.full else _renamed(before, self.renamed)
        runs = {name: runs for name, runs in old.runs.items() if name not in self.dropped}
        for name in self.replaced:
            runs[name] = tuple(_ended(run, self.epoch) for run in runs.get(name, ()))
        if self.removed:
            gone = set(self.removed)
            runs = {name: tuple(run for run in kept if run.file not in gone) for name, kept in runs.items()}
        for name, added in self.added.items():
            runs[name] = (*runs.get(name, ()), *added)
        runs = {name: kept for name, kept in runs.items() if kept}
        return WarehouseState(
            sequence=self.sequence,
            log=self.log,
            token=self.token,
            epoch=self.epoch,
            oldest=self.oldest,
            positions={**old.positions, **self.positions},
            catalog=old.catalog if self.catalog is None else self.catalog,
            ids={name: id_ for name, id_ in {**old.ids, **self.ids}.items() if name in runs},
            runs=runs,
            losses=tuple(loss for loss in _either(self.losses, old.losses) if loss.last >= self.oldest),
            counts=self._counts_after(old),
            alterations=self._alterations_after(old),
            seal=self.seal,
        )

    def _counts_after(self, old: WarehouseState) -> dict[str, ChangeCounts]:
        """The counts after this commit. A name that was dropped or replaced denotes other rows from here on."""
        ended = {*self.dropped, *self.replaced}
        counts = {name: known for name, known in old.counts.items() if name not in ended}
        for name, new in self.counts.items():
            counts[name] = new if name in ended else old.counts_of(name) + new
        return counts

    def _alterations_after(self, old: WarehouseState) -> dict[str, tuple[Alteration, ...]]:
        known = {name: some for name, some in old.alterations.items() if name not in self.dropped}
        return known | {name: (*known.get(name, ()), *new) for name, new in self.altered.items()}

    def whole(self, after: WarehouseState) -> Manifest:
        """The full manifest of the same commit, which leads to the state ``after``."""
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
            losses=after.losses,
            counts=after.counts,
            altered=after.alterations,
            renamed={},
        )


def _either(said: tuple[LostEpochs, ...] | None, before: tuple[LostEpochs, ...]) -> tuple[LostEpochs, ...]:
    return before if said is None else said


def _renamed(state: WarehouseState, names: Mapping[str, str]) -> WarehouseState:
    """The state with other names for some maps, whose runs stay where they are."""
    if not names:
        return state

    def under(maps: Mapping[str, T]) -> dict[str, T]:
        return {names.get(name, name): held for name, held in maps.items()}

    losses = tuple(
        loss if loss.map is None else replace(loss, map=names.get(loss.map, loss.map)) for loss in state.losses
    )
    return replace(
        state,
        ids=under(state.ids),
        runs=under(state.runs),
        counts=under(state.counts),
        alterations=under(state.alterations),
        losses=losses,
    )


def _ended(run: RunEntry, epoch: int) -> RunEntry:
    return run if run.ended is not None else replace(run, ended=epoch)


def manifest_file(folder: P, sequence: int) -> P:
    """The file of the manifest with that number."""
    return folder / f"{sequence:020}.json"


def write_manifest(folder: FilePath, manifest: Manifest) -> int:
    """Create the manifest's file, which commits it. ``FileExistsError`` if another writer was first.

    Returns its seal.
    """
    said = {key: value for key, value in asdict(manifest).items() if value not in ({}, (), None) and key != "seal"}
    for runs in said.get("added", {}).values():
        for run in runs:
            if not run["altered"]:
                del run["altered"]
    body = json.dumps(said).encode()
    system_of(folder).create(manifest_file(folder, manifest.sequence), _twice(body))
    return zlib.crc32(body)


def read_manifest(folder: FilePath, sequence: int) -> Manifest:
    """Read a manifest and verify it."""
    file = manifest_file(folder, sequence)
    copies = _copies(file)
    if not copies:
        raise _damaged(file, "Its checksum differs.")
    try:
        found = replace(_decoded(json.loads(copies[0])), seal=zlib.crc32(copies[0]))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as fault:
        raise _damaged(file, f"It is not a manifest: {fault}.") from fault
    if found.sequence != sequence:
        raise _damaged(file, f"It is manifest {found.sequence}, under another name.")
    return found


def is_whole(folder: FilePath, sequence: int) -> bool:
    """True if both copies of a manifest are intact; one of them is enough to read it."""
    file = manifest_file(folder, sequence)
    content = system_of(file).read(file)
    return any(content in (_sealed(body), _twice(body)) for body in _copies(file))


def _sealed(body: bytes) -> bytes:
    return b"%s\ncrc32 %08x\n" % (body, zlib.crc32(body))


def _twice(body: bytes) -> bytes:
    """Two copies, separated by an empty line: no single byte belongs to both."""
    return b"\n".join([_sealed(body), _sealed(body)])


def _copies(file: FilePath) -> list[bytes]:
    """The lines of a manifest's file that are followed by a matching checksum."""
    lines = system_of(file).read(file).split(b"\n")
    return [body for body, seal in pairwise(lines) if seal.strip() == b"crc32 %08x" % zlib.crc32(body)]


def _decoded(body: dict[str, Any]) -> Manifest:
    for key in ("dropped", "replaced", "removed"):
        body[key] = tuple(body.get(key, ()))
    body["reached"] = tuple((epoch, positions) for epoch, positions in body.get("reached", ()))
    if "log" in body:
        body["log"] = tuple(body["log"])
    runs = body.pop("added", {})
    if "losses" in body:
        body["losses"] = tuple(LostEpochs(**loss) for loss in body["losses"])
    body["counts"] = {name: ChangeCounts.from_json(said) for name, said in body.get("counts", {}).items()}
    added = {name: tuple(map(_run, some)) for name, some in runs.items()}
    body["altered"] = {name: tuple(Alteration(**one) for one in some) for name, some in body.get("altered", {}).items()}
    _require_inside(body.get("ids", {}).values(), _ID)
    _require_inside((run.file for some in added.values() for run in some), _RUN)
    return Manifest(**body, added=added)


def _run(said: dict[str, Any]) -> RunEntry:
    return RunEntry(**{**said, "groups": tuple(said.get("groups", ()))})


def _require_inside(names: Iterable[str], form: re.Pattern[str]) -> None:
    """Refuse a name of any other form: joined to a folder it could lead out of it."""
    for name in names:
        if not form.fullmatch(name):
            raise ValueError(f"it names {name!r}")


def manifest_sequences(folder: FilePath) -> list[int]:
    """The numbers of the existing manifests in order; other files are ignored.

    Numbers follow each other, so the next ones are asked for by name: a listing may be older than they are.
    """
    files = system_of(folder).entries(folder)
    known = sorted(int(file.name[:20]) for file in files if _NAME.fullmatch(file.name))
    after = known[-1] + 1 if known else 1
    while manifest_file(folder, after).exists():
        known.append(after)
        after += 1
    return known


def latest_state(folder: FilePath) -> WarehouseState:
    """The state of the newest manifest, computed from the last full one on."""
    known = manifest_sequences(folder)
    return state_at(folder, known[-1]) if known else WarehouseState()


def state_at(folder: FilePath, sequence: int) -> WarehouseState:
    """The state after a manifest."""
    chain: list[Manifest] = []
    while sequence and not (chain and chain[-1].full):
        chain.append(_parent_of(folder, chain[-1]) if chain else read_manifest(folder, sequence))
        sequence = chain[-1].parent
    state = WarehouseState()
    for manifest in reversed(chain):
        state = manifest.apply(state)
    return state


def _parent_of(folder: FilePath, manifest: Manifest) -> Manifest:
    """The parent of a manifest."""
    file = manifest_file(folder, manifest.parent)
    try:
        found = read_manifest(folder, manifest.parent)
    except FileNotFoundError:
        raise Corrupt(
            f"manifest {manifest.parent} is missing",
            where=str(file),
            detail=f"Manifest {manifest.sequence} builds on it.",
            hint=RESTORE_HINT,
        ) from None
    if manifest.previous is not None and manifest.previous != found.seal:
        raise _damaged(file, f"It is not the one that manifest {manifest.sequence} was built on.")
    return found


def _damaged(file: FilePath, detail: str) -> Corrupt:
    """The error for a damaged manifest: without it the current files are unknown from its commit on."""
    return damaged(file, f"{detail} It says which files count from its commit on.")
