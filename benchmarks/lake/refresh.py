"""Tidemill's side: a warehouse over the lake whose views are published as Delta tables, and what a refresh costs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tidemill
from benchmarks.lake.lakes import Lake
from benchmarks.tpch.data import TABLES
from benchmarks.tpch.views import VIEWS


@dataclass(frozen=True)
class Refresh:
    """A refresh: seconds of reading what changed in the lake, of the epoch, and of publishing; bytes of both writes."""

    read: float
    epoch: float
    publish: float
    stored: int
    published: int

    @property
    def seconds(self) -> float:
        return self.read + self.epoch + self.publish


class Refresher:
    """A warehouse with the tables of a lake, whose eight views are published in ``folder``."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._warehouse = folder / "warehouse"
        self._tables = folder / "published"
        self.published = {view: self._tables / view for view in VIEWS}
        with tidemill.open(self._warehouse) as warehouse:
            for name in TABLES:
                warehouse.sql(lake.ddl(name))
            for name, query in VIEWS.items():
                options = f"publish = 'delta', location = '{self.published[name]}', mode = 'merge'"
                warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {query}")
            warehouse.publish()
        self._open()

    def _open(self) -> None:
        self._opened = tidemill.open(self._warehouse)
        self._watch = _Stopwatch(self._opened)

    def refresh(self) -> Refresh:
        """Take what the lake has and publish it, with the warehouse open."""
        files = _sizes([self._tables, self._warehouse])
        self._watch.reset()
        self._opened.sync()
        stored, written = (_growth(_sizes([folder]), files) for folder in (self._warehouse, self._tables))
        return Refresh(self._watch.reading, self._watch.applying, self._watch.publishing, stored, written)

    def refresh_by_command(self) -> float:
        """Seconds of ``tidemill sync``, from the start of its process to its end."""
        self._opened.close()
        gc.collect()
        pa.default_memory_pool().release_unused()  # two processes have a lake's tables in memory otherwise
        command = [sys.executable, "-m", "tidemill", "sync", "-w", str(self._warehouse)]
        environment = os.environ | {"PYTHONPATH": str(Path(tidemill.__file__).parents[1])}  # this very Tidemill
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        taken = time.perf_counter() - start
        self._open()
        return taken

    def close(self) -> None:
        self._opened.close()


class _Stopwatch:
    """The seconds of each phase of ``sync`` of a warehouse, since the last reset."""

    def __init__(self, warehouse: Any) -> None:
        engine = warehouse._engine
        self.reset()
        engine.lakes._apply = self._timed(engine.lakes._apply, "applying")
        engine.lakes.sync = self._timed(engine.lakes.sync, "_taking")
        engine.publications.publish = self._timed(engine.publications.publish, "publishing")

    def reset(self) -> None:
        self.applying = self.publishing = self._taking = 0.0

    @property
    def reading(self) -> float:
        """Seconds of taking versions without those of their epoch."""
        return self._taking - self.applying

    def _timed(self, work: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                setattr(self, phase, getattr(self, phase) + time.perf_counter() - start)

        return timed


def _sizes(folders: Iterable[Path]) -> dict[Path, int]:
    """The sizes of files, without those that a warehouse derives from others, once, to look rows up."""
    found = {file: file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file()}
    return {file: size for file, size in found.items() if "mapped" not in file.parts}


def _growth(sizes: dict[Path, int], before: dict[Path, int]) -> int:
    """The bytes that files have grown by, new ones among them: a log grows as epochs are appended."""
    return sum(max(size - before.get(file, 0), 0) for file, size in sizes.items())


def bytes_of(change: dict[str, pa.Table], folder: Path) -> int:
    """The size of a change: its deleted and inserted rows as Parquet files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in change.items():
        pq.write_table(rows, folder / f"{name}.parquet")
    return bytes_below(folder)


def bytes_below(folder: Path) -> int:
    """The size of all files below a folder."""
    return sum(_sizes([folder]).values())
