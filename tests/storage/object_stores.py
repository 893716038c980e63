"""Object stores for tests: in memory, with faults that come when they are told to."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.storage.filesystem.durable_files import OutcomeUnknown
from tidemill.storage.filesystem.objects.object_files import ObjectFiles, ObjectPath

ADDRESS = "s3://bucket/shop"


class Killed(BaseException):
    """The process has died: nothing that it has in memory is used any more."""


@dataclass(eq=False)
class MemoryObjects:
    """Objects in memory. ``before`` and ``after`` are called around each request with its kind and name."""

    contents: dict[str, bytes] = field(default_factory=dict)
    before: Callable[[str, str], None] = lambda kind, name: None
    after: Callable[[str, str], None] = lambda kind, name: None
    listed: Callable[[dict[str, bytes]], dict[str, bytes]] = lambda contents: contents
    requests: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str) -> bytes:
        self._begin("get", name)
        if name not in self.contents:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", name)
        content = self.contents[name]
        self.after("get", name)
        return content

    def fetch(self, name: str, file: Path) -> None:
        file.write_bytes(self.get(name))

    def put(self, name: str, content: bytes | Path, *, new: bool) -> None:
        kind = "create" if new else "replace"
        self._begin(kind, name)
        if new and name in self.contents:
            raise FileExistsError(errno.EEXIST, "the object exists", name)
        self.contents[name] = content.read_bytes() if isinstance(content, Path) else bytes(content)
        self.after(kind, name)

    def copy(self, address: str, name: str) -> bool:
        return False

    def delete(self, name: str) -> None:
        self._begin("delete", name)
        self.contents.pop(name, None)
        self.after("delete", name)

    def sizes(self, prefix: str) -> dict[str, int]:
        self._begin("list", prefix)
        shown = self.listed(self.contents)
        found = {name: len(c) for name, c in shown.items() if not prefix or name.startswith(f"{prefix}/")}
        self.after("list", prefix)
        return found

    def _begin(self, kind: str, name: str) -> None:
        self.requests.append((kind, name))
        self.before(kind, name)


def root(objects: MemoryObjects) -> ObjectPath:
    """A warehouse among the objects, as a process that starts sees it."""
    return ObjectFiles(objects, ADDRESS).root


def no_answer(name: str) -> OutcomeUnknown:
    return OutcomeUnknown(errno.EIO, "the request got no answer", name)
