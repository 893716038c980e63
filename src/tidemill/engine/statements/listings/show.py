"""SHOW: the contents of the catalog and their state, as rows."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.table_references import quoted
from tidemill.compiler.plan import Decision
from tidemill.compiler.statistics.column_values import ColumnStatistics
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.planning import plan_decisions
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.measures.relation_statistics import RelationStatistics, relation_statistics
from tidemill.engine.inspect.staleness import Unseen, staleness_of
from tidemill.engine.partitions.listing import partitions_of
from tidemill.engine.quarantine.notes import quarantine_note
from tidemill.engine.results import Result
from tidemill.engine.statements.builds import building_rows
from tidemill.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Field
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN
from tidemill.sources.lake.lake_table import version_shown


def show_partitions(engine: Engine, statement: sql.ShowPartitions) -> Result:
    """List the non-empty partitions of a table or view, and if they can still change."""
    kinds = {"name": STRING, "number": BIGINT, "start": TIMESTAMP, "rows": BIGINT, "state": STRING}
    fields = tuple(Field(name, kind) for name, kind in kinds.items())
    return Result(partitions_of(engine.catalog, engine.store.positions, engine.answer, statement.name), fields)


def show_create(engine: Engine, statement: sql.ShowCreate) -> Result:
    """Return the statement that creates a table, stream or view, with all of its constraints and options."""
    if statement.kind == "view" and statement.name in engine.catalog.tables:
        engine.catalog.view(statement.name)
    return Result([(definition_of(engine, statement.name),)], (Field("createtab_stmt", STRING),))


def definition_of(engine: Engine, name: str) -> str:
    """The statement that creates a table, stream or view, materialized or not."""
    if name in engine.catalog.builds:
        return view_definition(engine.catalog.builds[name].view)
    query = engine.named.queries.get(name)
    if query is not None:
        kind = "TEMPORARY VIEW" if name in engine.session.definitions.queries else "VIEW"
        columns = f" ({', '.join(map(quoted, query.columns))})" if query.columns else ""
        return f"CREATE {kind} {quoted(name)}{columns} AS {query.text}"
    entry = engine.catalog.entry(name)
    if isinstance(entry, View):
        return view_definition(entry)
    lake = engine.catalog.lakes.get(entry.name)
    return ddl(replace(entry, kept=True)) + lake.clause if lake else ddl(entry)


def show_feeds(engine: Engine, statement: sql.ShowFeeds) -> Result:
    """List feeds with their folders, the numbers of waiting files and of those set aside, and their trouble."""
    rows = []
    for feed in engine.catalog.feeds.values():
        state = engine.feeds.state(feed)
        known = (state.waiting, state.last, state.aside, state.trouble)
        rows.append((feed.name, feed.table, feed.folder, feed.sync, *known))
    texts = ("name", "into", "folder", "sync", "last", "trouble")
    names = ("name", "into", "folder", "sync", "waiting", "last", "aside", "trouble")
    return Result(rows, tuple(Field(name, STRING if name in texts else BIGINT) for name in names))


def show_sources(engine: Engine, statement: sql.ShowSources) -> Result:
    """List sources with the tables that they offer, when views over them are synced, and their trouble."""
    rows = [
        (
            source.name,
            source.kind,
            ", ".join(source.tables),
            source.sync,
            "; ".join(f"{view}: {trouble}" for view, trouble in engine.source_views.troubles(source.name).items())
            or None,
        )
        for source in engine.catalog.sources.values()
    ]
    names = ("name", "type", "tables", "sync", "trouble")
    return Result(rows, tuple(Field(name, STRING) for name in names))


def show_plans(engine: Engine, statement: sql.ShowPlans) -> Result:
    """List the decisions about the plans of all views, or of one, the oldest first."""
    with engine.settled():
        found = plan_decisions(engine.state, *filter(None, [statement.view]))
    rows = [
        (view, one.epoch, one.cause, one.chosen, one.reason, one.visits, one.bytes, one.measured, _listed(one))
        for view, decisions in found.items()
        for one in decisions
    ]
    kinds = {"view": STRING, "epoch": BIGINT, "cause": STRING, "chosen": STRING, "reason": STRING}
    kinds |= {"predicted_visits": DOUBLE, "predicted_bytes": DOUBLE, "measured_us": DOUBLE, "candidates": STRING}
    return Result(rows, tuple(Field(name, kind) for name, kind in kinds.items()))


def _listed(decision: Decision) -> str | None:
    return "; ".join(map(str, decision.candidates)) or None


def show_statistics(engine: Engine, statement: sql.ShowStatistics) -> Result:
    """List the statistics of all tables and views, or of the analyzed columns of one and the maps that it keeps."""
    with engine.settled():
        if statement.name is None:
            return _relation_rows(list(relation_statistics(engine)))
        (found,) = relation_statistics(engine, statement.name)
        return _column_rows(found, engine.store.epoch)


def _relation_rows(found: list[RelationStatistics]) -> Result:
    texts, rates = ("name", "kind"), ("insert_rate", "update_rate", "delete_rate")
    counts = ("rows", "bytes", "inserted", "updated", "deleted", "epochs")
    names = (*texts, *counts, *rates, "reads", "subscribers")
    kinds = dict.fromkeys(texts, STRING) | dict.fromkeys(rates, DOUBLE)
    rows = [tuple(getattr(one, name) for name in names) for one in found]
    return Result(rows, tuple(Field(name, kinds.get(name, BIGINT)) for name in names))


def _column_rows(found: RelationStatistics, epoch: int) -> Result:
    rows = [(name, *_value_cells(one.statistics), one.epoch, None, None) for name, one in found.columns.items()]
    for kept in found.maps.values():
        rows.append((None, kept.entries, *[None] * 6, epoch, kept.name, kept.bytes))
        rows += [(name, *_value_cells(one), epoch, kept.name, None) for name, one in kept.lookups.items()]
    kinds = {"column": STRING, "rows": BIGINT, "distinct": BIGINT, "nulls": BIGINT, "matches": DOUBLE}
    kinds |= {"least": STRING, "greatest": STRING, "frequent": STRING, "epoch": BIGINT, "map": STRING, "bytes": BIGINT}
    return Result(rows, tuple(Field(name, kind) for name, kind in kinds.items()))


def _value_cells(known: ColumnStatistics) -> tuple[object, ...]:
    frequent = ", ".join(f"{value} ({count / known.rows:.1%})" for value, count in known.frequent)
    return known.rows, known.distinct, known.nulls, known.matches, known.least, known.greatest, frequent


def is_like(name: str, pattern: str | None) -> bool:
    """True if a name is like the pattern of a SHOW, in which ``*`` is anything and ``|`` separates several.

    >>> is_like("orders", "o*|items"), is_like("orders", "order"), is_like("orders", None)
    (True, False, True)
    """
    return pattern is None or any(fnmatchcase(name, one.strip()) for one in pattern.lower().split("|"))


def show_tables(engine: Engine, statement: sql.ShowTables) -> Result:
    """List tables and streams; a lake table has its format, its location and the version that was taken last."""
    rows = [
        (
            table.name,
            "stream" if engine.catalog.is_stream(table.name) else "table",
            ", ".join(table.primary_key),
            *_lake_cells(engine, table.name),
        )
        for table in engine.catalog.tables.values()
        if SUBPLAN_SIGN not in table.name
    ]
    rights, names = engine.rights, ("name", "kind", "primary_key", "format", "location", "version")
    if not rights.reads_all:
        rows = [(*row[:3], None, None, None) for row in rows if rights.sees(row[0])]
    rows = [row for row in rows if is_like(row[0], statement.pattern)]
    return Result(rows, tuple(Field(name, STRING) for name in names))


def _lake_cells(engine: Engine, name: str) -> tuple[str | None, str | None, str | None]:
    lake = engine.catalog.lakes.get(name)
    if lake is None:
        return None, None, None
    return lake.format, lake.location, version_shown(engine.store.positions.get(lake.position, ""))


def show_views(engine: Engine, statement: sql.ShowViews) -> Result:
    """List views with how they are maintained, and their staleness; of one that is being built, that."""
    rows: list[tuple[object, ...]] = []
    known: dict[tuple[str, int], Unseen] = {}
    rights = engine.rights
    for view in engine.catalog.shown_views():
        if not rights.reads_all:
            rows += [(view.name, *[None] * 8)] if rights.sees(view.name) else []
            continue
        placed = engine.pipeline.find(view.name)
        if placed is None:  # another thread is replacing it
            continue
        strategies = ", ".join(dict.fromkeys(stage.strategy for stage in view.full_program.stages))
        fresh = view.fresh if view.refresh.deferred else engine.store.epoch
        refresh = view.options.get("refresh", "immediate")
        late = staleness_of(engine.catalog, engine.store, view, known)
        behind = (late.epochs, late.partitions, round(late.seconds, 3))
        runtime = f"{placed.runtime.name}, recomputed" if placed.measured.last_recomputed else placed.runtime.name
        note = quarantine_note(engine.catalog, engine.state.quarantine.marks, view)
        rows.append((view.name, strategies, runtime, refresh, fresh, *behind, note))
    texts, numbers = ("name", "strategy", "runtime", "refresh"), ("epoch", "epochs_behind", "partitions_behind")
    described = (*(Field(name, STRING) for name in texts), *(Field(name, BIGINT) for name in numbers))
    fields = (*described, Field("seconds_behind", DOUBLE), Field("quarantine", STRING))
    rows += building_rows(engine, len(fields)) if rights.reads_all else []
    return Result([row for row in rows if is_like(str(row[0]), statement.pattern)], fields)
