"""Views with another query: the new one is built beside the old one, and takes its place in one epoch.

The rows of both are compared, and what differs is an ordinary change: views that read this one get it, and so do
subscribers and published tables. Their state stays as it is, however many there are. Before the epoch a reader sees
the old rows, with the columns of then, and after it the new ones; a process that dies on the way leaves the old view.

What takes long is done before that, as of a pinned epoch and without the lock (``preparation``). What cannot be
prepared is computed while writers wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.node import Relation
from tidemill.changes.alterations import Alteration
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.compiler.frontends.sql.registered_functions import read_type
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.new_views.replaced_view import ReplacedView, require_acyclic, require_same_partitions
from tidemill.engine.catalog.new_views.staged_view import maps_after_promotion, staged_for
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.shared_stages import shared_stage_users
from tidemill.engine.catalog.views.view import FormerColumns, View
from tidemill.engine.definitions.replacing.preparation import filter_step, prepare
from tidemill.engine.definitions.replacing.prepared import Preparation
from tidemill.engine.definitions.replacing.prepared_columns import PreparedColumns
from tidemill.engine.definitions.replacing.prepared_views import PreparedView, padded
from tidemill.engine.definitions.replacing.rows_between_filters import rows_passing_one, signed_rows
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.recomputation import NotRecomputed, Recomputation, views_to_recompute
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.partitions.bounded_state import require_bounded_state
from tidemill.engine.partitions.change_bounds import forgetful_views, require_bounded
from tidemill.engine.refresh.fill import NO_CHANGES, ViewFiller
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import EpochGone, SqlError, Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.changed_filters import ChangedFilter
from tidemill.program.equal_state import equal_maps, has_equal_columns
from tidemill.program.maps import Map
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.runtime import NotAnswered
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["ViewReplacement", "why_anew"]


TRIES = 3
"""Number of times that a view is prepared while others change what it is made of."""


@dataclass(frozen=True)
class _Swap:
    """Contents of an epoch that puts a view in the place of another: ``changes`` of maps, and how former rows end, or
    how they are ``altered``. A view that comes from a stage brings maps, which are ``renamed``."""

    changes: Mapping[str, ChangeSet]
    dropped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    altered: tuple[Alteration, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


class ViewReplacement:
    """Replaces the queries of views of a warehouse."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        filler: ViewFiller,
        publisher: Publisher,
        definitions: RelationDefinitions,
        answer: Callable[[Relation], ChangeSet],
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._filler = filler
        self._publisher = publisher
        self._definitions = definitions
        self._answer = answer

    def replace(self, name: str, define: Callable[[], View], *, cascade: bool = False) -> list[str]:
        """Replace a view by the one that ``define`` compiles; returns the views that were dropped, which needed columns
        of the old one.

        A view whose rows cannot be computed from what is stored, or that has none, begins anew, if no view reads it.
        Others write while the new view is computed; if they change what it is made of, it is computed again. In a joint
        commit they wait.
        """
        for number in range(0 if self._epochs.is_joint else TRIES):
            prepared = self._prepared(name, define, cascade, plainly=number > 0)
            if prepared is None:
                break
            with closing(prepared), suppress(EpochGone, NotAnswered):
                new = prepared.replaced.new
                gone = self._swap_in(new, cascade, prepared) if self._ran(prepared) else None
                if gone is not None:
                    return gone
        with self._definitions.alone(name), self._settled():  # writers wait until it is computed
            gone = self._swap_in(define(), cascade, None)
        assert gone is not None
        return gone

    def _prepared(self, name: str, define: Callable[[], View], cascade: bool, *, plainly: bool) -> Preparation | None:
        """Work that can be done before the view is swapped in; refuses what cannot be replaced."""
        with self._definitions.alone(name), self._settled():
            new = define()
            if self._begins_anew(new):
                return None
            replaced = self._compared(new)
            self._gone(replaced, cascade)
            return prepare(self._state, replaced, self._settled, plainly=plainly)

    def _ran(self, prepared: Preparation) -> bool:
        """Compute what can be computed before; False if that fails because others have changed what is read."""
        try:
            prepared.run()
        except Exception:
            with self._settled():
                if prepared.holds:
                    raise
            return False
        return True

    def _swap_in(self, new: View, cascade: bool, prepared: Preparation | None) -> list[str] | None:
        """Put a view in its place; None if it was prepared for what has changed meanwhile."""
        with self._definitions.alone(new.name), self._settled(), ExitStack() as ending:
            if prepared is not None and not prepared.holds:
                return None
            if reason := self._begins_anew(new):
                self._require_unread(new.name, reason)
                self._definitions.replace_view(new)
                self._state.catalog.note_changed([new.name], caught_up=new.name)
                return []
            replaced = self._compared(new) if prepared is None else prepared.replaced
            gone = self._gone(replaced, cascade)
            staying = tuple(view for view in replaced.untouched if view.name not in gone)
            replaced = with_fields(replaced, untouched=staying)
            for name in (*gone, *(() if replaced.keeps_columns else (new.name,))):
                ending.enter_context(self._publisher.ending(name))
            dropped = [self._state.catalog.view(name) for name in gone]
            self._swap(replaced, gone, prepared)
        self._epochs.after(partial(self._definitions.stop_following, dropped))
        return gone

    def _compared(self, new: View) -> ReplacedView:
        """The view beside the one that it replaces, which gets stages of its own."""
        self._definitions.unshare(self._state.catalog.view(new.name))
        replaced = ReplacedView.of(self._state.catalog, new)
        self._require_refreshed(replaced)
        return replaced

    def rebuild(self, view: View, left: Mapping[str, ChangeSet]) -> None:
        """Compute a deferred view anew, whose inputs no longer have the changes since its last refresh.

        Readers get the difference; ``left`` is stored with it.
        """
        with self._definitions.alone(view.name), self._settled():
            self._definitions.unshare(self._state.catalog.view(view.name))
            self._swap(ReplacedView.of(self._state.catalog, view), (), None, left)

    def _begins_anew(self, new: View) -> str:
        """The reason why a view cannot be compared with the one that it replaces; empty if it can."""
        self._state.require_writable()
        old = self._state.catalog.view(new.name)
        self._state.catalog.require_not_read_by_builds(old.name, "replaced")
        require_same_partitions(self._state.catalog, old, new)
        if reason := why_anew(self._state.catalog, old, new):
            return reason
        require_acyclic(self._state.catalog, new)
        return ""

    def _require_unread(self, name: str, reason: str) -> None:
        readers = [view.name for view in self._state.catalog.readers(name)]
        if readers:
            raise Unsupported(
                f'"{name}" cannot be replaced',
                detail=f"It is read by {', '.join(readers)}, which would have to be rebuilt. {reason}",
                hint="Drop those first.",
            )

    def _require_refreshed(self, replaced: ReplacedView) -> None:
        """Refuse other columns for a view that one reads later, which itself is read: that one would be rebuilt."""
        late = [view for view in replaced.untouched if view.refresh.deferred and self._state.catalog.readers(view.name)]
        if late and not replaced.keeps_columns:
            raise Unsupported(
                f'"{replaced.new.name}" cannot have other columns',
                detail=f'"{late[0].name}" is refreshed later, and is itself read by views.',
                hint=f"Keep the columns, or drop the views over {late[0].name} first.",
            )

    def _gone(self, replaced: ReplacedView, cascade: bool) -> list[str]:
        """The views that go because they need columns of the old one, and all that read these."""
        if not cascade:
            replaced.require_readers()
        return self._state.catalog.with_readers(replaced.broken)

    def _swap(
        self,
        replaced: ReplacedView,
        gone: Sequence[str],
        prepared: Preparation | None,
        also: Mapping[str, ChangeSet] = NO_CHANGES,
    ) -> None:
        """Commit the new view, the difference to its readers, and the end of the views that are ``gone``."""
        number, staged = self._epochs.next_number, staged_for(self._state.catalog, replaced.new)
        plainly = prepared is None and staged is None and not also
        step = self._step_by_filter(replaced) if plainly else None
        with self._epochs.changing_catalog() as catalog:
            left, dropped = self._definitions.remove_all(catalog, gone)
            self._definitions.release_all(gone, dropped)
            require_bounded(catalog, replaced.new)
            require_bounded_state(catalog, replaced.new)
            new = self._with_history(replaced, number) if staged else self._shared(replaced, number)
            if staged is None:
                swap = self._made(replaced, number, step, prepared)
            else:
                swap = self._from_stage(replaced, number, staged)
                catalog.drop(staged.name)
            for reader in replaced.untouched:
                catalog.update_view(reader)
            catalog.update_view(new)
            changed = [name for name, change in swap.changes.items() if change.rows]
            catalog.note_changed([*changed, *swap.replaced], caught_up=new.name)
            owners = (view.name for view in catalog.views.values() if new in shared_stage_users(view, (new,)))
            moved = catalog.put_after(new.name, {*new.inputs, *owners} - {new.name})
            ended = {*replaced.old.map_names, *replaced.new.map_names} - {*new.map_names}
            epoch = Epoch(
                number,
                {**also, **left, **{name: change for name, change in swap.changes.items() if name not in ended}},
                catalog=catalog_to_json(catalog),
                dropped=(*dropped, *{*swap.dropped, *(ended & {*replaced.old.map_names})}),
                replaced=swap.replaced,
                altered={new.name: swap.altered} if swap.altered else {},
                renamed=swap.renamed,
            )
            fault("before-swap")
            self._epochs.commit(
                epoch, refreshed=(new.name,), then=lambda: self._follow(catalog, replaced, new, epoch.dropped, moved)
            )()
            fault("after-swap")

    def _made(
        self,
        replaced: ReplacedView,
        number: int,
        step: tuple[ChangedFilter, ChangeSet] | None,
        prepared: Preparation | None,
    ) -> _Swap:
        """The new rows and maps, in the cheapest way that there is."""
        if step is not None:
            return self._by_filter(replaced, number, *step)
        if isinstance(prepared, PreparedColumns):
            return _Swap({}, altered=prepared.alterations)
        if isinstance(prepared, PreparedView):
            return self._as_prepared(replaced, number, prepared)
        if replaced.old.full_program == replaced.new.full_program and not self._is_stale(replaced.old):
            return _Swap({})
        return self._beside(replaced, number)

    def _from_stage(self, replaced: ReplacedView, number: int, staged: View) -> _Swap:
        """The view as a stage has it: its state is taken as it is, and its rows are compared with those of before."""
        old, new = replaced.old, replaced.new
        rows = self._filler.stored_rows(staged)
        state = {name: after for name, after in maps_after_promotion(staged, new).items() if name != staged.name}
        # What has these names now goes first.
        self._epochs.commit(Epoch(number, dropped=_state_of(old)), ends=False)()
        if replaced.keeps_columns:
            told = self._as_readers_know(replaced, self._difference(old, rows, new.fields), lambda: rows)
            stored, again = self._told(replaced, told, number)
            return _Swap({**stored, new.name: told}, (staged.name,), again, renamed=state)
        stored, again = self._told(replaced, self._told_in_old_columns(replaced, rows), number)
        return _Swap({**stored, new.name: rows}, (staged.name,), (new.name, *again), renamed=state)

    # -- by a filter --------------------------------------------------------------------------------------------

    def _step_by_filter(self, replaced: ReplacedView) -> tuple[ChangedFilter, ChangeSet] | None:
        """The filter in which the new view differs, and the rows that pass only the old or the new one; None if more
        differs. They are asked for before anything changes."""
        found = None if self._is_stale(replaced.old) else filter_step(self._state.catalog, replaced)
        if found is None:
            return None
        fields = self._state.catalog.entry(found.relation).fields
        return found, signed_rows(self._answer(rows_passing_one(found, fields)).arrow(), fields)

    def _by_filter(self, replaced: ReplacedView, number: int, found: ChangedFilter, change: ChangeSet) -> _Swap:
        """The step to a view that differs in a filter, at the cost of the rows that pass one of the two filters."""
        self._state.catalog.waiting -= {replaced.old.name}
        self._state.catalog.update_view(with_fields(replaced.old, program=found.bridge))
        stored, again = self._epochs.within_budget(
            lambda: self._run(found.relation, change, number, only=frozenset({replaced.new.name}))
        )
        return _Swap(stored, replaced=again)

    # -- built beside -------------------------------------------------------------------------------------------

    def _as_prepared(self, replaced: ReplacedView, number: int, prepared: PreparedView) -> _Swap:
        """The view that was computed beside the old one, and its readers, brought up to the present epoch."""
        beside = prepared.beside
        beside.follow()
        if prepared.is_told:
            stored, again = beside.changes(beside.told), tuple(beside.contents.anew & beside.told.keys())
            self._state.miss_epoch(beside.readers)
        else:
            told = self._as_readers_know(replaced, prepared.difference(), prepared.rows)
            stored, again = self._told(replaced, told, number)
        changes = {**stored, **beside.changes(prepared.maps)}
        return _Swap(changes, prepared.ended, again if replaced.keeps_columns else (replaced.new.name, *again))

    def _beside(self, replaced: ReplacedView, number: int) -> _Swap:
        """The new view, computed beside the old one, and the difference of their rows, propagated to readers."""
        old, new = replaced.old, replaced.new
        changes = self._filler.load_beside(new, number)
        rows = changes.pop(new.name, None) or ChangeSet.of((), new.fields)
        kept = frozenset[str]() if self._is_stale(old) else equal_maps(old.full_program, new.full_program)
        changes = {name: change for name, change in changes.items() if name not in kept}
        maps = tuple(name for name in _state_of(old) if name not in kept)
        if replaced.keeps_columns:
            told = self._as_readers_know(replaced, self._difference(old, rows, new.fields), lambda: rows)
            stored, again = self._told(replaced, told, number)
            return _Swap({**changes, **stored, new.name: told}, maps, again)
        stored, again = self._told(replaced, self._told_in_old_columns(replaced, rows), number)
        return _Swap({**changes, **stored, new.name: rows}, maps, (new.name, *again))

    def _is_stale(self, view: View) -> bool:
        """True if the rows and the state of a view are those of before changes of its inputs."""
        late = view.refresh.deferred and view.fresh < self._state.store.epoch
        return late or view.name in self._state.catalog.behind

    def _told_in_old_columns(self, replaced: ReplacedView, rows: ChangeSet) -> ChangeSet:
        """The difference to ``rows``, which have other columns, as readers know it: in the columns of the old view."""
        old, seen = replaced.old, replaced.seen_columns()
        names = [f.name for f in seen]
        equal = has_equal_columns(old.full_program, replaced.new.full_program, names) and not self._is_stale(old)
        if not replaced.untouched or equal:
            return ChangeSet.of((), old.fields)
        return self._as_readers_know(replaced, self._difference(old, rows, seen), lambda: rows)

    def _as_readers_know(self, replaced: ReplacedView, differing: pa.Table, rows: Callable[[], ChangeSet]) -> ChangeSet:
        """A change of the columns that the old and the new view have, as one of the old view.

        Columns that are gone are read by nobody and NULL. A reader that looks rows up finds those of before whole, so
        all of them have to go, and all new ``rows`` come.
        """
        old = replaced.old
        if replaced.keeps_columns:
            return ChangeSet.of_arrow(differing, old.fields)
        looked_up = any(old.name in self._state.pipeline[view.name].looked_up for view in replaced.untouched)
        if differing.num_rows and looked_up:
            names = [f.name for f in replaced.seen_columns()]
            new = padded(rows().arrow().select([*names, WEIGHT]), old.fields)
            gone = self._state.store.read(old.name, old.fields).select(new.schema.names)
            return ChangeSet.of_arrow(difference(gone, new, Map(old.name, old.fields)), old.fields)
        return ChangeSet.of_arrow(padded(differing, old.fields), old.fields)

    def _difference(self, old: View, rows: ChangeSet, seen: Sequence[Field]) -> pa.Table:
        """The change from the stored rows of a view to others, in the columns ``seen``."""
        before = self._state.store.read(old.name, seen)
        new = rows.arrow().select([*(f.name for f in seen), WEIGHT])
        return difference(before, new, Map(old.name, tuple(seen)))

    def _shared(self, replaced: ReplacedView, number: int) -> View:
        """The new view as the catalog has it: with a history, and without stages that earlier views have."""
        new, catalog = self._with_history(replaced, number), self._state.catalog
        below = set(catalog.with_readers([new.name]))
        return self._definitions.sharing(new, {n: view for n, view in catalog.views.items() if n not in below})

    def _with_history(self, replaced: ReplacedView, number: int) -> View:
        """The new view with the epoch that it exists since, and the columns of before."""
        old, store = replaced.old, self._state.store
        former = tuple(one for one in old.former if one.until >= store.oldest)
        created = old.created
        if not replaced.keeps_columns:
            former = (*former, FormerColumns(number - 1, old.fields))
            if not all(map(_is_spelled, old.fields)):  # no catalog could say what columns it had
                former, created = (), number
        return with_fields(replaced.new, created=created, fresh=number, former=former)

    def _told(
        self, replaced: ReplacedView, change: ChangeSet, number: int
    ) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
        """The changes that are stored for readers of the replaced view, and the maps that are computed again."""
        name = replaced.new.name
        if not change.rows or not replaced.untouched:
            return {}, ()
        if replaced.for_growth and pc.min(change.arrow().column(WEIGHT)).as_py() < 0:
            replaced.require_no_deletes()
        run = partial(self._run, name, change, number)
        try:
            return self._epochs.within_budget(partial(run, recomputes=replaced.keeps_columns))
        except NotRecomputed:
            return self._epochs.within_budget(run)

    def _run(
        self,
        name: str,
        change: ChangeSet,
        number: int,
        *,
        recomputes: bool = False,
        only: frozenset[str] | None = None,
    ) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
        """Propagate a change of a view to its readers, or of a relation to the views ``only`` and their readers.

        The rows of that relation are what they were: its change is undone before it is made.
        """
        state = self._state
        with garbage_collection_paused(), self._epochs.running(number, change.rows) as runtimes:
            again = views_to_recompute(state, {name: change}) if recomputes else {}
            recomputing = Recomputation(state, again) if again else None
            for runtime in runtimes if only else ():
                runtime.absorb(name, change.negated())
            walk = state.pipeline.walk({name: change}, runtimes, only=only, recomputing=recomputing)
            return self._epochs.collect(walk, runtimes), tuple(walk.replaced)

    def _follow(self, catalog: Catalog, replaced: ReplacedView, new: View, dropped: Sequence[str], moved: bool) -> None:
        """Place the new view; what runtimes hold of the old one is released."""
        state = self._state
        for name in (new.name, *dropped):
            state.placement.forget_relation(name)
        state.place(new)
        for reader in replaced.untouched:
            state.place(reader)
        if moved or state.joint:  # a view that has waited was placed last
            state.pipeline.arrange(catalog.views)
        state.count_rows()


def why_anew(catalog: Catalog, old: View, new: View) -> str:
    """The reason why the rows of a view cannot be compared with those of one that replaces it; empty if they can."""
    for view in (old, new):
        if view.is_made_by_partitions:
            return "It is made by partitions."
        if view.quarantines:
            return "It has on_error = 'quarantine', and rows that are held back belong to one query."
        if reason := catalog.unfillable(view):
            return reason
    forgetful = set(forgetful_views(catalog)).intersection(catalog.with_readers([old.name])) - {old.name}
    return f"{', '.join(sorted(forgetful))} has forgotten what cannot change any more." if forgetful else ""


def _state_of(view: View) -> tuple[str, ...]:
    """The maps of a view beside its rows."""
    return tuple(name for name in view.map_names if name != view.name)


def _is_spelled(field: Field) -> bool:
    """True if the type of a column can be read from its text."""
    try:
        return read_type(str(field.type)) == field.type
    except SqlError:
        return False
