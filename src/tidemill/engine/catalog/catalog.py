"""The catalog: tables, streams and views in the order of their creation."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tidemill.algebra.relational.walk import scans
from tidemill.algebra.user_functions import Registry
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.compiler.staging.append_only import only_grows
from tidemill.engine.catalog.entries.analyzed_columns import AnalyzedColumns
from tidemill.engine.catalog.entries.constraints import constraints_of, require_valid_references
from tidemill.engine.catalog.entries.deploy_stage import DeployStage
from tidemill.engine.catalog.entries.errors_table import ERRORS, errors_table
from tidemill.engine.catalog.entries.feed_entry import FeedEntry
from tidemill.engine.catalog.entries.grants import Grant
from tidemill.engine.catalog.entries.lake_entry import LakeEntry
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.engine.catalog.views.build_entry import BuildEntry
from tidemill.engine.catalog.views.shared_stages import with_shared_stages
from tidemill.engine.catalog.views.view import View
from tidemill.engine.catalog.views.view_index import ViewIndex
from tidemill.engine.catalog.views.view_options import (
    static_tables,
)
from tidemill.model.clocks import Clock, is_clock
from tidemill.model.errors import DataError, NameTaken, UnknownName, Unsupported
from tidemill.model.schema import LATE, Partitioning, Table, late_table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.joingraph import Serve
from tidemill.program.maps import Map

T = TypeVar("T")


def _errors_of(entry: Table | View) -> Table | None:
    return errors_table(entry.name) if isinstance(entry, View) and entry.quarantines else None


class Catalog:
    """Tables, views and sources by name. The front end resolves names with ``relations``."""

    def __init__(self, registry: Registry) -> None:
        self._entries: dict[str, Table | View] = {}
        self.tables: dict[str, Table] = {}
        """Tables and streams by name."""
        self.views: dict[str, View] = {}
        """Views by name; each one comes after everything that it reads."""
        self.late: dict[str, Table] = {}
        """The tables and streams whose changes may be late."""
        self.streams: set[str] = set()
        """The streams: their rows are not kept."""
        self.constraints = Constraints()
        """All constraints that are enforced in every epoch."""
        self.guarded: dict[str, View] = {}
        """The views that set rows aside which they cannot compute (on_error = 'quarantine')."""
        self.static: set[str] = set()
        """The tables that some view declares to never change."""
        self._index: ViewIndex | None = None
        self._maps: dict[str, Map] | None = None
        self._ranks: dict[str, int] = {}
        self.registry = registry
        self.sources: dict[str, SourceEntry] = {}
        self.feeds: dict[str, FeedEntry] = {}
        self.lakes: dict[str, LakeEntry] = {}
        """The lake tables among the tables, by name: their rows come from elsewhere."""
        self.builds: dict[str, BuildEntry] = {}
        """The views that are being built in the background, which nobody can read yet."""
        self.deploy_stages: dict[str, DeployStage] = {}
        """Versions of views that live beside the present ones, by the name of the stage."""
        self.promoted: Mapping[str, str] = {}
        """The views of a stage that take the place of others in this joint commit, by the names of these."""
        self.module: ObjectModule | None = None
        self.named = NamedDefinitions()
        self.grants: tuple[Grant, ...] = ()
        """The rights of users and roles that are no owners, writers or readers of all."""
        self.analyzed: AnalyzedColumns = {}
        """Statistics of columns, by relation and column."""
        self.waiting: frozenset[str] = frozenset()
        """Views that a later step of the same joint commit replaces or drops: they are not maintained until then."""
        self.behind: frozenset[str] = frozenset()
        """Those of them whose inputs have changed since, so that their rows and state are those of before."""
        self.written: dict[str, tuple[Table | View, dict[str, Any]]] = {}
        """Entries as they were last written to a manifest, by name: most are the same in the next one."""

    @property
    def named(self) -> NamedDefinitions:
        """Views that are not materialized, and functions in SQL; beside them the declarations of tables."""
        return self._named

    @named.setter
    def named(self, named: NamedDefinitions) -> None:
        self._named = replace(named, table_of=self._table_of)

    def _table_of(self, name: str) -> Table | None:
        return self.tables.get(name)

    def copy(self) -> Catalog:
        """An independent copy."""
        copy = Catalog(self.registry)
        copy._entries, copy.module, copy.named = dict(self._entries), self.module, self.named
        copy.sources, copy.feeds, copy.lakes = dict(self.sources), dict(self.feeds), dict(self.lakes)
        copy.builds, copy.analyzed = dict(self.builds), self.analyzed
        copy.deploy_stages, copy.promoted = dict(self.deploy_stages), self.promoted
        copy.grants, copy.written = self.grants, self.written
        copy.waiting, copy.behind = self.waiting, self.behind
        copy._sort()
        return copy

    def _sort(self) -> None:
        """Recompute the derived dictionaries. Epochs read them often, and only DDL changes them."""
        self.tables = {name: entry for name, entry in self._entries.items() if isinstance(entry, Table)}
        self.views = {name: entry for name, entry in self._entries.items() if isinstance(entry, View)}
        self.guarded = {name: view for name, view in self.views.items() if view.quarantines}
        self.late = {name: table for name, table in self.tables.items() if late_table(table) is not None}
        self.streams = {name for name, table in self.tables.items() if not table.kept}
        self.clocks = {name: Clock.of_relation(name) for name in self.tables if is_clock(name)}
        self.constraints = constraints_of(self.tables)
        self.static = {name for view in self.views.values() for name in static_tables(view.options)}
        self._ranks = {name: rank for rank, name in enumerate(self._entries)}
        self._index = self._maps = None

    @property
    def view_index(self) -> ViewIndex:
        """The views by the relations that they read and by refresh mode."""
        if self._index is None:
            self._index = ViewIndex(self.views)
        return self._index

    def fields_of(self, name: str) -> tuple[Field, ...] | None:
        """The fields of a table, stream or view; None if there is none of that name."""
        entry = self._entries.get(name)
        return None if entry is None else entry.fields

    def fields_at(self, name: str, epoch: int | None) -> tuple[Field, ...]:
        """The fields of a table or view as of an epoch, or now."""
        entry = self._entries[name]
        return entry.fields_at(epoch) if isinstance(entry, View) else entry.fields

    @property
    def relations(self) -> dict[str, tuple[Field, ...]]:
        """The fields of everything that a query over the warehouse may read."""
        return {name: entry.fields for name, entry in self._entries.items()}

    @property
    def partitionings(self) -> dict[str, Partitioning]:
        """The partitionings of the tables and views that have one."""
        cuts = {name: entry.partitioning for name, entry in self._entries.items()}
        return {name: cut for name, cut in cuts.items() if cut is not None and cut.is_cut}

    @property
    def remote(self) -> dict[str, tuple[Field, ...]]:
        """The fields of the tables of sources, which views may read, as ``source.table``."""
        return {name: fields for source in self.sources.values() for name, fields in source.relations.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def table(self, name: str) -> Table:
        """The table or stream called ``name``."""
        table = self.tables.get(name.lower())
        if table is None:
            hint = "A view changes when the tables it reads change."
            raise UnknownName(f'"{self.entry(name).name}" is a view, not a table', hint=hint)
        return table

    def view(self, name: str) -> View:
        """The view called ``name``."""
        entry = self.entry(name)
        if isinstance(entry, Table):
            raise UnknownName(f'"{entry.name}" is a table, not a view', hint=f'Use wh.table("{entry.name}").')
        return entry

    def find(self, name: str) -> Table | View | None:
        """The table, stream or view called ``name``, if it exists."""
        return self._entries.get(name.lower())

    def entry(self, name: str) -> Table | View:
        """The table, stream or view called ``name``."""
        entry = self._entries.get(name.lower())
        if entry is None:
            if name.lower() in self.builds:
                raise self.builds[name.lower()].not_readable()
            close = difflib.get_close_matches(name.lower(), self._entries, n=1)
            known = ", ".join(self._entries) or "nothing yet"
            hint = f'Did you mean "{close[0]}"?' if close else f"There is: {known}."
            raise UnknownName(f'there is no table or view "{name}"', hint=hint)
        return entry

    def add(self, entry: Table | View) -> None:
        """Add a new table or view, with the tables of its remote subplans, of its late changes and of its errors."""
        beside = late_table(entry) if isinstance(entry, Table) else _errors_of(entry)
        self.require_free(entry.name, *(() if beside is None else (beside.name,)))
        require_valid_references(entry.name, entry if isinstance(entry, Table) else None, self.tables, self.views)
        if isinstance(entry, View):
            self._entries |= {kept.subplan.name: kept.table for kept in entry.remote_subplans}
        self._entries[entry.name] = entry
        if beside is not None:
            self._entries[beside.name] = beside
        self._sort()

    def require_free(self, *names: str) -> None:
        """Refuse names of tables and views that are there, or that are being built."""
        for name in names:
            if name in self._entries or name in self.named.queries or name in self.builds:
                raise NameTaken(f'"{name}" exists already', hint="DROP it first, or add IF NOT EXISTS.")

    def forget_grants(self) -> None:
        """Forget rights on tables and views that are gone: another one of the name begins without."""
        self.grants = tuple(one for one in self.grants if one.relation == "*" or one.relation in self._entries)

    def add_build(self, build: BuildEntry) -> None:
        """Add a view that is being built: its name is taken, and what it reads must stay as it is."""
        self.copy().add(build.view)
        self.builds[build.view.name] = build

    def require_not_read_by_builds(self, name: str, what: str) -> None:
        """Refuse to change a table or view that a view is being built from."""
        readers = [build.view.name for build in self.builds.values() if name in build.view.inputs]
        if readers:
            raise Unsupported(
                f'"{name}" cannot be {what}',
                detail=f"It is read by {', '.join(readers)}, which is being built.",
                hint=f"Wait for it, or CANCEL BUILD {readers[0]}.",
            )

    def connect(self, source: SourceEntry) -> None:
        """Add a source."""
        if source.name in self.sources:
            raise NameTaken(f'source "{source.name}" exists already', hint="DROP it first, or add IF NOT EXISTS.")
        self.sources[source.name] = source

    def source(self, name: str) -> SourceEntry:
        """The source called ``name``."""
        if name not in self.sources:
            known = ", ".join(self.sources) or "none"
            raise UnknownName(f'there is no source "{name}"', hint=f"Sources: {known}.")
        return self.sources[name]

    def disconnect(self, name: str) -> SourceEntry:
        """Remove a source that no view reads."""
        self.source(name)
        readers = [view.name for view in self.views.values() if name in view.sources]
        if readers:
            raise Unsupported(
                f'source "{name}" cannot be dropped',
                detail=f"It is read by {', '.join(readers)}.",
                hint="Drop those first.",
            )
        return self.sources.pop(name)

    def add_feed(self, feed: FeedEntry) -> None:
        """Add a feed of an existing table or stream; a folder belongs to one feed."""
        if feed.name in self.feeds:
            raise NameTaken(f'feed "{feed.name}" exists already', hint="DROP it first, or add IF NOT EXISTS.")
        table = self.table(feed.table)
        self.require_own_rows([table.name])
        for other in self.feeds.values():
            if other.folder == feed.folder:
                raise NameTaken(f'feed "{other.name}" has this folder already', where=feed.folder)
        self.feeds[feed.name] = feed

    def update_view(self, view: View) -> None:
        """Replace the entry of a view, which has a table of errors if it sets rows aside."""
        before, after = _errors_of(self._entries[view.name]), _errors_of(view)
        self._entries[view.name] = view
        if before is None and after is not None:
            if after.name in self._entries or after.name in self.named.queries:
                raise NameTaken(f'"{after.name}" exists already', detail="Rows that are set aside are stored there.")
            self._entries[after.name] = after
        elif before is not None and after is None:
            del self._entries[before.name]
        self._sort()

    def replace_entry(self, name: str, entry: Table | View) -> None:
        """Put another entry, perhaps with another name, in the place of that of a name."""
        self._entries = {
            entry.name if other == name else other: entry if other == name else kept
            for other, kept in self._entries.items()
        }
        self._sort()

    def alter_table(self, table: Table) -> None:
        """Put an altered table in the place of the one of its name, and its table of late changes beside it."""
        before, after = late_table(self.tables[table.name]), late_table(table)
        self.replace_entry(table.name, table)
        if after is None and before is not None:
            del self._entries[before.name]
        elif after is not None:
            if before is None and (after.name in self._entries or after.name in self.named.queries):
                raise NameTaken(f'"{after.name}" exists already', detail="Late changes would be stored there.")
            self._entries[after.name] = after
        self._sort()

    def put_after(self, name: str, inputs: Iterable[str]) -> bool:
        """Move a view, and all that read it, behind its new inputs; false if it comes after them already."""
        if all(self._ranks.get(one, -1) < self._ranks[name] for one in inputs):
            return False
        last = self.with_readers([name])
        moved = {one: self._entries.pop(one) for one in last}
        self._entries |= moved
        self._sort()
        return True

    @property
    def staged(self) -> dict[str, str]:
        """The views and functions of stages, by the names that they have there, with the stage of each."""
        return {name: stage.name for stage in self.deploy_stages.values() for name in stage.staged.values()}

    def shown_views(self) -> list[View]:
        """The views that are listed: all but those of stages."""
        staged = self.staged
        return [view for view in self.views.values() if view.name not in staged]

    def running(self) -> list[View]:
        """The views that are maintained: all but those that wait for a step of a joint commit."""
        return [view for view in self.views.values() if view.name not in self.waiting]

    def note_changed(self, names: Iterable[str], *, caught_up: str) -> None:
        """Note that a step of a joint commit has changed relations, and that a view waits no more."""
        changed, self.waiting = set(names), self.waiting - {caught_up}
        reached = {name for name in self.waiting if not changed.isdisjoint(self.views[name].inputs)}
        self.behind = (self.behind | reached) - {caught_up}

    def readers(self, name: str) -> list[View]:
        """The views that read a table or view directly, in the order of their creation; not those that wait."""
        return [view for view in self.running() if name in view.inputs]

    def with_readers(self, names: Iterable[str]) -> list[str]:
        """Views, and all that read them, directly or through others, in the order of their creation."""
        found = set(names)
        for view in self.running():
            if not found.isdisjoint(view.inputs):
                found.add(view.name)
        return [name for name in self.views if name in found]

    def require_unread(self, name: str, what: str = "dropped") -> None:
        """Refuse to drop or replace a table or view that others read."""
        self.require_not_read_by_builds(name, what)
        own = {name, name + LATE} if name in self.late else {name}
        own |= {name + ERRORS} if name in self.guarded else set()
        readers = [view.name for view in self.running() if not own.isdisjoint(view.inputs)]
        if readers:
            raise Unsupported(
                f'"{name}" cannot be {what}',
                detail=f"It is read by {', '.join(readers)}.",
                hint="Drop those first." if what != "dropped" else "Drop those first, or add CASCADE.",
            )

    def drop(self, name: str) -> None:
        """Remove an entry that no view reads."""
        owner = next((table.name for table in self.late.values() if name == table.name + LATE), None)
        if owner is not None:
            raise Unsupported(
                f'"{name}" cannot be dropped',
                detail=f'It takes the late changes of "{owner}", and goes with it.',
                hint=f"DELETE FROM {name} to be rid of them.",
            )
        if self.owner_of_errors(name) is not None:
            raise self.not_changed_by_hand(name, "dropped")
        self.require_unread(name)
        self.require_not_followed(name, "dropped")
        self.waiting, self.behind = self.waiting - {name}, self.behind - {name}
        late, guarded = self.late.get(name), name in self.guarded
        if self.module is not None:
            self.module.require_not_class_table(name)
        feeds = [feed.name for feed in self.feeds.values() if feed.table == name]
        if feeds:
            raise Unsupported(
                f'"{name}" cannot be dropped', detail=f"It is fed by {', '.join(feeds)}.", hint="Drop those first."
            )
        gone = self._entries.pop(name)
        self.written.pop(name, None)
        self.lakes.pop(name, None)
        self.analyzed = {other: columns for other, columns in self.analyzed.items() if other != name}
        if late is not None:
            del self._entries[name + LATE]
        if guarded:
            del self._entries[name + ERRORS]
        for kept in gone.remote_subplans if isinstance(gone, View) else ():
            del self._entries[kept.subplan.name]
        self._sort()

    def drop_clocks(self, names: Iterable[str]) -> None:
        """Remove clocks that no view reads."""
        for name in names:
            del self._entries[name]
        self._sort()

    def in_order(self, changes: Mapping[str, T]) -> dict[str, T]:
        """The changes of relations in the order in which these were created, in which triggers expect them.

        What refers to a row so comes after it, in an epoch that has both (see ``compiler.analysis.foreign_keys``).
        """
        return dict(sorted(changes.items(), key=lambda change: self._ranks.get(change[0], -1)))

    def only_grows(self, name: str) -> bool:
        """True if no row ever leaves a table or view: it is APPEND ONLY, or made row by row of such relations."""
        entry = self._entries.get(name)
        if isinstance(entry, View):
            return only_grows(entry.relation) and all(map(self.only_grows, scans(entry.relation)))
        return entry is not None and entry.append_only

    def as_streams(self) -> dict[str, Table]:
        """The relations that other views read as streams: subscribe-only views, and all that have retention."""
        logs = (view for view in self.views.values() if view.serve is Serve.SUBSCRIBE or view.forgets)
        forgetful = (table for table in self.tables.values() if table.forgets)
        return {table.name: replace(table, kept=False) for table in forgetful} | {
            view.name: Table(view.name, view.fields, kept=False) for view in logs
        }

    def unread_clocks(self) -> list[str]:
        """The event clocks that no view reads any more."""
        read = {name for view in self.defined_views() for name in view.inputs}
        return [name for name, clock in self.clocks.items() if clock.column is not None and name not in read]

    def require_not_followed(self, table: str, what: str, columns: Collection[str] = ()) -> None:
        """Refuse to change a table whose rows advance a clock, but for one whose column is still among ``columns``."""
        for name, clock in self.clocks.items():
            if clock.column is None or clock.column[0] != table or clock.column[1] in columns:
                continue
            readers = [view.name for view in self.defined_views() if name in view.inputs]
            if readers:
                raise Unsupported(
                    f'"{table}" cannot be {what}',
                    detail=f'Its column "{clock.column[1]}" advances the clock of {", ".join(readers)}.',
                    hint="Drop those first, and create them again.",
                )

    def is_followed(self, table: str) -> bool:
        """True if rows of a table advance a clock."""
        return any(clock.column is not None and clock.column[0] == table for clock in self.clocks.values())

    def is_in_lake(self, name: str) -> bool:
        """True for a lake table whose rows are not kept: they are read from the lake."""
        return name in self.lakes and not self.lakes[name].keeps_rows

    def is_stream(self, name: str) -> bool:
        """True for a table whose rows are neither kept nor anywhere else."""
        return name in self.tables and not self.tables[name].kept and not self.is_in_lake(name)

    def inputs_with_retention(self, view: View) -> list[str]:
        """The inputs of a view that have retention."""
        return [name for name in view.inputs if name in self._entries and self._entries[name].forgets]

    def unfillable(self, view: View) -> str:
        """The reason why the maps of a view cannot be computed from what is stored; empty if they can."""
        streams = [name for name in view.inputs if name in self.tables and not self.tables[name].kept]
        forgetful = self.inputs_with_retention(view)
        if view.remote_subplans:
            return "It reads sources, whose rows are not kept."
        if streams:
            kind = "lake table" if self.is_in_lake(streams[0]) else "stream"
            return f'It reads the {kind} "{streams[0]}", whose rows are not kept.'
        if forgetful:
            return f'It reads "{forgetful[0]}", which forgets rows (RETAIN).'
        return "Its rows are not stored, but computed from its maps when read." if view.computed_on_read else ""

    def maps(self) -> Mapping[str, Map]:
        """Every stored map by name: contents of relations and state of stages."""
        if self._maps is None:
            maps = {name: Map(name, fields) for name, fields in self.relations.items()}
            for view in self.views.values():
                for stage in view.program.stages:
                    maps[stage.name] = Map(stage.name, stage.output)
                    maps.update({map_.name: map_ for map_ in stage.maps})
            self._maps = maps
        return self._maps

    def mergeable_maps(self) -> dict[str, Map]:
        """The stored maps that may be compacted: all but the rows of subscribe-only views, which are logs."""
        logs = {view.name for view in self.view_index.subscribe_only}
        return {name: map_ for name, map_ in self.maps().items() if name not in logs}

    def functions_in_use(self) -> set[str]:
        """The keys of registered functions that views call."""
        return set[str]().union(*(view.functions for view in self.defined_views()))

    def defined_views(self) -> list[View]:
        """All views, those included that are being built: what these are made of must stay."""
        return [*self.running(), *(build.view for build in self.builds.values())]

    def unread_epochs(self, relation: str) -> list[int]:
        """The last epoch that each deferred view over ``relation`` has read."""
        return [view.fresh for view in self.view_index.deferred_readers(relation)]

    def keeps_rows_of(self, relation: str) -> bool:
        """True if rows of ``relation`` are stored; those of streams are until all deferred views have read them."""
        return relation not in self.streams or bool(self.view_index.deferred_readers(relation))

    def ancestors(self, view: View) -> set[str]:
        """All relations that a view reads, directly or through other views."""
        views = self.views
        above = (self.ancestors(views[name]) for name in view.inputs if name in views)
        return set(view.inputs).union(*above)

    def require_not_static(self, tables: Collection[str]) -> None:
        """Refuse a change of a table that a view declares to never change."""
        if self.static.isdisjoint(tables):
            return
        for view in self.views.values():
            for name in static_tables(view.options).intersection(tables):
                raise DataError(
                    f'table "{name}" cannot change',
                    detail=f"View \"{view.name}\" was created with static = '{view.options['static']}'.",
                    hint="Drop the view and create it without that option.",
                )

    def require_own_rows(self, tables: Iterable[str]) -> None:
        """Refuse a direct change of tables that hold objects, and of lake tables."""
        if self.module is not None:
            self.module.require_not_object_tables(tables)
        if self.lakes:
            for name in self.lakes.keys() & tables:
                raise self.lakes[name].not_changed_here()
        if self.clocks:
            for name in self.clocks.keys() & tables:
                raise Unsupported(
                    f'"{name}" cannot be changed',
                    detail="It is a clock, which goes forward alone.",
                    hint="Use wh.advance_clock().",
                )
        if self.guarded:
            for name in tables:
                if self.owner_of_errors(name) is not None:
                    raise self.not_changed_by_hand(name, "changed")

    def owner_of_errors(self, name: str) -> str | None:
        """The view whose table of errors this is; None if it is no such table."""
        owner = name.removesuffix(ERRORS)
        return owner if owner != name and owner in self.guarded else None

    def not_changed_by_hand(self, errors: str, what: str) -> Unsupported:
        """The error for changing or dropping a table of errors."""
        owner = self.owner_of_errors(errors)
        return Unsupported(
            f'"{errors}" cannot be {what}',
            detail=f'It has the rows that view "{owner}" cannot compute, and goes with it.',
            hint=f"Correct or delete these rows in their table, or RELEASE ERRORS OF {owner}.",
        )

    def alone(self, view: View) -> View:
        """The view without shared stages; its own stages must then be filled."""
        alone = with_shared_stages(view, {}) if view.shares else view
        self.update_view(alone)
        return alone
