"""First-order deltas: each change is joined with the state of the other inputs and added to what is there.

A trigger of relation R sums the blocks of ``derive(body, R)``. Its loops start at the change and go on by lookups, so
the cost follows the change and what it joins with. Inputs that were handled earlier in the epoch show their new rows,
the others their old ones, which makes an epoch over many tables exact (see ``program.statements``).
"""

from __future__ import annotations

from collections.abc import Set

from tidemill.compiler.delta.nested_loops import RelationKeys
from tidemill.compiler.delta.stream_history import find_histories, histories_by_map, read_from_history
from tidemill.compiler.delta.triggers import change_of, load_of
from tidemill.compiler.staging.recursion import with_iteration_trigger
from tidemill.compiler.staging.stages import StageDraft
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Trigger

SUPPORTS_STREAMS = True


def delta(draft: StageDraft, keys: RelationKeys, streams: Set[str]) -> Stage:
    """The stage whose triggers add the change of its body."""
    changes = {name: list(change_of(draft, name, keys)) for name in (*draft.inputs, *draft.own)}
    pasts = find_histories(draft.name, draft.body, [add.query for adds in changes.values() for add in adds], streams)
    triggers = {}
    for name, found in changes.items():
        adds = [Add(add.target, read_from_history(add.query, pasts)) for add in found]
        # The past of a stream grows last, because the statements before must not see the change in it.
        growth = [past.growth() for past in histories_by_map(pasts) if past.scan.relation == name]
        triggers[name] = Trigger(name, (*adds, *growth))
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=draft.inputs,
        maps=(*draft.maps, *(past.map for past in histories_by_map(pasts))),
        load=tuple(load_of(draft, keys, streams)),
        triggers=tuple(triggers[name] for name in draft.inputs),
        finish=with_iteration_trigger(draft.finish, triggers),
        strategy="delta",
    )
