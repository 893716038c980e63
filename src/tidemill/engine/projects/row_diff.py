"""``tidemill.diff``: the rows in which two versions of a warehouse differ, by table and view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidemill.engine.inspect.differences import differences
from tidemill.engine.results import present_rows
from tidemill.engine.warehouse import Warehouse

__all__ = ["RelationDiff", "WarehouseDiff", "compare_rows"]

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


def compare_rows(
    first: Warehouse, second: Warehouse, epochs: tuple[int | None, int | None], names: Iterable[str] = ()
) -> WarehouseDiff:
    """Compare tables and views of two warehouses, each as of an epoch or now; all of them if none is named."""
    known = [{**_relations(one)} for one in (first, second)]
    wanted = [name.lower() for name in names] or list(dict.fromkeys([*known[0], *known[1]]))
    found = [_compare(name, (first, second), epochs, known) for name in wanted]
    differ = tuple(one for one in found if one is not None)
    return WarehouseDiff(differ, len(found) - len(differ))


def _relations(wh: Warehouse) -> dict[str, str]:
    tables = {name: "table" for name in wh.tables() if wh.table(name).definition.kept}
    return {**tables, **dict.fromkeys(wh.views(), "view")}


def _compare(
    name: str,
    versions: tuple[Warehouse, Warehouse],
    epochs: tuple[int | None, int | None],
    known: list[dict[str, str]],
) -> RelationDiff | None:
    if name not in known[0] or name not in known[1]:
        for wh in versions:  # an unknown name is an error of both
            if name not in known[0] and name not in known[1]:
                wh.view(name)
        return RelationDiff(name, only="first" if name in known[0] else "second")
    engines = [wh._engine for wh in versions]
    fields = [engine.committed.entry(name).fields for engine in engines]
    if [(f.name, f.type) for f in fields[0]] != [(f.name, f.type) for f in fields[1]]:
        return RelationDiff(name, only="columns")
    old, new = (engine.contents(name, epoch).zset() for engine, epoch in zip(engines, epochs, strict=True))
    removed, added = differences(old, new, fields[0])
    if not removed and not added:
        return None
    samples = [("-", row) for row in present_rows([*removed][:SHOWN], fields[0])]
    samples += [("+", row) for row in present_rows([*added][:SHOWN], fields[0])]
    return RelationDiff(name, sum(removed.values()), sum(added.values()), tuple(samples))
