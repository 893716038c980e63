"""Check of a warehouse: damaged or missing files, and the tables, views and epochs that they affect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.algebra.user_functions import Registry
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.serialization import catalog_from_json
from tidemill.engine.catalog.views.shared_stages import shared_stage_users
from tidemill.model.errors import TidemillError
from tidemill.model.paths import Progress
from tidemill.storage.commits.format import require_warehouse
from tidemill.storage.commits.layout import Layout
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.filesystem.durable_files import translate_os_errors
from tidemill.storage.repair.examine import Damage, Examination, examine
from tidemill.storage.runs import epoch_range_text

__all__ = ["CheckReport", "DamagedFile", "check"]


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that differs from what was written, or is missing.

    ``kind`` is the kind of file. For files of rows, ``relation`` is the table or view that they belong to, ``views``
    are those that depend on them, and ``epochs`` the first and the last that changed them.
    """

    file: str
    kind: str
    wrong: str
    relation: str | None = None
    rows: int | None = None
    epochs: tuple[int, int] | None = None
    views: tuple[str, ...] = ()

    def __str__(self) -> str:
        held = ""
        if self.relation is not None and self.rows is not None and self.epochs is not None:
            held = f' It holds {self.rows:,} rows of "{self.relation}", {epoch_range_text(*self.epochs)}.'
        views = f" Views affected: {', '.join(self.views)}." if self.views else ""
        return f"{self.file} ({self.kind}): {self.wrong}{held}{views}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check. ``acknowledged`` is greater than ``epoch`` if committed epochs are missing.

    ``waiting`` is the number of epochs in the log; ``unknown`` files are not referenced by any manifest.
    """

    path: str
    epoch: int
    acknowledged: int
    manifests: int
    waiting: int
    files: int
    rows: int
    bytes: int
    unknown: tuple[str, ...]
    damages: tuple[DamagedFile, ...]

    @property
    def ok(self) -> bool:
        """True if every file is as it was written."""
        return not self.damages

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        read = (
            f"{self.path}: epoch {self.epoch}, {self.manifests:,} manifests, {self.waiting:,} epochs in the log, "
            f"{self.files:,} files with {self.rows:,} rows, {self.bytes:,} bytes"
        )
        lines = [read, *map(str, self.damages)]
        if self.acknowledged > self.epoch:
            lost = epoch_range_text(self.epoch + 1, self.acknowledged).removeprefix("of ").capitalize()
            lines.append(f"{lost} can no longer be read, and had been committed.")
        if self.unknown:
            lines.append(f"{len(self.unknown):,} files are named by nothing; a vacuum removes those that are ours.")
        lines.append(
            "all checksums match" if self.ok else f"{len(self.damages):,} damaged; see: tidemill repair --dry-run"
        )
        return "\n".join(lines)


def check(path: str | Path, *, full: bool = False, progress: Progress | None = None) -> CheckReport:
    """Compare every file of a warehouse with its checksum; works beside a writer, and changes nothing.

    ``full`` also reads every row, and compares their number and epochs with the manifests. ``progress`` is called with
    the bytes read so far and in total.
    """
    layout = layout_of(path)
    with translate_os_errors("check the warehouse", layout.root, "Look at the folder and its rights."):
        return check_report(layout, examine(layout, full=full, progress=progress))


def layout_of(path: str | Path) -> Layout:
    """The folders of a warehouse, which may be damaged."""
    root = warehouse_root(path)
    layout = Layout(root.absolute() if isinstance(root, Path) else root)
    with translate_os_errors("find the warehouse", layout.root, "Look at the folder and its rights."):
        if not layout.manifests.is_dir():
            require_warehouse(layout.root, create=False)
    return layout


def check_report(layout: Layout, found: Examination) -> CheckReport:
    """Translate an examination of files into terms of tables and views."""
    owners = MapOwners.of(found)
    return CheckReport(
        path=str(layout.root),
        epoch=found.epoch,
        acknowledged=found.acknowledged,
        manifests=found.manifests,
        waiting=found.records,
        files=len(found.parts),
        rows=sum(part.run.rows for part in found.parts),
        bytes=found.bytes,
        unknown=tuple(str(file.relative_to(layout.root)) for file in found.unknown),
        damages=tuple(_told(layout, damage, owners) for damage in found.damages),
    )


def _told(layout: Layout, damage: Damage, owners: MapOwners) -> DamagedFile:
    file = str(damage.file.relative_to(layout.root))
    if damage.part is None:
        return DamagedFile(file, damage.kind.value, damage.wrong)
    run, name = damage.part.run, damage.part.name
    relation = owners.relation_of(name)
    return DamagedFile(
        file, damage.kind.value, damage.wrong, relation, run.rows, (run.first, run.last), owners.affected(relation)
    )


@dataclass(frozen=True)
class MapOwners:
    """The table or view that each stored map belongs to, and its readers. Empty if the catalog cannot be read.

    ``functions`` are the user-defined functions of the catalog.
    """

    catalog: Catalog
    views: Mapping[str, str]
    functions: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Examination) -> MapOwners:
        """The owners in the newest readable state."""
        registry, keys = Registry(), tuple[str, ...]()
        try:
            stored = found.now.state.catalog if found.now else {}
            catalog, _ = catalog_from_json(stored, registry)
            keys = tuple(function.key for function in registry)
        except TidemillError:
            catalog = Catalog(registry)
        finally:
            registry.forget()
        return cls(catalog, {name: view.name for view in catalog.views.values() for name in view.map_names}, keys)

    def relation_of(self, name: str) -> str:
        """The table or view that a map belongs to; the map itself if that is unknown."""
        return self.views.get(name, name)

    def is_table(self, relation: str) -> bool:
        """True for a table, whose rows cannot be recomputed."""
        return relation in self.catalog.tables

    def affected(self, relation: str) -> tuple[str, ...]:
        """The views affected by a relation's rows: itself, if it is one, those that share its stages, and readers."""
        views = self.catalog.views
        own = {relation} & views.keys()
        own |= {user.name for name in own for user in shared_stage_users(views[name], views.values())}
        return tuple(name for name, view in views.items() if name in own or relation in self.catalog.ancestors(view))
