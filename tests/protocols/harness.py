"""A warehouse of one view over recorded sources, and every order of the events between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from benchmarks.eca.recorded_source import RecordedSource
from tests.sources.oracle import answer
from tidemill.algebra.expressions.scalars import Call, Column, Named, Scalar
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.model.schema import Table
from tidemill.model.types import BOOLEAN, INT, Field
from tidemill.protocols.audit import ConsistencyReport, audit
from tidemill.protocols.batched_source import BatchedSource
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level, ViewMaintainer
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Committed, Message

Changes = Mapping[str, ZSet]
MakeMaintainer = Callable[[InitialView], ViewMaintainer]


# ------------------------------------------------------------------------------------------------------------- views


def scan(relation: str, columns: str, alias: str = "") -> Scan:
    """A leaf with a column of type INT for each letter."""
    return Scan(relation, alias or relation, tuple(Field(name, INT) for name in columns))


def equal(one: str, other: str) -> Scalar:
    return Call("eq", (Column(one, INT), Column(other, INT)), BOOLEAN)


def greater(one: str, other: str) -> Scalar:
    return Call("gt", (Column(one, INT), Column(other, INT)), BOOLEAN)


def view(leaves: Sequence[Scan], conditions: Sequence[Scalar], outputs: str) -> SpjView:
    """A product with outputs such as ``"r1.w r3.z"``, each named like its column in capitals."""
    named = [Named(name.split(".")[1].upper(), Column(name, INT)) for name in outputs.split()]
    return SpjView(tuple(leaves), tuple(conditions), tuple(named))


def insert(relation: str, *row: object) -> Changes:
    return {relation: ZSet({row: 1})}


def delete(relation: str, *row: object) -> Changes:
    return {relation: ZSet({row: -1})}


def change(relation: str, old: Row, new: Row) -> Changes:
    """One row is changed: one update, with both rows."""
    return {relation: ZSet({old: -1}) + ZSet({new: 1})}


# -------------------------------------------------------------------------------------------------------- a warehouse


@dataclass
class Scenario:
    """A view, the relations at the beginning, which source each is in, and what each source will do.

    ``merged`` is how the sources are heard in batches: merged ones, or of one update each; None: as they are.
    """

    view: SpjView
    rows: Mapping[str, ZSet]
    script: Mapping[str, Sequence[Changes]]
    homes: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    merged: bool | None = None

    def __post_init__(self) -> None:
        self._states: dict[tuple[int, ...], ZSet] = {}

    def sources(self) -> dict[str, RecordedSource]:
        """The sources in their first state."""
        tables = {leaf.relation: Table(leaf.relation, leaf.columns) for leaf in self.view.leaves}
        return {
            name: RecordedSource(
                name,
                {relation: table for relation, table in tables.items() if self.homes.get(relation, "") == name},
                self.rows,
            )
            for name in self.script
        }

    def state(self, done: Mapping[str, int]) -> ZSet:
        """V where each source has carried out so many of its updates, as the oracle says."""
        place = tuple(done[name] for name in self.script)
        if place not in self._states:
            rows = {name: ZSet(some) for name, some in self.rows.items()}
            for name, updates in self.script.items():
                for update in updates[: done[name]]:
                    for relation, some in update.items():
                        rows[relation] = rows[relation] + some
            self._states[place] = self.seen(rows)
        return self._states[place]

    def seen(self, rows: Mapping[str, ZSet]) -> ZSet:
        """V of these relations."""
        return answer(self.view.query, rows)

    def start(self) -> InitialView:
        """What a maintainer begins with."""
        none = dict.fromkeys(self.script, 0)
        return InitialView(
            self.view, self.state(none), dict.fromkeys(self.script, "0"), self.keys, self.homes, self.rows
        )


class Run:
    """One execution: the events happen as they are told to."""

    def __init__(self, scenario: Scenario, make: MakeMaintainer) -> None:
        self.scenario = scenario
        self.sources = scenario.sources()
        self.heard = {name: self._heard(source) for name, source in self.sources.items()}
        start = scenario.start()
        self.maintainer = make(start)
        self.rows = start.rows
        self.done = dict.fromkeys(self.sources, 0)
        self.there = [start.rows]
        self.here = [start.rows]
        self.installed: list[InstallChange] = []
        self.asked: list[SignedQuery] = []
        self.answers: list[ZSet] = []
        self._numbers: dict[tuple[str, int], int] = {}

    def _heard(self, source: RecordedSource) -> RecordedSource | BatchedSource:
        return source if self.scenario.merged is None else BatchedSource(source, "0", merged=self.scenario.merged)

    def commit(self, source: str = "") -> None:
        """S_up: the next update of the script."""
        self.sources[source].commit(self.scenario.script[source][int(self.sources[source].position)])

    def answer(self, source: str = "") -> None:
        """S_qu."""
        self.sources[source].answer()

    def receive(self, source: str = "") -> Sequence[Action]:
        """W_up or W_ans, whichever message is next; in batches, what it leads to: nothing, or several of them."""
        message = self.heard[source].receive(0)
        done: list[Action] = []
        while message is not None:
            done += self._take(message, source)
            message = None if self.scenario.merged is None else self.heard[source].receive(0)
        return done

    def _take(self, message: Message, source: str) -> Sequence[Action]:
        if isinstance(message, Committed):
            while self.done[source] < int(message.position):
                self.done[source] += 1
                self.there.append(self.scenario.state(self.done))
            return self._act(self.maintainer.updated(message.changes, message.position, source))
        self.answers.append(message.rows)
        number = self._numbers.pop((source, message.number))
        return self._act(self.maintainer.answered(number, message.rows, message.position, source))

    def update(self, source: str = "") -> Sequence[Action]:
        """S_up and W_up at once."""
        self.commit(source)
        return self.receive(source)

    def reply(self, source: str = "") -> Sequence[Action]:
        """S_qu and W_ans at once."""
        self.answer(source)
        return self.receive(source)

    def verdict(self) -> ConsistencyReport:
        return audit(self.there, self.here)

    def check_certificates(self) -> None:
        """Every install names a state of the sources that it shows, and none is before the last."""
        last = dict.fromkeys(self.sources, 0)
        for state, install in zip(self.here[1:], self.installed, strict=True):
            named = {source: int(position) for source, position in install.positions.items()}
            assert state == self.scenario.state(named), f"not the state {named}: {state}"
            assert all(named[source] >= last[source] for source in named)
            last = named

    def _act(self, actions: Sequence[Action]) -> Sequence[Action]:
        for action in actions:
            if isinstance(action, AskSource):
                self.asked.append(action.query)
                self._numbers[action.source, self.heard[action.source].ask(action.query)] = action.number
            else:
                self.rows = self.rows + action.change
                self.here.append(self.rows)
                self.installed.append(action)
        return actions


# --------------------------------------------------------------------------------------------------- orders of events

Event = Callable[[], object]


def choices(run: Run) -> list[Event]:
    """What can be received next, by source: the next update, or the answer to the oldest query.

    What a warehouse does depends on nothing but the sequence of messages that it receives, and an answer on nothing but
    the updates that its source told before it. So the orders of messages are all that is to be tried: that a message
    waits longer on its way changes neither (``test_interleavings`` compares with all orders of all events).
    """
    updates = [name for name in run.sources if int(run.sources[name].position) < len(run.scenario.script[name])]
    replies = [name for name, source in run.sources.items() if source.unanswered]
    return [lambda name=name: run.update(name) for name in updates] + [  # type: ignore[misc]
        lambda name=name: run.reply(name)  # type: ignore[misc]
        for name in replies
    ]


def all_events(run: Run) -> list[Event]:
    """Every event that may happen next: S_up, S_qu, W_up or W_ans."""
    sources = run.sources.items()
    commits = [name for name, source in sources if int(source.position) < len(run.scenario.script[name])]
    answers = [name for name, source in sources if source.unanswered]
    receives = [name for name, source in sources if source.unread]
    kinds = ((run.commit, commits), (run.answer, answers), (run.receive, receives))
    return [lambda event=event, name=name: event(name) for event, names in kinds for name in names]  # type: ignore


def executions(
    scenario: Scenario, make: MakeMaintainer, options: Callable[[Run], list[Event]] = choices
) -> Iterator[Run]:
    """Every execution of ``scenario``, each run from the beginning: a number says which way it went at each fork."""
    path: list[int] = []
    while True:
        run, taken, forks = Run(scenario, make), 0, []
        while events := options(run):
            if taken == len(path):
                path.append(0)
            forks.append(len(events))
            events[path[taken]]()
            taken += 1
        yield run
        while path and path[-1] + 1 == forks[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1


# ------------------------------------------------------------------------- scripts of updates for three relations

CHAIN = (scan("r1", "ax"), scan("r2", "bxy"), scan("r3", "cy"))
JOINED = (equal("r1.x", "r2.x"), equal("r2.y", "r3.y"))
KEYED = view(CHAIN, JOINED, "r1.a r2.b r3.c")
BAG = view(CHAIN, JOINED, "r1.x r3.c")
"""Rows that occur several times, and the key of ``r3`` alone."""
KEYS = {"r1": ("a",), "r2": ("b",), "r3": ("c",)}
FIRST = {"r1": ZSet({(1, 1): 1}), "r2": ZSet({(1, 1, 1): 1}), "r3": ZSet({(1, 1): 1})}

OPERATIONS = tuple(product("idm", ("r1", "r2", "r3")))
"""Insert a row that joins, delete the oldest row, or change the newest one, in each relation."""


def written(operations: Sequence[tuple[str, str]]) -> list[Changes] | None:
    """The updates that ``operations`` make; None where a row would be deleted or changed that is not there."""
    rows = {name: list(some) for name, some in FIRST.items()}
    made = []
    for number, (operation, relation) in enumerate(operations, start=2):
        there = rows[relation]
        if operation == "i":
            there.append((number, 1) if relation != "r2" else (number, 1, 1))
            made.append(insert(relation, *there[-1]))
        elif not there:
            return None
        elif operation == "d":
            made.append(delete(relation, *there.pop(0)))
        else:
            old, new = there[-1], changed(relation, there[-1])
            there[-1] = new
            made.append(change(relation, old, new))
    return made


def changed(relation: str, row: Row) -> Row:
    """Another join value in ``r1`` and ``r2``, and another key in ``r3``."""
    if relation == "r1":
        return row[0], 3 - row[1]
    return (*row[:2], 3 - row[2]) if relation == "r2" else (row[0] + 10, row[1])


def scripts(length: int) -> Iterator[list[Changes]]:
    """Every script of so many updates."""
    for operations in product(OPERATIONS, repeat=length):
        made = written(operations)
        if made is not None:
            yield made


LEVELS = frozenset(level for level in Level if level is not Level.NONE)
