"""The place of a build's own warehouse: a folder in the warehouse, or memory where that is no folder of a disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from tidemill.engine.builds.build import BuildEngine
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.store import Store

__all__ = ["KEPT_EPOCHS", "BuildPlace", "BuildPlaces"]

KEPT_EPOCHS = 4
"""Epochs of a build that stay readable: its history is of no use once later rows are in."""


class BuildPlaces:
    """The warehouses of builds, below ``folder`` if there is one; ``start`` gives the engine of each."""

    def __init__(self, folder: Path | None, start: Callable[[Store], BuildEngine]) -> None:
        self._folder = folder
        self._start = start

    def of(self, view: str) -> BuildPlace:
        """The place of the build of a view."""
        return BuildPlace(None if self._folder is None else self._folder / view, self._start)

    def keep(self, views: Collection[str]) -> None:
        """Delete what builds have left behind whose process ended just after them."""
        if self._folder is not None and self._folder.is_dir():
            for left in {place.name for place in self._folder.iterdir()} - set(views):
                self.of(left).remove()


class BuildPlace:
    """The warehouse of one build, in ``folder`` if there is one."""

    def __init__(self, folder: Path | None, start: Callable[[Store], BuildEngine]) -> None:
        self._folder = folder
        self._start = start

    def open(self) -> BuildEngine:
        """Open the warehouse, or create it. Its last epochs may be lost in a crash: the build then takes them again."""
        if self._folder is None:
            return self._start(MemoryStore())
        self._folder.mkdir(parents=True, exist_ok=True)
        store = FolderStore.open(self._folder, durability="checkpoint")
        try:
            return self._start(store)
        except BaseException:
            store.close()
            raise

    def remove(self) -> None:
        """Delete the warehouse, if there is one."""
        if self._folder is not None and self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)
