"""Maintenance of a view over sources: messages go to the protocols, and the changes that these install become epochs.

A view has one connection to each of its sources, and one protocol instance for each of its remote subplans.
All subplans of a view show the same states of the sources: if there are several, an epoch is committed when all
protocols are idle. Nothing here needs to survive a crash: positions are committed with the installed changes, and the
source delivers later messages again.

Updates are read in batches: everything waiting at a source is one batch, which ends however busy the source is
(``protocols.batched_source``). Only a view of one source that must show every state reads each update as it comes.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.views.remote_subplans import MaintainedSubplan, source_name_of
from tidemill.engine.catalog.views.view import View
from tidemill.engine.remote.chunked_load import ChunkedLoad, LoadProgress
from tidemill.engine.remote.initial_load import InitialLoad, in_source_names
from tidemill.protocols.batched_source import BatchedSource
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level, ViewMaintainer
from tidemill.sources.remote_queries.group_sums import GroupSums
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Answered, Committed, Message, Position, Source

ApplyChanges = Callable[[Mapping[str, ChangeSet], Mapping[str, str]], int]
"""Commits changes of tables together with positions; returns the epoch."""

SourceEpoch = tuple[Mapping[str, ChangeSet], Mapping[str, str]]
"""Changes of tables, and the positions that they lead to."""

ApplyInOrder = Callable[[Sequence[SourceEpoch]], None]
"""Commits epochs one after the other, synced together; none after one that is refused."""

MOST_EPOCHS = 100
"""Number of epochs that are committed together at most: each state of a complete view is one."""

FORGET_SECONDS = 1.0
"""Shortest interval in seconds at which a source is told what it may forget: advancing a replication slot is costly."""

IDLE_SECONDS = 60.0
"""Seconds without an epoch after which a view advances its positions to the present state of its sources.

