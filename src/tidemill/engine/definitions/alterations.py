"""Tables altered: other columns, constraints and bounds. Stored rows stay as they are; one commit changes the catalog.

Every view over the table is compiled again, over the columns that it sees (``catalog.seen_columns``). Its state is as
it was if its program is: then the view does not even notice. A view whose program is another one, because a column that
it reads has another type, is rebuilt from its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from tidemill.changes.changeset import Epoch
from tidemill.compiler.frontends.sql.named_definitions import DefinitionScope, NamedDefinitions, NamedQuery, names_in
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.constraints import require_valid_references
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.serialization import catalog_from_json, catalog_to_json
from tidemill.engine.catalog.views.publication import Publication
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.altering import Altering, require_fillable
from tidemill.engine.definitions.existing_rows import ExistingRows
from tidemill.engine.definitions.same_programs import still_outdated, with_renamed_columns
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.partitions.bounds import bound_positions, require_bounds
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import SqlError, Unsupported
from tidemill.model.schema import LATE, Table, late_table
from tidemill.program.text import layout_text

__all__ = ["Alterations", "AlteredCatalog", "altered_catalog"]


NO_POSITIONS: Mapping[str, str] = MappingProxyType({})

ChangeCatalog = Callable[[Catalog], None]


class Alterations:
    """Alters tables of a warehouse."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        publisher: Publisher,
        definitions: RelationDefinitions,
        altering: Altering,
        existing: ExistingRows,
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._publisher = publisher
        self._definitions = definitions
        self._altering = altering
        self._existing = existing

    def require_alterable(self, name: str) -> None:
        """Refuse tables that are not altered by themselves, whatever the change is."""
        self._altering.require_alterable(name)

    def alter(
        self, altered: AlteredTable, *, cascade: bool = False, positions: Mapping[str, str] = NO_POSITIONS
    ) -> tuple[list[str], list[str]]:
        """Alter a table; returns the views that were dropped with a column, and those rebuilt.

        ``positions`` of sources are committed with it.
        """
        with self._settled():
            self._state.require_writable()
            self._altering.require_alterable(altered.table.name)
            return self._alter([altered], cascade=cascade, positions=positions)

    def alter_owned(self, altered: Sequence[AlteredTable], also: ChangeCatalog, removed: Sequence[str] = ()) -> None:
        """Alter the tables of objects in one commit, with what ``also`` changes of the catalog; it drops those
        ``removed``, which nothing reads."""
        with self._settled():
            for one in altered:
                self._altering.require_alterable(one.table.name, owned=True)
            self._alter(altered, also=also, removed=removed)

    def _alter(
        self,
        altered: Sequence[AlteredTable],
        *,
        cascade: bool = False,
        positions: Mapping[str, str] = NO_POSITIONS,
        also: ChangeCatalog | None = None,
        removed: Sequence[str] = (),
    ) -> tuple[list[str], list[str]]:
        """Alter several tables in one commit, with what ``also`` changes of the catalog, which drops those ``removed``;
        the caller has looked at what does not allow it."""
        with self._settled(), ExitStack() as ending:
            before = self._state.catalog
            for one in altered:
                self._require_possible(before, one)
            changed = [one for whole in altered for one in (whole, whole.late) if one is not None]
            gone = _readers_of_dropped(before, changed, also)
            if gone and not cascade:
                raise _still_read(changed, gone, also is None)
            gone = before.with_readers(gone)
            for ended in (*(one.table.name for one in changed), *gone, *removed):
                ending.enter_context(self._publisher.ending(ended))
            with self._epochs.changing_catalog() as catalog:
                left, dropped = self._definitions.remove_all(catalog, gone)
                made = altered_catalog(catalog, altered, also)
                dropped, data = (*dropped, *made.dropped, *removed), made.data
                alterations = {one.table.name: one.alterations for one in changed if one.is_stored_otherwise}
                moved = dict(positions)
                for one in altered:
                    moved |= bound_positions(self._state.store, one.before, one.table)
                number = self._state.store.epoch
                self._altering.commit(Epoch(number, left, moved, catalog=data, dropped=dropped, altered=alterations))
            rebuilt = self._altering.follow()
        self._epochs.after(partial(self._definitions.stop_following, [before.views[view] for view in gone]))
        return gone, rebuilt

    def _require_possible(self, catalog: Catalog, altered: AlteredTable) -> None:
        """Refuse what rows, late changes or readers of a table do not allow."""
        name = altered.table.name
        if altered.constraints:
            require_valid_references(name, altered.table, {**catalog.tables, name: altered.table}, catalog.views)
        self._existing.require_fit(altered)
        if altered.late is not None:
            self._existing.require_fit(altered.late)
        if altered.before.partitioning != altered.table.partitioning:
            require_bounds(catalog, self._state.store, altered.before, altered.table)
        if catalog.table(name) != altered.before:
            raise Unsupported(f'"{name}" was altered meanwhile', hint="Look at its columns, and try again.")


