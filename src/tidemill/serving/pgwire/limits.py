"""Limits of sizes and waiting times of the door."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PgLimits"]


@dataclass(frozen=True)
class PgLimits:
    """Limits of the door.

    ``connections`` may be in, and ``waiting`` more may be about to log in, each for ``login_seconds``; a login that
    fails is told after ``failure_seconds``. A statement has at most ``statement_bytes`` and ``statement_timeout``
    seconds, however long clients want to wait; a query of the catalog has ``catalog_seconds``. When the server stops,
    ``patience`` are the seconds in which what runs is finished.
    """

    connections: int = 200
    waiting: int = 100
    login_seconds: float = 10.0
    failure_seconds: float = 1.0
    statement_bytes: int = 1 << 20
    statement_timeout: float | None = None
    catalog_seconds: float = 30.0
    patience: float = 30.0
