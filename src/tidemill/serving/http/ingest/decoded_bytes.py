"""Memory that a body takes once it is read: counted while it is read, and limited."""

from __future__ import annotations

from tidemill.serving.http.errors import HttpError

__all__ = ["BYTES_OF_ROW", "DecodedBytes"]

BYTES_OF_ROW = 200
"""Bytes that a row of a text takes at least: short rows take many times their text."""


class DecodedBytes:
    """Counts bytes, up to ``most``.

    >>> limit = DecodedBytes(1000)
    >>> limit.take(600)
    >>> limit.take(600)
    Traceback (most recent call last):
    tidemill.serving.http.errors.HttpError: the body is too long once it is read
    ...
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """Take memory for so many bytes; refused if there is not so much."""
        if size < 0 or self.taken + size > self._most:
            raise HttpError(
                413,
                "the body is too long once it is read",
                detail=f"Its rows may take {self._most:,} bytes.",
                hint="Send it in several parts.",
            )
        self.taken += size

    def take_rows(self, count: int) -> None:
        """Take memory for so many rows of a text."""
        self.take(BYTES_OF_ROW * count)
