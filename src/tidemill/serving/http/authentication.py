"""Who asks: by a token where there are users, and without them whoever is on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from tidemill.model.errors import NotAllowed
from tidemill.serving.access.principal import LOCAL_OWNER, Principal
from tidemill.serving.access.users import Users
from tidemill.serving.http.errors import HttpError

__all__ = ["Needs", "is_open", "principal_of", "require"]


class Needs(IntEnum):
    """What a user must be allowed for an endpoint; those for ``ANY`` look at the rights of each user themselves."""

    ANY = 0
    READ = 1
    WRITE = 2
    OWN = 3


_LEVELS = {"reader": Needs.READ, "writer": Needs.WRITE, "owner": Needs.OWN}


def is_open(path: str) -> bool:
    """True for what anybody may see: the files of the console, which have no rows, and that the process lives."""
    return path in ("/", "/healthz") or path.startswith("/assets/")


def principal_of(headers: Mapping[bytes, bytes], users: Users | None) -> Principal:
    """The user of a request."""
    if users is None:
        return LOCAL_OWNER
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    found = users.authenticate_token(token.strip()) if kind.lower() == "bearer" else None
    if found is None:
        raise HttpError(
            401, "a token of a user is needed", where="Authorization", hint="Send: Authorization: Bearer TOKEN."
        )
    return found


def require(principal: Principal, needs: Needs) -> None:
    """Refuse a user whose roles do not allow as much."""
    level = max((_LEVELS.get(role, Needs.ANY) for role in principal.roles), default=Needs.ANY)
    if level < needs:
        role = next(name for name, one in _LEVELS.items() if one is needs)
        raise NotAllowed(f"this needs the role {role}", hint="POST /v1/sql does what rights allow that were granted.")
