"""Repair of a warehouse: damaged files are set aside, views are recomputed, and losses are reported.

The contents of a view follow from its tables, so a damaged view loses no rows. Rows of a table, and epochs that are in
no file any more, are lost: the caller must accept that, or nothing is changed. Epochs whose rows are lost can no longer
be read, and their numbers are not used again, so that a subscriber that has seen one is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemill.algebra.user_functions import functions_in
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.views.view import View
from tidemill.engine.check import CheckReport, MapOwners, check_report, layout_of
from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.model.errors import StorageError
from tidemill.model.paths import Progress
from tidemill.storage.commits.manifest import LostEpochs
from tidemill.storage.filesystem.durable_files import translate_os_errors
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.repair.examine import Damage, Examination, FileKind, examine
from tidemill.storage.repair.salvage import salvage
from tidemill.storage.repair.write_repair import RepairContent, exclusive_lock, unrepairable, write_repair
from tidemill.storage.runs import epoch_range_text

__all__ = ["LostRows", "RepairReport", "repair"]


@dataclass(frozen=True, slots=True)
class LostRows:
    """Rows that a repair cannot restore: of a table or view in one file, or of all relations in whole epochs.

    ``bounds`` are the least and greatest values of their columns, if these can still be read.
    """

    first: int
    last: int
    why: str
    relation: str | None = None
    rows: int | None = None
    views: tuple[str, ...] = ()
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        what = "everything" if self.rows is None else f"{self.rows:,} rows"
        of = f' of "{self.relation}"' if self.relation else ""
        views = f" Views rebuilt without them: {', '.join(self.views)}." if self.views else ""
        between = "".join(f", {name} {low} to {high}" for name, (low, high) in self.bounds.items())
        return f"{what}{of}, {epoch_range_text(self.first, self.last)}{between}: {self.why}{views}"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair, or its plan: ``done`` is false if nothing was changed.

    ``rebuilt`` views are recomputed from their tables; ``set_aside`` are files that are now in quarantine.
    """

    check: CheckReport
    rebuilt: tuple[str, ...] = ()
    lost: tuple[LostRows, ...] = ()
    set_aside: tuple[str, ...] = ()
    epoch: int = 0
    done: bool = False

    def __str__(self) -> str:
        if self.check.ok:
            return f"{self.check.path}: nothing to repair"
        would = "" if self.done else "would be "
        lines = [str(damage) for damage in self.check.damages]
        lines += [f"{would}rebuilt from its tables: {name}" for name in self.rebuilt]
        lines += [f"{would}lost: {one}" for one in self.lost]
        lines += [f"set aside: {file}" for file in self.set_aside]
        if self.done:
            lines.append(f"repaired; it goes on from epoch {self.epoch}")
        elif self.lost:
            lines.append("nothing was changed: restore a backup, or accept the loss with --accept-loss")
        else:
            lines.append("nothing was changed")
        return "\n".join(lines)


