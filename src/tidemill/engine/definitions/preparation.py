"""What a view with another query is made of, computed before it is swapped in, while others write.

It is as of a pinned epoch. Under the lock only the last few epochs are added to it, so writers wait for these and for
the commit. Where the query differs in a filter, it is the rows that pass one of the two filters; else the whole view
(``pinned_view``), and the difference of its rows to the present ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.scalars import Case, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Scan
from tidemill.algebra.user_functions import is_registered
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.builds.sliceable import why_not_by_changes, why_not_over
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.replaced_view import ReplacedView
from tidemill.engine.catalog.view import View
from tidemill.engine.definitions.pinned_view import PinnedView
from tidemill.engine.epochs.state import EngineState
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BOOLEAN, Field
from tidemill.program.changed_filters import ALIAS, ChangedFilter, changed_filter, is_true
from tidemill.program.equal_state import has_equal_columns, has_equal_state
from tidemill.program.maps import Map
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["PreparedFilter", "PreparedRows", "filter_step", "prepare", "rows_passing_one", "signed_rows"]

PASSES = "_passes"
"""Column that says if a row passes the new filter."""

NATIVE = "native"


class _Preparation:
    """What is prepared for a replaced view; ``run`` computes it without the lock."""

    def __init__(self, state: EngineState, replaced: ReplacedView) -> None:
        self.replaced = replaced
        self._state = state
        self._entries = _entries(state.catalog, replaced.new)

    @property
    def holds(self) -> bool:
        """True if nobody has changed what the view reads, itself or its readers meanwhile; the caller has the lock."""
        now = _entries(self._state.catalog, self.replaced.new)
        return len(now) == len(self._entries) and all(a is b for a, b in zip(now, self._entries, strict=True))


class PreparedFilter(_Preparation):
    """The rows that pass the old or the new filter of a relation alone."""

    def __init__(self, state: EngineState, replaced: ReplacedView, found: ChangedFilter) -> None:
        super().__init__(state, replaced)
        self.found = found
        self._snapshot = state.store.pin()
        self._fields = state.catalog.entry(found.relation).fields
        self._rows = ChangeSet.of((), self._fields)

    def run(self) -> None:
        """Find the rows as of the pinned epoch; raises ``NotAnswered`` if only a runtime can."""
        relation, snapshot = self.found.relation, self._snapshot
        query, placement = rows_passing_one(self.found, self._fields), self._state.placement
        if placement.answers_in_columns(self._state.store.rows(relation)):
            found = placement.answer_in_columns(query, lambda name, fields: snapshot.read(name, fields))
        else:
            rows = snapshot.read(relation, self._fields)
            found = ChangeSet.of(_evaluated(query, relation, rows, self._fields).items(), query.fields)
        self._rows = signed_rows(found, self._fields)
        fault("replacement-prepared")

    def change(self) -> ChangeSet:
        """The rows as of the present epoch, as a change of the relation: those that pass the old filter alone go."""
        store, relation = self._state.store, self.found.relation
        later = store.read(relation, self._fields, since=self._snapshot.epoch)
        if not later.num_rows:
            return self._rows
        query = rows_passing_one(self.found, self._fields)
        found = ChangeSet.of(_evaluated(query, relation, later, self._fields).items(), query.fields)
        more = signed_rows(found, self._fields).arrow()
        both = pa.concat_tables([self._rows.arrow(), more])
        net = difference(both.slice(0, 0), both, Map(relation, self._fields)) if more.num_rows else both
        return ChangeSet.of_arrow(net, self._fields)

    def close(self) -> None:
        """Release the snapshot."""
        self._snapshot.close()


class PreparedRows(_Preparation):
    """A view that is computed beside the present one, and by how much their rows differ."""

    def __init__(self, state: EngineState, replaced: ReplacedView) -> None:
        super().__init__(state, replaced)
        old, new = replaced.old, replaced.new
        self.beside = PinnedView(new, state)
        self.seen = new.fields if replaced.keeps_columns else tuple(replaced.seen_columns())
        names = [f.name for f in self.seen]
        self.tells = replaced.keeps_columns or bool(
            replaced.untouched and not has_equal_columns(old.full_program, new.full_program, names)
        )
        self._first = self.beside.shown
        self._differing = ChangeSet.of((), self.seen).arrow()

    @property
    def maps(self) -> list[str]:
        """The maps that an epoch takes in as they are: all but those that the old view has too, and rows of which only
        the difference is stored."""
        replaced, name = self.replaced, self.replaced.new.name
        shared = has_equal_state(replaced.old.full_program, replaced.new.full_program)
        state = [] if shared else [one for one in self.beside.maps if one != name]
        return state if replaced.keeps_columns else [*state, name]

    def run(self) -> None:
        """Compute the view as of the pinned epoch, and follow what others write until it is near the present."""
        self.beside.fill()
        if self.tells:
            old = self.beside.snapshot_of(self.replaced.old.name, self.seen)
            new = self.beside.rows().arrow().select([*(f.name for f in self.seen), WEIGHT])
            self._differing = difference(old, new, Map(self.replaced.old.name, self.seen))
        self.beside.write(self.maps)
        fault("replacement-prepared")
        self.beside.approach()

    def difference(self) -> pa.Table:
        """The change from the present rows to those of the new view, in the columns that both have."""
        names = [*(f.name for f in self.seen), WEIGHT]
        old = self._state.store.read(self.replaced.old.name, self.seen, since=self._first).select(names)
        later = difference(old, self.beside.later_rows().select(names), Map(self.replaced.old.name, self.seen))
        if not later.num_rows:
            return self._differing
        both = pa.concat_tables([self._differing, later.cast(self._differing.schema)])
        return difference(both.slice(0, 0), both, Map(self.replaced.old.name, self.seen))

    def close(self) -> None:
        """Release the snapshot, and what was written."""
        self.beside.close()


def prepare(state: EngineState, replaced: ReplacedView) -> PreparedFilter | PreparedRows | None:
    """What is to be computed for a replaced view; None if there is nothing, or if it is done under the lock.

    That is so for views that are refreshed later, computed as a whole, or run on Spark, and under a memory budget.
    """
    old, new, catalog = replaced.old, replaced.new, state.catalog
    if any(view.refresh.deferred for view in (old, new)) or state.budget.limit is not None:
        return None
    work = sum(map(state.store.rows, new.inputs))
    if old.full_program == new.full_program or state.placement.choose(work, new.runtime_needs)[0] != NATIVE:
        return None
    found = filter_step(catalog, replaced)
    if found is not None:
        return None if why_not_over(catalog, found.relation) else PreparedFilter(state, replaced, found)
    return None if why_not_by_changes(catalog, new) else PreparedRows(state, replaced)


def filter_step(catalog: Catalog, replaced: ReplacedView) -> ChangedFilter | None:
    """The filter in which a new view differs from the old one; None if more differs.

    Triggers for a relation that only grows are made for that: they keep one end of a MAX, and know that no row refers
    to one that has just come. The rows between two filters may leave, and have been there for long.
    """
    old, new = replaced.old, replaced.new
    if not replaced.keeps_columns or replaced.for_growth or any(map(is_registered, new.functions)):
        return None
    found = changed_filter(old.full_program, new.full_program)
    return None if found is None or found.relation not in catalog or catalog.only_grows(found.relation) else found


def rows_passing_one(found: ChangedFilter, fields: Sequence[Field]) -> Relation:
    """The rows of a relation that pass one of two filters alone, with a column ``PASSES``, true for the new one."""
    scan = Scan(found.relation, ALIAS, tuple(fields))
    old, new = is_true(found.before), is_true(found.after)
    one = Case(((old, is_true(found.after, negated=True)),), new, BOOLEAN)
    outputs = [Named(f.name, column(inner)) for f, inner in zip(fields, scan.fields, strict=True)]
    return Project(Filter(scan, one), (*outputs, Named(PASSES, new)))


def signed_rows(found: ChangeSet, fields: Sequence[Field]) -> ChangeSet:
    """Rows that pass one of two filters, as a change: those that pass the old one alone go."""
    rows = found.arrow()
    weights = rows.column(WEIGHT)
    signed = pc.if_else(rows.column(PASSES), weights, pc.negate(weights))
    place = rows.schema.get_field_index(WEIGHT)
    return ChangeSet.of_arrow(rows.set_column(place, WEIGHT, signed).drop_columns([PASSES]), fields)


def _evaluated(query: Relation, relation: str, rows: pa.Table, fields: Sequence[Field]) -> ZSet:
    """The rows of a query over some weighted rows of a relation."""
    weighted = rows.select([*(f.name for f in fields), WEIGHT])
    return evaluate(query, {relation: ChangeSet.of_arrow(weighted, fields).zset()})


def _entries(catalog: Catalog, new: View) -> list[object]:
    """What the replacement of a view depends on: it, what it reads, and the views that read it."""
    names = (new.name, *new.inputs)
    return [*(catalog.entry(name) if name in catalog else None for name in names), *catalog.readers(new.name)]
