"""Each SQL statement, done: one function a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.registered_functions import resolve_registered
from tidemill.compiler.frontends.translate import translate_delete, translate_insert, translate_update
from tidemill.engine.catalog.constraints import missing_parents, require_unreferenced
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.source_entry import SourceEntry
from tidemill.engine.definitions.replace_view import replace_view
from tidemill.engine.definitions.sources_and_feeds import add_feed, connect_source, disconnect_source, drop_feed
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.staleness_marks import staleness_of
from tidemill.engine.inspect.explain import explanation_of
from tidemill.engine.partitions.lateness import late_change_count, replay
from tidemill.engine.partitions.listing import partitions_of
from tidemill.engine.remote.folder_feeds import FeedEntry
from tidemill.engine.results import Result
from tidemill.engine.statements.select import select, select_oql
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import NullViolation, SetupError, UnknownName
from tidemill.model.paths import local_path
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Field
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN


def execute(engine: Engine, statement: sql.Statement) -> Result:
    """Do what ``statement`` says."""
    for tree in sql.trees_of(statement):
        resolve_registered(tree, engine.registry.keys)
    return _STATEMENTS[type(statement)](engine, statement)


def create_table(engine: Engine, statement: sql.CreateTable) -> Result:
    """Add a table or stream."""
    if statement.if_not_exists and statement.table.name in engine.catalog:
        return Result(message=f"{statement.table.name} exists already")
    engine.create_table(statement.table)
    missing = missing_parents(statement.table, engine.catalog.tables)
    later = f"; it refers to {', '.join(missing)}, which is not there yet" if missing else ""
    return Result(message=f"created {'table' if statement.table.kept else 'stream'} {statement.table.name}{later}")


def create_view(engine: Engine, statement: sql.CreateView) -> Result:
    """Compile a view and fill it."""
    if statement.if_not_exists and statement.name in engine.catalog:
        return Result(message=f"{statement.name} exists already")
    replacing = statement.or_replace and statement.name in engine.catalog.views
    view = engine.catalog.define(
        statement.name, statement.query, statement.options, engine.store.epoch, tree=statement.tree
    )
    if replacing:
        replace_view(engine, view)
    else:
        engine.create_view(view)
    return Result(message=f"{'replaced' if replacing else 'created'} view {statement.name}")


def create_source(engine: Engine, statement: sql.CreateSource) -> Result:
    """Look at somebody else's database, and remember how to reach it and which tables it has."""
    if statement.if_not_exists and statement.name in engine.catalog.origins:
        return Result(message=f"source {statement.name} exists already")
    origin = SourceEntry.found(statement.name, statement.kind, statement.options, engine.secrets)
    connect_source(engine, origin)
    return Result(message=f"created source {origin.name} with {', '.join(origin.relations) or 'no tables'}")


def create_feed(engine: Engine, statement: sql.CreateFeed) -> Result:
    """Let the files of a folder become changes of a table or stream."""
    if statement.if_not_exists and statement.name in engine.catalog.feeds:
        return Result(message=f"feed {statement.name} exists already")
    folder = local_path(statement.folder, "folder of a feed").resolve()
    if folder.exists() and not folder.is_dir():
        raise SetupError("a feed takes the files of a folder, and this is a file", where=str(folder))
    add_feed(engine, FeedEntry(statement.name, statement.table, str(folder), statement.options))
    missing = "" if folder.is_dir() else f"; its folder is not there yet: {folder}"
    return Result(message=f"created feed {statement.name}{missing}")


def drop(engine: Engine, statement: sql.Drop) -> Result:
    """Remove a table, stream, source, feed or view."""
    if statement.kind == "source":
        return _drop_source(engine, statement)
    if statement.kind == "feed":
        return _drop_feed(engine, statement)
    if statement.name not in engine.catalog and statement.if_exists:
        return Result(message=f"there is no {statement.name}")
    if statement.kind == "view":
        engine.drop(engine.catalog.view(statement.name).name)
    else:
        table = engine.catalog.table(statement.name)
        if table.kept != (statement.kind == "table"):
            kind = "table" if table.kept else "stream"
            raise UnknownName(f'"{table.name}" is a {kind}', where=statement.place, hint=f"Use DROP {kind.upper()}.")
        with engine.settled():
            require_unreferenced(table.name, engine.catalog.tables, lambda name: not engine.contents(name).zset())
            engine.drop(table.name)
    return Result(message=f"dropped {statement.name}")


