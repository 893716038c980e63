"""EXPLAIN: what keeps a view fresh, what one change costs, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemill.compiler.choose import reason_for
from tidemill.program.reads import queries_of, reads_state
from tidemill.program.statements import Program, Replace, Source, Stage, Trigger, Version
from tidemill.program.text import text_of_program

NO_FIGURES: Mapping[str, int] = {}


def explain(program: Program, *, facts: Mapping[str, str] | None = None, sizes: Mapping[str, int] = NO_FIGURES) -> str:
    """The stages of ``program`` as a tree, each with strategy, reason, cost and maps, and then the program itself.

    ``facts`` are what the engine knows (runtime, measured figures) and stand first; ``sizes`` are stored rows by map.
    """
    known = facts or {}
    width = max(map(len, known), default=0)
    heading = [f"view {program.view}", *(f"  {name:<{width}}  {value}" for name, value in known.items())]
    return "\n".join([*heading, "", *_tree(program, sizes), "", text_of_program(program)])


def cost_of(trigger: Trigger, program: Program) -> str:
    """What one changed row costs a trigger: the class of its dearest statement, in words.

    A lookup costs what it finds. A loop over all rows of a relation costs the data, unless that is a global aggregate,
    which has one row.
    """
    if any(isinstance(statement, Replace) for statement in trigger.statements):
        return "O(data): everything is computed again"
    single = {stage.name for stage in program.stages if stage.finish is not None and stage.finish.always}
    state = [source for source in _sources(trigger) if source.version is Version.STATE]
    scanned = dict.fromkeys(s.relation for s in state if not s.lookup and s.relation not in single)
    if scanned:
        return f"O(data): it visits all of {' and '.join(scanned)}"
    return "O(matches): index lookups only" if state else "O(1): the changed row is enough"


def _sources(trigger: Trigger) -> Iterator[Source]:
    for statement in trigger.statements:
        for query in queries_of(statement):
            yield from query.sources


def _tree(program: Program, sizes: Mapping[str, int]) -> list[str]:
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
        notes = [stem + note for note in _notes(stages[name], program, sizes)]
        return [f"{name}: {stages[name].strategy}", *notes, *_hung(below)]

    return branch(program.view)


def _notes(stage: Stage, program: Program, sizes: Mapping[str, int]) -> Iterator[str]:
    yield f"why: {reason_for(stage).value}"
    for trigger in stage.triggers:
        yield f"a change of {trigger.relation} costs {cost_of(trigger, program)}"
    for map_ in stage.maps:
        yield f"keeps map {map_.name}[{', '.join(f.name for f in map_.keys)}]{_stored(map_.name, sizes)}"
    if stage.name == program.view or stage.name in reads_state(program):
        yield f"keeps its rows{_stored(stage.name, sizes)}"


def _stored(name: str, sizes: Mapping[str, int]) -> str:
    return f": {sizes[name]:,} stored" if name in sizes else ""


def _hung(branches: Sequence[Sequence[str]]) -> Iterator[str]:
    """The branches of a tree below their stem."""
    for i, (head, *rest) in enumerate(branches, 1):
        last = i == len(branches)
        yield ("└─ " if last else "├─ ") + head
        yield from (("   " if last else "│  ") + line for line in rest)
