"""Counts of ingested rows and files, returned to the caller and summed for the warehouse."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from tidemill.engine.published_epochs import PublishedEpochs

__all__ = ["IntakeCounts", "IntakeEpoch", "IntakeTotals", "with_noun"]


@dataclass(frozen=True, slots=True)
class IntakeCounts:
    """Counts of an intake: rows, files, and how many of the rows went to tables of late changes (``late``).

    They do not include ``rejected`` rows, ``aside`` files, which were refused whole, nor files ``skipped`` by name.
    """

    rows: int = 0
    files: int = 0
    late: int = 0
    rejected: int = 0
    aside: int = 0
    skipped: tuple[str, ...] = ()

    def __add__(self, other: IntakeCounts) -> IntakeCounts:
        return IntakeCounts(
            self.rows + other.rows,
            self.files + other.files,
            self.late + other.late,
            self.rejected + other.rejected,
            self.aside + other.aside,
            (*self.skipped, *other.skipped),
        )

    def __sub__(self, before: IntakeCounts) -> IntakeCounts:
        """The difference of two running totals."""
        return IntakeCounts(
            self.rows - before.rows,
            self.files - before.files,
            self.late - before.late,
            self.rejected - before.rejected,
            self.aside - before.aside,
            self.skipped[len(before.skipped) :],
        )

    @classmethod
    def total(cls, counts: Iterable[IntakeCounts]) -> IntakeCounts:
        """The sum of counts."""
        return sum(counts, cls())

    def __str__(self) -> str:
        """The counts as text, without zeros.

        >>> print(IntakeCounts(rows=1234, files=2, late=1, skipped=("_SUCCESS",)))
        1,234 rows from 2 files, 1 of them late; skipped _SUCCESS
        """
        text = with_noun(self.rows, "row")
        text += f" from {with_noun(self.files, 'file')}" if self.files else ""
        text += f", {self.late:,} of them late" if self.late else ""
        text += f"; {with_noun(self.rejected, 'bad row')} set aside" if self.rejected else ""
        text += f"; {with_noun(self.aside, 'file')} set aside" if self.aside else ""
        more = f" and {len(self.skipped) - 3:,} more" if len(self.skipped) > 3 else ""
        return text + (f"; skipped {', '.join(self.skipped[:3])}{more}" if self.skipped else "")


class IntakeTotals:
    """A running total. Rows are counted before their epoch is visible, so the total includes every visible epoch."""

    def __init__(self) -> None:
        self.total = IntakeCounts()
        self._lock = threading.Lock()

    def add(self, counts: IntakeCounts) -> None:
        """Add counts."""
        with self._lock:
            self.total += counts

    @contextmanager
    def counting(self, counts: IntakeCounts) -> Iterator[None]:
        """Add the counts of the block, unless it fails."""
        self.add(counts)
        try:
            yield
        except BaseException:
            self.add(IntakeCounts() - counts)
            raise


class IntakeEpoch(int):
    """The epoch that ingested rows, or the last such epoch: a number with ``counts``, and what was then published."""

    counts: IntakeCounts
    published: PublishedEpochs | None

    def __new__(cls, epoch: int, counts: IntakeCounts, published: PublishedEpochs | None = None) -> Self:
        """Epoch ``epoch`` with its counts."""
        taken = super().__new__(cls, epoch)
        taken.counts, taken.published = counts, published
        return taken


def with_noun(number: int, thing: str) -> str:
    """A number with its noun.

    >>> with_noun(1, "row"), with_noun(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