def _drop_source(engine: Engine, statement: sql.Drop) -> Result:
    if statement.name not in engine.catalog.origins and statement.if_exists:
        return Result(message=f"there is no source {statement.name}")
    disconnect_source(engine, statement.name)
    return Result(message=f"dropped source {statement.name}")


def _drop_feed(engine: Engine, statement: sql.Drop) -> Result:
    if statement.name not in engine.catalog.feeds and statement.if_exists:
        return Result(message=f"there is no feed {statement.name}")
    drop_feed(engine, statement.name)
    return Result(message=f"dropped feed {statement.name}")


def insert(engine: Engine, statement: sql.Insert) -> Result:
    """Add the rows of a query or of VALUES."""
    table = engine.catalog.table(statement.table)
    relation = translate_insert(statement, table, engine.catalog.relations)
    return _apply(engine, table, engine.answer(relation).pairs())


def update(engine: Engine, statement: sql.Update) -> Result:
    """Take out each row that matches and put in its new form."""
    table = _kept(engine, statement.table, statement)
    relation = translate_update(statement, table, engine.catalog.relations)
    width = len(table.fields)
    pairs = []
    for row, weight in engine.answer(relation).pairs():
        pairs += [(row[:width], -weight), (row[width:], weight)]
    return _apply(engine, table, pairs)


def delete(engine: Engine, statement: sql.Delete) -> Result:
    """Take out each row that matches."""
    table = _kept(engine, statement.table, statement)
    relation = translate_delete(statement, table, engine.catalog.relations)
    return _apply(engine, table, [(row, -weight) for row, weight in engine.answer(relation).pairs()])


def _apply(engine: Engine, table: Table, pairs: list[tuple[Any, int]]) -> Result:
    required = [(i, f.name) for i, f in enumerate(table.fields) if not f.nullable]
    for row, weight in pairs:
        for position, column in required:
            if weight > 0 and row[position] is None:
                raise NullViolation(f'column "{column}" of "{table.name}" cannot be NULL', where=f"{table.name} {row}")
    if any(f.length is not None for f in table.fields):
        fit = row_coercer(table.fields, table.name)
        pairs = [(fit(row), weight) for row, weight in pairs]
    epoch = engine.apply({table.name: ChangeSet.of(pairs, table.fields)})
    count, late = sum(abs(weight) for _, weight in pairs), late_change_count(engine, table, epoch)
    changes = "1 row change" if count == 1 else f"{count:,} row changes"
    return Result(message=f"{changes} in epoch {epoch}" + (f", {late:,} of them late" if late else ""))


def _kept(engine: Engine, name: str, statement: sql.Statement) -> Table:
    table = engine.catalog.table(name)
    if not table.kept:
        raise UnknownName(
            f'"{name}" is a stream',
            where=statement.place,
            detail="Its rows are not kept, so none can be found.",
            hint="Give the old rows with weight -1 to apply().",
        )
    return table


def answer(engine: Engine, statement: sql.Select) -> Result:
    """Answer a query once."""
    return select(engine, statement.query)


def answer_oql(engine: Engine, statement: sql.SelectOql) -> Result:
    """Answer a query in OQL once."""
    return select_oql(engine, statement.query)


def explain_view(engine: Engine, statement: sql.ExplainView) -> Result:
    """Say how a view is kept fresh, and why so."""
    return Result([(explanation_of(engine, statement.name),)], (Field("explanation", STRING),))


def refresh_view(engine: Engine, statement: sql.RefreshView) -> Result:
    """Bring a deferred view up to date."""
    return Result(message=f"{statement.name} shows epoch {engine.refresh(statement.name)}")


def replay_late(engine: Engine, statement: sql.ReplayLate) -> Result:
    """Take late changes in after all."""
    return Result(message=replay(engine, statement).told(engine.catalog.table(statement.table)))