class AlteredCatalog(NamedTuple):
    """A catalog with altered tables: compiled again, as it is stored, the views that must be rebuilt for it, and the
    tables of late changes that are gone."""

    catalog: Catalog
    data: dict[str, Any]
    outdated: list[View]
    dropped: tuple[str, ...]


def altered_catalog(
    catalog: Catalog, altered: Sequence[AlteredTable], also: ChangeCatalog | None = None
) -> AlteredCatalog:
    """A catalog, which is changed here, with altered tables, and with what ``also`` changes of it."""
    before, dropped = catalog.copy(), tuple[str, ...]()
    names = " and ".join(f'"{one.table.name}"' for one in altered)
    for whole in altered:
        for one in (whole, whole.late):
            if one is not None:
                _rewrite_readers(catalog, one)
    for one in altered:
        dropped += _rewrite_table(catalog, one)
    if also is not None:
        also(catalog)
    data = catalog_to_json(catalog)
    after, outdated = catalog_from_json(data, catalog.registry)
    outdated = still_outdated(data, before.views, outdated, with_renamed_columns(altered))
    require_fillable(before, outdated, f"{names} cannot be altered")
    _require_same_publications(before.views, outdated, names)
    return AlteredCatalog(after, data, outdated, dropped)


def _readers_of_dropped(
    before: Catalog, altered: Sequence[AlteredTable], also: ChangeCatalog | None = None
) -> list[str]:
    """The views that are not what they were without the dropped columns: each is compiled without them."""
    trial = before.copy()
    for one in altered:
        trial.replace_entry(one.table.name, one.table)
    if also is not None:
        also(trial)
    for one in altered:
        _require_same_names(before, trial, one)
    gone = []
    for view in before.views.values():
        seen = [one for one in altered if one.dropped and one.table.name in view.inputs]
        if seen and not _is_same(trial, view, seen):
            gone.append(view.name)
    return gone


def _rewrite_readers(catalog: Catalog, altered: AlteredTable) -> None:
    """Rewrite definitions that refer to an altered table, with its new columns."""
    name, renamed = altered.table.name, altered.renamed
    for view in catalog.readers(name):
        catalog.update_view(_seeing(view, [altered]))
    for other in list(catalog.tables.values()):
        if renamed and other.name != name and any(reference.table == name for reference in other.references):
            catalog.replace_entry(other.name, _referring(other, name, renamed))
    catalog.analyzed = {other: columns for other, columns in catalog.analyzed.items() if other != name}


def _rewrite_table(catalog: Catalog, altered: AlteredTable) -> tuple[str, ...]:
    """An altered table with its table of late changes; returns the latter if it is gone."""
    table = _referring(altered.table, altered.table.name, altered.renamed) if altered.renamed else altered.table
    catalog.alter_table(table)
    require_valid_references(table.name, table, catalog.tables, catalog.views)
    is_gone = late_table(altered.before) is not None and late_table(table) is None
    return (table.name + LATE,) if is_gone else ()


