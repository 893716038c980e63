"""Relations made partition by partition, drawn at random: feeds of different lengths, subscripts, bodies, late rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.relational.time_partitions import (
    PARTITION_NUMBER,
    PartitionedInput,
    PartitionSlice,
    Subscript,
    TimePartitioned,
)
from tidemill.algebra.relational.walk import transform, walk
from tidemill.changes.zset import ZSet
from tidemill.compiler.analysis.rename import rename
from tidemill.compiler.frontends.translate import translate
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, Field

TABLES = {
    "s": Table("s", (Field("n", BIGINT), Field("g", BIGINT), Field("x", BIGINT))),
    "p": Table("p", (Field("n", BIGINT), Field("g", BIGINT), Field("x", BIGINT)), kept=False),
    "k": Table("k", (Field("g", BIGINT), Field("x", BIGINT))),
}
"""Two feeds whose first column is the number of a row's partition, of which one is a stream; and a table without."""

PLAIN = (
    "SELECT g, x FROM `{a}`",
    "SELECT g, SUM(x) AS x FROM `{a}` GROUP BY g",
    "SELECT g, MAX(x) AS x FROM `{a}` GROUP BY g",
    "SELECT COUNT(*) AS g, MIN(x) AS x FROM `{a}`",
    "SELECT DISTINCT x AS g, g AS x FROM `{a}` WHERE x > 0",
    "SELECT a.g, a.x + b.x AS x FROM `{a}` a JOIN `{b}` b ON a.g = b.g",
    "SELECT a.g, b.x FROM `{a}` a LEFT JOIN (SELECT g, COUNT(*) AS x FROM `{b}` GROUP BY g) b ON a.g = b.g",
    "SELECT g, x FROM `{a}` EXCEPT ALL SELECT g, x FROM `{b}`",
    "SELECT g, x FROM `{a}` a WHERE EXISTS (SELECT 1 FROM `{b}` b WHERE b.g = a.g)",
    "SELECT g, x FROM `{a}` ORDER BY x, g LIMIT 2",
    "SELECT g, x FROM `{a}` UNION ALL SELECT 2L, 3L",
)
OWN = (
    "SELECT g, SUM(x) AS x FROM (SELECT g, x FROM `{own}` UNION ALL SELECT g, x FROM `{a}`) GROUP BY g",
    "SELECT g, SUM(x) % 7 AS x FROM (SELECT g, x FROM `{own}` UNION ALL SELECT g, -x FROM `{a}`) GROUP BY g",
    "SELECT g, x FROM `{own}` UNION SELECT g, x FROM `{a}`",
    "SELECT g, MAX(x) AS x FROM (SELECT g, x FROM `{own}` UNION ALL SELECT g, x FROM `{a}`) GROUP BY g",
    "SELECT g, x FROM `{a}` EXCEPT SELECT g, x FROM `{own}`",
)
GROUPED = (PLAIN[1], PLAIN[2], OWN[0], OWN[1], OWN[3])
"""Those that group the rows of slices by a column of theirs."""

ABOVE = (
    "SELECT * FROM v",
    "SELECT partition, x FROM v WHERE x > 0",
    "SELECT g, COUNT(*) AS c, SUM(partition) AS m FROM v GROUP BY g",
)


@dataclass(frozen=True)
class Definition:
    """A relation, and the text that made it, for whoever looks at a failure."""

    node: TimePartitioned
    texts: tuple[str, ...]

    def __repr__(self) -> str:
        feeds = ", ".join(f"{feed.name} every {feed.every}" for feed in self.node.feeds)
        return f"every {self.node.every} from {feeds}: {'; '.join(self.texts)}"


def partitioned(
    every: int, feeds: dict[str, int], slices: tuple[PartitionSlice, ...], initialize: str, update: str
) -> TimePartitioned:
    """The relation ``v``; ``feeds`` has the length of the partitions of each table that it reads."""
    fed = tuple(PartitionedInput(name, _rows(TABLES[name], length), length) for name, length in feeds.items())
    columns = {slice_.name: TABLES["k"].fields for slice_ in slices}
    bodies = [translate(text, columns).relation for text in (initialize, update)]
    return TimePartitioned("v", every, fed, slices, *map(_named, bodies))


