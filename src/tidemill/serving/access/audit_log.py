"""The statements that were run: who, when, what, without values."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidemill.compiler.frontends.script.without_literals import without_literals
from tidemill.model.errors import TidemillError
from tidemill.serving.access.principal import Principal
from tidemill.storage.bounded_log import BoundedLog

__all__ = ["AUDIT_FOLDER", "AuditLog"]

AUDIT_FOLDER = "audit"
"""The name of its folder in that of a warehouse."""

MOST_BYTES = 64 << 20

LONGEST_TEXT = 20_000
"""Characters of a statement beyond which it is not read for the log."""

MOST_KNOWN = 500
"""Statements of which it is remembered how they are logged: many come again and again."""


class AuditLog:
    """Lines of JSON in a folder of up to ``limit`` bytes, readable for its owner alone: the oldest go first.

    A statement is logged without numbers, texts and comments. One that cannot be read is logged by its length and a
    hash, which tells equal statements of one process: guessing what it was needs the key of that process.
    """

    def __init__(self, folder: Path, limit: int = MOST_BYTES) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._log = BoundedLog(folder, limit, 0o600)
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._read = lru_cache(MOST_KNOWN)(without_literals)

    def note(
        self,
        principal: Principal,
        statement: str,
        *,
        door: str,
        address: str = "",
        seconds: float | None = None,
        rows: int | None = None,
        error: BaseException | None = None,
        ended: bool = True,
        read: Callable[[str], str | None] | None = None,
    ) -> None:
        """Note a statement that was run, or has begun to; what cannot be written is lost.

        ``read`` tells a statement without its values, or None, where it is not as the warehouse would read it.
        """
        self._append(
            user=principal.name,
            door=door,
            address=address,
            **self._told(statement, read or self._read),
            seconds=None if seconds is None else round(seconds, 6),
            rows=rows,
            outcome=_outcome(error) if ended else None,
        )

    def note_login(self, name: str | None, *, door: str, address: str, error: BaseException | None = None) -> None:
        """Note that a user came in, or that somebody was refused; ``name`` is None where there is no such user."""
        self._append(event="login", user=name, door=door, address=address, outcome=_outcome(error))

    def note_action(
        self,
        principal: Principal,
        action: str,
        *,
        door: str,
        address: str,
        rows: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Note something else that was done, such as rows that were sent to a table."""
        outcome = _outcome(error)
        self._append(user=principal.name, door=door, address=address, action=action[:200], rows=rows, outcome=outcome)

    def _append(self, **entry: Any) -> None:
        told = {name: value for name, value in entry.items() if value is not None}
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **told}) + "\n"
        with self._lock, suppress(OSError):
            self._log.append(line)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Noted entries, the newest first."""
        for line in self._log.lines():
            with suppress(ValueError):  # it was cut short
                yield json.loads(line)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._log.close()

    def _told(self, statement: str, read: Callable[[str], str | None]) -> dict[str, Any]:
        text = read(statement) if len(statement) <= LONGEST_TEXT else None
        if text is not None:
            return {"statement": text}
        content = statement.encode("utf-8", errors="replace")
        return {"length": len(statement), "hash": hashlib.blake2b(content, key=self._key, digest_size=16).hexdigest()}


def _outcome(error: BaseException | None) -> str:
    """``ok``, or the kind of an error; those of PostgreSQL's protocol have a SQLSTATE for that."""
    if error is None:
        return "ok"
    return str(getattr(error, "sqlstate", type(error).__name__)) if isinstance(error, TidemillError) else "error"
