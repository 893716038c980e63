"""Compiled code on disk, for this user alone: what is loaded is run, so no other user may have written it.

The folder, its key and its files belong to the user, are readable by no other user, and are not symbolic links; else
they are not used. Each file is sealed with an HMAC of its name and its code by a random key of the user's own. Whatever
is wrong, the code is compiled again: a cache that cannot be used is only slower.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["cache_folder", "read_code", "write_code"]

CACHE_BYTES = 256 * 1024 * 1024
"""Beyond this size the files that were not used for longest are deleted."""

PRUNED_AFTER = 32
"""One write in PRUNED_AFTER, chosen by the name of the file, looks for files to delete."""

_HEADER = b"tidemill object 2 "
_SEAL = 32
_KEY = "key"


def cache_folder() -> Path:
    """The folder of this user's code."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tidemill"


def read_code(file: Path) -> bytes | None:
    """The code in a file of the cache; None where there is none that this user has sealed."""
    try:
        content = _read_private(file)
        key = _key(file.parent)
        os.utime(file, follow_symlinks=False)
    except OSError:
        return None
    seal, code = content[len(_HEADER) : len(_HEADER) + _SEAL], content[len(_HEADER) + _SEAL :]
    intact = content.startswith(_HEADER) and hmac.compare_digest(seal, _sealed(key, file, code))
    return code if intact else None


def write_code(file: Path, code: bytes) -> None:
    """Put code into the cache, if there is one that can be used."""
    with suppress(OSError):
        _make_private(file.parent)
        key = _key(file.parent)
        if int(file.stem, 16) % PRUNED_AFTER == 0:
            _prune(file.parent, CACHE_BYTES - len(code))
        _place(file, _HEADER + _sealed(key, file, code) + code, os.replace)


def _sealed(key: bytes, file: Path, code: bytes) -> bytes:
    """The authentication code of compiled code under that name, which takes the key to make."""
    seal = hmac.new(key, file.stem.encode() + b"\n", "sha256")
    seal.update(code)
    return seal.digest()


@lru_cache(maxsize=4)
def _key(folder: Path) -> bytes:
    """The user's own key, made when it is first needed, by one process of all that need it then."""
    _require_private(os.lstat(folder), stat.S_IFDIR)
    file = folder / _KEY
    if os.path.lexists(file):
        with suppress(OSError):
            key = _read_private(file)
            if len(key) == _SEAL:
                return key
        file.unlink(missing_ok=True)
    with suppress(FileExistsError):
        _place(file, secrets.token_bytes(_SEAL), os.link)
    return _read_private(file)


def _place(file: Path, content: bytes, give_name: Callable[[Path, Path], None]) -> None:
    """Write a file that no other user can read, and give it its name when it is whole."""
    new = file.with_name(f".new{os.getpid()}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as stream:
            stream.write(content)
        give_name(new, file)
    finally:
        new.unlink(missing_ok=True)


def _read_private(file: Path) -> bytes:
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as stream:
        _require_private(os.fstat(handle), stat.S_IFREG)
        return stream.read()


def _require_private(status: os.stat_result, kind: int) -> None:
    """Refuse what is of another kind, of another user, or open to others."""
    if stat.S_IFMT(status.st_mode) != kind or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError("not this user's alone")


def _make_private(folder: Path) -> None:
    """Make the folder, or close one that is the user's own to others."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = os.lstat(folder)
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
        folder.chmod(0o700)
    _require_private(os.lstat(folder), stat.S_IFDIR)


def _prune(folder: Path, budget: int) -> None:
    """Delete the files that were not used for longest, until the others fit the budget."""
    newest = sorted((-stat_.st_mtime, stat_.st_size, file) for file in folder.glob("*.o") for stat_ in [file.lstat()])
    total = 0
    for _, size, file in newest:
        total += size
        if total > budget:
            file.unlink(missing_ok=True)
