"""Example 6 of the paper, r1(W, X) joined with r2(X, Y) and r3(Y, Z) where W > Z, built so that its assumptions hold.

Rows of a relation fall into groups of J, and a group joins the group of the same number: whatever value a query probes
by, it finds J rows. A row of r2 has an identity besides, since J of them join the same groups. W and Z lie on one
scale: of the old rows, half of the W are below all Z and half are above, and those of new rows are in the middle, so
that every row meets half of the rows it joins, which makes sigma 1/2. Whether a new W is above a new Z can only be yes
or no: it is yes in the one ``side`` of an example where it is no in the other, and costs are the means of both.

The paper's parameters do not change with the updates. So a relation takes turns to gain a row and to lose it again, and
begins with one row less where it would otherwise have one more when queries are answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, Field
from tidemill.sources.remote_queries.signed_query import SpjView

RELATIONS = ("r1", "r2", "r3")
COLUMNS = {"r1": ("w", "x"), "r2": ("i", "x", "y"), "r3": ("y", "z")}
TABLES = {name: Table(name, tuple(Field(one, BIGINT) for one in columns)) for name, columns in COLUMNS.items()}
CLUSTERED = {"r1": "x", "r2": "x", "r3": "y"}
"""The columns of the paper's clustering indexes."""

MIDDLE = 500_000
"""Where new W and Z lie; old Z are within 200,000 of it and old W beyond."""

Update = Mapping[str, ZSet]


def product(tables: Mapping[str, Table], outputs: str) -> SpjView:
    """The view over these tables; ``outputs`` are names such as ``"r1.w r3.z"``."""
    leaves = tuple(Scan(name, name, tables[name].fields) for name in RELATIONS)
    at = {field.name: column(field) for leaf in leaves for field in leaf.fields}
    conditions = (
        call("eq", at["r1.x"], at["r2.x"]),
        call("eq", at["r2.y"], at["r3.y"]),
        call("gt", at["r1.w"], at["r3.z"]),
    )
    return SpjView(leaves, conditions, tuple(Named(name, at[name]) for name in outputs.split()))


VIEW = product(TABLES, "r1.w r3.z")


@dataclass(frozen=True)
class Example:
    """The relations and ``k`` updates, to each of them in turn.

    Updates that come ``together`` go to one group and so join each other. Those that come apart go to a group of their
    own for each relation, which no query about the others reads.
    """

    c: int
    j: int
    k: int
    together: bool
    side: int = 0

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.c // self.j

    def rows(self) -> dict[str, ZSet]:
        """The relations at the beginning."""
        return {name: ZSet.of(self._old(name)) for name in RELATIONS}

    def updates(self) -> list[Update]:
        """Rows come, and go again the next time that it is their relation's turn."""
        return [self._update(RELATIONS[number % 3], number // 3) for number in range(self.k)]

    def _update(self, name: str, turn: int) -> Update:
        return {name: ZSet({self._new(name, turn // 2): 1 if turn % 2 == 0 else -1})}

    def _group(self, name: str) -> int:
        return 0 if self.together else RELATIONS.index(name)

    def _old(self, name: str) -> list[Row]:
        """C rows, or one less in the group that changes."""
        rows = [self._row(name, group, place) for group in range(self.groups) for place in range(self.j)]
        fewer = not self.together or self.k // 3 % 2 == 1
        last = self.j - 1 if self.side == 0 else 0
        gone = self._row(name, self._group(name), last)
        return [row for row in rows if row != gone] if fewer else rows

    def _row(self, name: str, group: int, place: int) -> Row:
        number = group * self.j + place
        upper = place >= self.j // 2
        match name:
            case "r1":
                return (2 * MIDDLE * upper + number, group)
            case "r2":
                return (number, group, group)
        return (group, MIDDLE + (100_000 if upper else -100_000) + number)

    def _new(self, name: str, number: int) -> Row:
        group = self._group(name)
        match name:
            case "r1":
                above = (number + self.side) % 2 == 0
                return (MIDDLE + (10_000 if above else -10_000) + number, group)
            case "r2":
                return (self.c + number, group, group)
        return (group, MIDDLE + number)