def show_partitions(engine: Engine, statement: sql.ShowPartitions) -> Result:
    """List the partitions of a table or view that have rows, and what can still change them."""
    kinds = {"name": STRING, "number": BIGINT, "start": TIMESTAMP, "rows": BIGINT, "state": STRING}
    fields = tuple(Field(name, kind) for name, kind in kinds.items())
    return Result(partitions_of(engine, statement.name), fields)


def show_create_table(engine: Engine, statement: sql.ShowCreateTable) -> Result:
    """Give the statement that makes a table or stream, with all of its constraints."""
    return Result([(ddl(engine.catalog.table(statement.table)),)], (Field("statement", STRING),))


def show_feeds(engine: Engine, statement: sql.ShowFeeds) -> Result:
    """List feeds with their folders, what waits there, what was set aside, and what prevents them."""
    rows = []
    for feed in engine.catalog.feeds.values():
        state = engine.feeds.state(feed)
        known = (state.waiting, state.last, state.aside, state.trouble)
        rows.append((feed.name, feed.table, feed.folder, feed.sync, *known))
    texts = ("name", "into", "folder", "sync", "last", "trouble")
    names = ("name", "into", "folder", "sync", "waiting", "last", "aside", "trouble")
    return Result(rows, tuple(Field(name, STRING if name in texts else BIGINT) for name in names))


def show_sources(engine: Engine, statement: sql.ShowSources) -> Result:
    """List sources with the tables that they offer, when views over them are synced, and what prevents it."""
    rows = [
        (
            origin.name,
            origin.kind,
            ", ".join(origin.tables),
            origin.sync,
            "; ".join(f"{view}: {trouble}" for view, trouble in engine.source_views.troubles(origin.name).items())
            or None,
        )
        for origin in engine.catalog.origins.values()
    ]
    names = ("name", "type", "tables", "sync", "trouble")
    return Result(rows, tuple(Field(name, STRING) for name in names))


def show_tables(engine: Engine, statement: sql.ShowTables) -> Result:
    """List tables and streams."""
    rows = [
        (table.name, "table" if table.kept else "stream", ", ".join(table.primary_key))
        for table in engine.catalog.tables.values()
        if SUBPLAN_SIGN not in table.name
    ]
    return Result(rows, (Field("name", STRING), Field("kind", STRING), Field("primary_key", STRING)))


def show_views(engine: Engine, statement: sql.ShowViews) -> Result:
    """List views with how they are kept fresh, and how far they are behind."""
    rows = []
    for view in engine.catalog.views.values():
        placed = engine.pipeline[view.name]
        strategies = ", ".join(dict.fromkeys(stage.strategy for stage in view.program.stages))
        fresh = view.fresh if view.refresh.deferred else engine.store.epoch
        refresh = view.options.get("refresh", "immediate")
        late = staleness_of(engine, view)
        behind = (late.epochs, late.partitions, round(late.seconds, 3))
        rows.append((view.name, strategies, placed.runtime.name, refresh, fresh, *behind))
    texts, numbers = ("name", "strategy", "runtime", "refresh"), ("epoch", "epochs_behind", "partitions_behind")
    fields = (*(Field(name, STRING) for name in texts), *(Field(name, BIGINT) for name in numbers))
    return Result(rows, (*fields, Field("seconds_behind", DOUBLE)))


_STATEMENTS: dict[type[sql.Statement], Callable[[Engine, Any], Result]] = {
    sql.CreateFeed: create_feed,
    sql.SelectOql: answer_oql,
    sql.CreateSource: create_source,
    sql.CreateTable: create_table,
    sql.CreateView: create_view,
    sql.Delete: delete,
    sql.Drop: drop,
    sql.ExplainView: explain_view,
    sql.Insert: insert,
    sql.RefreshView: refresh_view,
    sql.ReplayLate: replay_late,
    sql.Select: answer,
    sql.ShowFeeds: show_feeds,
    sql.ShowCreateTable: show_create_table,
    sql.ShowPartitions: show_partitions,
    sql.ShowSources: show_sources,
    sql.ShowTables: show_tables,
    sql.ShowViews: show_views,
    sql.Update: update,
}
