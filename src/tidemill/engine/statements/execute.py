"""Execution of SQL statements: one function for each kind of statement."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.definitions.build_statements import ChangeBuild, ShowBuilds
from tidemill.compiler.frontends.script.definitions.stage_statements import DropStage, PromoteStage, ShowStages
from tidemill.compiler.frontends.script.grants import GrantPrivileges, RevokePrivileges, ShowGrants
from tidemill.compiler.frontends.script.listings.show_refreshes import ShowClocks, ShowCosts, ShowRefreshes, ShowState
from tidemill.compiler.frontends.script.row_changes.release_reader import ReleaseErrors
from tidemill.compiler.frontends.script.transactions import BeginTransaction, CommitTransaction, RollbackTransaction
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.registered_functions import resolve_registered
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.entries.constraints import missing_parents, require_unreferenced
from tidemill.engine.catalog.entries.feed_entry import FeedEntry
from tidemill.engine.catalog.entries.named_definitions import words_of
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.engine.catalog.views.build_entry import is_built_in_background
from tidemill.engine.catalog.views.publication import with_publication
from tidemill.engine.definitions.planning import planned_view
from tidemill.engine.definitions.stored_statistics import analyze_relations
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.explanation.explain import explanation_of
from tidemill.engine.partitions.beginnings import beginning_notes
from tidemill.engine.partitions.late_replay import replay_late_changes
from tidemill.engine.results import Result
from tidemill.engine.statements.builds import about_build, change_build, show_builds, start_build
from tidemill.engine.statements.ddl import named_definitions as named
from tidemill.engine.statements.ddl.alter import alter_sync, alter_table, rename
from tidemill.engine.statements.ddl.alter_view import alter_view, replace_view
from tidemill.engine.statements.ddl.deploy_stages import drop_stage, promote_stage, require_no_stage, show_stages
from tidemill.engine.statements.ddl.explain_definition import explain_definition
from tidemill.engine.statements.ddl.lake_tables import create_lake_table, describe_history, refresh_table
from tidemill.engine.statements.ddl.redefine import publish_anew, unpublish
from tidemill.engine.statements.dml.changes import delete, insert, update
from tidemill.engine.statements.dml.implicit_casts import ImplicitCastWarning, implicit_number_notes
from tidemill.engine.statements.dml.merge import merge
from tidemill.engine.statements.dml.release import release_errors
from tidemill.engine.statements.grants import grant, require_right, revoke, show_grants
from tidemill.engine.statements.listings import show
from tidemill.engine.statements.listings.show_refreshes import show_clocks, show_costs, show_refreshes, show_state
from tidemill.engine.statements.prepared_statements.parameters import refuse_parameters
from tidemill.engine.statements.queries.select import explain_query, select, select_oql
from tidemill.engine.statements.transactions import begin, commit, require_allowed, rollback
from tidemill.engine.streams.rejected_rows import table_of_rejects
from tidemill.model.errors import ParseError, SetupError, UnknownName
from tidemill.model.paths import local_path
from tidemill.model.types import STRING, Field


def execute(engine: Engine, statement: sql.Statement) -> Result:
    """Execute ``statement``."""
    if engine.calls.by_thread:
        engine.calls.next_statement()
        require_right(engine, statement)
    if engine.transactions.by_owner:
        require_allowed(engine, statement)
    if engine.catalog.deploy_stages:
        require_no_stage(engine, statement)
    for tree in sql.trees_of(statement):
        resolve_registered(tree, engine.registry.keys)
    try:
        return _STATEMENTS[type(statement)](engine, statement)
    except UnknownName as error:
        if not engine.rights.reads_all:
            raise
        raise about_build(engine, error) from error.__cause__


def create_table(engine: Engine, statement: sql.CreateTable) -> Result:
    """Add a table or stream."""
    if statement.if_not_exists and statement.table.name in engine.catalog:
        return Result(message=f"{statement.table.name} exists already")
    engine.definitions.create_table(statement.table)
    missing = missing_parents(statement.table, engine.catalog.tables)
    later = f"; it refers to {', '.join(missing)}, which is not there yet" if missing else ""
    return Result(message=f"created {'table' if statement.table.kept else 'stream'} {statement.table.name}{later}")


def create_view(engine: Engine, statement: sql.CreateView) -> Result:
    """Compile a view and fill it."""
    if statement.if_not_exists and (statement.name in engine.catalog or statement.name in engine.catalog.builds):
        return Result(message=f"{statement.name} exists already")
    refuse_parameters(statement)
    if statement.alters or (statement.or_replace and statement.name in engine.catalog.views):
        return replace_view(engine, statement)
    if isinstance(statement.tree, ParsedText):
        named.refuse_temporary(engine, statement.query, f'view "{statement.name}"')
    options = with_publication(statement.name, statement.options, engine.catalog.views, engine.catalog.lakes)
    view = planned_view(engine.state, statement.name, statement.query, options, statement.tree)
    if is_built_in_background(view):
        return start_build(engine, view, replacing=False)
    engine.definitions.create_view(view)
    publish_anew(engine, view.name)
    notes = implicit_number_notes(view)
    for note in notes:
        warnings.warn(note, ImplicitCastWarning, stacklevel=4)
    engine.allowed.tell_of(engine.catalog.view(view.name))
    begins = beginning_notes(engine.catalog, engine.store.positions, view)
    return Result(message=f"created view {statement.name}", notes=(*notes, *begins))


def create_source(engine: Engine, statement: sql.CreateSource) -> Result:
    """Connect to an external database, and record its options and tables in the catalog."""
    if statement.if_not_exists and statement.name in engine.catalog.sources:
        return Result(message=f"source {statement.name} exists already")
    source = SourceEntry.found(statement.name, statement.kind, statement.options, engine.secrets)
    engine.sources.create_source(source)
    return Result(message=f"created source {source.name} with {', '.join(source.relations) or 'no tables'}")


def create_feed(engine: Engine, statement: sql.CreateFeed) -> Result:
    """Add a feed that ingests the files of a folder into a table or stream."""
    if statement.if_not_exists and statement.name in engine.catalog.feeds:
        return Result(message=f"feed {statement.name} exists already")
    folder = local_path(statement.folder, "folder of a feed").resolve()
    if folder.exists() and not folder.is_dir():
        raise SetupError("a feed takes the files of a folder, and this is a file", where=str(folder))
    feed = FeedEntry(statement.name, statement.table, str(folder), statement.options)
    bad_rows = table_of_rejects(engine.catalog, engine.catalog.table(feed.table))
    if feed.on_error == "quarantine" and bad_rows is not None:
        engine.definitions.create_table(bad_rows)
    engine.sources.create_feed(feed)
    missing = "" if folder.is_dir() else f"; its folder is not there yet: {folder}"
    return Result(message=f"created feed {statement.name}{missing}")


def drop(engine: Engine, statement: sql.Drop) -> Result:
    """Remove a table, stream, source, feed or view."""
    if statement.kind == "source":
        return _drop_source(engine, statement)
    if statement.kind == "feed":
        return _drop_feed(engine, statement)
    if statement.kind == "view" and statement.name in engine.named.queries:
        return _drop_named_query(engine, statement)
    if statement.name not in engine.catalog and statement.if_exists:
        return Result(message=f"there is no {statement.name}")
    name = engine.catalog.entry(statement.name).name
    readers = [one for one in engine.catalog.with_readers([name]) if one != name] if statement.cascade else []
    if statement.kind == "view":
        engine.definitions.drop(engine.catalog.view(name).name, readers=readers)
    else:
        table = engine.catalog.table(statement.name)
        kind = "stream" if engine.catalog.is_stream(table.name) else "table"
        if kind != statement.kind:
            raise UnknownName(f'"{table.name}" is a {kind}', where=statement.place, hint=f"Use DROP {kind.upper()}.")
        with engine.lakes.alone() if table.name in engine.catalog.lakes else nullcontext(), engine.settled():
            require_unreferenced(table.name, engine.catalog.tables, lambda name: not engine.contents(name).zset())
            engine.definitions.drop(table.name, readers=readers)
            engine.lakes.drop(table.name)
    unpublish(engine, (name, *readers))
    return Result(message=f"dropped {', '.join((name, *readers))}")


def _drop_named_query(engine: Engine, statement: sql.Drop) -> Result:
    """Remove a view that is not materialized, and with CASCADE the materialized views that use it."""
    used = [view.name for view in engine.catalog.views.values() if statement.name in words_of(view.query, engine.named)]
    stored = statement.name not in engine.session.definitions.queries
    gone = engine.catalog.with_readers(used) if statement.cascade and stored else []
    if gone:
        engine.definitions.drop(gone[-1], readers=gone[:-1])
        unpublish(engine, gone)
    named.drop_named_query(engine, statement.name)
    return Result(message=f"dropped {', '.join((statement.name, *gone))}")


def _drop_source(engine: Engine, statement: sql.Drop) -> Result:
    if statement.name not in engine.catalog.sources and statement.if_exists:
        return Result(message=f"there is no source {statement.name}")
    engine.sources.drop_source(statement.name)
    return Result(message=f"dropped source {statement.name}")


def _drop_feed(engine: Engine, statement: sql.Drop) -> Result:
    if statement.name not in engine.catalog.feeds and statement.if_exists:
        return Result(message=f"there is no feed {statement.name}")
    engine.sources.drop_feed(statement.name)
    return Result(message=f"dropped feed {statement.name}")


def answer(engine: Engine, statement: sql.Select) -> Result:
    """Run a one-off query."""
    return select(engine, statement.query)


def execute_immediate(engine: Engine, statement: sql.ExecuteImmediate) -> Result:
    """Execute a statement whose text is a value, with values for its parameter markers."""
    text = named.statement_text(engine, statement)
    statements = parse(text, name="statement")
    if len(statements) != 1:
        raise ParseError("EXECUTE IMMEDIATE takes one statement", where=statement.place)
    with engine.given(named.markers_of(engine, statement)):
        if not statement.into:
            return execute(engine, statements[0])
        if not isinstance(statements[0], sql.Select):
            raise ParseError("INTO takes the row of a query", where=statement.place)
        return named.set_from_query(engine, statement.into, statements[0].query, statement.place)


def answer_oql(engine: Engine, statement: sql.SelectOql) -> Result:
    """Run a one-off OQL query."""
    return select_oql(engine, statement.query)


def explain_view(engine: Engine, statement: sql.ExplainView) -> Result:
    """Explain how a view is maintained, and why."""
    return Result([(explanation_of(engine, statement.name),)], (Field("explanation", STRING),))


def analyze(engine: Engine, statement: sql.Analyze) -> Result:
    """Count the values of all columns of tables and views."""
    found = analyze_relations(engine.state, engine.epochs, engine.settled, statement.names)
    told = f"analyzed {sum(found.values())} columns of {', '.join(found)}" if found else "there is nothing to analyze"
    return Result(message=told)


def refresh_view(engine: Engine, statement: sql.RefreshView) -> Result:
    """Bring a deferred view up to date."""
    epoch = engine.refresh(statement.name)
    engine.tell([statement.name])
    return Result(message=f"{statement.name} shows epoch {epoch}")


def replay_late(engine: Engine, statement: sql.ReplayLate) -> Result:
    """Replay late changes."""
    return Result(message=replay_late_changes(engine, statement).told(engine.catalog.table(statement.table)))


_STATEMENTS: dict[type[sql.Statement], Callable[[Engine, Any], Result]] = {
    BeginTransaction: begin,
    CommitTransaction: commit,
    RollbackTransaction: rollback,
    sql.CreateFeed: create_feed,
    sql.SelectOql: answer_oql,
    sql.CreateSource: create_source,
    sql.CreateFunction: named.create_function,
    sql.CreateNamedQuery: named.create_named_query,
    sql.CreateTableAs: named.create_table_as,
    sql.DeclareVariable: named.declare_variable,
    sql.DescribeFunction: named.describe_function,
    sql.DescribeHistory: describe_history,
    sql.DescribeTable: named.describe_table,
    sql.DropFunction: named.drop_function,
    sql.ExecuteImmediate: execute_immediate,
    sql.DropVariable: named.drop_variable,
    sql.SetVariables: named.set_variables,
    sql.ShowFunctions: named.show_functions,
    sql.ShowSchemas: named.show_schemas,
    sql.UseSchema: named.use_schema,
    sql.CreateTable: create_table,
    sql.CreateLakeTable: create_lake_table,
    sql.CreateView: create_view,
    sql.AlterSync: alter_sync,
    sql.AlterTable: alter_table,
    sql.AlterView: alter_view,
    sql.Rename: rename,
    sql.Analyze: analyze,
    ChangeBuild: change_build,
    sql.Delete: delete,
    sql.Drop: drop,
    sql.ExplainView: explain_view,
    sql.ExplainDefinition: explain_definition,
    sql.ExplainQuery: explain_query,
    sql.Insert: insert,
    sql.Merge: merge,
    sql.RefreshTable: refresh_table,
    sql.RefreshView: refresh_view,
    sql.ReplayLate: replay_late,
    ReleaseErrors: release_errors,
    GrantPrivileges: grant,
    RevokePrivileges: revoke,
    ShowGrants: show_grants,
    sql.Select: answer,
    ShowBuilds: show_builds,
    ShowStages: show_stages,
    PromoteStage: lambda engine, statement: promote_stage(engine, statement, execute),
    DropStage: drop_stage,
    sql.ShowFeeds: show.show_feeds,
    sql.ShowCreate: show.show_create,
    sql.ShowPartitions: show.show_partitions,
    sql.ShowPlans: show.show_plans,
    ShowRefreshes: show_refreshes,
    ShowCosts: show_costs,
    ShowState: show_state,
    ShowClocks: show_clocks,
    sql.ShowSources: show.show_sources,
    sql.ShowStatistics: show.show_statistics,
    sql.ShowTables: show.show_tables,
    sql.ShowViews: show.show_views,
    sql.Update: update,
}
