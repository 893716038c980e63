"""Tables and views with other names: stored rows stay where they are, and all definitions follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemill.changes.changeset import Epoch
from tidemill.compiler.frontends.script.definitions.check_conditions import with_renamed_table
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions, NamedQuery, names_in
from tidemill.compiler.frontends.sql.table_references import quoted, replace_tables
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.named_definitions import words_of
from tidemill.engine.catalog.serialization import catalog_from_json, catalog_to_json
from tidemill.engine.catalog.views.publication import Publication
from tidemill.engine.catalog.views.view import View
from tidemill.engine.catalog.views.view_options import static_tables
from tidemill.engine.definitions.altering import Altering, require_fillable
from tidemill.engine.definitions.same_programs import still_outdated, with_renamed_relation
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.staleness_marks import MARK_PREFIX
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.schema import Table
from tidemill.program.renaming import renamed

__all__ = ["Renaming"]


class Renaming:
    """Gives tables and views of a warehouse other names."""

    def __init__(
        self, state: EngineState, epochs: EpochCommitter, settled: Settled, publisher: Publisher, altering: Altering
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._publisher = publisher
        self._altering = altering

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
                outdated = still_outdated(data, known, outdated, with_renamed_relation(names))
                require_fillable(after, outdated, f'"{old}" cannot be renamed')
                mark = self._state.store.positions.get(MARK_PREFIX + old)
                positions = {} if mark is None else {MARK_PREFIX + new: mark}
                moved = {name: renamed(name, names) for name in maps}
                self._altering.commit(Epoch(self._state.store.epoch, positions=positions, catalog=data, renamed=moved))
            self._altering.follow()

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
                outdated = still_outdated(data, before.views, outdated, with_renamed_relation({}))
                if outdated:
                    raise Unsupported(
                        f'view "{old}" cannot be renamed',
                        detail=f"View {', '.join(view.name for view in outdated)} reads it, and would be another one.",
                        hint="Create another view, and drop this one once nothing reads it.",
                    )
                self._altering.commit(Epoch(self._state.store.epoch, catalog=data))
            self._altering.follow()

    def _require_renamable(self, entry: Table | View, new: str) -> None:
        catalog, old = self._state.catalog, entry.name
        reason = ""
        if new in catalog or new in catalog.named.queries:
            raise NameTaken(f'"{new}" exists already')
        if isinstance(entry, Table):
            self._altering.require_alterable(old)
            if old in catalog.late:
                reason = "It has LATENESS, and its head and its late changes are stored under its name."
            elif old in catalog.lakes:
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


def _is_sql(view: View) -> bool:
    """True for a view whose definition is one query in SQL."""
    return not view.is_made_by_partitions and not view.is_oql


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
    catalog.replace_entry(old, _called(catalog.entry(old), new))
    catalog.named = _named_over(catalog.named, texts)
    catalog.feeds = {n: replace(f, table=new) if f.table == old else f for n, f in catalog.feeds.items()}
    catalog.analyzed = {names.get(name, name): columns for name, columns in catalog.analyzed.items()}


def _called(entry: Table | View, name: str) -> Table | View:
    """A table or view with another name, which the checks of a table have before columns, too."""
    if isinstance(entry, View):
        return replace(entry, name=name)
    return replace(entry, name=name, checks=tuple(with_renamed_table(check, entry, name) for check in entry.checks))


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
