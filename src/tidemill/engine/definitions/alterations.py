"""Tables and views altered: other columns, other names. Stored rows stay as they are; one commit changes the catalog.

Every view over the table is compiled again, over the columns that it sees (``catalog.seen_columns``). Its state is as
it was if its program is: then the view does not even notice. A view whose program is another one, because a column that
it reads has another type, is rebuilt from its tables; until that is committed it is marked as outdated, so that a
process that dies on the way leaves a warehouse that rebuilds it when it is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_type
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.compiler.frontends.sql.named_definitions import DefinitionScope, NamedDefinitions, NamedQuery, names_in
from tidemill.compiler.frontends.sql.table_references import quoted, replace_tables
from tidemill.engine.catalog.altered_table import AlteredTable
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.define_view import define_view
from tidemill.engine.catalog.entries.constraints import require_valid_references
from tidemill.engine.catalog.entries.named_definitions import words_of
from tidemill.engine.catalog.publication import Publication
from tidemill.engine.catalog.serialization import catalog_from_json, catalog_to_json
from tidemill.engine.catalog.shared_stages import with_shared_stages
from tidemill.engine.catalog.view import View
from tidemill.engine.catalog.view_options import static_tables
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.staleness_marks import MARK_PREFIX
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.marks import mark_of_errors
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import DataError, NameTaken, SqlError, Unsupported
from tidemill.model.schema import EPOCH, LATE, WEIGHT, Table
from tidemill.program.maps import Map
from tidemill.program.renaming import renamed
from tidemill.program.text import layout_text
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["Alterations", "altered_catalog"]


NO_POSITIONS: Mapping[str, str] = MappingProxyType({})


class Alterations:
    """Alters tables and views of a warehouse."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        filler: ViewFiller,
        publisher: Publisher,
        definitions: RelationDefinitions,
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._filler = filler
        self._publisher = publisher
        self._definitions = definitions

    # -- columns ------------------------------------------------------------------------------------------------

    def alter_columns(
        self, altered: AlteredTable, *, cascade: bool = False, positions: Mapping[str, str] = NO_POSITIONS
    ) -> tuple[list[str], list[str]]:
        """Give a table other columns; returns the views that were dropped with a column, and those rebuilt.

        ``positions`` of sources are committed with them.
        """
        name = altered.table.name
        with self._settled(), ExitStack() as ending:
            self._state.require_writable()
            self._require_alterable(name)
            for column in altered.required:
                self._require_not_null(altered.before, column)
            if altered.key:
                self._require_distinct(altered.before, altered.key)
            before = self._state.catalog
            if before.table(name) != altered.before:
                raise Unsupported(f'"{name}" was altered meanwhile', hint="Look at its columns, and try again.")
            gone = self._readers_of_dropped(before, altered)
            if gone and not cascade:
                raise _still_read(altered, gone)
            gone = before.with_readers(gone)
            for ended in (name, *gone):
                ending.enter_context(self._publisher.ending(ended))
            with self._epochs.changing_catalog() as catalog:
                left, dropped = self._definitions.remove_all(catalog, gone)
                _, data, _ = altered_catalog(catalog, altered)
                alterations = {name: altered.alterations} if altered.alterations else {}
                number = self._state.store.epoch
                self._commit(Epoch(number, left, positions, catalog=data, dropped=dropped, altered=alterations))
            rebuilt = self._follow()
        self._epochs.after(partial(self._definitions.stop_following, [before.views[view] for view in gone]))
        return gone, rebuilt

    def _require_alterable(self, name: str) -> None:
        catalog = self._state.catalog
        table = catalog.table(name)
        catalog.require_not_read_by_builds(name, "altered")
        if catalog.module is not None:
            catalog.module.require_not_class_table(name, "altered")
        if catalog.owner_of_errors(name) is not None:
            raise catalog.not_changed_by_hand(name, "altered")
        for view in catalog.guarded.values():
            if name in view.inputs and mark_of_errors(self._state.store.positions, view.name) is not None:
                raise Unsupported(
                    f'"{table.name}" cannot be altered now',
                    detail=f'View "{view.name}" is in quarantine, and its held rows have the present columns.',
                    hint=f"Correct these rows first: SELECT * FROM {view.name}_errors.",
                )
        if name in catalog.late or any(name == late + LATE for late in catalog.late):
            raise Unsupported(
                f'"{table.name}" cannot be altered',
                detail="It has LATENESS, and late changes are stored with the columns that they came with.",
                hint="Create another table, and INSERT the rows of this one.",
            )

    def _require_distinct(self, table: Table, key: Sequence[str]) -> None:
        """Refuse a primary key in which rows are equal."""
        fields = tuple(f for f in table.fields if f.name in key)
        rows = self._state.store.read(table.name, fields)
        found = difference(rows.slice(0, 0), rows, Map(table.name, fields))
        equal = found.filter(pc.greater(found.column(WEIGHT), 1))
        if equal.num_rows:
            (row,) = ChangeSet.of_arrow(equal.slice(0, 1), fields).zset()
            raise DataError(
                f'"{table.name}" cannot have the primary key ({", ".join(key)})',
                detail=f"Several rows have the same values there, such as {row!r}.",
                hint="Delete the other rows first.",
            )

    def _require_not_null(self, table: Table, column: str) -> None:
        """Refuse NOT NULL for a column in which rows are NULL."""
        field = next(f for f in table.fields if f.name == column)
        sought = {column: pa.nulls(1, arrow_type(field.type))}
        rows = self._state.store.read(table.name, table.fields, where=sought)
        found = ChangeSet.of_arrow(rows.drop_columns([EPOCH]), table.fields).zset()
        if len(found):
            raise DataError(
                f'column "{column}" of "{table.name}" cannot be NOT NULL',
                detail=f"It is NULL in {len(found):,} of its rows.",
                hint=f"UPDATE {table.name} SET {column} = ... WHERE {column} IS NULL first.",
            )

    def _readers_of_dropped(self, before: Catalog, altered: AlteredTable) -> list[str]:
        """The views that are not what they were without the dropped columns: each is compiled without them."""
        name = altered.table.name
        trial = before.copy()
        trial.replace_entry(name, altered.table)
        _require_same_names(before, trial, altered)
        return [view.name for view in before.readers(name) if altered.dropped and not _is_same(trial, view, altered)]

    # -- names --------------------------------------------------------------------------------------------------

    def rename(self, old: str, new: str) -> None:
        """Give a table or view another name; the definitions of its readers follow."""
        with self._settled(), self._publisher.ending(old):
            self._state.require_writable()
            before = self._state.catalog
            entry = before.entry(old)
            self._require_renamable(entry, new)
            before.require_not_read_by_builds(old, "renamed")
            names = {old: new}
            maps = entry.map_names if isinstance(entry, View) else (old,)
            with self._epochs.changing_catalog() as catalog:
                _rename_entry(catalog, entry, names)
                data = catalog_to_json(catalog)
                after, outdated = catalog_from_json(data, self._state.registry)
                known = {names.get(name, name): view for name, view in before.views.items()}
                outdated = _still_outdated(data, known, outdated, _with_renamed_relation(names))
                _require_fillable(after, outdated, f'"{old}" cannot be renamed')
                mark = self._state.store.positions.get(MARK_PREFIX + old)
                positions = {} if mark is None else {MARK_PREFIX + new: mark}
                moved = {name: renamed(name, names) for name in maps}
                self._commit(Epoch(self._state.store.epoch, positions=positions, catalog=data, renamed=moved))
            self._follow()

    def _commit(self, epoch: Epoch) -> None:
        """Commit an altered catalog. Until ``_follow`` has ended, what is in memory is not what is stored."""
        fault("before-alter")
        self._epochs.commit(epoch, ends=False)()
        fault("after-alter")

    def _follow(self) -> list[str]:
        """Load what was committed, and rebuild the views that need it; returns their names."""
        rebuilt = self._filler.rebuild(self._state.reload())
        self._epochs.end()
        return rebuilt

    def rename_query(self, old: str, new: str) -> None:
        """Give a view that is not materialized another name; views and functions that read it follow."""
        with self._settled():
            self._state.require_writable()
            before, texts = self._state.catalog, {old: quoted(new)}
            if new in before or new in before.named.queries:
                raise NameTaken(f'"{new}" exists already')
            users = [view for view in before.defined_views() if old in words_of(view.query, before.named)]
            _require_texts_follow(before, old, users)
            with self._epochs.changing_catalog() as catalog:
                for view in users:
                    equal = _over(view.equal_query, texts) if view.equal_query else ""
                    catalog.update_view(replace(view, query=_over(view.query, texts), equal_query=equal))
                named = _named_over(catalog.named, texts)
                catalog.named = replace(named, queries=_under(named.queries, old, new))
                data = catalog_to_json(catalog)
                _, outdated = catalog_from_json(data, self._state.registry)
                outdated = _still_outdated(data, before.views, outdated, _with_renamed_relation({}))
                if outdated:
                    raise Unsupported(
                        f'view "{old}" cannot be renamed',
                        detail=f"View {', '.join(view.name for view in outdated)} reads it, and would be another one.",
                        hint="Create another view, and drop this one once nothing reads it.",
                    )
                self._commit(Epoch(self._state.store.epoch, catalog=data))
            self._follow()

    def _require_renamable(self, entry: Table | View, new: str) -> None:
        catalog, old = self._state.catalog, entry.name
        reason = ""
        if new in catalog or new in catalog.named.queries:
            raise NameTaken(f'"{new}" exists already')
        if isinstance(entry, Table):
            self._require_alterable(old)
            if old in catalog.lakes:
                reason = "It is a lake table, and the version that was taken is stored under its name."
            elif any(old in static_tables(view.options) for view in catalog.views.values()):
                reason = "A view names it in its option static."
        elif entry.quarantines:
            reason = "It has on_error = 'quarantine', and its table of errors has its name."
        elif entry.remote_subplans:
            reason = "It reads sources, whose positions are stored under its name."
        elif Publication.of(entry.options) is not None:
            reason = "It is published under its name."
        elif not _is_sql(entry):
            reason = "Its definition names it."
        for view in catalog.readers(old):
            if not _is_sql(view):
                reason = f'View "{view.name}" reads it, whose definition is not a query in SQL.'
        if reason:
            hint = "Create another one, and drop this one once nothing reads it."
            raise Unsupported(f'"{old}" cannot be renamed', detail=reason, hint=hint)


