"""How much was taken in: whatever takes rows counts them, and whoever asked for it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

__all__ = ["Counts", "Taken", "Tally", "counted"]


@dataclass(frozen=True, slots=True)
class Counts:
    """What was taken in: so many rows, from so many files, ``late`` of the rows into tables of late changes.

    ``rejected`` rows and ``aside`` files, those that were refused whole, are not among them; neither are files that
    were ``skipped`` by their names.
    """

    rows: int = 0
    files: int = 0
    late: int = 0
    rejected: int = 0
    aside: int = 0
    skipped: tuple[str, ...] = ()

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.files + other.files,
            self.late + other.late,
            self.rejected + other.rejected,
            self.aside + other.aside,
            (*self.skipped, *other.skipped),
        )

    def __sub__(self, before: Counts) -> Counts:
        """What came since, where these are running totals."""
        return Counts(
            self.rows - before.rows,
            self.files - before.files,
            self.late - before.late,
            self.rejected - before.rejected,
            self.aside - before.aside,
            self.skipped[len(before.skipped) :],
        )

    @classmethod
    def total(cls, counts: Iterable[Counts]) -> Counts:
        """All of them together."""
        return sum(counts, cls())

    def __str__(self) -> str:
        """The figures in words, those that are zero left out.

        >>> print(Counts(rows=1234, files=2, late=1, skipped=("_SUCCESS",)))
        1,234 rows from 2 files, 1 of them late; skipped _SUCCESS
        """
        text = counted(self.rows, "row")
        text += f" from {counted(self.files, 'file')}" if self.files else ""
        text += f", {self.late:,} of them late" if self.late else ""
        text += f"; {counted(self.rejected, 'bad row')} set aside" if self.rejected else ""
        text += f"; {counted(self.aside, 'file')} set aside" if self.aside else ""
        more = f" and {len(self.skipped) - 3:,} more" if len(self.skipped) > 3 else ""
        return text + (f"; skipped {', '.join(self.skipped[:3])}{more}" if self.skipped else "")


class Tally:
    """A running total. Rows are counted before they are shown: who sees an epoch finds what it brought in the total."""

    def __init__(self) -> None:
        self.total = Counts()
        self._lock = threading.Lock()

    def add(self, counts: Counts) -> None:
        """Count what came."""
        with self._lock:
            self.total += counts

    @contextmanager
    def counting(self, counts: Counts) -> Iterator[None]:
        """Count what the block takes in, unless it fails."""
        self.add(counts)
        try:
            yield
        except BaseException:
            self.add(Counts() - counts)
            raise


class Taken(int):
    """The epoch that took rows in, or the last of them: a number that also knows how many, in ``counts``."""

    counts: Counts

    def __new__(cls, epoch: int, counts: Counts) -> Self:
        """Epoch ``epoch``, which took in so much."""
        taken = super().__new__(cls, epoch)
        taken.counts = counts
        return taken


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
