"""Positions in MariaDB and MySQL: places between two transactions of the binary log.

All transactions of a server are in one log, in the order of their commits, so a place in it is a state. The number of
the transaction before it, if the server numbers them, tells a log apart from another one of the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.model.errors import EpochGone

__all__ = ["LogPosition"]

_POSITION = re.compile(r"([^:@\s]+\.)(\d+):(\d+)(?:@([0-9,-]*))?")


@dataclass(frozen=True)
class LogPosition:
    """A place in a file of the log; files are numbered. ``gtid`` names the last transactions before it.

    >>> one = LogPosition.parse("log.000009:345@0-1-7")
    >>> str(one), one.is_before(LogPosition.parse("log.000010:4"))
    ('log.000009:345@0-1-7', True)
    """

    file: str
    place: int
    gtid: str = ""

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """The position written as ``text``."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise EpochGone(f"{text!r} is no position of a MySQL source", hint="Fill the views again.")
        return cls(found[1] + found[2], int(found[3]), found[4] or "")

    def __str__(self) -> str:
        return f"{self.file}:{self.place}" + (f"@{self.gtid}" if self.gtid else "")

    @property
    def order(self) -> tuple[int, int]:
        """The number of the file, and the place in it: positions of one log have the order of these."""
        return int(self.file.rpartition(".")[2]), self.place

    def is_before(self, other: LogPosition) -> bool:
        """True if the log has something between the two."""
        return self.order < other.order
