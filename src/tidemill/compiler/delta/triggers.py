"""First-order triggers: statements that add a change, or the whole inputs, to the targets of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tidemill.compiler.analysis.blocks import QueryBlock, RelationKeys, blocks
from tidemill.compiler.analysis.foreign_keys import listed_once, parents_first, unmatched_reference
from tidemill.compiler.delta.derive import derive
from tidemill.compiler.delta.nested_loops import nested_loops
from tidemill.compiler.delta.stream_history import find_histories, histories_by_map, read_from_history
from tidemill.compiler.staging.recursion import with_iteration_trigger
from tidemill.compiler.staging.stages import StageDraft
from tidemill.program.joins import AppendedReference
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Trigger


def change_of(draft: StageDraft, name: str, keys: RelationKeys) -> Iterator[Add]:
    """Statements that add a change of relation ``name`` to each target of the stage."""
    return (Add(target, nested_loops(block, keys)) for target, block in _changed_blocks(draft, name))


def _changed_blocks(draft: StageDraft, name: str) -> Iterator[tuple[str, QueryBlock]]:
    """The blocks of the change of each target of the stage."""
    for target, body in draft.sums:
        change = derive(body, name)
        if change is not None:
            yield from ((target, block) for block in blocks(change))


def load_of(draft: StageDraft, keys: RelationKeys, streams: Set[str]) -> Iterator[Add]:
    """Statements that add the whole inputs to each target of the stage.

    Blocks that read a stream, or rows of the stage's own recursion, are empty at that time and left out.
    """
    for target, body in draft.sums:
        for block in blocks(body):
            if (streams | draft.own_maps).isdisjoint(leaf.relation for leaf in block.leaves):
                yield Add(target, nested_loops(block, keys))


def first_order_stage(
    draft: StageDraft,
    keys: RelationKeys,
    streams: Set[str],
    strategy: str,
    references: Sequence[AppendedReference] = (),
    static: Set[str] = frozenset(),
) -> Stage:
    """The stage of ``strategy`` whose triggers add the change of its body, but for what ``references`` show to be
    empty. Changes of ``static`` inputs add nothing."""
    names = (*draft.inputs, *draft.own_maps)
    changed = [(name, *found) for name in names if name not in static for found in _changed_blocks(draft, name)]
    empty_by = [unmatched_reference(block, references) for _, _, block in changed]
    changes: dict[str, list[Add]] = {name: [] for name in names}
    for (name, target, block), empty in zip(changed, empty_by, strict=True):
        if empty is None:
            changes[name].append(Add(target, nested_loops(block, keys)))
    used = listed_once(empty_by)
    inputs = parents_first(draft.inputs, used)
    queries = [add.query for adds in changes.values() for add in adds]
    histories = find_histories(draft.name, draft.body, queries, streams)
    triggers = {}
    for name, found in changes.items():
        adds = [Add(add.target, read_from_history(add.query, histories)) for add in found]
        # The history of a stream grows last, because the statements before must not see the change in it.
        growth = [history.growth() for history in histories_by_map(histories) if history.scan.relation == name]
        triggers[name] = Trigger(name, (*adds, *growth))
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=inputs,
        maps=(*draft.maps, *(history.map for history in histories_by_map(histories))),
        load=tuple(load_of(draft, keys, streams)),
        triggers=tuple(triggers[name] for name in inputs),
        finish=with_iteration_trigger(draft.emission, triggers),
        strategy=strategy,
        references=used,
    )
