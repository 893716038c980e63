"""The file of users: read only where nobody else can, and written whole."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.model.errors import InvalidArgument, SetupError
from tidemill.serving.access.hashed_secrets import ScramVerifier

__all__ = ["UserEntry", "changing", "check_name", "mark_of", "read_users", "write_users"]

VERSION = 1
MOST_BYTES = 16 << 20

_NAME = re.compile(r"[a-z_][a-z0-9_.@-]{0,62}")
_RESERVED = frozenset({"owner", "writer", "reader"})


@dataclass(frozen=True)
class UserEntry:
    """A user: roles, what a password is checked against, and the hashes of tokens by their labels."""

    name: str
    roles: tuple[str, ...] = ()
    verifier: ScramVerifier | None = None
    tokens: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form in the file."""
        password = {} if self.verifier is None else {"password": self.verifier.text}
        tokens = [{"label": label, "sha256": digest} for label, digest in self.tokens]
        return {"name": self.name, "roles": list(self.roles), **password, "tokens": tokens}

    @staticmethod
    def from_json(item: Mapping[str, Any]) -> UserEntry:
        """The user that was written."""
        password = item.get("password")
        return UserEntry(
            check_name(item["name"], "user"),
            tuple(check_name(role, "role") for role in item["roles"]),
            None if password is None else ScramVerifier.of(password),
            tuple((str(one["label"]), str(one["sha256"])) for one in item["tokens"]),
        )


def check_name(name: str, of: str) -> str:
    """The name of a user or role, in lower case; refused if it is none, or that of a role for a user."""
    lowered = name.lower()
    if not _NAME.fullmatch(lowered) or (of == "user" and lowered in _RESERVED):
        raise InvalidArgument(
            f"{name[:80]!r} cannot be the name of a {of}",
            detail="Rights are granted to users and roles by name." if lowered in _RESERVED else None,
            hint="Names have letters, digits, and . _ - @, up to 63 of them.",
        )
    return lowered


def read_users(path: Path) -> dict[str, UserEntry]:
    """The users of a file; none if it is not there. Refused if others than its owner may read or change it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = "It is a symbolic link." if error.errno == errno.ELOOP else error.strerror
        raise SetupError("the file of users cannot be read", where=str(path), detail=why) from None
    with open(handle, encoding="utf-8") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0) or not stat.S_ISREG(status.st_mode):
            raise SetupError(
                "the file of users is not safe",
                where=str(path),
                detail="Others than the user who runs this can read or change it.",
                hint=f"chmod 600 {path}",
            )
        try:
            data = json.loads(file.read(MOST_BYTES))
            if data["version"] != VERSION:
                raise ValueError("another version")
            users = [UserEntry.from_json(item) for item in data["users"]]
        except (ValueError, KeyError, TypeError, AttributeError, InvalidArgument):
            raise SetupError("the file of users cannot be read", where=str(path), detail="It is damaged.") from None
    return {user.name: user for user in users}


def mark_of(path: Path) -> object:
    """Something that is another once the file has changed."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode


def write_users(path: Path, users: Mapping[str, UserEntry]) -> None:
    """Write the file whole, readable for its owner alone; a crash leaves the old one."""
    data = {"version": VERSION, "users": [user.to_json() for user in users.values()]}
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".users-", suffix=".draft")  # of mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


@contextmanager
def changing(path: Path) -> Iterator[dict[str, UserEntry]]:
    """The users, to be changed in the block and then written; two processes do this one after the other."""
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        users = read_users(path)
        yield users
        write_users(path, users)
    finally:
        os.close(handle)
