"""EXPLAIN of a view: its strategy and runtime with the reasons, its maps, and its costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from tidemill.compiler.explain import explain
from tidemill.compiler.lineage.self_maintenance import event_maintenance
from tidemill.compiler.passes import known_keys
from tidemill.compiler.strategies import STRATEGIES
from tidemill.engine.catalog.entries.oql_queries import object_events
from tidemill.engine.catalog.new_views.view_instances import instance_classes
from tidemill.engine.catalog.views.shared_stages import shared_stage_users
from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.html_output import Explanation
from tidemill.engine.inspect.explanation.automaton_picture import draw_automaton
from tidemill.engine.inspect.explanation.clock_facts import clock_facts
from tidemill.engine.inspect.explanation.explained_parts import explained_parts
from tidemill.engine.inspect.explanation.graph_picture import Drawing, picture_of
from tidemill.engine.inspect.explanation.partition_facts import partition_facts
from tidemill.engine.inspect.explanation.pattern_facts import matches_of, pattern_facts
from tidemill.engine.inspect.explanation.program_graph import ProgramGraph, graph_of
from tidemill.engine.inspect.explanation.source_explain import source_facts
from tidemill.engine.inspect.explanation.strategy_comparison import compare_stored_strategies, stored_figures
from tidemill.engine.inspect.measures.relation_statistics import statistics_text
from tidemill.engine.partitions.bounded_state import map_notes
from tidemill.engine.quarantine.notes import quarantine_note
from tidemill.engine.quarantine.row_groups import why_whole
from tidemill.engine.results import MapSize
from tidemill.program.stages import Program
from tidemill.sources.lake.lake_table import version_shown

__all__ = ["base_reads_of", "explanation_of", "sizes_of"]


def sizes_of(engine: Engine, name: str) -> list[MapSize]:
    """The sizes of the maps of a view; stored entries are counted if this process does not hold a map."""
    with engine.lock:
        engine.transaction.recover()
        placed = engine.pipeline[engine.catalog.view(name).name]
        return [
            MapSize(map_, *size)
            for stage in placed.program.stages
            for map_, size in placed.runtime.sizes(stage).items()
        ]


def base_reads_of(engine: Engine, name: str) -> dict[str, int]:
    """The number of rows of each relation read to maintain a view with lineage, since the warehouse was opened."""
    with engine.lock:
        engine.transaction.recover()
        placed = engine.pipeline[engine.catalog.view(name).name]
        own = {stage.name for stage in placed.program.stages}
        reads = dict.fromkeys((read for stage in placed.program.stages for read in stage.inputs if read not in own), 0)
        for stage in placed.program.stages:
            for relation, rows in engine.placement.base_reads(stage.name).items():
                if relation in reads:
                    reads[relation] += rows
        return reads


def _lineage_facts(engine: Engine, view: View) -> Iterator[tuple[str, str]]:
    """The events that a view with lineage listens to, and the rows that it has read."""
    if any(STRATEGIES[stage.strategy].lists_events for stage in view.program.stages):
        found = event_maintenance(view.program, engine.catalog.tables)
        yield "listens to", "\n".join(map(str, found))
        read = {name for verdict in found for name in verdict.reads}
        reads = base_reads_of(engine, view.name)
        yield "never reads", ", ".join(name for name in reads if name not in read) or "it may read each of its inputs"
        yield "base reads", ", ".join(f"{rows:,} rows of {name}" for name, rows in reads.items() if rows) or "none"


def _lake_facts(engine: Engine, view: View) -> dict[str, str]:
    """The lake tables that a view reads, with the versions that it shows."""
    found = [engine.catalog.lakes[name] for name in view.inputs if name in engine.catalog.lakes]
    at = {lake.name: version_shown(engine.store.positions.get(lake.position, "")) for lake in found}
    told = [
        f"{lake.name} at version {at[lake.name]} of {lake.format} {lake.location}, whose rows are "
        + ("kept here" if lake.keeps_rows else "not kept")
        for lake in found
    ]
    return {"lake tables": "; ".join(told)} if told else {}


def _error_policy(engine: Engine, view: View) -> str:
    groups = engine.state.quarantine.groups(view)
    if not groups:
        return f"quarantine of the whole view: {why_whole(view)}"
    return f"quarantine by {' and '.join(f'{one.of} of {name}' for name, one in groups.items())}"


def explanation_of(engine: Engine, name: str) -> Explanation:
    """Strategy, runtime, program, predicted and measured cost of a view, with reasons."""
    over_sources = source_facts(engine.source_views, engine.catalog.view(name), engine.secrets)
    with engine.settled():
        view = engine.catalog.view(name)
        placed = engine.pipeline[view.name]
        _, reason = engine.placement.choose(placed.measured.last_work, view.runtime_needs)
        facts = {
            "runtime": f"{placed.runtime.name} ({reason})",
            "back end": _backend(placed),
            **dict(_stored_facts(engine, placed)),
            "refresh": view.options.get("refresh", "immediate")
            + (f", weight {view.weight:g}" if view.refresh.scheduled else ""),
            "shows epoch": str(view.fresh if view.refresh.deferred else engine.store.epoch),
            "serves": view.served_text,
            "stored rows": "none" if view.computed_on_read else str(engine.store.rows(view.name)),
            "measured": placed.measured.summary(),
        }
        if on_spark := engine.costs().on_spark():
            facts["on Spark"] = f"{on_spark} for all views in the last epoch; the rest in this process"
        if view.quarantines:
            facts["on error"] = _error_policy(engine, view)
        if note := quarantine_note(engine.catalog, engine.state.quarantine.marks, view):
            facts["quarantine"] = note
        if placed.measured.recomputed:
            facts["recomputed"] = placed.measured.recomputed
        if placed.measured.way:
            facts["way chosen"] = placed.measured.way
        if view.plan.strategies:
            facts["chosen"] = f"by strategy auto: {view.plan.choice}"
        if decisions := [str(decision) for decision in view.plan.log if decision.is_replanning]:
            facts["replanning"] = "\n".join(decisions)
        if view.shares:
            facts["shares"] = f"{', '.join(view.shares.values())}: kept once for all views that need it"
        if users := shared_stage_users(view, engine.catalog.views.values()):
            facts["shared with"] = ", ".join(user.name for user in users)
        readable = engine.catalog.relations | engine.catalog.remote
        instances = instance_classes(engine.catalog, view.query, view.name) if view.is_oql else {}
        if events := object_events(view.query, view.name, engine.catalog.module, readable, instances):
            facts["object events"] = "\n".join(events)
        facts |= (
            over_sources
            | _lake_facts(engine, view)
            | dict(partition_facts(engine.catalog, engine.store.positions, view))
            | dict(_lineage_facts(engine, view))
            | dict(clock_facts(engine, view))
            | dict(pattern_facts(view.program))
        )
        comparison = compare_stored_strategies(view, engine.catalog, engine.store)
        facts["statistics"] = statistics_text(engine, view)
        sizes = {map_: engine.store.rows(map_) for map_ in view.map_names}
        figures = stored_figures(view, engine.catalog, engine.store)
        keys = known_keys(engine.catalog.tables, ())
        expiry = {note.map: str(note) for note in map_notes(engine.catalog, view)}
        told = explain(
            view.program, facts=facts, sizes=sizes, comparison=comparison, keys=keys, figures=figures, expiry=expiry
        )
        graph = partial(_graph, view.program, frozenset(engine.catalog.views))
        parts = partial(explained_parts, view, facts, sizes, comparison, keys, expiry)
        return Explanation(told, lambda: picture_of(graph(), _automata(view.program)), lambda: parts(graph()))


def _automata(program: Program) -> Iterator[Drawing]:
    """The automata of the patterns of a view, as far as they can be drawn."""
    return (drawing for match in matches_of(program) if (drawing := draw_automaton(match)) is not None)


def _graph(program: Program, views: Collection[str]) -> ProgramGraph:
    return graph_of(program, lambda name: "view" if name in views else "table")


def _stored_facts(engine: Engine, placed: PlacedProgram) -> Iterator[tuple[str, str]]:
    """The maps and inputs of a view that are on disk, where changes look up what they touch."""
    left = dict.fromkeys(name for stage in placed.program.stages for name in placed.runtime.left_in_store(stage))
    if left and not engine.placement.in_memory:
        yield "on disk", ", ".join(f"{name} ({engine.store.rows(name):,} rows)" for name in left)


def _backend(placed: PlacedProgram) -> str:
    return "; ".join(dict.fromkeys(placed.runtime.explain(stage) for stage in placed.program.stages))
