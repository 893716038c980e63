"""A view that is computed beside the present one: with the rows between two filters, or filled anew."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.choose_recomputation import LEAST_CHANGED
from tidemill.engine.catalog.new_views.replaced_view import ReplacedView
from tidemill.engine.definitions.replacing.pinned_view import PinnedView
from tidemill.engine.definitions.replacing.prepared import Preparation
from tidemill.engine.definitions.replacing.rows_between_filters import rows_between
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.recomputation import views_to_recompute
from tidemill.engine.epochs.state import EngineState
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.changed_filters import ChangedFilter
from tidemill.program.equal_state import equal_maps, has_equal_columns
from tidemill.program.maps import Map
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["PreparedFilter", "PreparedRows", "PreparedView", "padded"]

FEW_CHANGED = 100
"""Rows for each changed one from which triggers are faster than to compute readers again, unless they have windows."""


class PreparedView(Preparation):
    """A view that is computed ``beside`` the present one, with its readers if they are told beforehand."""

    beside: PinnedView

    def __init__(
        self, state: EngineState, replaced: ReplacedView, settled: Settled, readers: Sequence[PlacedProgram] | None
    ) -> None:
        super().__init__(state, replaced)
        self.is_told = readers is not None
        self._settled = settled

    @property
    def maps(self) -> list[str]:
        """The maps of the view that an epoch changes."""
        return list(self.beside.maps)

    @property
    def ended(self) -> tuple[str, ...]:
        """The maps of the old view that end with it."""
        return ()

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


class PreparedFilter(PreparedView):
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


class PreparedRows(PreparedView):
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
        self.beside = PinnedView(new, state, (readers if self._tells else None) or ())
        kept = {*equal_maps(old.full_program, new.full_program), *((new.name,) if replaced.keeps_columns else ())}
        self.beside.contents.anew |= self.beside.maps.keys() - kept
        self._differing = ChangeSet.of((), self._seen).arrow()
        self._begun = 0

    @property
    def maps(self) -> list[str]:
        """The maps of the view that an epoch changes: all but those that the old view has too."""
        name, anew = self.replaced.new.name, self.beside.contents.anew
        return [one for one in self.beside.maps if one == name or one in anew]

    @property
    def ended(self) -> tuple[str, ...]:
        """The maps of the old view that end with it: those that the new one has not, or has anew."""
        old, new = self.replaced.old, self.replaced.new
        kept = {new.name, *equal_maps(old.full_program, new.full_program)}
        return tuple(name for name in old.map_names if name not in kept)

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


def padded(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Weighted rows with NULL in the columns that they lack."""
    schema = arrow_schema(tuple(fields))
    columns = [
        rows.column(f.name).cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)