The changes since did not concern the view, but a replication slot keeps the log of all tables.
"""


@dataclass(frozen=True)
class Certificate:
    """The state that a view over sources shows: its level of consistency, and the position in each source."""

    level: Level
    positions: Mapping[str, Position]


def source_position_name(view: str, source: str) -> str:
    """The name of the position of a view in a source.

    >>> source_position_name("v", "shop")
    'shop/v'
    """
    return f"{source}/{view}"


class SourceMaintainer:
    """Maintains one view over sources; driven by calls of ``step``."""

    def __init__(self, view: View, sources: Mapping[str, Source], apply: ApplyInOrder) -> None:
        self._view = view
        self._sources = dict(sources)
        self._apply = apply
        first, *others = view.remote_subplans
        # Each subplan of one source installs a change for every update, in order, so those of one update are an epoch.
        self._every_update = first.complete and (not others or len(self._sources) == 1)
        self._ready: dict[str, deque[InstallChange]] = {kept.subplan.name: deque() for kept in view.remote_subplans}
        self._heard: dict[str, Source | BatchedSource] = {}
        self._maintainers: dict[str, ViewMaintainer] = {}
        self._asked: dict[tuple[str, int], tuple[str, int]] = {}
        self._marks: set[tuple[str, int]] = set()
        self._goals: dict[str, int] = {}
        self._told: Counter[str] = Counter()
        self._installed: Counter[str] = Counter()
        self._pending: dict[str, ZSet] = {}
        self._groups: dict[str, GroupSums] = {}
        self._positions: dict[str, Position] = {}
        self._epochs: list[SourceEpoch] = []
        self._committed = self._rested = self._forgot = -math.inf
        self.taken = 0
        """Number of updates, or batches of them, received."""

    def fill(self, timeout: float, progress: LoadProgress) -> None:
        """Fetch the view's first rows, and follow its sources from there."""
        rows, positions = self._first_rows(timeout, progress)
        self._begin(positions, rows)
        self._pending = rows
        self._commit()
        self._flush()

    def _first_rows(self, timeout: float, progress: LoadProgress) -> tuple[dict[str, ZSet], dict[str, Position]]:
        """The first rows of each subplan, and the states that they show; large tables are read in ranges."""
        if len(self._sources) == 1:
            ((name, source),) = self._sources.items()
            chunked = ChunkedLoad(self._view.remote_subplans, name, source, progress)
            if chunked.is_worth_it:
                found, position = chunked.fetch(time.monotonic() + timeout)
                return found, {name: position}
        filling = InitialLoad(self._view.remote_subplans, self._sources)
        filling.fetch(timeout)
        return {kept.subplan.name: filling.rows(kept) for kept in self._view.remote_subplans}, filling.positions

    def resume(self, positions: Mapping[str, Position], rows: Mapping[str, ZSet]) -> None:
        """Continue from rows of the subplans that show the states ``positions``."""
        for name, source in self._sources.items():
            source.start(positions[name])
        self._begin(positions, rows)

    def _begin(self, positions: Mapping[str, Position], rows: Mapping[str, ZSet]) -> None:
        self._positions = dict(positions)
        self._heard = {name: self._hear(source, positions[name]) for name, source in self._sources.items()}
        for kept in self._view.remote_subplans:
            homes = {relation: source_name_of(relation) for relation in kept.subplan.product.relations}
            own = {source: positions[source] for source in kept.homes}
            start = InitialView(kept.subplan.product, rows[kept.subplan.name], own, kept.row_keys, homes)
            self._maintainers[kept.subplan.name] = kept.maintainer(start)
            if kept.subplan.product.sums:
                width = len(kept.subplan.product.outputs)
                self._groups[kept.subplan.name] = GroupSums(width, rows[kept.subplan.name].items())

    def _hear(self, source: Source, position: Position) -> Source | BatchedSource:
        if self._every_update:
            return source
        return BatchedSource(source, position, merged=not self._view.remote_subplans[0].complete)

    @property
    def idle(self) -> bool:
        """True if no query is unanswered, and all updates received are installed."""
        return not self._asked and all(maintainer.idle for maintainer in self._maintainers.values())

    def step(self, timeout: float | None = None) -> bool:
        """Process one message of each source, if there is one; true if any came.

        While queries are unanswered, only sources that must answer are read. The others keep their messages.
        """
        came = False
        for name in list(self._heard):
            if not (self.idle or any(source == name for source, _ in self._asked)):
                continue
            message = self._heard[name].receive(0 if came else timeout)
            if message is not None:
                came = True
                self._heard[name] = self._heard.pop(name)  # next time the others go first
                self._take(name, message)
        if len(self._epochs) >= MOST_EPOCHS or not any(source.unread for source in self._heard.values()):
            self._flush()
        return came

    def catch_up(self, timeout: float | None = None) -> None:
        """Process everything that the sources have committed until now, but not later updates; or until the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._mark()
        while not self._caught_up and (deadline is None or time.monotonic() < deadline):
            self.step(0.0 if self.idle else 0.05)
        self._flush()

    def rest(self) -> None:
        """Query the positions of the sources if nothing has come for long; a later ``step`` gets the answer."""
        self._flush()
        now = time.monotonic()
        if self.idle and now - max(self._committed, self._rested) >= IDLE_SECONDS:
            self._rested = now
            self._mark()

    def _mark(self) -> None:
        """Send each source an empty query: its answer follows everything that is committed until now."""
        self._marks.clear()
        self._goals.clear()
        leaves = [leaf for kept in self._view.remote_subplans for leaf in kept.subplan.product.leaves]
        for name, source in self._heard.items():
            leaf = next(leaf for leaf in leaves if source_name_of(leaf.relation) == name)
            self._marks.add((name, source.ask(in_source_names(SignedQuery(SpjView((leaf,), (), ()), ()), name))))

    @property
    def _caught_up(self) -> bool:
        if self._marks:
            return False
        # An epoch of several subplans needs them all idle; a single one may already process later updates.
        one = self._every_update or len(self._view.remote_subplans) == 1
        return self.idle or (one and all(self._installed[subplan] >= goal for subplan, goal in self._goals.items()))

    def close(self) -> None:
        """Close the connections to the sources."""
        for source in self._sources.values():
            source.close()

    def remove(self) -> None:
        """Remove this view's state from the sources, such as replication slots."""
        for source in self._sources.values():
            source.remove()

    # -- messages -----------------------------------------------------------------------------------------------

    def _take(self, source: str, message: Message) -> None:
        if isinstance(message, Committed):
            self._update(source, message)
        elif (source, message.number) in self._asked:
            self._answer(source, message)
        else:
            self._reach(source, message)
            return
        if not self._every_update and len(self._view.remote_subplans) > 1 and self.idle:
            self._commit()

    def _update(self, source: str, message: Committed) -> None:
        self.taken += 1
        changes = {f"{source}.{name}": rows for name, rows in message.changes.items()}
        for kept in self._view.remote_subplans:
            if source in kept.homes:
                self._told[kept.subplan.name] += 1
                self._do(kept, self._maintainers[kept.subplan.name].updated(changes, message.position, source))

    def _answer(self, source: str, message: Answered) -> None:
        subplan, number = self._asked.pop((source, message.number))
        (kept,) = [one for one in self._view.remote_subplans if one.subplan.name == subplan]
        self._do(kept, self._maintainers[subplan].answered(number, message.rows, message.position, source))

    def _reach(self, source: str, message: Answered) -> None:
        """Handle the answer to an empty query: the updates received so far are those that must be installed.

        If all of them are, the view shows this state; after ``IDLE_SECONDS`` its position is committed.
        """
        self._marks.discard((source, message.number))
        self._goals |= {
            kept.subplan.name: self._told[kept.subplan.name]
            for kept in self._view.remote_subplans
            if source in kept.homes
        }
        moved = self._positions[source] != message.position
        if self.idle and moved and time.monotonic() - self._committed >= IDLE_SECONDS:
            self._positions[source] = message.position
            self._commit()

    def _do(self, kept: MaintainedSubplan, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case AskSource(number=number, query=query, source=wished):
                    source = wished or next(iter(kept.homes))
                    asked = self._heard[source].ask(in_source_names(query, source))
                    self._asked[source, asked] = kept.subplan.name, number
                case InstallChange() if self._every_update:
                    self._ready[kept.subplan.name].append(action)
                    self._commit_complete()
                case InstallChange():
                    self._install(kept.subplan.name, action)
                    if len(self._view.remote_subplans) == 1:
                        self._commit()

    def _commit_complete(self) -> None:
        """Commit the updates whose changes all subplans have installed, each as an epoch."""
        while all(self._ready.values()):
            for name, installs in self._ready.items():
                self._install(name, installs.popleft())
            self._commit()

    def _install(self, subplan: str, install: InstallChange) -> None:
        self._installed[subplan] += 1
        groups = self._groups.get(subplan)
        added = install.change if groups is None else groups.add(install.change.items())
        self._pending[subplan] = self._pending.get(subplan, ZSet()) + added
        self._positions |= install.positions

    def _commit(self) -> None:
        """Make the pending changes an epoch with their positions."""
        changes = {
            kept.subplan.name: ChangeSet.of(self._pending.get(kept.subplan.name, ZSet()).items(), kept.subplan.fields)
            for kept in self._view.remote_subplans
        }
        self._pending.clear()
        at = {source_position_name(self._view.name, name): place for name, place in self._positions.items()}
        self._epochs.append((changes, at))

    def _flush(self) -> None:
        """Commit the epochs that are made; then the sources may forget what they show."""
        if self._epochs:
            epochs, self._epochs = self._epochs, []
            self._apply(epochs)
            self._committed = time.monotonic()
            self._forget(epochs[-1][1])

    def _forget(self, shown: Mapping[str, Position]) -> None:
        """Tell the sources which positions are committed and may be forgotten, at most once per ``FORGET_SECONDS``."""
        if self._committed - self._forgot >= FORGET_SECONDS:
            self._forgot = self._committed
            for name, source in self._sources.items():
                source.forget(shown[source_position_name(self._view.name, name)])
