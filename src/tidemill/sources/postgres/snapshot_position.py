"""Positions in PostgreSQL: the transactions that a state contains.

Neither log positions nor sequence numbers can express that. A transaction may be in the log and not be visible yet, and
one with a low number may commit after one with a high number. A *snapshot* can: it contains all transactions below
``xmax`` except those that were running. A position is a snapshot whose transactions were all delivered; while a long
backlog is delivered in pieces, also the snapshot in progress and the mark of the last transaction delivered from it.
Marks are outbox ids or commit positions in the log; their order respects conflicts, as a transaction that had to wait
for another gets its last mark after the other has ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tidemill.model.errors import EpochGone

__all__ = ["PgSnapshot", "SnapshotPosition", "lsn_number", "lsn_text"]

_SNAPSHOT = r"\d+:\d+:(?:\d+(?:,\d+)*)?"
_POSITION = re.compile(rf"({_SNAPSHOT})(?:>({_SNAPSHOT})@(\d+))?(?:;([0-9A-F]+/[0-9A-F]+))?(?:#([0-9a-f.]+))?")


@dataclass(frozen=True)
class PgSnapshot:
    """PostgreSQL's ``pg_snapshot``.

    >>> snapshot = PgSnapshot.parse("10:20:12,15")
    >>> [xid for xid in (9, 12, 14, 20) if snapshot.sees(xid)]
    [9, 14]
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> PgSnapshot:
        """The snapshot that PostgreSQL writes as ``text``."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def sees(self, xid: int) -> bool:
        """True if a transaction that has committed by now is part of this state."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)

    def covers(self, other: PgSnapshot) -> bool:
        """True if this snapshot sees all that ``other`` sees."""
        return other.xmax <= self.xmax and not any(other.sees(xid) for xid in self.running)

    def whole(self, xid: int) -> int:
        """The 64-bit number of a transaction of which the log has the lower half; it is close to ours."""
        return self.xmax + ((xid - self.xmax + 2**31) % 2**32) - 2**31


@dataclass(frozen=True)
class SnapshotPosition:
    """A position: all of ``base``, and of ``target`` the transactions up to ``mark``.

    ``lsn``: all that was committed in the log before it is in ``base``, for sources that read the log. ``structure`` is
    a digest of the definitions under which changes were delivered (``postgres.log_structure``).

    >>> str(SnapshotPosition.parse("10:20:12>12:30:@7;0/16B3748#1a2b.3c4d.5e6f"))
    '10:20:12>12:30:@7;0/16B3748#1a2b.3c4d.5e6f'
    """

    base: PgSnapshot
    target: PgSnapshot | None = None
    mark: int = 0
    lsn: str = ""
    structure: str = ""

    @classmethod
    def parse(cls, text: str) -> SnapshotPosition:
        """The position written as ``text``."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise EpochGone(f"{text!r} is no position of a PostgreSQL source", hint="Fill the views again.")
        base, target, mark, lsn, structure = found.groups()
        until = PgSnapshot.parse(target) if target else None
        return cls(PgSnapshot.parse(base), until, int(mark or 0), lsn or "", structure or "")

    def __str__(self) -> str:
        target = f">{self.target}@{self.mark}" if self.target else ""
        structure = f"#{self.structure}" if self.structure else ""
        return f"{self.base}{target}{';' if self.lsn else ''}{self.lsn}{structure}"

    def sees(self, xid: int, mark: int) -> bool:
        """True if the transaction ``xid``, whose last mark is ``mark``, was delivered."""
        return self.base.sees(xid) or (self.target is not None and mark <= self.mark and self.target.sees(xid))

    def told(self, target: PgSnapshot, mark: int) -> SnapshotPosition:
        """The position after delivering the next transaction of ``target``."""
        return replace(self, target=target, mark=mark)


def lsn_number(text: str) -> int:
    """A log position as a number.

    >>> lsn_number("1/10") == 2**32 + 16
    True
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(number: int) -> str:
    """A log position as PostgreSQL writes it.

    >>> lsn_text(2**32 + 16)
    '1/10'
    """
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"
