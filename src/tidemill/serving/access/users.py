"""The users of a server: who they are, by token or password, and what is kept of these."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tidemill.model.errors import InvalidArgument, NameTaken, UnknownName
from tidemill.serving.access.hashed_secrets import ITERATIONS, ScramVerifier, hash_of_token, new_token, scram_verifier
from tidemill.serving.access.principal import Principal
from tidemill.serving.access.user_file import UserEntry, changing, check_name, mark_of, read_users

__all__ = ["USERS_FILE", "Users"]

USERS_FILE = "users.json"
"""The name of the file in the folder of a warehouse."""

LOOK_SECONDS = 1.0
"""Seconds between two looks whether the file was changed: so long a user who was removed may still come in."""


class Users:
    """The users of a file, as it is now: changes by other processes are seen within a second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._decoys = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._looked = -LOOK_SECONDS
        self._mark: object = None
        self._users: dict[str, UserEntry] = {}
        self._by_token: dict[str, UserEntry] = {}
        self._read()

    @staticmethod
    def load(path: str | Path) -> Users:
        """The users of a file, or of the file in a folder; none if it is not there."""
        found = Path(path)
        return Users(found / USERS_FILE if found.is_dir() else found)

    def __bool__(self) -> bool:
        """True if there are any."""
        return bool(self._present())

    def names(self) -> tuple[str, ...]:
        """The names of all users."""
        return tuple(self._present())

    def entry(self, name: str) -> UserEntry:
        """The stored entry of a user."""
        return _found(self._present(), name)

    # -- who is it --

    def authenticate_token(self, text: str) -> Principal | None:
        """The user whose token this is; None if it is nobody's."""
        return self.holder(hash_of_token(text))

    def holder(self, digest: str) -> Principal | None:
        """The user who has the token of this hash; None once it was revoked."""
        self._present()
        found = self._by_token.get(digest)
        return None if found is None else Principal(found.name, found.roles)

    def authenticate_password(self, name: str, password: str) -> Principal | None:
        """The user of this name and password; None if there is none. It takes as long for a name that is not there."""
        found = self._present().get(name.lower())
        matches = self.scram(name).matches(password)
        if found is None or found.verifier is None or not matches:
            return None
        return Principal(found.name, found.roles)

    def verifier(self, name: str) -> ScramVerifier | None:
        """Verifier of a user's password; None if there is no such user, or no password."""
        found = self._present().get(name.lower())
        return None if found is None else found.verifier

    def scram(self, name: str) -> ScramVerifier:
        """The same for SCRAM, also for a name that is not there: nobody learns from the answer who is."""
        found = self.verifier(name)
        if found is not None:
            return found
        digest = hmac.digest(self._decoys, name.lower().encode("utf-8", errors="replace"), hashlib.sha512)
        return ScramVerifier(digest[:16], digest[16:48], digest[32:64], ITERATIONS)

    def roles(self, name: str) -> tuple[str, ...]:
        """The roles of a user; none if there is no such user."""
        found = self._present().get(name.lower())
        return () if found is None else found.roles

    def principal(self, name: str) -> Principal | None:
        """The user of this name, who has proven to be it by SCRAM."""
        found = self._present().get(name.lower())
        return None if found is None else Principal(found.name, found.roles)

    # -- changes --

    def add(self, name: str, roles: Sequence[str] = (), password: str | None = None) -> None:
        """Add a user."""
        name, given = check_name(name, "user"), tuple(check_name(role, "role") for role in roles)
        verifier = None if password is None else scram_verifier(password)
        with changing(self.path) as users:
            if name in users:
                raise NameTaken(f'user "{name}" exists already')
            users[name] = UserEntry(name, given, verifier)
            _require_distinct(users)
        self._read()

    def remove(self, name: str) -> None:
        """Remove a user, with password and tokens."""
        with changing(self.path) as users:
            del users[_found(users, name).name]
        self._read()

    def set_roles(self, name: str, roles: Sequence[str]) -> None:
        """Give a user these roles in place of those that it has."""
        given = tuple(check_name(role, "role") for role in roles)
        with changing(self.path) as users:
            entry = _found(users, name)
            users[entry.name] = replace(entry, roles=given)
            _require_distinct(users)
        self._read()

    def set_password(self, name: str, password: str) -> None:
        """Give a user another password."""
        verifier = scram_verifier(password)
        with changing(self.path) as users:
            entry = _found(users, name)
            users[entry.name] = replace(entry, verifier=verifier)
        self._read()

    def add_token(self, name: str, label: str = "") -> str:
        """A new token of a user, which is told here and never again. A label takes the place of the one of before."""
        if len(label) > 80 or not label.isprintable():
            raise InvalidArgument("a label has up to 80 characters that can be printed")
        token = new_token()
        with changing(self.path) as users:
            entry = _found(users, name)
            label = label or f"token {len(entry.tokens) + 1}"
            kept = tuple(one for one in entry.tokens if one[0] != label)
            users[entry.name] = replace(entry, tokens=(*kept, (label, hash_of_token(token))))
        self._read()
        return token

    def remove_token(self, name: str, label: str) -> None:
        """Take a token from a user."""
        with changing(self.path) as users:
            entry = _found(users, name)
            if label not in dict(entry.tokens):
                raise UnknownName(f'user "{entry.name}" has no token "{label}"')
            users[entry.name] = replace(entry, tokens=tuple(one for one in entry.tokens if one[0] != label))
        self._read()

    # -- the file --

    def _present(self) -> dict[str, UserEntry]:
        """The users as of the last second."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            with self._lock:
                self._looked = time.monotonic()
                if mark_of(self.path) != self._mark:
                    self._read()
        return self._users

    def _read(self) -> None:
        """Read the file. One that cannot be read has no users from then on, and the error says so."""
        found: dict[str, UserEntry] = {}
        self._mark = mark_of(self.path)
        try:
            found = read_users(self.path)
        finally:
            # In one step: threads that ask meanwhile must not find users missing who are there.
            self._users, self._by_token = found, {hashed: user for user in found.values() for _, hashed in user.tokens}


def _found(users: dict[str, UserEntry], name: str) -> UserEntry:
    found = users.get(name.lower())
    if found is None:
        raise UnknownName(f'there is no user "{name}"')
    return found


def _require_distinct(users: dict[str, UserEntry]) -> None:
    """Refuse a user with the name of a role: what is granted to the one would be the other's."""
    taken = sorted(users.keys() & {role for user in users.values() for role in user.roles})
    if taken:
        raise NameTaken(
            f'"{taken[0]}" would be a user and a role',
            detail="Rights are granted to users and roles by name.",
            hint="Choose another name for one of them.",
        )