def repair(
    path: str | Path, *, accept_loss: bool = False, dry_run: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Set damaged files aside and recompute views from tables; nothing is changed if rows would be lost.

    With ``accept_loss`` the warehouse continues without these rows. With ``dry_run`` only the plan is returned.
    """
    layout = layout_of(path)
    with exclusive_lock(layout) as lock:
        with translate_os_errors("read the warehouse", layout.root, "Nothing was changed. Repair it again."):
            found = examine(layout, full=True, progress=progress)
        if found.damages and found.now is None:
            raise unrepairable(layout, found.damages)
        plan = _plan(found)
        told = RepairReport(check_report(layout, found), plan.rebuilt, plan.lost, epoch=plan.epoch)
        if not found.damages or dry_run or (plan.lost and not accept_loss):
            return told
        plan.require_possible()
        aside = write_repair(layout, lock, found, plan.remedy(found))
    open_warehouse(path, runtime="native").close()  # opening recomputes views that the catalog marks as outdated
    return replace(told, set_aside=tuple(str(file.relative_to(layout.root)) for file in aside), done=True)


@dataclass(frozen=True)
class _RepairPlan:
    """The plan of a repair: its epoch, the views to recompute, and the losses."""

    owners: MapOwners
    epoch: int
    rebuilt: tuple[str, ...]
    lost: tuple[LostRows, ...]
    losses: tuple[LostEpochs, ...] = field(default=())

    def require_possible(self) -> None:
        """Refuse to recompute a view that calls user-defined functions, which are not available here."""
        registered = set(self.owners.functions)
        for name in self.rebuilt:
            called = functions_in(self.owners.catalog.views[name].relation) & registered
            if called:
                raise StorageError(
                    f'view "{name}" cannot be rebuilt here',
                    detail="It calls a function that was registered from Python.",
                    hint="Drop the view in your program, repair the warehouse, and create the view again.",
                )

    def remedy(self, found: Examination) -> RepairContent:
        """The manifest of the repaired warehouse; a view without its fingerprint is outdated."""
        stored: Mapping[str, Any] = found.now.state.catalog if found.now else {}
        entries = list(map(self._entry, stored.get("entries", ())))
        catalog = {**stored, "entries": entries} if entries else stored
        tables = [damage.part for damage in _live(found.damages) if damage.part is not None]
        saved = tuple(part for part in tables if self.owners.is_table(part.name))
        return RepairContent(self.epoch, catalog, self.losses, saved)

    def _entry(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        """An entry of the catalog; a table that has lost rows is no longer APPEND ONLY.

        Rows may refer to those that are gone, and these may be sent again, which plans for such tables rule out.
        """
        if item.get("name") in self.rebuilt:
            return {**item, "fingerprint": ""}
        tables, lost = self.owners.catalog.tables, {one.relation for one in self.lost}
        for table in (tables[name] for name in lost if name in tables and tables[name].append_only):
            if item.get("ddl") == ddl(table):
                return {**item, "ddl": ddl(replace(table, append_only=False))}
        return item


def _plan(found: Examination) -> _RepairPlan:
    owners = MapOwners.of(found)
    runs = [damage for damage in found.damages if damage.part is not None]
    lost = [*_lost_epochs(found), *(one for damage in runs for one in _lost_rows(damage, owners, found))]
    epoch = found.acknowledged + 1 if lost else found.epoch
    gone = {one.relation for one in lost if one.relation is not None}
    damaged = {owners.relation_of(damage.part.name) for damage in _live(runs) if damage.part is not None}
    again = [
        name
        for name in owners.catalog.views
        if name in damaged or any(name in owners.affected(relation) for relation in gone)
    ]
    losses = tuple(_unreadable(found, runs, epoch))
    return _RepairPlan(owners, epoch, tuple(again), tuple(lost), losses)


def _live(runs: Iterable[Damage]) -> Iterator[Damage]:
    """The damaged runs of the newest state; others only matter for epochs before their map was replaced."""
    return (damage for damage in runs if damage.part is not None and damage.part.ended is None)


def _lost_epochs(found: Examination) -> Iterator[LostRows]:
    """Committed epochs that are in no file."""
    if found.acknowledged > found.epoch:
        yield LostRows(found.epoch + 1, found.acknowledged, "The files that held them are damaged or missing.")
        return
    sequence = found.now.state.sequence if found.now else 0
    if any(damage.kind is FileKind.MANIFEST and _number(damage.file) > sequence for damage in found.damages):
        yield LostRows(found.epoch, found.epoch, "Definitions that were made or dropped last may be missing.")


def _number(manifest: FilePath) -> int:
    return int(manifest.name.partition(".")[0])


def _lost_rows(damage: Damage, owners: MapOwners, found: Examination) -> Iterator[LostRows]:
    """The rows of a damaged run that cannot be recomputed."""
    part = damage.part
    if part is None or part.ended is not None:
        return
    relation = owners.relation_of(part.name)
    view = owners.catalog.views.get(relation)
    if view is not None and _follows_from_tables(view, owners):
        return
    if view is None and not owners.is_table(relation):
        return
    why = damage.wrong if view is None else f"{damage.wrong} It has seen rows that no table keeps."
    saved = salvage(part)
    rows, bounds = (part.run.rows, {}) if saved is None else (saved.lost, saved.bounds)
    yield LostRows(part.first, part.last, why, relation, rows, owners.affected(relation), bounds)


def _follows_from_tables(view: View, owners: MapOwners) -> bool:
    """True if all inputs of a view are complete: it reads no stream and nothing with retention."""
    catalog = owners.catalog
    streams = {name for name, table in catalog.tables.items() if not table.kept or table.forgets}
    streams |= {name for name, other in catalog.views.items() if other.keep is not None or other.forgets}
    return not view.forgets and streams.isdisjoint(catalog.ancestors(view))


def _unreadable(found: Examination, runs: Iterable[Damage], epoch: int) -> Iterator[LostEpochs]:
    """The epochs in which maps can no longer be read."""
    when = f"{datetime.now(UTC):%Y-%m-%d}"
    if found.acknowledged > found.epoch:
        yield LostEpochs(found.epoch + 1, found.acknowledged, f"These epochs were lost, as a repair on {when} found.")
    for damage in runs:
        if damage.part is not None:
            last = (damage.part.ended or epoch) - 1
            if damage.part.first <= last:
                reason = f"Rows of it were damaged and set aside by a repair on {when}."
                yield LostEpochs(damage.part.first, last, reason, damage.part.name)