def _is_same(trial: Catalog, view: View, altered: Sequence[AlteredTable]) -> bool:
    """True if a view compiles to the program that it has over tables with other columns."""
    columns = _seeing(view, altered).columns
    try:
        new = define_view(
            trial, view.name, view.compiled_query, view.options, view.created, plan=view.plan, columns=columns
        )
    except SqlError:
        return False
    return new.fields == view.fields and layout_text(new.full_program) == layout_text(view.full_program)


def _require_same_names(before: Catalog, after: Catalog, altered: AlteredTable) -> None:
    """Refuse a change of columns that a view that is not materialized, or a function, does not survive.

    These are texts, and read the columns that there are: a column that is added may come into a ``SELECT *``.
    """
    name = altered.table.name
    for query in before.named.queries.values():
        if name not in names_in(query.text).tables:
            continue
        old, new = (_columns_of(catalog, query) for catalog in (before, after))
        if new is None or (old != new and (altered.dropped or altered.renamed)):
            raise _used_by(altered, f'the view "{query.name}"')
    for function in before.named.functions.values():
        if name in names_in(function.body).tables:
            try:
                DefinitionScope(after.relations, _names_of(after)).check(function)
            except SqlError:
                raise _used_by(altered, f'the function "{function.name}"') from None


def _columns_of(catalog: Catalog, query: NamedQuery) -> list[str] | None:
    """The columns of a view that is not materialized; None if its text means nothing."""
    try:
        return list(DefinitionScope(catalog.relations, _names_of(catalog), clock=ClockReads.wall()).rows(query).names)
    except SqlError:
        return None


def _names_of(catalog: Catalog) -> NamedDefinitions:
    return replace(catalog.named, registered=catalog.registry.keys)


def _used_by(altered: AlteredTable, what: str) -> Unsupported:
    return Unsupported(
        f'the columns of "{altered.before.name}" cannot be changed so',
        detail=f"They are used by {what}, which is a text.",
        hint="Drop that first, and create it again with the new columns.",
    )


def _require_same_publications(before: Mapping[str, View], outdated: Sequence[View], names: str) -> None:
    """Refuse other columns of a published view: the table that it is published as has the ones that it had."""
    for view in outdated:
        if Publication.of(view.options) is not None and view.fields != before[view.name].fields:
            raise Unsupported(
                f"{names} cannot be altered",
                detail=f'View "{view.name}" would have other columns, and is published with those that it has.',
                hint="Drop that view first, and publish it again.",
            )


def _seeing(view: View, altered: Sequence[AlteredTable]) -> View:
    """A view over altered tables, whose state is that of its old program. In OQL attributes are named, so none is
    seen that its text does not name."""
    if view.is_oql:
        return view
    columns = dict(view.columns)
    for one in altered:
        seen = one.seen(columns.pop(one.table.name, None))
        columns |= {} if seen is None else {one.table.name: seen}
    return replace(view, columns=columns)


def _referring(table: Table, parent: str, names: Mapping[str, str]) -> Table:
    """A table whose foreign keys name the renamed columns of their parent."""
    references = tuple(
        replace(reference, referenced=tuple(names.get(column, column) for column in reference.referenced))
        if reference.table == parent
        else reference
        for reference in table.references
    )
    return replace(table, references=references)


def _still_read(altered: Sequence[AlteredTable], readers: Sequence[str], cascades: bool) -> Unsupported:
    first = next(one for one in altered if one.dropped)
    columns = ", ".join(f'"{column}"' for column in first.dropped)
    return Unsupported(
        f'column {columns} of "{first.before.name}" cannot be dropped',
        detail=f"It is read by {', '.join(readers)}.",
        hint=f"Drop those first{', or add CASCADE, which drops them too' if cascades else ''}.",
    )
