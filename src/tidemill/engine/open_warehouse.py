"""Opening a warehouse: its store, its runtimes and its engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.engine.boundary import public_function
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.memory_budget import parse_size, resident_bytes
from tidemill.engine.epochs.placement import Placement, check_runtime_name, reads_files_only
from tidemill.engine.maintenance.compaction_schedule import MEMORY_EPOCHS
from tidemill.engine.telemetry.recorder import REFRESH_LOG_BYTES
from tidemill.engine.telemetry.refresh import Refresh, parse_line
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError, StorageError
from tidemill.model.periods import parse_period
from tidemill.sources.secrets import Secrets
from tidemill.storage.bounded_log import BoundedLog
from tidemill.storage.commits.format import require_warehouse
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.filesystem.durable_files import TemporaryFolder
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import SparkSession

MEMORY = ":memory:"

CACHED_PART = 8
"""The part of what a memory budget leaves for what lookups have read of files: one of so many."""


@public_function
def open(  # shadows the builtin for the public name tidemill.open
    path: str | Path = MEMORY,
    *,
    spark: SparkSession | None = None,
    runtime: str = "auto",
    read_only: bool = False,
    durability: str = "epoch",
    memory: str | int | None = None,
    backend: str | None = None,
    follow: bool = False,
    secrets: Iterable[str] = (),
    refresh_log: str | int = REFRESH_LOG_BYTES,
) -> Warehouse:
    """Open a warehouse folder, created if necessary; ``":memory:"`` stores nothing on disk, and only the last epochs.

    ``path`` may be in an object store, such as ``s3://bucket/shop``, with credentials from the environment.
    ``spark`` is your own session; without it a local one starts when it is needed. ``runtime`` is ``"native"``,
    ``"spark"`` or ``"auto"``. ``durability="checkpoint"`` trades the last epochs before a crash for speed.
    ``memory``, such as ``"4GB"``, limits the memory of this process: state that does not fit stays on disk.
    ``backend`` of the native runtime is ``"python"``, ``"llvm"`` or ``"auto"``: compiled once there is enough work.
    With ``follow`` sources and feeds that are not manual start at once; otherwise when ``Warehouse.follow`` is called.
    With ``read_only`` the warehouse is read beside its writer, at one epoch until ``advance``; with ``follow`` as well
    it moves to new epochs by itself.
    ``secrets`` are variables that sources may take passwords from, beside ``TIDEMILL_SECRET_*``.
    ``refresh_log`` limits the refresh log in the folder, such as ``"64MB"``, or ``"64MB, 30 days"``; 0 keeps its last
    entries in memory only.
    """
    check_runtime_name(runtime)
    limit = None if memory is None else parse_size(memory)
    in_memory = str(path) == MEMORY
    temporary = TemporaryFolder() if in_memory else None
    folder: FilePath = _folder_named(path) if temporary is None else temporary.path
    store: Store
    if in_memory and not reads_files_only(runtime):
        store = MemoryStore()
    else:
        cached = 0 if limit is None else max(limit - resident_bytes(), 0) // CACHED_PART
        store = FolderStore.open(folder, read_only=read_only, durability=durability, cached_bytes=cached)
    try:
        keep = MEMORY_EPOCHS if in_memory else None
        placement = Placement(store, runtime, spark, in_memory, backend)
        allowed = Secrets.of(secrets)
        builds = folder / "builds" if isinstance(folder, Path) and not in_memory else None
        engine = Engine(
            store,
            placement,
            read_only=read_only,
            keep=keep,
            memory=limit,
            follow=follow,
            secrets=allowed,
            builds=builds,
            refresh_log=None if in_memory else _refresh_log(folder, *_log_limits(refresh_log)),
        )
    except BaseException:
        store.close()
        raise
    return Warehouse(engine, folder, temporary)


def _log_limits(text: str | int) -> tuple[int, float | None]:
    """The bytes that the refresh log may have, and the seconds that its entries stay, if there is such a limit.

    >>> _log_limits("64MB, 2 days"), _log_limits("1 hour") == (REFRESH_LOG_BYTES, 3600.0)
    ((67108864, 172800.0), True)
    """
    size, seconds = str(REFRESH_LOG_BYTES), None
    for part in str(text).split(","):
        period = parse_period(part)
        size, seconds = (part, seconds) if period is None else (size, period)
    return parse_size(size), seconds


def _refresh_log(folder: FilePath, limit: int, seconds: float | None = None) -> BoundedLog | None:
    """The refresh log of a folder: in it, or for one in an object store beside the copies of its files."""
    place = system_of(folder).mapped(folder).parent / "refreshes"
    return BoundedLog(place, limit, seconds=seconds) if limit else None


def stored_refreshes(path: str | Path) -> Iterator[Refresh]:
    """The entries of the refresh log of a warehouse, the newest first; nothing else of it is opened."""
    folder = _folder_named(path)
    require_warehouse(folder, create=False)
    log = _refresh_log(folder, REFRESH_LOG_BYTES)
    assert log is not None
    return (entry for entry in map(parse_line, log.lines()) if entry is not None)


def _folder_named(path: str | Path) -> FilePath:
    """The folder of a warehouse."""
    folder, text = warehouse_root(path), str(path)
    if text.startswith(":") and text.endswith(":"):
        raise SetupError("there is no such kind of warehouse", where=text, hint=f'In memory it is "{MEMORY}".')
    if isinstance(folder, Path) and folder.exists() and not folder.is_dir():
        raise StorageError(
            "a warehouse is a folder, and this is a file",
            where=str(folder),
            detail="It is left as it is.",
            hint="Give an empty folder, or one that does not exist yet.",
        )
    return folder