def altered_catalog(catalog: Catalog, altered: AlteredTable) -> tuple[Catalog, dict[str, Any], list[View]]:
    """A catalog, which is changed here, with a table that has other columns: compiled again, as it is stored, and the
    views that must be rebuilt for it."""
    before, name = dict(catalog.views), altered.table.name
    _rewrite_columns(catalog, altered)
    data = catalog_to_json(catalog)
    after, outdated = catalog_from_json(data, catalog.registry)
    outdated = _still_outdated(data, before, outdated, _with_renamed_column(altered))
    _require_fillable(after, outdated, f'"{name}" cannot be altered')
    _require_same_publications(before, outdated, name)
    return after, data, outdated


def _rewrite_columns(catalog: Catalog, altered: AlteredTable) -> None:
    """The table, and what refers to it, with its new columns."""
    name = altered.table.name
    for view in catalog.readers(name):
        catalog.update_view(_seeing(view, altered))
    for other in list(catalog.tables.values()):
        if altered.renamed and any(reference.table == name for reference in other.references):
            catalog.replace_entry(other.name, _referring(other, name, altered.renamed))
    table = altered.table
    if altered.renamed:
        table = _referring(table, name, altered.renamed)
    catalog.replace_entry(name, table)
    require_valid_references(name, table, catalog.tables, catalog.views)
    catalog.analyzed = {other: columns for other, columns in catalog.analyzed.items() if other != name}


