"""``tidemill.diff``: the rows in which two versions of a warehouse differ, by table and view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidemill.engine.inspect.verification.differences import differences
from tidemill.engine.results import present_rows
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import UnknownName

__all__ = ["RelationDiff", "Version", "WarehouseDiff", "compare_rows"]

SHOWN = 10
"""Number of rows of a difference that are shown."""


@dataclass(frozen=True)
class RelationDiff:
    """A table or view that differs: rows that only the first version has, and rows that only the second has.

    ``only`` is ``first`` or ``second`` if the other version has no table or view of that name, or ``columns`` if it
    has other columns.
    """

    name: str
    removed: int = 0
    added: int = 0
    samples: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    only: str = ""

    def __str__(self) -> str:
        if self.only:
            said = {"first": "only in the first", "second": "only in the second", "columns": "other columns"}[self.only]
            return f"{self.name}: {said}"
        rows = [f"  {sign} {row}" for sign, row in self.samples]
        return "\n".join([f"{self.name}: {self.removed:,} rows removed, {self.added:,} rows added", *rows])


@dataclass(frozen=True)
class WarehouseDiff:
    """All tables and views that differ between two versions; false if none does."""

    relations: tuple[RelationDiff, ...] = ()
    same: int = 0

    def __bool__(self) -> bool:
        return bool(self.relations)

    def __str__(self) -> str:
        lines = [str(one) for one in self.relations]
        return "\n".join([*lines, f"{self.same} tables and views are equal"])


@dataclass(frozen=True)
class Version:
    """A warehouse now, as of an ``epoch``, or with the views of a ``stage`` in the place of the present ones."""

    warehouse: Warehouse
    epoch: int | None = None
    stage: str = ""

    def relations(self) -> dict[str, str]:
        """The tables and views that are compared, and the names under which their rows are stored."""
        wh, catalog = self.warehouse, self.warehouse._engine.committed
        found = {name: name for name in wh.tables() if wh.table(name).definition.kept}
        found |= {name: name for name in wh.views()}
        if not self.stage:
            return found
        if self.stage not in catalog.deploy_stages:
            known = ", ".join(catalog.deploy_stages) or "none"
            raise UnknownName(f'there is no stage "{self.stage}"', hint=f"There is: {known}.")
        stage = catalog.deploy_stages[self.stage]
        present = {name: stored for name, stored in found.items() if name not in stage.dropped}
        return present | {name: own for name, own in stage.staged.items() if own in catalog.views}


def compare_rows(first: Version, second: Version, names: Iterable[str] = ()) -> WarehouseDiff:
    """Compare tables and views of two versions; all of them if none is named."""
    known = first.relations(), second.relations()
    wanted = [name.lower() for name in names] or list(dict.fromkeys([*known[0], *known[1]]))
    found = [_compare(name, (first, second), known) for name in wanted]
    differ = tuple(one for one in found if one is not None)
    return WarehouseDiff(differ, len(found) - len(differ))


def _compare(
    name: str, versions: tuple[Version, Version], known: tuple[dict[str, str], dict[str, str]]
) -> RelationDiff | None:
    if name not in known[0] or name not in known[1]:
        if name not in known[0] and name not in known[1]:
            versions[0].warehouse.view(name)  # an unknown name is an error of both
        return RelationDiff(name, only="first" if name in known[0] else "second")
    sides = [(one.warehouse._engine, stored[name], one.epoch) for one, stored in zip(versions, known, strict=True)]
    fields = [engine.committed.entry(stored).fields for engine, stored, _ in sides]
    if [(f.name, f.type) for f in fields[0]] != [(f.name, f.type) for f in fields[1]]:
        return RelationDiff(name, only="columns")
    old, new = (engine.contents(stored, epoch).zset() for engine, stored, epoch in sides)
    removed, added = differences(old, new, fields[0])
    if not removed and not added:
        return None
    samples = [("-", row) for row in present_rows([*removed][:SHOWN], fields[0])]
    samples += [("+", row) for row in present_rows([*added][:SHOWN], fields[0])]
    return RelationDiff(name, sum(removed.values()), sum(added.values()), tuple(samples))
