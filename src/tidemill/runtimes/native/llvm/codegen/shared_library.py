"""Compiled shared code on disk, by its name: what it is made from need not be emitted to find it.

The name of shared code says what it depends on, except for the functions that emit it: so the sources of these belong
to the name of a file as well. A file has the object code, the names of its functions, and what it calls of other shared
code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from tidemill.runtimes.native.llvm.codegen.code_cache import read_code, write_code
from tidemill.runtimes.native.llvm.codegen.object_code import cache_file

_PACKAGE = "tidemill.runtimes.native.llvm"


@dataclass(frozen=True, slots=True)
class LibraryCode:
    """The object code of a library, the ``names`` it exports, and what it ``calls`` of other shared code."""

    objects: Sequence[bytes]
    names: Sequence[str]
    calls: Mapping[str, Sequence[str]]


def read_library(name: str, level: int) -> LibraryCode | None:
    """Shared code as it was compiled before; None where it was not."""
    content = read_code(_file(name, level))
    if content is None:
        return None
    header, _, rest = content.partition(b"\n")
    found = json.loads(header)
    objects = []
    for size in found["sizes"]:
        objects.append(rest[:size])
        rest = rest[size:]
    return LibraryCode(objects, found["names"], found["calls"])


def write_library(name: str, level: int, code: LibraryCode) -> None:
    """Keep compiled shared code."""
    header = {"sizes": list(map(len, code.objects)), "names": list(code.names), "calls": dict(code.calls)}
    write_code(_file(name, level), b"\n".join([json.dumps(header).encode(), b"".join(code.objects)]))


def _file(name: str, level: int) -> Path:
    return cache_file(f"shared code of {_sources()}: {name}", level)


@cache
def _sources() -> str:
    """A hash of the sources of everything that emits code."""
    found = hashlib.sha256()
    pending: list[Traversable] = [files(_PACKAGE)]
    while pending:
        for entry in sorted(pending.pop().iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                pending.append(entry)
            elif entry.name.endswith(".py"):
                found.update(entry.name.encode() + b"\n" + entry.read_bytes())
    return found.hexdigest()
