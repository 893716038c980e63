"""Who has logged in with a browser, which can keep a cookie and cannot be told to send a token."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from tidemill.serving.access.hashed_secrets import hash_of_token
from tidemill.serving.access.principal import Principal
from tidemill.serving.access.users import Users

__all__ = ["LOGIN_SECONDS", "Logins"]

LOGIN_SECONDS = 12 * 3600
"""Seconds after which one has to log in again."""

MOST_LOGINS = 10_000


class Logins:
    """The secrets of those who have logged in by a token: in memory alone, and by their hashes.

    A login ends after ``LOGIN_SECONDS``, with the process, and with its token: who is removed is out.
    """

    def __init__(self, users: Users, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._clock = clock
        self._lock = threading.Lock()
        self._logins: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, token: str) -> str | None:
        """The secret of a new login; None if the token is nobody's."""
        digest = hash_of_token(token)
        if self._users.holder(digest) is None:
            return None
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._logins[hash_of_token(secret)] = digest, self._clock() + LOGIN_SECONDS
            while len(self._logins) > MOST_LOGINS:
                self._logins.popitem(last=False)
        return secret

    def holder(self, digest: str) -> Principal | None:
        """The user with the login whose secret has this hash; None once it has ended."""
        token, until = self._logins.get(digest, ("", 0.0))
        return self._users.holder(token) if self._clock() < until else None

    def end(self, digest: str) -> None:
        """End the login whose secret has this hash."""
        with self._lock:
            self._logins.pop(digest, None)
