"""A connection to a server that is reopened when it breaks."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from tidemill.model.errors import SourceLost

__all__ = ["Reconnecting"]

Opened = TypeVar("Opened")
WorkResult = TypeVar("WorkResult")

_LONGEST_PAUSE = 2.0


class Reconnecting(ABC, Generic[Opened]):
    """A connection that is reopened when it breaks, with growing pauses, until ``patience`` seconds have passed."""

    BROKEN: tuple[type[Exception], ...]
    """The driver's errors after which work is tried again over another connection."""
    ERRORS: tuple[type[Exception], ...]
    """All errors of the driver."""

    def __init__(self, name: str, patience: float = 60.0) -> None:
        self.name = name
        self.patience = patience
        self.prepare: Callable[[Opened], None] = lambda connection: None
        self._connection: Opened | None = None

    def run(self, work: Callable[[Opened], WorkResult]) -> WorkResult:
        """The result of ``work``, which may be retried and must leave nothing behind when it fails."""
        deadline = time.monotonic() + self.patience
        pause = 0.02
        while True:
            try:
                return work(self.connection())
            except self.BROKEN as error:
                self.close()
                if time.monotonic() + pause > deadline:
                    raise self.lost(error) from None
            except self.ERRORS as error:
                self.close()
                raise self.lost(error) from None
            except BaseException:
                self._undo()
                raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def connection(self) -> Opened:
        """The connection, opened if there is none."""
        if self._connection is None or self._is_closed(self._connection):
            self._connection = self._open()
            self.prepare(self._connection)
        return self._connection

    def _undo(self) -> None:
        """End the transaction of ``work``; a connection on which that fails is closed."""
        try:
            if self._connection is not None:
                self._roll_back(self._connection)
        except self.ERRORS:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._close(connection)

    def lost(self, error: Exception) -> SourceLost:
        """The error that users see."""
        text = self.hidden(str(error).strip())
        return SourceLost(f'source "{self.name}" cannot be read', where=self.hidden(self.where) or None, detail=text)

    @property
    @abstractmethod
    def where(self) -> str:
        """The address of the server, for errors."""

    @abstractmethod
    def hidden(self, text: str) -> str:
        """``text`` with the password removed, if it is in it."""

    @abstractmethod
    def _open(self) -> Opened:
        """A new connection."""

    @abstractmethod
    def _is_closed(self, connection: Opened) -> bool:
        """True if it was closed."""

    @abstractmethod
    def _roll_back(self, connection: Opened) -> None:
        """End its transaction, if it is in one."""

    @abstractmethod
    def _close(self, connection: Opened) -> None:
        """Close it."""
