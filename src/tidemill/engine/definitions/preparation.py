"""What a view with another query is made of, computed before it is swapped in, while others write.

It is as of a pinned epoch: the view and, as far as these run in this process by changes alone, the views that read it
(``pinned_view``). Under the lock only the last few epochs are added, so writers wait for these and for the commit.
Where the query differs in a filter, the view takes in the rows that pass one of the two filters; else it is filled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.algebra.user_functions import is_registered
from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.choose_recomputation import LEAST_CHANGED
from tidemill.engine.builds.sliceable import why_not_by_changes
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.replaced_view import ReplacedView
from tidemill.engine.catalog.view import View
from tidemill.engine.definitions.pinned_view import PinnedView
from tidemill.engine.definitions.rows_between_filters import rows_between
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.recomputation import views_to_recompute
from tidemill.engine.epochs.state import EngineState
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.changed_filters import ChangedFilter, changed_filter
from tidemill.program.equal_state import has_equal_columns, has_equal_state
from tidemill.program.maps import Map
from tidemill.program.reads import reads_state
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["Preparation", "PreparedFilter", "PreparedRows", "filter_step", "padded", "prepare"]

NATIVE = "native"

FEW_CHANGED = 100
"""Rows for each changed one from which triggers are faster than to compute readers again, unless they have windows."""


class Preparation(ABC):
    """What is prepared for a replaced view; ``run`` computes it without the lock.

    ``beside`` has the view with its new query, and the views that read it if they are told beforehand (``is_told``).
    """

    keeps_state = True
    """True if the maps of the view stay, with changes or without."""

    def __init__(
        self, state: EngineState, replaced: ReplacedView, settled: Settled, readers: Sequence[PlacedProgram] | None
    ) -> None:
        self.replaced = replaced
        self.is_told = readers is not None
        self._state = state
        self._settled = settled
        self._entries = _entries(state.catalog, replaced.new)

    beside: PinnedView

    @property
    def holds(self) -> bool:
        """True if nobody has changed what the view reads, itself or its readers meanwhile; the caller has the lock."""
        now = _entries(self._state.catalog, self.replaced.new)
        return len(now) == len(self._entries) and all(a is b for a, b in zip(now, self._entries, strict=True))

    @property
    def maps(self) -> list[str]:
        """The maps of the view that an epoch changes."""
        return list(self.beside.maps)

    def run(self) -> None:
        """Compute the view as of the pinned epoch, and follow what others write until it is near the present."""
        self._begin()
        self.beside.write(self.maps)
        fault("replacement-prepared")
        self.beside.approach()

    @abstractmethod
    def _begin(self) -> None:
        """Compute the view as of the pinned epoch, and tell its readers."""

    def difference(self) -> pa.Table:
        """The change from the present rows to those of the new view, in the columns that both have."""
        name = self.replaced.new.name
        return self.beside.changes([name])[name].arrow()

    def rows(self) -> ChangeSet:
        """The rows of a view that has other columns now."""
        name = self.replaced.new.name
        return ChangeSet.of_arrow(self.beside.contents.added(name), self.replaced.new.fields)

    def _tell(self, change: ChangeSet) -> None:
        """Tell readers a change of the rows of the view, before it is added."""
        if self.beside.readers and change.rows:
            self.beside.tell(change, self._again(change))

    def _again(self, change: ChangeSet) -> Mapping[str, str]:
        """The readers that had better be computed again than told, and why."""
        state, name = self._state, self.replaced.new.name
        few = change.rows < max(LEAST_CHANGED, state.store.rows(name) // FEW_CHANGED)
        if few and not state.pipeline.index.have_windows:
            return {}
        with self._settled():
            return views_to_recompute(state, {name: change}) if self.holds else {}

    def close(self) -> None:
        """Release the snapshots, and what was written."""
        self.beside.close()


class PreparedFilter(Preparation):
    """A view that gets the rows that pass a new filter of a relation alone, and loses those that pass the old one."""

    def __init__(
        self,
        state: EngineState,
        replaced: ReplacedView,
        settled: Settled,
        readers: Sequence[PlacedProgram] | None,
        found: ChangedFilter,
    ) -> None:
        super().__init__(state, replaced, settled, readers)
        self.beside = PinnedView(replaced.new, state, readers or (), relation=found.relation)
        self._found = found
        self._fields = state.catalog.entry(found.relation).fields

    def _begin(self) -> None:
        first, placement = self.beside.contents.first, self._state.placement
        rows = rows_between(self._found, self._fields, first, placement)
        change = self.beside.step(self._found.bridge, self._found.relation, rows)
        self._tell(change)
        self.beside.contents.add(self.replaced.new.name, change)


class PreparedRows(Preparation):
    """A view that is filled anew, and by how much its rows differ from the present ones."""

    def __init__(
        self, state: EngineState, replaced: ReplacedView, settled: Settled, readers: Sequence[PlacedProgram] | None
    ) -> None:
        old, new = replaced.old, replaced.new
        self._seen = new.fields if replaced.keeps_columns else tuple(replaced.seen_columns())
        names = [f.name for f in self._seen]
        self._tells = replaced.keeps_columns or bool(
            replaced.untouched and not has_equal_columns(old.full_program, new.full_program, names)
        )
        super().__init__(state, replaced, settled, readers if self._tells else ())
        self.keeps_state = has_equal_state(old.full_program, new.full_program)
        self.beside = PinnedView(new, state, (readers if self._tells else None) or ())
        self.beside.contents.anew |= {
            name for name in self.beside.maps if not (replaced.keeps_columns if name == new.name else self.keeps_state)
        }
        self._differing = ChangeSet.of((), self._seen).arrow()
        self._begun = 0

    @property
    def maps(self) -> list[str]:
        """The maps of the view that an epoch changes: all but those that the old view has too."""
        name, anew = self.replaced.new.name, self.beside.contents.anew
        return [one for one in self.beside.maps if one == name or one in anew]

    def _begin(self) -> None:
        view, contents, rows = self.replaced.new, self.beside.contents, self.beside.fill()
        names = [*(f.name for f in self._seen), WEIGHT]
        if self._tells:
            old = contents.first.read(view.name, self._seen).select(names)
            self._differing = difference(old, rows.arrow().select(names), Map(view.name, self._seen))
            if not self.replaced.keeps_columns:
                contents.add(view.name, ChangeSet.of_arrow(padded(old, view.fields), view.fields))
            self._tell(ChangeSet.of_arrow(padded(self._differing, view.fields), view.fields))
        if self.replaced.keeps_columns:
            contents.add(view.name, ChangeSet.of_arrow(self._differing, view.fields))
        else:
            self.beside.begin_rows(rows)
        self._begun = contents.parts(view.name)

    def difference(self) -> pa.Table:
        """The change from the present rows to those of the new view, in the columns that both have."""
        if self.replaced.keeps_columns or not self._tells:
            return super().difference() if self._tells else self._differing
        name, contents = self.replaced.new.name, self.beside.contents
        names = [*(f.name for f in self._seen), WEIGHT]
        gone = self._state.store.read(name, self._seen, since=contents.first.epoch).select(names)
        come = contents.added(name, self._begun).select(names)
        both = pa.concat_tables([self._differing, come.cast(self._differing.schema)])
        return difference(gone, both, Map(name, self._seen))


def prepare(state: EngineState, replaced: ReplacedView, settled: Settled) -> Preparation | None:
    """What is to be computed for a replaced view; None if there is nothing, or if it is done under the lock.

    That is so for views that are refreshed later, computed as a whole, or run on Spark, and under a memory budget.
    """
    old, new, catalog = replaced.old, replaced.new, state.catalog
    if any(view.refresh.deferred for view in (old, new)) or state.budget.limit is not None:
        return None
    if old.full_program == new.full_program or why_not_by_changes(catalog, new) or not _runs_here(state, [new]):
        return None
    readers, found = _programs_to_tell(state, replaced), filter_step(catalog, replaced)
    if found is None:
        return PreparedRows(state, replaced, settled, readers)
    return PreparedFilter(state, replaced, settled, readers, found)


def _runs_here(state: EngineState, views: Sequence[View]) -> bool:
    """True if views run in this process, even for changes of as many rows as they read."""
    needs = ((sum(map(state.store.rows, view.inputs)), view.runtime_needs) for view in views)
    return all(state.placement.choose(*one)[0] == NATIVE for one in needs)


def _programs_to_tell(state: EngineState, replaced: ReplacedView) -> list[PlacedProgram] | None:
    """The programs that a change of a replaced view reaches, in order; None if they have to run under the lock."""
    catalog, pipeline, name = state.catalog, state.pipeline, replaced.new.name
    left = {name, *catalog.with_readers(replaced.broken)}
    reached = [placed for placed in pipeline.reached_by([name]) if placed.program.view not in left]
    views = [catalog.view(placed.program.view) for placed in reached]
    own = {stage.name for placed in reached for stage in placed.program.stages}
    kept = {name, *(view.name for view in views)}.union(*(reads_state(placed.program) for placed in reached))
    read = {one for placed in reached for one in placed.inputs} - own
    if (
        replaced.for_growth
        or any(view.computed_on_read or why_not_by_changes(catalog, view) for view in views)
        or not all(one in catalog or pipeline.stored(one) for one in read)
        or not kept.issuperset(stage for stage in own if pipeline.stored(stage))
        or not _runs_here(state, views)
    ):
        return None
    return reached


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


def padded(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Weighted rows with NULL in the columns that they lack."""
    schema = arrow_schema(tuple(fields))
    columns = [
        rows.column(f.name).cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _entries(catalog: Catalog, new: View) -> list[object]:
    """What the replacement of a view depends on: it, the views that read it, and what all of these read."""
    views = [new, *(catalog.view(name) for name in catalog.with_readers([new.name]))]
    names = dict.fromkeys(name for view in views for name in (view.name, *view.inputs))
    return [catalog.entry(name) if name in catalog else None for name in names]
