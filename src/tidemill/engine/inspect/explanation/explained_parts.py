"""An explanation for programs: what EXPLAIN says of a view, as dictionaries and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tidemill.compiler.choose import reason_for
from tidemill.compiler.statistics.costs import DeclaredKeys, cost_of_trigger
from tidemill.engine.catalog.views.view import View
from tidemill.engine.inspect.explanation.program_graph import ProgramGraph
from tidemill.program.maps import Map
from tidemill.program.stages import Program, Stage
from tidemill.program.statements import Trigger
from tidemill.program.text import text_of_statement

__all__ = ["explained_parts"]


def explained_parts(
    view: View,
    facts: Mapping[str, str],
    sizes: Mapping[str, int],
    comparison: Sequence[str],
    keys: DeclaredKeys,
    expiry: Mapping[str, str],
    graph: ProgramGraph,
) -> dict[str, Any]:
    """The facts about a view, its stages with maps and triggers, its graph, and the plans that were considered."""
    program = view.program
    return {
        "view": view.name,
        "facts": dict(facts),
        "stages": [_stage(stage, program, sizes, keys, expiry) for stage in program.stages],
        "graph": asdict(graph),
        "comparison": list(comparison),
        "decisions": [asdict(decision) for decision in view.plan.log],
    }


def _stage(
    stage: Stage, program: Program, sizes: Mapping[str, int], keys: DeclaredKeys, expiry: Mapping[str, str]
) -> dict[str, Any]:
    reason = reason_for(stage)
    return {
        "name": stage.name,
        "strategy": stage.strategy,
        "why": f"{reason.code}, {reason.text}",
        "note": stage.note,
        "inputs": list(stage.inputs),
        "columns": [field.name for field in stage.output],
        "rows": sizes.get(stage.name),
        "maps": [_map(map_, sizes, expiry) for map_ in stage.maps],
        "triggers": [_trigger(trigger, stage, program, keys) for trigger in stage.triggers],
    }


def _map(map_: Map, sizes: Mapping[str, int], expiry: Mapping[str, str]) -> dict[str, Any]:
    names = {"keys": [field.name for field in map_.keys], "values": [value.name for value in map_.values]}
    return {"name": map_.name, **names, "entries": sizes.get(map_.name), "expiry": expiry.get(map_.name, "")}


def _trigger(trigger: Trigger, stage: Stage, program: Program, keys: DeclaredKeys) -> dict[str, Any]:
    return {
        "relation": trigger.relation,
        "cost": str(cost_of_trigger(trigger, program, keys)),
        "statements": [text_of_statement(statement, stage) for statement in trigger.statements],
    }