def _is_same(trial: Catalog, view: View, altered: AlteredTable) -> bool:
    """True if a view compiles to the program that it has over a table with other columns."""
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
        return list(DefinitionScope(catalog.relations, _names_of(catalog)).rows(query).names)
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


def _require_fillable(catalog: Catalog, outdated: Sequence[View], what: str) -> None:
    for view in outdated:
        if reason := catalog.unfillable(view):
            raise Unsupported(what, detail=f'View "{view.name}" would have to be rebuilt. {reason}')


def _require_same_publications(before: Mapping[str, View], outdated: Sequence[View], name: str) -> None:
    """Refuse other columns of a published view: the table that it is published as has the ones that it had."""
    for view in outdated:
        if Publication.of(view.options) is not None and view.fields != before[view.name].fields:
            raise Unsupported(
                f'"{name}" cannot be altered',
                detail=f'View "{view.name}" would have other columns, and is published with those that it has.',
                hint="Drop that view first, and publish it again.",
            )


def _seeing(view: View, altered: AlteredTable) -> View:
    """A view over the altered table, whose state is that of its old program."""
    name = altered.before.name
    seen = altered.seen(view.columns.get(name))
    columns = {other: names for other, names in view.columns.items() if other != name}
    return replace(view, columns=columns if seen is None else {**columns, name: seen})


def _referring(table: Table, parent: str, names: Mapping[str, str]) -> Table:
    """A table whose foreign keys name the renamed columns of their parent."""
    references = tuple(
        replace(reference, referenced=tuple(names.get(column, column) for column in reference.referenced))
        if reference.table == parent
        else reference
        for reference in table.references
    )
    return replace(table, references=references)


def _still_read(altered: AlteredTable, readers: Sequence[str]) -> Unsupported:
    columns = ", ".join(f'"{column}"' for column in altered.dropped)
    return Unsupported(
        f'column {columns} of "{altered.before.name}" cannot be dropped',
        detail=f"It is read by {', '.join(readers)}.",
        hint="Drop those first, or add CASCADE, which drops them too.",
    )


# -- programs that are the same ------------------------------------------------------------------------------------

