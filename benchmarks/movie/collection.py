"""Figure 13 over one large collection: what an epoch takes that changes one element of it, with its views."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.movie.results import BENCH
from tidemill.model.update_events import UpdateEvent
from tidemill.serving.cli.bench_runner import Figure

ELEMENTS, QUICK_ELEMENTS, SPARE = 50_000, 2_000, 1_000

ODL = """module boxes {
  class piece (extent Pieces) { attribute long size; };
  class box (extent Boxes) { attribute long id; attribute bag<piece> pieces; };
};"""

VIEWS = {
    "projected": "define projected() as select struct(id: b.id, pieces: b.pieces) from b in Boxes",
    "unnested": "define unnested() as select struct(id: b.id, size: p.size) from b in Boxes, p in b.pieces",
    "nested": "define nested() as select struct(id: b.id, sizes: (select p.size from p in b.pieces)) from b in Boxes",
}
"""A view for each use of a collection: projected, unnested, nested."""

SQL_VIEWS = (
    "listed AS SELECT shop, COLLECT_LIST(size) AS sizes FROM piece GROUP BY shop",
    "doubled AS SELECT shop, transform(sizes, x -> x * 2) AS sizes, size(sizes) AS n FROM listed",
    "unnested AS SELECT shop, size + 1 AS size FROM listed LATERAL VIEW EXPLODE(sizes) AS size",
)


@dataclass(frozen=True)
class CollectionCost:
    """What an epoch with one change took, in seconds of CPU: half of the epochs took less."""

    change: str
    seconds: float
    elements: int


def measured(quick: bool) -> Iterator[CollectionCost]:
    """The change of one element by kind: of objects with views in OQL, and of rows with views in SQL."""
    elements = QUICK_ELEMENTS if quick else ELEMENTS
    yield from _of_objects(elements)
    yield from _of_rows(elements)


def as_figures(costs: Iterator[CollectionCost]) -> Iterator[Figure]:
    """The figures of each kind of change, and of the slowest."""
    name, slowest = "", 0.0
    for cost in costs:
        name = f"collection{cost.elements}"
        slowest = max(slowest, cost.seconds)
        yield Figure(BENCH, f"{name}/{cost.change}", "ms", cost.seconds * 1e3, "ms", "an epoch, three views")
    yield Figure(BENCH, name, "ms", slowest * 1e3, "ms", "the slowest kind of change")


def _of_objects(elements: int) -> Iterator[CollectionCost]:
    with tidemill.open(":memory:") as wh:
        db = tidemill.objects(wh, ODL)
        with db.epoch():
            pieces = [db.create("piece", size=number) for number in range(elements)]
            box = db.create("box", id=1, pieces=pieces)
            spare = iter([db.create("piece", size=-1) for _ in range(SPARE)])
        views = [db.define(text) for text in VIEWS.values()]
        changes: dict[UpdateEvent, Callable[[int], None]] = {
            UpdateEvent.INSERT_ELEMENT: lambda number: db.insert(box, "pieces", next(spare)),
            UpdateEvent.DELETE_ELEMENT: lambda number: db.remove(box, "pieces", pieces[3 * number]),
            UpdateEvent.MODIFY_ELEMENT: lambda number: db.modify(pieces[3 * number + 1], size=number),
        }
        for event, change in changes.items():
            yield CollectionCost(event.value, _median(change), elements)
        for view in views:
            if not (compared := view.verify()).ok:
                raise WrongAnswer(str(compared))


def _of_rows(elements: int) -> Iterator[CollectionCost]:
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE piece (id INT PRIMARY KEY, shop STRING, size BIGINT)")
        wh.upsert("piece", [(number, "a", number) for number in range(elements)])
        for view in SQL_VIEWS:
            wh.sql(f"CREATE MATERIALIZED VIEW {view}")
        yield CollectionCost(
            "sql", _median(lambda number: wh.upsert("piece", [(number, "a", elements + number)])), elements
        )
        _compare(wh, [size for _, _, size in wh.table("piece").rows()])


def _compare(wh: tidemill.Warehouse, sizes: list[int]) -> None:
    """Refuse wrong rows: the arrays are made anew here."""
    expected = sorted(sizes)
    (listed,), (doubled,) = wh.view("listed").rows(), wh.view("doubled").rows()
    if listed[1] != expected or doubled[1:] != ([2 * size for size in expected], len(expected)):
        raise WrongAnswer("the arrays of the views are not those of the table")
    if sorted(size for _, size in wh.view("unnested").rows()) != [size + 1 for size in expected]:
        raise WrongAnswer("the unnested rows are not those of the table")


def _median(change: Callable[[int], object], times: int = 150) -> float:
    """CPU seconds of a change, without the first ones: rows are looked up in the store before they are read."""
    taken = []
    for number in range(times):
        begun = time.process_time()
        change(number)
        taken.append(time.process_time() - begun)
    return statistics.median(taken[times // 2 :])
