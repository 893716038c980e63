"""Time filters: conditions of WHERE that compare rows with the clock of a materialized view.

The clock is a relation of one row that is joined to what FROM gives. So the filter is an ordinary condition, and means
what it says at every epoch; that rows come and go at little cost is the matter of ``compiler.staging.time_filters``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Scan
from tidemill.algebra.relational.walk import columns_in, substitute, walk
from tidemill.compiler.analysis.validity import NotAnInterval, validity
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.clocks import CLOCK_PREFIX, NOW, WALL, Clock
from tidemill.model.errors import TextLocation, Unsupported
from tidemill.model.types import TIMESTAMP

EVENT = f"{CLOCK_PREFIX}event"
"""The relation of an event clock before it is known which column it follows."""


@dataclass
class ClockReads:
    """The places of a view's query that read its clock, the relation ``clock``.

    ``compared`` are the columns of tables that are compared with it, as table and column.
    """

    clock: str
    compared: list[tuple[str, str]] = field(default_factory=list)
    _places: dict[str, TextLocation] = field(default_factory=dict)

    @classmethod
    def wall(cls) -> ClockReads:
        """Reads of the wall clock, which a view has unless it says otherwise."""
        return cls(Clock(WALL).relation)

    def read(self, place: TextLocation) -> Scalar:
        """The clock as it stands in a condition that is being translated."""
        name = f"now() {len(self._places)}"
        self._places[name] = place
        return Column(name, TIMESTAMP, nullable=False)

    def filtered(self, relation: Relation, condition: Scalar, aliases: NameAllocator) -> Relation:
        """The rows of ``relation`` for which a condition, perhaps on the clock, is true."""
        read = columns_in(condition) & self._places.keys()
        if not read:
            return Filter(relation, condition)
        alias = aliases.take("clock")
        now = Column(f"{alias}.{NOW.name}", NOW.type, nullable=False)
        for part in conjuncts(condition):
            self._check(part, now, relation)
        condition = substitute(condition, dict.fromkeys(read, now))
        return Filter(Join(relation, Scan(self.clock, alias, (NOW,))), condition)

    def _check(self, part: Scalar, now: Column, relation: Relation) -> None:
        """Refuse a condition that is not true in one interval of the clock."""
        read = columns_in(part) & self._places.keys()
        if not read:
            return
        try:
            found = validity(substitute(part, dict.fromkeys(read, now)), now.name)
        except NotAnInterval as reason:
            raise Unsupported(
                "a view cannot follow the clock in this condition",
                where=self._places[min(read)],
                detail=str(reason),
                hint="Compare the clock with an expression over columns: ts > now() - INTERVAL 1 HOUR, or "
                "now() BETWEEN valid_from AND valid_to. Views of several such conditions can be joined by UNION ALL.",
            ) from None
        tables = _columns_of_tables(relation)
        names = sorted({name for bound in found.bounds for name in columns_in(bound)})
        self.compared += [tables[name] for name in names if name in tables]


def _columns_of_tables(relation: Relation) -> Mapping[str, tuple[str, str]]:
    """The columns that scans bring, as table and column."""
    scans = (node for node in walk(relation) if isinstance(node, Scan))
    return {
        shown.name: (scan.relation, f.name)
        for scan in scans
        for f, shown in zip(scan.columns, scan.fields, strict=True)
    }
