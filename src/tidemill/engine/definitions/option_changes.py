"""Other options of a view: its rows stay as they are, and so do its maps where its program is the same.

A view is compiled again only where an option says how. Then its maps are filled beside the old ones and swapped in by
one commit; else the commit is one of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tidemill.changes.changeset import Epoch
from tidemill.compiler.plan import ALTERED
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.new_views.replaced_view import require_same_partitions
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.publication import OWNER, PUBLICATION_OPTIONS, Publication, with_publication
from tidemill.engine.catalog.views.view import View
from tidemill.engine.catalog.views.view_options import PLAN_OPTIONS, error_policy, require_alterable_options
from tidemill.engine.definitions.planning import planned_view
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.partitions.bounded_state import require_bounded_state
from tidemill.engine.partitions.change_bounds import require_bounded
from tidemill.engine.quarantine.marks import mark_of_errors
from tidemill.engine.refresh.fill import errors_that_end
from tidemill.model.errors import Unsupported
from tidemill.program.text import layout_text

__all__ = ["OptionChange", "OptionChanges"]


@dataclass(frozen=True)
class OptionChange:
    """A view before and after it got other options; ``planned`` if it was planned again, ``refilled`` if its maps are
    others."""

    before: View
    view: View
    planned: bool
    refilled: bool

    @property
    def is_none(self) -> bool:
        """True if the view has the options that it had, and was not planned again."""
        return not self.planned and self.before.options == self.view.options

    @property
    def published(self) -> bool:
        """True if it is published in another way, or was."""
        former, present = (Publication.of(view.options) for view in (self.before, self.view))
        return former != present


class OptionChanges:
    """Gives views of a warehouse other options."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        definitions: RelationDefinitions,
        refresh: Callable[..., int],
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._definitions = definitions
        self._refresh = refresh

    def alter(self, name: str, given: Mapping[str, str], reset: Collection[str] = ()) -> OptionChange:
        """Give a view the options ``given``; those of ``reset`` have their defaults again."""
        with self._definitions.alone(name), self._settled():
            self._state.require_writable()
            before = self._state.catalog.view(name)
            require_alterable_options(before.name, (*given, *reset))
            wanted = self._options(before, given, reset)
            planned = not {*PLAN_OPTIONS}.isdisjoint((*given, *reset))
            if wanted == before.options and not planned:
                return OptionChange(before, before, planned, refilled=False)
            self._require_possible(before, wanted)
            if before.refresh.deferred and not replace(before, options=wanted).refresh.deferred:
                self._refresh(name)
            old = self._state.catalog.view(name)
            new = self._as_of_now(old, self._compiled(old, wanted, plans=planned))
            by_program = planned or "null" in (error_policy(one.options, one.name) for one in (old, new))
            refilled = by_program and layout_text(new.full_program) != layout_text(old.full_program)
            if refilled:
                self._definitions.replan_view(new)
            else:
                self._commit(old, new)
            return OptionChange(before, self._state.catalog.view(name), planned, refilled)

    def _options(self, view: View, given: Mapping[str, str], reset: Collection[str]) -> dict[str, str]:
        """All options that a view is to have. It goes on with its published table if that is where it was."""
        gone = {*reset, OWNER, *(PUBLICATION_OPTIONS if "publish" in reset else ())}
        if given.get("on_error") == "quarantine":
            gone.add("build")  # which is done: the view reads changes as any other does
        kept = {option: text for option, text in view.options.items() if option not in gone}
        wanted = with_publication(view.name, {**kept, **given}, self._state.catalog.views, self._state.catalog.lakes)
        former, present = Publication.of(view.options), Publication.of(wanted)
        if former is not None and present is not None and (former.place, former.mode) == (present.place, present.mode):
            wanted[OWNER] = view.options[OWNER]
        return wanted

    def _require_possible(self, before: View, options: Mapping[str, str]) -> None:
        """Refuse options that mean nothing for a view, and those under which its rows would not be what they are."""
        after = self._compiled(before, options, plans=False)
        require_same_partitions(self._state.catalog, before, after)
        if before.quarantines and not after.quarantines and self._has_held_rows(before):
            raise Unsupported(
                f'view "{before.name}" is in quarantine',
                detail="Rows that it cannot compute are held back, and only on_error = 'quarantine' does so.",
                hint=f"Correct or delete these rows first: SELECT * FROM {before.name}{ERRORS}.",
            )
        if before.forgets and not after.forgets:
            raise Unsupported(
                f'option "retain" of view "{before.name}" cannot be reset',
                detail="Partitions that it has forgotten do not come back.",
                hint="Give it a longer time, or use CREATE OR REPLACE.",
            )
        readers = [view.name for view in self._state.catalog.readers(before.name)]
        if after.forgets and not before.forgets and readers:
            raise Unsupported(
                f'view "{before.name}" cannot forget its partitions',
                detail=f"It is read by {', '.join(readers)}, which look its rows up.",
                hint="Drop those first, and create them again.",
            )
        require_bounded(self._state.catalog, after)
        require_bounded_state(self._state.catalog, after)

    def _has_held_rows(self, view: View) -> bool:
        return view.stopped or mark_of_errors(self._state.store.positions, view.name) is not None

    def _compiled(self, old: View, options: Mapping[str, str], *, plans: bool) -> View:
        """The view with other options, by the plan that it has unless it ``plans`` anew."""
        if plans:
            new = planned_view(self._state, old.name, old.query, options, cause=ALTERED, columns=old.columns)
        else:
            catalog, query = self._state.catalog, old.compiled_query
            new = define_view(catalog, old.name, query, options, old.created, plan=old.plan, columns=old.columns)
            new = replace(new, query=old.query, equal_query=old.equal_query)
        return replace(new, created=old.created, fresh=old.fresh, former=old.former, stopped=old.stopped)

    def _as_of_now(self, old: View, new: View) -> View:
        """A view, which shows the present epoch if from now on it may show an older one."""
        becomes_late = new.refresh.deferred and not old.refresh.deferred
        return replace(new, fresh=self._state.store.epoch) if becomes_late else new

    def _commit(self, old: View, new: View) -> None:
        """Commit a view whose state is the same. One that is maintained in another way shares no stages."""
        is_same = new.full_program == old.full_program
        if not is_same or _way(new) != _way(old):
            self._definitions.unshare(old)
        old = self._state.catalog.view(old.name)
        view = replace(old, options=new.options, partitioning=new.partitioning, plan=new.plan, fresh=new.fresh)
        view = view if is_same else new
        gone = errors_that_end(old, view)
        with self._epochs.changing_catalog() as catalog:
            catalog.update_view(view)
            epoch = Epoch(self._state.store.epoch, catalog=catalog_to_json(catalog), dropped=gone)
            seen = (view.name,) if view.fresh == epoch.number else ()
            self._epochs.commit(epoch, refreshed=seen, then=lambda: self._place(view, gone))()

    def _place(self, view: View, gone: Collection[str]) -> None:
        for name in gone:
            self._state.placement.forget_relation(name)
        self._state.place(view)


def _way(view: View) -> tuple[object, ...]:
    """Properties that views must have in common to share stages."""
    return view.refresh.deferred, view.refresh.scheduled, view.quarantines, view.runtime_needs.option, view.forgets
