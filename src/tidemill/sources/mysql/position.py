"""Positions in MariaDB and MySQL: places between two transactions of the binary log.

All transactions of a server are in one log, in the order of their commits, so a place in it is a state. The number of
the transaction before it, if the server numbers them, tells a log apart from another one of the same name. Where
transactions are prepared (XA) and neither committed nor rolled back, their rows are in the log before the position.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.model.errors import EpochGone

__all__ = ["LogPlace", "LogPosition"]

LogPlace = tuple[str, int]
"""A file of the log, and a place in it."""


_POSITION = re.compile(r"([^:@\s]+\.)(\d+):(\d+)(?:@([0-9,-]*))?(?:\+([^:@\s]+\.\d+):(\d+))?(?:#([0-9a-f]+))?")


@dataclass(frozen=True)
class LogPosition:
    """A place in a file of the log; files are numbered. ``gtid`` names the last transactions before it.

    ``prepared`` is where the oldest transaction before it begins that was neither committed nor rolled back there, and
    ``structure`` a digest of the columns by which the log is read.

    >>> one = LogPosition.parse("log.000009:345@0-1-7+log.000008:12#1a2b")
    >>> str(one), one.is_before(LogPosition.parse("log.000010:4")), one.prepared
    ('log.000009:345@0-1-7+log.000008:12#1a2b', True, ('log.000008', 12))
    """

    file: str
    place: int
    gtid: str = ""
    prepared: LogPlace | None = None
    structure: str = ""

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """The position written as ``text``."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise EpochGone(f"{text!r} is no position of a MariaDB source", hint="Fill the views again.")
        prepared = (found[5], int(found[6])) if found[5] else None
        return cls(found[1] + found[2], int(found[3]), found[4] or "", prepared, found[7] or "")

    def __str__(self) -> str:
        prepared = "+{}:{}".format(*self.prepared) if self.prepared else ""
        structure = f"#{self.structure}" if self.structure else ""
        return f"{self.file}:{self.place}" + (f"@{self.gtid}" if self.gtid else "") + prepared + structure

    @property
    def order(self) -> tuple[int, int]:
        """The number of the file, and the place in it: positions of one log have the order of these."""
        return int(self.file.rpartition(".")[2]), self.place

    def is_before(self, other: LogPosition) -> bool:
        """True if the log has something between the two."""
        return self.order < other.order
