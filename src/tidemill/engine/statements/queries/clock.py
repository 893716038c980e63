"""The clock of statements that are run once."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The present time in UTC, in which timestamps are kept, to the microsecond."""
    return datetime.now(UTC).replace(tzinfo=None)
