"""Records of earlier runs that the warehouse of a project keeps, in two tables of its own.

``_pipeline`` has the definition that each relation was made by, and the name under which its results are written;
``_flows`` has the epoch up to which each flow has taken its source. The latter changes in the epoch that appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from tidemill.engine.warehouse import Warehouse

__all__ = ["FlowPosition", "Made", "State"]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS _pipeline (name STRING PRIMARY KEY, number INT, definition STRING, owner STRING)",
    "CREATE TABLE IF NOT EXISTS _flows (flow STRING PRIMARY KEY, source STRING, definition STRING, epoch BIGINT)",
)


@dataclass(frozen=True)
class Made:
    """A relation that was made: in which place of the order, by which definition, and who owns its results."""

    number: int
    definition: str
    owner: str


@dataclass(frozen=True)
class FlowPosition:
    """The epoch up to which a flow has taken ``source``, which was made by ``definition``."""

    source: str
    definition: str
    epoch: int


class State:
    """The two tables of a warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._wh = warehouse
        for statement in _TABLES:
            warehouse.sql(statement)

    def made(self) -> dict[str, Made]:
        """Relations that were made, by their names, in the order in which they were."""
        rows = sorted(self._wh.table("_pipeline").rows(), key=lambda row: row[1])
        return {name: Made(number, definition, owner) for name, number, definition, owner in rows}

    def remember(self, name: str, definition: str) -> None:
        """Remember that a relation was made."""
        number = max((one.number for one in self.made().values()), default=0) + 1
        self._wh.apply({"_pipeline": [(1, (name, number, definition, uuid4().hex[:8]))]})

    def forget(self, name: str) -> None:
        """Forget a relation."""
        self._wh.sql(f"DELETE FROM _pipeline WHERE name = '{name}'")

    def flow(self, key: str) -> FlowPosition | None:
        """Position of a flow; None before its first run."""
        found = self.position_rows(key)
        return FlowPosition(*found[0][1:]) if found else None

    def position_rows(self, key: str) -> list[tuple[str, str, str, int]]:
        """The row of a flow, if it has one."""
        return [row for row in self._wh.table("_flows").rows() if row[0] == key]

    def moved(self, key: str, to: FlowPosition) -> list[tuple[int, tuple[str, str, str, int]]]:
        """The change of ``_flows`` that moves a flow."""
        old = [(-1, row) for row in self.position_rows(key)]
        return [*old, (1, (key, to.source, to.definition, to.epoch))]

    def reset(self, prefix: str) -> None:
        """Forget how far the flows into a table are."""
        self._wh.sql(f"DELETE FROM _flows WHERE startswith(flow, '{prefix}/')")
