"""Audit of views over sources: their certificates, and a comparison with the present answers of the sources.

A database cannot be queried as of an earlier state, so earlier states of a view are reported by its certificates. The
present state is compared: the view is synced, the sources are queried, and the view is synced again. If the second sync
brings nothing, the view was in the state in which the sources answered all the time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.verification.differences import differences
from tidemill.engine.inspect.verification.verify import verify
from tidemill.engine.remote.initial_load import InitialLoad
from tidemill.engine.remote.source_maintainer import source_position_name
from tidemill.engine.results import Verification
from tidemill.model.errors import SourceSlow
from tidemill.protocols.protocol import Level
from tidemill.sources.source import Position
from tidemill.storage.folder_store import FolderStore

__all__ = ["Audit", "audit_view", "certified"]

AUDIT_READER = "audit"
"""Reader name of audits in sources, so that the view's own position in them does not move."""


@dataclass(frozen=True)
class Audit:
    """Comparison of a view over sources with their answers in the state that it shows.

    ``subplans`` compares each remote subplan with the answer of its sources, ``whole`` the view with its recomputation
    from these subplans. Together they show that the view equals its query over the sources.
    """

    view: str
    level: Level
    positions: Mapping[str, Position]
    subplans: tuple[Verification, ...]
    whole: Verification

    @property
    def ok(self) -> bool:
        """True if everything is equal, duplicates counted."""
        return self.whole.ok and all(self.subplans)

    def __bool__(self) -> bool:
        return self.ok


def certified(engine: Engine, view: View) -> dict[int, Mapping[str, Position]]:
    """The positions of its sources that the view showed, by the epoch that introduced them, as far as stored."""
    now = engine.source_views.certificate(view).positions
    store = engine.store
    past = store.history() if isinstance(store, FolderStore) else {store.epoch: store.positions}
    found: dict[int, Mapping[str, Position]] = {}
    last: dict[str, Position] = {}
    for epoch, positions in past.items():
        shown = {
            name: positions[source_position_name(view.name, name)]
            for name in now
            if source_position_name(view.name, name) in positions
        }
        if shown and shown != last and epoch >= view.created:
            found[epoch], last = shown, shown
    return found


def audit_view(engine: Engine, view: View, patience: float) -> Audit:
    """Compare a view with its sources; ``SourceSlow`` if these change during every attempt within ``patience``."""
    deadline = time.monotonic() + patience
    engine.source_views.sync(view.name, patience)
    while True:
        found = _audited(engine, view, _answers(engine, view, patience))
        if not engine.source_views.sync(view.name, patience):
            return found
        if time.monotonic() > deadline:
            raise SourceSlow(
                f'view "{view.name}" cannot be compared with its sources',
                detail=f"They went on changing for {patience:g} seconds, each time while they were asked.",
                hint="Audit it when less is written, or allow more time.",
            )


def _audited(engine: Engine, view: View, answers: Mapping[str, ZSet]) -> Audit:
    """Compare the present view with ``answers``; the caller must know that both are of one state."""
    with engine.settled():
        shown = engine.source_views.certificate(view)
        subplans = tuple(_compared(engine, view, name, rows) for name, rows in answers.items())
        return Audit(view.name, shown.level, shown.positions, subplans, verify(engine, view.name))


def _answers(engine: Engine, view: View, patience: float) -> dict[str, ZSet]:
    """The rows of each remote subplan from the sources; state created there for the audit is removed again."""
    names = sorted({name for kept in view.remote_subplans for name in kept.homes})
    with ExitStack() as ends:
        sources = {}
        for name in names:
            sources[name] = engine.catalog.sources[name].open(f"{view.name}_{AUDIT_READER}", engine.secrets)
            ends.callback(sources[name].remove)
        filling = InitialLoad(view.remote_subplans, sources)
        filling.fetch(patience)
        return {kept.subplan.name: filling.rows(kept) for kept in view.remote_subplans}


def _compared(engine: Engine, view: View, subplan: str, expected: ZSet) -> Verification:
    (fields,) = [kept.subplan.fields for kept in view.remote_subplans if kept.subplan.name == subplan]
    actual = engine.contents(subplan).zset()
    missing, extra = differences(expected, actual, fields)
    return Verification(subplan, sum(actual.values()), missing, extra)
