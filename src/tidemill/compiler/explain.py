"""EXPLAIN: what keeps a view fresh, what one change costs, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemill.compiler.choose import reason_for
from tidemill.program.reads import reads_old, reads_state
from tidemill.program.statements import Add, Program, Read, Replace, Seek, Source, Stage, Step, Trigger
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

    A lookup costs what it finds, and by all keys of a map that is one entry. A loop over all rows of a relation costs
    the data, unless that is a global aggregate, which has one row.
    """
    keys = {map_.name: {f.name for f in map_.keys} for stage in program.stages for map_ in stage.maps}
    single = {stage.name for stage in program.stages if stage.finish is not None and stage.finish.always}
    single |= {name for name, columns in keys.items() if not columns}
    state = list(filter(reads_old, _steps(trigger)))
    loops = [step for step in state if isinstance(step, Source)]
    scanned = dict.fromkeys(source.relation for source in loops if not source.lookup and source.relation not in single)
    if scanned and any(isinstance(statement, Replace) for statement in trigger.statements):
        return "O(data): everything is computed again"
    if scanned:
        return f"O(data): it visits all of {' and '.join(scanned)}"
    if any({name for name, _ in source.lookup} != keys.get(source.relation) for source in loops):
        return "O(matches): index lookups only"
    if any(isinstance(step, Seek) or (isinstance(step, Read) and step.range) for step in state):
        return "O(log n): sums over ranges of ordered keys"
    return "O(1): single entries of maps, by their keys" if state else "O(1): the changed row is enough"


def _steps(trigger: Trigger) -> Iterator[Step]:
    """What a trigger reads, but for what it does only while a guard fails."""
    for statement in trigger.statements:
        for query in (statement.query,) if isinstance(statement, Add) else statement.queries:
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
    if stage.note:
        yield f"note: {stage.note}"
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
