"""What is measured: an update of Figure 16, propagated to a view, in a database of Figure 14."""

from __future__ import annotations

from dataclasses import dataclass

U1, U2, U3 = "u1", "u2", "u3"
"""A composite part is deleted; the type of one is modified; a document is inserted."""


@dataclass(frozen=True)
class Case:
    """A view in a database, and the updates that are propagated to it."""

    view: str
    size: str
    updates: tuple[str, ...]

    def name(self, update: str) -> str:
        """As figures call it.

        >>> Case("joinselview_3", "db3", ("u2",)).name("u2")
        'u2/joinselview_3/db3'
        """
        return f"{update}/{self.view}/{self.size}"


@dataclass(frozen=True)
class Propagated:
    """Seconds of an epoch with one update: without any view, with the view kept, and with it recomputed.

    ``defined`` is what it takes to define the view again, its compilation included; ``reads`` are the base rows that
    are read to keep it.
    """

    case: Case
    update: str
    without: float
    kept: float
    recomputed: float
    defined: float
    count: int
    reads: int

    @property
    def floor(self) -> float:
        """Less than this cannot be told from nothing: times are off by about so much."""
        return self.without / 50

    @property
    def incremental(self) -> float:
        """Seconds that keeping the view adds to the epoch."""
        return max(self.kept - self.without, self.floor)

    @property
    def rematerialization(self) -> float:
        """Seconds that recomputing it adds to the epoch."""
        return max(self.recomputed - self.without, self.floor)

    @property
    def speedup(self) -> float:
        """How many times faster the update is propagated incrementally."""
        return self.rematerialization / self.incremental

    @property
    def speedup_of_epoch(self) -> float:
        """The same with the update itself, which costs both alike."""
        return self.recomputed / self.kept


@dataclass(frozen=True)
class Asked:
    """Seconds of a query: of the materialized view (MQ), of the virtual one (VQ), and recomputed by DuckDB."""

    case: Case
    rows: int
    materialized: float
    virtual: float
    duckdb: float
