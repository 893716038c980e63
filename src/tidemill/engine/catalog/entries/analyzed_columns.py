"""Statistics of columns as the catalog keeps them, with the state of the relation that they were computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemill.compiler.statistics.column_values import ColumnStatistics

__all__ = ["AnalyzedColumn", "AnalyzedColumns", "analyzed_from_json", "analyzed_to_json"]

STALE = 0.1
"""Part of the rows that must have changed since, for statistics to be computed again."""


@dataclass(frozen=True, slots=True)
class AnalyzedColumn:
    """Statistics of a column as of ``epoch``, after ``changes`` rows of its relation had changed since its creation."""

    statistics: ColumnStatistics
    epoch: int
    changes: int

    def is_stale(self, changes: int) -> bool:
        """True if so much has changed since that they should be computed again."""
        return abs(changes - self.changes) > STALE * self.statistics.rows


AnalyzedColumns = Mapping[str, Mapping[str, AnalyzedColumn]]
"""Statistics by relation and column. It is replaced as a whole, since plans of several threads may add to it."""


def analyzed_to_json(analyzed: AnalyzedColumns) -> dict[str, dict[str, Any]]:
    """The statistics in the form that a manifest stores."""
    return {name: {column: asdict(one) for column, one in columns.items()} for name, columns in analyzed.items()}


def analyzed_from_json(said: Mapping[str, Mapping[str, Any]]) -> AnalyzedColumns:
    """The statistics that a manifest has."""
    return {name: {column: _column(one) for column, one in columns.items()} for name, columns in said.items()}


def _column(said: Mapping[str, Any]) -> AnalyzedColumn:
    return AnalyzedColumn(ColumnStatistics.from_json(said["statistics"]), said["epoch"], said["changes"])
