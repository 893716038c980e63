"""EXPLAIN: the stages of a view, the cost of one change, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemill.compiler.choose import reason_for
from tidemill.compiler.join_bounds import StageFigures, join_lines
from tidemill.compiler.statistics.costs import (
    NO_KEYS,
    DeclaredKeys,
    cost_of_emission,
    cost_of_stage,
    cost_of_trigger,
    retractions_of,
)
from tidemill.model.errors import Unsupported
from tidemill.program.joingraph import Serve
from tidemill.program.reads import reads_state
from tidemill.program.stages import GroupEmission, Program, Stage, key_of_groups
from tidemill.program.text import text_of_program

NO_FIGURES: Mapping[str, int] = {}
NO_PREDICTIONS: Mapping[str, StageFigures] = {}
NO_EXPIRY: Mapping[str, str] = {}


def explain(
    program: Program,
    *,
    facts: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] = NO_FIGURES,
    comparison: Sequence[str] = (),
    keys: DeclaredKeys = NO_KEYS,
    figures: Mapping[str, StageFigures] = NO_PREDICTIONS,
    expiry: Mapping[str, str] = NO_EXPIRY,
) -> str:
    """The stages of ``program`` as a tree, each with strategy, reason, cost and maps, and then the program itself.

    ``facts`` come from the engine (runtime, measured figures) and are printed first; ``sizes`` are stored rows by map.
    ``comparison`` is the predicted cost of other strategies (see ``compare_strategies``). A lookup by one of the
    declared ``keys`` finds one row. ``figures`` are predicted for stages, by which they are held against the bounds of
    their joins. ``expiry`` says of maps when they forget.
    """
    keys = {**keys, **dict(_stage_keys(program))}
    keys = {**keys, **dict(_member_keys(program, keys))}
    known = facts or {}
    width = max(map(len, known), default=0)
    below = "\n" + " " * (width + 4)
    lines = [f"  {name:<{width}}  {value}".replace("\n", below) for name, value in known.items()]
    heading = [f"view {program.view}", *lines]
    compared = ["", *comparison] if comparison else []
    return "\n".join(
        [*heading, "", *_tree(program, sizes, keys, figures, expiry), *compared, "", text_of_program(program)]
    )


def _stage_keys(program: Program) -> Iterator[tuple[str, frozenset[str]]]:
    """The keys of the stages that group, for those that look their rows up."""
    for stage in program.stages:
        for map_ in stage.maps:
            if isinstance(stage.finish, GroupEmission) and stage.finish.source == map_.name:
                key = key_of_groups(stage.finish, map_)
                if key is not None:
                    yield stage.name, key


def _member_keys(program: Program, keys: DeclaredKeys) -> Iterator[tuple[str, frozenset[str]]]:
    """The declared keys of relations that join graphs hold, for their maps."""
    for stage in program.stages:
        columns = {map_.name: {f.name for f in map_.keys} for map_ in stage.maps}
        for member in (member for graph in stage.graphs for member in graph.members):
            if member.relation in keys and keys[member.relation] <= columns[member.map]:
                yield member.map, keys[member.relation]


def _tree(
    program: Program,
    sizes: Mapping[str, int] = NO_FIGURES,
    keys: DeclaredKeys = NO_KEYS,
    figures: Mapping[str, StageFigures] = NO_PREDICTIONS,
    expiry: Mapping[str, str] = NO_EXPIRY,
) -> list[str]:
    """Each stage below the first one that reads it; the view is the root, and its leaves are tables and views."""
    stages = {stage.name: stage for stage in program.stages}
    shown: set[str] = set()

    def branch(name: str) -> list[str]:
        if name not in stages:
            return [name]
        if name in shown:
            return [f"{name} (as above)"]
        shown.add(name)
        below = [branch(read) for read in stages[name].inputs]
        stem = "│ " if below else "  "
        notes = [stem + note for note in _notes(stages[name], program, sizes, keys, figures.get(name), expiry)]
        return [f"{name}: {_how(stages[name], program, keys)}", *notes, *_branch_lines(below)]

    return branch(program.view)


def _how(stage: Stage, program: Program, keys: DeclaredKeys) -> str:
    cost = cost_of_stage(stage, program, keys)
    return f"{'recomputed' if cost.recomputes else 'incremental'}, {stage.strategy}, {cost.kind}"


def _notes(
    stage: Stage,
    program: Program,
    sizes: Mapping[str, int],
    keys: DeclaredKeys,
    figures: StageFigures | None,
    expiry: Mapping[str, str],
) -> Iterator[str]:
    reason = reason_for(stage)
    yield f"why: {reason.code}, {reason.text}"
    if stage.note:
        yield f"note: {stage.note}"
    costs = [cost_of_trigger(trigger, program, keys) for trigger in stage.triggers]
    for trigger, cost in zip(stage.triggers, costs, strict=True):
        yield f"a change of {trigger.relation} costs {cost}"
    yield from map(str, stage.references)
    rows = cost_of_emission(stage)
    if rows is not None:
        yield f"and its rows {rows}"
    if retractions := retractions_of(stage):
        yield f"deletions: {retractions}"
    of_inputs = {trigger.relation: cost for trigger, cost in zip(stage.triggers, costs, strict=True)}
    yield from join_lines(stage, of_inputs if rows is None else of_inputs | {stage.name: rows}, figures)
    for hint in dict.fromkeys(cost.hint for cost in (*costs, rows) if cost is not None and cost.hint):
        yield f"hint: {hint}"
    for map_ in stage.maps:
        yield f"keeps map {map_.name}[{', '.join(f.name for f in map_.keys)}]{_stored(map_.name, sizes)}"
        if map_.name in expiry:
            yield f"  {expiry[map_.name]}"
    if stage.name == program.view or stage.name in reads_state(program):
        yield f"{_KEEPS[stage.serve]}{_stored(stage.name, sizes)}"
        if stage.name in expiry:
            yield f"  {expiry[stage.name]}"


_KEEPS = {
    Serve.BOTH: "keeps its rows",
    Serve.SUBSCRIBE: "keeps its last changes, and no rows",
    Serve.READ: "keeps no rows",
}


def _stored(name: str, sizes: Mapping[str, int]) -> str:
    return f": {sizes[name]:,} stored" if name in sizes else ""


def _branch_lines(branches: Sequence[Sequence[str]]) -> Iterator[str]:
    """The branches of a tree below their stem."""
    for i, (head, *rest) in enumerate(branches, 1):
        last = i == len(branches)
        yield ("└─ " if last else "├─ ") + head
        yield from (("   " if last else "│  ") + line for line in rest)


def require_incremental(program: Program) -> None:
    """Refuse a program that recomputes more than touched groups and partitions, with the explanation."""
    again = {stage.name: cost_of_stage(stage, program) for stage in program.stages}
    for name, cost in again.items():
        if cost.recomputes:
            raise Unsupported(
                f"view \"{program.view}\" is not incremental, and has require = 'incremental'",
                where=name,
                detail="\n".join([f"{cost}.", *_tree(program)]),
                hint=cost.hint,
            )
