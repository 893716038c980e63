"""Figure 11, entry by entry: a view of each class, an event of each kind, and how much base data was read for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.movie.data import COMPOSITES, YOUNG
from benchmarks.movie.figures import MAINTENANCE_PLANS, EventCase, ViewComplexity
from benchmarks.movie.oo7 import OO7
from tidemill.compiler.frontends.oql.algebra.attributes_read import CollectionUse
from tidemill.compiler.lineage.self_maintenance import DeltaMethod
from tidemill.engine.handles import ViewHandle
from tidemill.engine.objects.database import Objects
from tidemill.model.update_events import UpdateEvent

VIEWS = {
    ViewComplexity.JOIN: """define joined() as
        select struct(id: c.id, type: c.type, parts: c.parts, doc: d.id)
        from c in CompositeParts, d in Documents where c.documentation = d and c.buildDate >= 2000""",
    ViewComplexity.UNNEST: """define unnested() as
        select struct(id: c.id, type: c.type, shared: c.usedInShar, part: a.id)
        from c in CompositeParts, a in c.parts where c.buildDate >= 2000 and c.buildDate > a.buildDate""",
    ViewComplexity.NEST: """define nested() as
        select struct(id: c.id, type: c.type, shared: c.usedInShar, used: b.id,
            dates: (select a.buildDate from a in c.parts where a.x >= 0))
        from c in CompositeParts, b in c.usedInPriv where c.buildDate >= 2000 and c.buildDate > b.buildDate""",
}
"""One of each class, of young composite parts: a build date alone keeps one out, whatever it is joined with."""

COLLECTIONS = {
    ViewComplexity.JOIN: {CollectionUse.PROJECTED: "parts"},
    ViewComplexity.UNNEST: {CollectionUse.PROJECTED: "usedinshar", CollectionUse.UNNESTED: "parts"},
    ViewComplexity.NEST: {
        CollectionUse.PROJECTED: "usedinshar",
        CollectionUse.NESTED: "parts",
        CollectionUse.UNNESTED: "usedinpriv",
    },
}
"""Which collection of a composite part each view uses how."""

LATE, NEVER = 9_000, -1
"""Build dates that let a composite part in, and keep it out."""


@dataclass(frozen=True)
class Entry:
    """An entry of the figure, and how many base rows were read when its event happened."""

    case: EventCase
    view: ViewComplexity
    move: DeltaMethod
    reads: int

    @property
    def name(self) -> str:
        """As figures call it: the row, the column, and which of the plans in that cell."""
        plan = "plant" if self.move is DeltaMethod.PLANT_NEW else "join"
        return f"{self.case.number}/{self.view.name.lower()}/{plan}"

    def __str__(self) -> str:
        use = f" {self.case.use.value}" if self.case.use is not None else ""
        return f"{self.case.event.value}{use}: {self.move.value}"


def entries() -> Iterator[Entry]:
    """All entries of the figure, each with an event of its own; a view that is not right in the end ends everything."""
    with OO7(1, connections=False) as oo7:
        views = {kind: oo7.db.define(text) for kind, text in VIEWS.items()}
        parts = _parts(oo7.db)
        for case, cells in MAINTENANCE_PLANS.items():
            for kind, cell in cells.items():
                for move in cell.plan:
                    happen = _event(oo7.db, parts.pop(), case, kind, move)
                    yield Entry(case, kind, move, _reads(oo7, views[kind], happen))
        for view in views.values():
            if not (compared := view.verify()).ok:
                raise WrongAnswer(str(compared))


def _parts(db: Objects) -> list[int]:
    """Young composite parts that several assemblies use: all views show them."""
    found = (db.get(oid) for oid in range(YOUNG, COMPOSITES + 1, YOUNG))
    return [one["oid"] for one in found if len(one["usedinpriv"]) > 1 and one["usedinshar"]]


def _reads(oo7: OO7, view: ViewHandle, happen: Callable[[], object]) -> int:
    """The base rows that are read for an event, which changes the view."""
    before, epoch = sum(view.base_reads().values()), oo7.warehouse.epoch
    happen()
    if not view.changes(since=epoch):
        raise WrongAnswer(f"{view.name} does not change")
    return sum(view.base_reads().values()) - before


def _event(db: Objects, oid: int, case: EventCase, kind: ViewComplexity, move: DeltaMethod) -> Callable[[], object]:
    """What is to happen to the composite part ``oid``; what must come before it has happened already."""
    values = db.get(oid)
    collection = COLLECTIONS[kind][case.use] if case.use is not None else ""
    match case.event:
        case UpdateEvent.INSERT:
            return _creation(db, values)
        case UpdateEvent.DELETE:
            return lambda: db.delete(oid, clear=True)
        case UpdateEvent.INSERT_ELEMENT:
            # Bags take an element again; it is another one of the view.
            return lambda: db.insert(oid, collection, values[collection][-1])
        case UpdateEvent.DELETE_ELEMENT:
            return lambda: db.remove(oid, collection, values[collection][0])
        case UpdateEvent.MODIFY if not case.condition:
            return lambda: db.modify(oid, type="other")
        case UpdateEvent.MODIFY:
            return _decisive(db, oid, "builddate", move)
    element = values[collection][0]
    if not case.condition:
        return lambda: db.modify(element, builddate=LATE)
    return _decisive(db, element, "x", move)


def _creation(db: Objects, values: dict[str, object]) -> Callable[[], object]:
    """Another composite part with the same parts and a document of its own."""
    document = db.create("document", title=f"Another {values['id']}", id=-int(str(values["id"])), text="")
    collections = {name: values[name] for name in ("parts", "usedinpriv", "usedinshar")}
    return lambda: db.create(
        "compositepart", id=document, type="new", builddate=LATE, documentation=document, **collections
    )


def _decisive(db: Objects, oid: int, attribute: str, move: DeltaMethod) -> Callable[[], object]:
    """An attribute in a condition is modified so that rows leave the view, or so that they come back."""
    if move is DeltaMethod.JOIN_OLD:
        return lambda: db.modify(oid, **{attribute: NEVER})
    db.modify(oid, **{attribute: NEVER})
    return lambda: db.modify(oid, **{attribute: LATE})