def _rows(table: Table, every: int) -> Relation:
    scan = Scan(table.name, table.name, table.fields)
    names = (*((PARTITION_NUMBER,) if every else ()), "g", "x")
    return Project(scan, tuple(Named(name, column(f)) for name, f in zip(names, scan.fields, strict=True)))


def _named(body: Relation) -> Relation:
    return Project(body, tuple(Named(name, column(f)) for name, f in zip(("g", "x"), body.fields, strict=True)))


def above(node: TimePartitioned, text: str) -> Relation:
    """A query over the relation."""
    query = translate(text, {"v": node.fields}).relation
    scan = next(leaf for leaf in walk(query) if isinstance(leaf, Scan))
    rows = rename(node, [f.name for f in scan.fields])
    return transform(query, lambda below: rows if below == scan else below)


@st.composite
def definitions(draw: st.DrawFn, bodies: tuple[str, ...] = PLAIN + OWN) -> Definition:
    """Any relation over the tables."""
    every = draw(st.sampled_from((1, 2, 3)))
    feeds = {"s": draw(st.sampled_from((1, 2, 3)))}
    for name in ("p", "k"):
        if draw(st.booleans()):
            feeds[name] = draw(st.sampled_from((1, 2))) if name == "p" else 0
    read = [draw(layers_of(name, length)) for name, length in feeds.items()]
    update = draw(st.sampled_from(bodies))
    initialize = draw(st.sampled_from(PLAIN)) if draw(st.booleans()) or "own" in update else update
    last = draw(st.integers(-3, -1))
    own = PartitionSlice(
        "v", Subscript(draw(st.integers(-4, last))) if draw(st.integers(0, 3)) else None, Subscript(last)
    )
    slices = (*read, own) if "own" in update else tuple(read)
    texts = tuple(_over(draw, text, read, own) for text in (initialize, update))
    texts = texts if initialize != update else (texts[0], texts[0])
    return Definition(partitioned(every, feeds, tuple(dict.fromkeys(slices)), *texts), texts)


@st.composite
def layers_of(draw: st.DrawFn, name: str, length: int) -> PartitionSlice:
    """Some partitions of a feed."""
    if not length:
        return PartitionSlice(name, None, None)
    times, over, plus = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(-4, 1))
    low = Subscript(plus - draw(st.integers(0, 3)), times, over) if draw(st.integers(0, 5)) else None
    return PartitionSlice(name, low, Subscript(plus, times, over))


def _over(draw: st.DrawFn, text: str, read: list[PartitionSlice], own: PartitionSlice) -> str:
    names = {one: draw(st.sampled_from(read)).name for one in "ab"}
    return text.format(**names, own=own.name)


Epochs = list[dict[str, ZSet]]


@st.composite
def epochs(draw: st.DrawFn, most: int = 5) -> Epochs:
    """Changes of the tables: rows come, late ones too, with times that are NULL, and rows that are there leave."""
    there = {name: ZSet() for name in TABLES}
    result: Epochs = []
    for number in range(draw(st.integers(min(most, 2), most))):
        changes: dict[str, ZSet] = {}
        some = st.lists(st.sampled_from(sorted(TABLES)), min_size=1, max_size=3, unique=True)
        for name in draw(some) if number else dict.fromkeys(("s", *draw(some))):
            changes[name] = _change(draw, TABLES[name], there[name], 1 if number else 6)
            there[name] = there[name] + changes[name]
        result.append(changes)
    return result


def _change(draw: st.DrawFn, table: Table, there: ZSet, least: int) -> ZSet:
    change = ZSet()
    for _ in range(draw(st.integers(least, 2 * least + 3))):
        known = sorted((there + change).items(), key=repr)
        if known and draw(st.integers(0, 2)) == 0:
            change.add(draw(st.sampled_from(known))[0], -1)
        else:
            change.add(tuple(draw(_value(f)) for f in table.fields), 1)
    return change


@cache
def _value(field: Field) -> st.SearchStrategy[Any]:
    if field.name == "n":
        return st.integers(-3, 8) | st.none()
    return st.sampled_from((0, 1, 2, 5, -1, None)) if field.name == "x" else st.sampled_from((1, 2, None))
