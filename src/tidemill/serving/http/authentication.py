"""Authentication: by a token or a login where there are users, else anybody on this machine is the owner."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tidemill.model.errors import NotAllowed, TidemillError
from tidemill.serving.access.hashed_secrets import hash_of_token
from tidemill.serving.access.logins import Logins
from tidemill.serving.access.principal import LOCAL_OWNER, Principal
from tidemill.serving.access.users import Users
from tidemill.serving.http.errors import HttpError

__all__ = ["Authentication", "Caller", "Needs", "address_of", "cookie_name", "is_open", "level_of", "require"]

LOGGER = logging.getLogger("tidemill.server")


class Needs(IntEnum):
    """Right that a user needs for an endpoint; those for ``ANY`` look at the rights of each user themselves."""

    ANY = 0
    READ = 1
    WRITE = 2
    OWN = 3


_LEVELS = {"reader": Needs.READ, "writer": Needs.WRITE, "owner": Needs.OWN}

OPEN = frozenset({"/", "/healthz", "/v1/me", "/v1/login", "/v1/logout"})


def is_open(path: str) -> bool:
    """True for what anybody may ask: the files of the console, which have no rows, that the process lives, and to be
    let in.
    """
    return path in OPEN or path.startswith("/assets/")


@dataclass(frozen=True)
class Caller:
    """The caller, and the proof: a ``token``, a ``cookie``, or being on the ``machine``; none where all may ask."""

    principal: Principal
    by: str = ""
    digest: str = ""
    """The hash of the secret that was sent."""

    @property
    def limited(self) -> Principal | None:
        """The user, if he may not read everything: what he reads is his own then."""
        return self.principal if level_of(self.principal) < Needs.READ else None


LOCAL = Caller(LOCAL_OWNER, "machine")
NOBODY = Caller(Principal("", ()))


class Authentication:
    """Lets in the users of a file; without one, whoever the guard takes for this machine."""

    def __init__(self, users: Users | None) -> None:
        self.users = users
        self.logins = None if users is None else Logins(users)

    def caller(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> Caller | None:
        """The sender of a request; None if unknown. A token goes before a cookie."""
        if self.users is None:
            return LOCAL
        by, secret = _secret_in(scope, headers)
        digest = hash_of_token(secret)
        found = self._holder(by, digest) if secret else None
        return None if found is None else Caller(found, by, digest)

    def now(self, caller: Caller) -> Principal | None:
        """The same caller with the roles of now; None if he is no longer let in."""
        return caller.principal if self.users is None else self._holder(caller.by, caller.digest)

    def log_in(self, token: str) -> str | None:
        """The secret of a new login; None if the token is nobody's."""
        assert self.logins is not None
        with _letting_nobody_in():
            return self.logins.begin(token)
        return None

    def _holder(self, by: str, digest: str) -> Principal | None:
        assert self.users is not None and self.logins is not None
        with _letting_nobody_in():
            return self.logins.holder(digest) if by == "cookie" else self.users.holder(digest)
        return None


@contextmanager
def _letting_nobody_in() -> Iterator[None]:
    """A file of users that is not safe: where it is stands in the log, and in no answer."""
    try:
        yield
    except TidemillError as error:
        LOGGER.error("%s", error)


def _secret_in(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> tuple[str, str]:
    """The token or the login of a request; nothing if it has none."""
    given = headers.get(b"authorization")
    if given is not None:
        kind, _, token = given.decode("latin-1").partition(" ")
        return "token", token.strip() if kind.lower() == "bearer" else ""
    wanted = cookie_name(scope)
    for one in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = one.strip().partition("=")
        if name == wanted:
            return "cookie", value
    return "", ""


def address_of(scope: Mapping[str, Any]) -> str:
    """Where a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def cookie_name(scope: Mapping[str, Any]) -> str:
    """The name of the cookie of a login: browsers do not tell apart servers on several ports of a machine."""
    return f"tidemill_{(scope.get('server') or ('', 0))[1]}"


def unknown_caller() -> HttpError:
    """The error for who has not proven to be anybody."""
    return HttpError(
        401, "a token of a user is needed", where="Authorization", hint="Send: Authorization: Bearer TOKEN."
    )


def level_of(principal: Principal) -> Needs:
    """The most that the roles of a user allow."""
    return max((_LEVELS.get(role, Needs.ANY) for role in principal.roles), default=Needs.ANY)


def require(principal: Principal, needs: Needs) -> None:
    """Refuse a user whose roles do not allow as much."""
    if level_of(principal) < needs:
        role = next(name for name, one in _LEVELS.items() if one is needs)
        raise NotAllowed(f"this needs the role {role}", hint="POST /v1/sql does what rights allow that were granted.")
