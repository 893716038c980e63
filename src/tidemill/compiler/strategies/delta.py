"""First-order deltas: each change is joined with the state of the other inputs and added to what is there.

A trigger of relation R sums the blocks of ``derive(body, R)``. Its loops start at the change and go on by lookups, so
the cost follows the change and what it joins with. Inputs that were handled earlier in the epoch show their new rows,
the others their old ones, which makes an epoch over many tables exact (see ``program.statements``).
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from tidemill.compiler.blocks import blocks
from tidemill.compiler.derive import derive
from tidemill.compiler.loops import Keys, nest
from tidemill.compiler.stages import Draft
from tidemill.compiler.streams import find_pasts, from_past, held
from tidemill.program.statements import Add, Query, Stage, Trigger

SUPPORTS_STREAMS = True


def delta(draft: Draft, keys: Keys, streams: Set[str]) -> Stage:
    """The stage whose triggers add the change of its body."""
    changes = {name: list(_changes(draft, name, keys)) for name in draft.inputs}
    pasts = find_pasts(draft.name, draft.body, [query for queries in changes.values() for query in queries], streams)
    triggers = []
    for name, queries in changes.items():
        adds = [Add(draft.target, from_past(query, pasts)) for query in queries]
        # The past of a stream grows last, because the statements before must not see the change in it.
        growth = [past.growth() for past in held(pasts) if past.scan.relation == name]
        triggers.append(Trigger(name, (*adds, *growth)))
    own = () if draft.map is None else (draft.map,)
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=draft.inputs,
        maps=(*own, *(past.map for past in held(pasts))),
        load=tuple(Add(draft.target, query) for query in _load(draft, keys, streams)),
        triggers=tuple(triggers),
        finish=draft.finish,
        strategy="delta",
    )


def _changes(draft: Draft, name: str, keys: Keys) -> Iterator[Query]:
    change = derive(draft.body, name)
    if change is not None:
        yield from (nest(block, keys) for block in blocks(change))


def _load(draft: Draft, keys: Keys, streams: Set[str]) -> Iterator[Query]:
    """The whole body. A block that reads a stream is empty at the start: a view sees a stream from its own birth on."""
    for block in blocks(draft.body):
        if streams.isdisjoint(leaf.relation for leaf in block.leaves):
            yield nest(block, keys)
