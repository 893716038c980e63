"""Protocol of a lake table: its columns, and its change from one version to the newest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.model.schema import Table

__all__ = ["LakeChange", "LakeTable", "together", "version_shown"]


@dataclass(frozen=True)
class LakeChange:
    """Weighted rows of ``table`` from one version to another, as ``arrow_schema`` has them, and the position after.

    They are read, in ``parts``, when these are gone through, which can be done once. Equal rows of opposite sign may be
    among them. If it is ``whole``, they are all rows of the new version instead, and the change is their difference
    from the rows that are kept. ``files`` is the number of files read, 0 if unknown.

    A position is a version, a blank, and whatever else the lake table has to know of it.
    """

    table: Table
    parts: Iterable[pa.Table]
    position: str
    how: str
    whole: bool = False
    files: int = 0

    @cached_property
    def rows(self) -> pa.Table:
        """All rows at once."""
        return together(self.parts, self.table)


def together(parts: Iterable[pa.Table], table: Table) -> pa.Table:
    """One table of weighted rows."""
    return pa.concat_tables([arrow_schema(table.fields).empty_table(), *parts])


class LakeTable(Protocol):
    """A lake table at its newest version. Errors are those of ``tidemill.model.errors`` alone."""

    HAS_HISTORY: ClassVar[bool]
    """True if earlier versions can be read."""

    HAS_SCHEMA: ClassVar[bool]
    """True if all rows of a version have the same columns; else each file tells its own, and ``schema`` is a guess."""

    def schema(self) -> pa.Schema:
        """The columns of the newest version, in order."""

    @property
    def position(self) -> str:
        """The newest version, and whatever else has to be known to go on from there."""

    def is_newer(self, since: str) -> bool:
        """True if the newest version is not that of the position ``since``."""

    def change(self, table: Table, since: str) -> LakeChange:
        """The change from the position ``since`` to the newest version, in the columns of ``table``.

        Raises ``HistoryGone`` if the lake table no longer has it.
        """

    def contents(self, table: Table) -> LakeChange:
        """All rows of the newest version."""

    def contents_at(self, table: Table, position: str) -> pa.Table:
        """All rows of an earlier version, weighted; ``HistoryGone`` if the lake table no longer has it."""


def version_shown(position: str) -> str | None:
    """The version of a position, as people read it; None before the first.

    >>> version_shown("12 d502245a"), version_shown("")
    ('12', None)
    """
    return position.partition(" ")[0] or None
