"""Logins of browsers, which can keep a cookie and cannot be told to send a token."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from tidemill.serving.access.hashed_secrets import TOKEN_PREFIX, hash_of_token
from tidemill.serving.access.principal import Principal
from tidemill.serving.access.users import Users

__all__ = ["INVITATION_SECONDS", "LOGIN_SECONDS", "Logins"]

LOGIN_SECONDS = 12 * 3600
"""Seconds after which one has to log in again."""

INVITATION_SECONDS = 600
"""Seconds for which an invitation waits to be used."""

MOST_LOGINS = 10_000


class Logins:
    """The secrets of those who have logged in by a token: in memory alone, and by their hashes.

    A login ends after ``LOGIN_SECONDS``, with the process, and with its token: who is removed is out. An invitation
    is a token that is in no file and lets in once, soon; the login that it begins ends with the process.
    """

    def __init__(self, users: Users, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._clock = clock
        self._lock = threading.Lock()
        self._logins: OrderedDict[str, tuple[str | Principal, float]] = OrderedDict()
        self._invitations: dict[str, tuple[Principal, float]] = {}

    def invite(self, principal: Principal) -> str:
        """A token that lets one browser in, once, as somebody who need not be in the file."""
        token = f"{TOKEN_PREFIX}once_{secrets.token_urlsafe(32)}"
        with self._lock:
            self._invitations[hash_of_token(token)] = principal, self._clock() + INVITATION_SECONDS
        return token

    def begin(self, token: str) -> str | None:
        """The secret of a new login; None if the token is nobody's."""
        digest = hash_of_token(token)
        holder = self._invited(digest) or (digest if self._users.holder(digest) else None)
        if holder is None:
            return None
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._logins[hash_of_token(secret)] = holder, self._clock() + LOGIN_SECONDS
            while len(self._logins) > MOST_LOGINS:
                self._logins.popitem(last=False)
        return secret

    def _invited(self, digest: str) -> Principal | None:
        """Whom an invitation of this hash lets in, which then is used."""
        with self._lock:
            invited, until = self._invitations.pop(digest, (None, 0.0))
        return invited if self._clock() < until else None

    def holder(self, digest: str) -> Principal | None:
        """The user with the login whose secret has this hash; None once it has ended."""
        holder, until = self._logins.get(digest, ("", 0.0))
        if self._clock() >= until:
            return None
        return self._users.holder(holder) if isinstance(holder, str) else holder

    def end(self, digest: str) -> None:
        """End the login whose secret has this hash."""
        with self._lock:
            self._logins.pop(digest, None)
