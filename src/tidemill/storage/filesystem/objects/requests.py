"""The requests that a warehouse makes to an object store, repeated where they fail for a moment.

A request that got no answer may have been carried out, or still be. For reading, deleting and overwriting that does
not matter, and it is made again. An object that is created is made again as well, until its name is known to be taken:
by this content, which may have arrived the first time, or by another writer's.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tidemill.storage.filesystem.durable_files import OutcomeUnknown

__all__ = ["Objects", "RepeatedRequests", "answered"]

T = TypeVar("T")

PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between attempts, each up to half as long again so that writers do not come in step."""


class Objects(Protocol):
    """Named contents. A request is carried out whole or not at all, and what was answered is seen by all later ones.

    A request without an answer ends with ``OutcomeUnknown``.
    """

    def get(self, name: str) -> bytes:
        """The content of an object; ``FileNotFoundError`` if there is none."""

    def fetch(self, name: str, file: Path) -> None:
        """Write the content of an object to a file; ``FileNotFoundError`` if there is none."""

    def put(self, name: str, content: bytes | Path, *, new: bool) -> None:
        """Write an object. If it is to be ``new`` and exists: ``FileExistsError``."""

    def copy(self, address: str, name: str) -> bool:
        """Have the store copy the object at an address to ``name``; False if it is elsewhere."""

    def delete(self, name: str) -> None:
        """Delete an object, if there is one."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """The objects below a folder, with their sizes. New ones may be missing, and deleted ones be listed."""


@dataclass(frozen=True)
class RepeatedRequests:
    """Objects whose requests are made again if there was no answer."""

    objects: Objects

    def get(self, name: str) -> bytes:
        """The content of an object; ``FileNotFoundError`` if there is none."""
        return answered(lambda: self.objects.get(name))

    def fetch(self, name: str, file: Path) -> None:
        """Write the content of an object to a file; ``FileNotFoundError`` if there is none."""
        answered(lambda: self.objects.fetch(name, file))

    def replace(self, name: str, content: bytes | Path) -> None:
        """Write an object, whether or not it exists."""
        answered(lambda: self.objects.put(name, content, new=False))

    def create(self, name: str, content: bytes) -> None:
        """Write a new object; ``FileExistsError`` if its name has other content, ``OutcomeUnknown`` without an answer.

        Contents of two writers are never equal, so an equal one is this writer's, from a request whose answer was lost.
        """
        _repeated(lambda: self._create(name, content))

    def _create(self, name: str, content: bytes) -> None:
        try:
            self.objects.put(name, content, new=True)
        except FileExistsError:
            try:
                found = self.objects.get(name)
            except FileNotFoundError:  # S3 refuses both of two puts that meet
                raise OutcomeUnknown(errno.EAGAIN, "another request for the name was under way", name) from None
            if found != content:
                raise

    def copy(self, address: str, name: str) -> bool:
        """Have the store copy the object at an address to ``name``; False if it is elsewhere."""
        return answered(lambda: self.objects.copy(address, name))

    def delete(self, name: str) -> None:
        """Delete an object, if there is one."""
        answered(lambda: self.objects.delete(name))

    def sizes(self, prefix: str) -> dict[str, int]:
        """The objects below a folder, with their sizes."""
        return answered(lambda: self.objects.sizes(prefix))


def answered(request: Callable[[], T]) -> T:
    """The answer of a request that can be made any number of times; ``OSError`` if there is none."""
    try:
        return _repeated(request)
    except OutcomeUnknown as silent:
        raise OSError(silent.errno, silent.strerror, silent.filename) from None


def _repeated(request: Callable[[], T]) -> T:
    for pause in PAUSES:
        try:
            return request()
        except OutcomeUnknown:
            time.sleep(pause * random.uniform(1, 1.5))
    return request()
