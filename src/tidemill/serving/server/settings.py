"""Settings of a server: where its doors listen, and how much they take."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Where a server listens, and its limits.

    ``threads`` statements run at a time and ``queue`` wait; a body has at most ``body_bytes``, and one that is to be
    kept in memory as rows ``rows_bytes`` (posts that wait together). ``patience`` are the seconds in which requests
    that run are finished when the server stops.
    """

    host: str = "127.0.0.1"
    port: int = 6874
    threads: int = 8
    queue: int = 256
    body_bytes: int = 64 << 20
    waiting_posts: int = 4096
    waiting_bytes: int = 256 << 20
    subscribers: int = 10_000
    heartbeat: float = 15.0
    patience: float = 30.0
