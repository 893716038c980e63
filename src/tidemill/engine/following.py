"""Views over sources at work: messages go to the protocols, and what these install becomes epochs.

A view has one connection to each of its sources, and one keeper for each of its cores. All cores of a view show the
same states of the sources: where there are several, an epoch is made when all keepers are idle. Nothing here needs to
survive a crash. The position of what was installed is committed with it, and the source delivers again what came after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidemill.algebra.scalars import Named, column
from tidemill.changes.batch import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.catalog import View
from tidemill.engine.cores import Kept, home
from tidemill.model.errors import SourceSlow
from tidemill.protocols.protocol import Action, Ask, Install, Keeper, Level, Start
from tidemill.sources.queries import Product, SignedQuery
from tidemill.sources.source import Answered, Committed, Message, Position, Source

Apply = Callable[[Mapping[str, ChangeSet], Mapping[str, str]], int]
"""Commits changes of tables together with positions; returns the epoch."""


@dataclass(frozen=True)
class Certificate:
    """What a view over sources shows: how right that is, and which state of each source it is."""

    level: Level
    positions: Mapping[str, Position]


def position_of(view: str, source: str) -> str:
    """The name under which the position of a view in a source is stored.

    >>> position_of("v", "shop")
    'shop/v'
    """
    return f"{source}/{view}"


class Following:
    """One view over sources, kept as long as somebody calls ``step``."""

    def __init__(self, view: View, sources: Mapping[str, Source], apply: Apply) -> None:
        self._view = view
        self._sources = dict(sources)
        self._apply = apply
        self._keepers: dict[str, Keeper] = {}
        self._asked: dict[tuple[str, int], tuple[str, int]] = {}
        self._pending: dict[str, ZSet] = {}
        self._positions: dict[str, Position] = {}

    def fill(self, timeout: float) -> None:
        """Fetch the view's first rows, and follow it from there on."""
        filling = Filling(self._view.cores, self._sources)
        filling.fetch(timeout)
        for kept in self._view.cores:
            rows = filling.rows(kept)
            self._begin(kept, rows, filling.positions)
            self._pending[kept.core.name] = rows
        self._positions = dict(filling.positions)
        self._commit()

    def resume(self, positions: Mapping[str, Position], rows: Mapping[str, ZSet]) -> None:
        """Go on from rows of the cores that show the states ``positions``."""
        for name, source in self._sources.items():
            source.start(positions[name])
        for kept in self._view.cores:
            self._begin(kept, rows[kept.core.name], positions)
        self._positions = dict(positions)

    def _begin(self, kept: Kept, rows: ZSet, positions: Mapping[str, Position]) -> None:
        homes = {relation: home(relation) for relation in kept.core.product.relations}
        own = {source: positions[source] for source in kept.homes}
        self._keepers[kept.core.name] = kept.keeper(Start(kept.core.product, rows, own, kept.keys, homes))

    @property
    def idle(self) -> bool:
        """Whether nothing is asked and nothing waits."""
        return not self._asked and all(keeper.idle for keeper in self._keepers.values())

    def step(self, timeout: float | None = None) -> bool:
        """Take in one message of each source, if there is one; tells whether any came."""
        came = False
        for name, source in self._sources.items():
            message = source.receive(0 if came else timeout)
            if message is not None:
                came = True
                self._take(name, message)
        return came

    def catch_up(self, timeout: float | None = None) -> int:
        """Take in messages until the sources have no more, or the time is up; returns how many came."""
        deadline = None if timeout is None else time.monotonic() + timeout
        taken = 0
        while deadline is None or time.monotonic() < deadline:
            if self.step(0.0 if self.idle else 0.05):
                taken += 1
            elif self.idle:
                break
        return taken

    def close(self) -> None:
        """Let go of the sources."""
        for source in self._sources.values():
            source.close()

    def remove(self) -> None:
        """Let the sources forget this view for good."""
        for source in self._sources.values():
            source.remove()

    # -- messages -----------------------------------------------------------------------------------------------

    def _take(self, source: str, message: Message) -> None:
        if isinstance(message, Committed):
            changes = {f"{source}.{name}": rows for name, rows in message.changes.items()}
            for kept in self._view.cores:
                if source in kept.homes:
                    self._do(kept, self._keepers[kept.core.name].updated(changes, message.position, source))
        else:
            core, number = self._asked.pop((source, message.number))
            (kept,) = [one for one in self._view.cores if one.core.name == core]
            self._do(kept, self._keepers[core].answered(number, message.rows, message.position, source))
        if len(self._view.cores) > 1 and self.idle:
            self._commit()

    def _do(self, kept: Kept, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Ask(number=number, query=query, source=wished):
                    source = wished or next(iter(kept.homes))
                    asked = self._sources[source].ask(_within(query, source))
                    self._asked[source, asked] = kept.core.name, number
                case Install(change=change, positions=positions):
                    self._pending[kept.core.name] = self._pending.get(kept.core.name, ZSet()) + change
                    self._positions |= positions
                    if len(self._view.cores) == 1:
                        self._commit()

    def _commit(self) -> None:
        """Make what is pending an epoch, with the states that it shows; then the sources may forget them."""
        changes = {
            kept.core.name: ChangeSet.of(self._pending.get(kept.core.name, ZSet()).items(), kept.core.fields)
            for kept in self._view.cores
        }
        self._pending.clear()
        self._apply(changes, {position_of(self._view.name, name): at for name, at in self._positions.items()})
        for name, at in self._positions.items():
            self._sources[name].forget(at)


@dataclass
class Filling:
    """The first rows of cores. One of a single source is asked for as it is; of others, the relations are fetched."""

    cores: tuple[Kept, ...]
    sources: Mapping[str, Source]
    positions: dict[str, Position] = field(default_factory=dict)
    _found: dict[Product, ZSet] = field(default_factory=dict)

    def fetch(self, timeout: float) -> None:
        """Ask every source for all that is needed of it."""
        for name, source in self.sources.items():
            source.start(None)
            wanted = [p for kept in self.cores for p in _parts(kept) if home(p.relations[0]) == name]
            self._fetch(name, source, wanted, time.monotonic() + timeout)

    def _fetch(self, name: str, source: Source, wanted: list[Product], deadline: float) -> None:
        """Ask one source. Where it has changed between two answers, all are asked for again: they show one state."""
        states: set[Position] = set()
        while len(states) != 1:
            asked = {source.ask(_within(product.query, name)): product for product in wanted}
            states = set()
            while asked:
                message = source.receive(0.1)
                if isinstance(message, Answered):
                    self._found[asked.pop(message.number)] = message.rows
                    states.add(message.position)
                if time.monotonic() > deadline:
                    raise SourceSlow(
                        f'the rows of a view over "{name}" did not come in time',
                        detail=f"It has answered {len(wanted) - len(asked)} of {len(wanted)} queries.",
                        hint="Create the view while the source has less to do.",
                    )
        (self.positions[name],) = states

    def rows(self, kept: Kept) -> ZSet:
        """The rows of a core, once all is fetched."""
        product = kept.core.product
        if product in self._found:
            return self._found[product]
        contents = {part.leaves[0].relation: self._found[part] for part in _parts(kept)}
        return product.query.answer(contents)


def _parts(kept: Kept) -> list[Product]:
    """What to ask for, for the rows of a core: itself, or each of its relations where no source has all of them."""
    product = kept.core.product
    if len(kept.homes) == 1:
        return [product]
    leaves = {leaf.relation: leaf for leaf in product.leaves}
    return [Product((leaf,), (), tuple(Named(f.name, column(f)) for f in leaf.fields)) for leaf in leaves.values()]


def _within(query: SignedQuery, source: str) -> SignedQuery:
    """The query with the relations called as the source itself calls them."""
    leaves = tuple(replace(leaf, relation=leaf.relation.removeprefix(f"{source}.")) for leaf in query.view.leaves)
    return replace(query, view=replace(query.view, leaves=leaves))
