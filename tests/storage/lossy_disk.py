"""A disk in memory that loses what was not synced: content without a sync of its file, names without one of their
folder. Each step that a real one makes is counted, and a power failure can come before any of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace


class PowerFailure(BaseException):
    """Nothing in memory is used any more."""


@dataclass(eq=False)
class File:
    """What a file holds now, and what the disk has of it."""

    content: bytes = b""
    synced: bytes = b""


@dataclass(frozen=True)
class LossyPath:
    """A path on the disk."""

    system: LossyDisk = field(repr=False)
    key: str = ""

    def __str__(self) -> str:
        return f"/disk/{self.key}".rstrip("/")

    def __truediv__(self, part: str) -> LossyPath:
        return LossyPath(self.system, f"{self.key}/{part}".lstrip("/"))

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> LossyPath:
        return LossyPath(self.system, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> LossyPath:
        return self.parent / name

    def relative_to(self, other: LossyPath) -> PurePosixPath:
        return PurePosixPath(self.key).relative_to(other.key)

    def exists(self) -> bool:
        return self.key in self.system.names

    def is_dir(self) -> bool:
        return bool(self.system.files_below(self))

    def iterdir(self) -> Iterator[LossyPath]:
        return iter(self.system.entries(self))

    def unlink(self, missing_ok: bool = False) -> None:
        self.system.step()
        if self.system.names.pop(self.key, None) is None and not missing_ok:
            raise FileNotFoundError(self.key)

    def stat(self) -> SimpleNamespace:
        return SimpleNamespace(st_size=len(self.system.read(self)))

    lstat = stat


class Opened:
    """A log or mark that is open."""

    def __init__(self, disk: LossyDisk, file: File) -> None:
        self._disk, self._file = disk, file

    def write(self, content: bytes, at: int = 0) -> None:
        self._disk.step()
        self._file.content = self._file.content[:at] + content

    def truncate(self, length: int) -> None:
        self._disk.step()
        self._file.content = self._file.content[:length]

    def sync(self) -> None:
        self._disk.sync(self._file)

    def close(self) -> None:
        pass


@dataclass
class Token:
    """The right to write: there is one process only."""

    token: int
    forked = False

    @property
    def log_token(self) -> int:
        return self.token

    def check(self) -> None:
        pass

    confirm = require_own = release = check

    def successor(self) -> None:
        return None


class LossyDisk:
    """The disk. ``folder`` is a real one, for what Arrow reads and writes by itself."""

    IN_PLACE = True

    def __init__(self, folder: Path, names: dict[str, File] | None = None, token: int = 0) -> None:
        self.folder = folder
        self.names = names or {}
        self.synced = dict(self.names)
        self.steps, self.fails_at, self.token = 0, -1, token

    @property
    def root(self) -> LossyPath:
        return LossyPath(self)

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.fails_at:
            raise PowerFailure

    def sync(self, file: File) -> None:
        self.step()
        file.synced = file.content

    def after_failure(self, kept: Callable[[], bool]) -> LossyDisk:
        """The disk when power is back: of what was not synced it has what ``kept`` says."""
        self.fails_at = -1
        names = {}
        for key in {*self.names, *self.synced}:
            file = (self.names if kept() else self.synced).get(key)
            if file is not None:
                left = file.content if kept() else file.synced
                names[key] = File(left, left)
        return LossyDisk(self.folder, names, self.token)

    # -- the file system ----------------------------------------------------------------------------------------

    def read(self, file: LossyPath) -> bytes:
        if file.key not in self.names:
            raise FileNotFoundError(file.key)
        return self.names[file.key].content

    def _draft(self, content: bytes) -> File:
        draft = File()
        self.step()
        draft.content = content
        self.sync(draft)
        self.step()
        return draft

    def create(self, file: LossyPath, content: bytes) -> None:
        draft = self._draft(content)
        if file.key in self.names:
            raise FileExistsError(file.key)
        self.names[file.key] = draft
        self.sync_folder(file.parent)

    def replace(self, file: LossyPath, content: bytes) -> None:
        self.names[file.key] = self._draft(content)
        self.sync_folder(file.parent)

    def make_folder(self, folder: LossyPath) -> None:
        pass

    def sync_folder(self, folder: LossyPath) -> None:
        self.step()
        there = {key: file for key, file in self.names.items() if key.rpartition("/")[0] == folder.key}
        others = {key: file for key, file in self.synced.items() if key.rpartition("/")[0] != folder.key}
        self.synced = {**others, **there}

    def refuse_links(self, root: LossyPath, names: Iterable[str], folders: Iterable[LossyPath]) -> None:
        pass

    def entries(self, folder: LossyPath) -> list[LossyPath]:
        below = [file.key[len(folder.key) :].lstrip("/") for file in self.files_below(folder)]
        return [folder / name for name in dict.fromkeys(key.partition("/")[0] for key in below)]

    def files_below(self, folder: LossyPath) -> list[LossyPath]:
        return [self.root / key for key in self.names if not folder.key or key.startswith(f"{folder.key}/")]

    def delete_empty_folders(self, folder: LossyPath) -> None:
        pass

    def staging(self, root: LossyPath) -> Path:
        return self.folder / "staging"

    def mapped(self, root: LossyPath) -> Path:
        return self.folder / "mapped"

    def open_log(self, file: LossyPath, *, new: bool) -> Opened:
        if new and file.key in self.names:
            raise FileExistsError(file.key)
        self.step()
        opened = Opened(self, self.names.setdefault(file.key, File()))
        self.sync_folder(file.parent)
        return opened

    def end_log(self, file: LossyPath) -> bool:
        return False

    is_ended = end_log

    def open_mark(self, file: LossyPath) -> Opened:
        return Opened(self, self.names[file.key])

    def lock(self, root: LossyPath, floor: Callable[[], int]) -> Token:
        self.token = max(self.token, floor()) + 1
        return Token(self.token)

    def new_local(self, file: LossyPath) -> Path:
        local = self.folder / file.key
        local.parent.mkdir(parents=True, exist_ok=True)
        return local

    def store(self, local: Path, file: LossyPath) -> None:
        self.step()
        self.names[file.key] = File(local.read_bytes())
        self.sync(self.names[file.key])

    def local_copy(self, file: LossyPath) -> Path:
        local = self.new_local(file)
        local.write_bytes(self.read(file))
        return local

    def drop_copy(self, file: LossyPath) -> bool:
        return False


def fates(seed: int) -> list[Callable[[], bool]]:
    """What may be left of what was not synced: nothing, everything, and some of it."""
    choose = random.Random(seed)
    return [lambda: False, lambda: True, lambda: choose.random() < 0.5]
