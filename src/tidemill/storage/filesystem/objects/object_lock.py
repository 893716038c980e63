"""Tokens of writers in an object store: each is an object of its own, put only if absent and never deleted.

There is no lock that ends with its process. Whoever opens a warehouse for writing takes it over: gets the next token,
ends the log, and commits a manifest. An earlier writer is then refused by the end of the log, or by the manifest whose
number it wants. A manifest of that number may have been deleted by a vacuum meanwhile; so after each manifest a writer
looks if there is a later token. Without one, whoever comes later sees the manifest.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from tidemill.model.errors import CommitUnknown
from tidemill.storage.filesystem.objects.requests import RepeatedRequests
from tidemill.storage.filesystem.writer_lock import WRITERS_FOLDER, LockOwner, forked_writer, hold

__all__ = ["ObjectLock"]


class ObjectLock:
    """The right to write, until a later writer has a token."""

    log_token = 0

    def __init__(self, requests: RepeatedRequests, address: str, token: int) -> None:
        self._requests = requests
        self._address = address
        self.token = token
        self.forked = False
        hold(self)

    @classmethod
    def acquire(cls, requests: RepeatedRequests, address: str, floor: Callable[[], int]) -> ObjectLock:
        """Put the next token. Names are tried one after the other: a listing may be older than some of them."""
        known = [int(name.rpartition("/")[2].partition(".")[0]) for name in requests.sizes(WRITERS_FOLDER)]
        token = max([floor(), *known]) + 1
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        while True:
            owner = {"token": token, "pid": os.getpid(), "host": socket.gethostname(), "since": since}
            try:
                requests.create(_name(token), json.dumps({**owner, "nonce": secrets.token_hex(8)}).encode())
            except FileExistsError:
                token += 1
                continue
            return cls(requests, address, token)

    def check(self) -> None:
        """Refuse in a process that was forked; later writers are found by the names of what is written."""
        self.require_own()

    def confirm(self) -> None:
        """``CommitUnknown`` if there is a later token: its writer may have looked before the manifest was there."""
        owner = self.successor()
        if owner is not None:
            raise CommitUnknown(
                "another writer takes over the warehouse, and may not have seen the last commit",
                where=self._address,
                detail=f"It is {owner}. It decides which of the two counts.",
                hint="Close the warehouse, open it again and look at its epoch.",
            )

    def require_own(self) -> None:
        """Refuse in a process that was forked from the writer's."""
        if self.forked:
            raise forked_writer(self._address)

    def successor(self) -> str | None:
        """The writer with the next token."""
        try:
            said = json.loads(self._requests.get(_name(self.token + 1)))
        except FileNotFoundError:
            return None
        with suppress(ValueError, TypeError, AttributeError):
            said.pop("nonce", None)
            return str(LockOwner(**said))
        return f"writer {self.token + 1}"

    def release(self) -> None:
        """Do nothing: the token of the next writer is greater anyway."""


def _name(token: int) -> str:
    return f"{WRITERS_FOLDER}/{token:08}.json"
