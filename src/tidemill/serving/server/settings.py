"""Settings of a server: where its doors listen, and how much they take."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.users import Users

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Where a server listens, and its limits.

    ``threads`` statements run at a time and ``queue`` wait, each for ``statement_timeout`` seconds at the most. A
    statement has ``statement_bytes`` at the most, a body ``body_bytes``, and one that is compressed ``decoded_bytes``
    as rows; bodies of requests that are not answered yet have ``held_bytes`` together, and posts that wait
    ``waiting_bytes``. A user may send ``rate`` requests a second, and ``burst``
    at once; a token that is nobody's is answered after ``failure_seconds``. ``connections`` may be open, a request must
    be there within ``request_seconds``, and its body within ``body_seconds`` and one more for each 16 KB. ``patience``
    are the seconds in which requests that run are finished when the server stops. Without ``users`` whoever is on this
    machine is the owner; ``audit`` is the log of what they do.
    """

    host: str = "127.0.0.1"
    port: int = 6874
    threads: int = 8
    queue: int = 256
    statement_timeout: float | None = None
    statement_bytes: int = 1 << 20
    body_bytes: int = 64 << 20
    decoded_bytes: int = 256 << 20
    held_bytes: int = 512 << 20
    waiting_posts: int = 4096
    waiting_bytes: int = 256 << 20
    subscribers: int = 10_000
    connections: int = 12_000
    rate: float = 2_000.0
    burst: float = 10_000.0
    failure_seconds: float = 0.5
    request_seconds: float = 20.0
    body_seconds: float = 30.0
    heartbeat: float = 15.0
    patience: float = 30.0
    tls: ssl.SSLContext | None = None
    users: Users | None = None
    audit: AuditLog | None = None