SameProgram = Callable[[View, View], bool]
"""True if the program of a view is that of an old one, but for names that have changed."""


def _still_outdated(
    data: Mapping[str, Any], before: Mapping[str, View], outdated: Sequence[View], is_same: SameProgram
) -> list[View]:
    """The views whose state must be rebuilt, of those that have another program than ``before``.

    For the others the catalog in ``data`` gets to say that their state belongs to the new program.
    """
    items = {item["name"]: item for item in data["entries"] if item["kind"] == "view"}
    same = [view for view in outdated if is_same(before[view.name], view)]
    shared = {view.name for view in outdated if items[view.name].get("shares")}
    if shared and len(same) < len(outdated):
        same = []  # stages that several views share are all kept, or none is
    for view in same:
        shares = items[view.name].get("shares", {})
        items[view.name]["fingerprint"] = (with_shared_stages(view, shares) if shares else view).fingerprint
    return [view for view in outdated if view not in same]


def _with_renamed_column(altered: AlteredTable) -> SameProgram:
    """Compares programs in which a column of the table has another name.

    A text that has the new name already might say something else by it: then programs count as different.
    """

    def is_same(old: View, new: View) -> bool:
        if not altered.renamed:
            return False
        ((former, present),) = altered.renamed.items()
        was, now = layout_text(old.full_program), layout_text(new.full_program)
        name = re.compile(rf"\b{re.escape(present)}\b")
        return old.fields == new.fields and not name.search(was) and name.sub(former, now) == was

    return is_same


def _with_renamed_relation(names: Mapping[str, str]) -> SameProgram:
    def is_same(old: View, new: View) -> bool:
        return layout_text(renamed(old.full_program, names)) == layout_text(new.full_program)

    return is_same


# -- definitions that follow ---------------------------------------------------------------------------------------


def _is_sql(view: View) -> bool:
    """True for a view whose definition is one query in SQL."""
    return view.partitioning is None and view.query[:6].lower() != "define"


def _rename_entry(catalog: Catalog, entry: Table | View, names: Mapping[str, str]) -> None:
    """Put an entry under its new name, and let all definitions follow."""
    ((old, new),) = names.items()
    texts = {old: quoted(new)}
    for view in catalog.readers(old):
        equal = replace_tables(view.equal_query, texts) if view.equal_query else ""
        columns = {names.get(table, table): seen for table, seen in view.columns.items()}
        query = replace_tables(view.query, texts)
        catalog.update_view(replace(view, query=query, equal_query=equal, columns=columns))
    for view in list(catalog.views.values()):
        shares = {renamed(own, names): renamed(other, names) for own, other in view.shares.items()}
        if shares != view.shares:
            catalog.update_view(replace(view, shares=shares))
    for table in list(catalog.tables.values()):
        if any(reference.table == old for reference in table.references):
            references = (replace(r, table=new) if r.table == old else r for r in table.references)
            catalog.replace_entry(table.name, replace(table, references=tuple(references)))
    catalog.replace_entry(old, replace(catalog.entry(old), name=new))
    catalog.named = _named_over(catalog.named, texts)
    catalog.feeds = {n: replace(f, table=new) if f.table == old else f for n, f in catalog.feeds.items()}
    catalog.analyzed = {names.get(name, name): columns for name, columns in catalog.analyzed.items()}


def _named_over(named: NamedDefinitions, texts: Mapping[str, str]) -> NamedDefinitions:
    """Views that are not materialized, and functions, that read other names or queries in place of tables."""
    return replace(
        named,
        queries={n: replace(q, text=_over(q.text, texts)) for n, q in named.queries.items()},
        functions={n: replace(f, body=_over(f.body, texts)) for n, f in named.functions.items()},
    )


def _under(queries: Mapping[str, NamedQuery], old: str, new: str) -> dict[str, NamedQuery]:
    """Queries, of which one has another name."""
    renamed_query = replace(queries[old], name=new)
    return {(new if name == old else name): renamed_query if name == old else q for name, q in queries.items()}


def _require_texts_follow(catalog: Catalog, old: str, users: Sequence[View]) -> None:
    """Refuse another name for a view that is read by definitions whose text cannot follow."""
    building = [view.name for view in users if view.name in catalog.builds]
    other = [view.name for view in users if not _is_sql(view)]
    if building or other:
        why = "is being built" if building else "has a definition that is not a query in SQL"
        raise Unsupported(
            f'view "{old}" cannot be renamed',
            detail=f'View "{(building or other)[0]}" uses it, and {why}.',
            hint="Create another view, and drop this one once nothing uses it.",
        )


def _over(text: str, texts: Mapping[str, str]) -> str:
    return text if names_in(text).tables.isdisjoint(texts) else replace_tables(text, texts)
