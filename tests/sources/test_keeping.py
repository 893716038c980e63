"""Views kept by protocols over a real PostgreSQL, while others write and our connections are killed."""

from __future__ import annotations

import threading

import pytest

from tests.sources.following import columns, scan, view
from tests.sources.oracle import answer
from tests.sources.shop import Shop, kill_often, scribble
from tidemill.algebra.expressions.call import call
from tidemill.changes.zset import ZSet
from tidemill.protocols.batched_source import BatchedSource
from tidemill.protocols.choose_protocol import PROTOCOLS
from tidemill.protocols.protocol import AskSource, InitialView, Level, ViewMaintainer
from tidemill.sources.postgres.connection import Address
from tidemill.sources.postgres.source import PostgresSource
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations
from tidemill.sources.remote_queries.signed_query import SpjView
from tidemill.sources.source import Answered, Committed, Position


class Warehouse:
    """Drives a keeper, and holds each state of the view against the state of the source that it is certified for."""

    def __init__(self, source: PostgresSource, protocol: str, batched: bool) -> None:
        self.source = source
        self.view = shown(source)
        start = source.start(None)
        relations = [whole(source, name) for name in source.tables]
        numbers = {source.ask(relation.query): relation.relations[0] for relation in relations}
        self.contents = IndexedRelations({name: ZSet() for name in source.tables})
        answers: dict[str, ZSet] = {}
        position: Position = start
        while len(answers) < len(numbers):
            message = source.receive(5)
            assert isinstance(message, Answered), "nobody writes yet"
            answers[numbers[message.number]] = message.rows
            position = message.position
        self.contents.apply(answers)
        self.rows = self.contents.answer(self.view.query)
        keys = {name: table.primary_key for name, table in source.tables.items()}
        given = InitialView(self.view, self.rows, {"": position}, keys, dict.fromkeys(keys, ""), answers)
        self.keeper: ViewMaintainer = PROTOCOLS[protocol].maintainer(given)
        self.heard = BatchedSource(source, position) if batched else source
        self.states: dict[Position, ZSet] = {position: self.rows}
        self.installed: list[Position] = []
        self.told: list[Position] = []
        self._numbers: dict[int, int] = {}

    def step(self, timeout: float) -> bool:
        """Take one message and do what the keeper says."""
        message = self.heard.receive(timeout)
        if isinstance(message, Committed):
            self.contents.apply(message.changes)
            self.told.append(message.position)
            self.states[message.position] = self.contents.answer(self.view.query)
            actions = self.keeper.updated(message.changes, message.position)
        elif isinstance(message, Answered):
            self.states[message.position] = self.contents.answer(self.view.query)
            number = self._numbers.pop(message.number)
            actions = self.keeper.answered(number, message.rows, message.position)
        else:
            return False
        for action in actions:
            if isinstance(action, AskSource):
                self._numbers[self.heard.ask(action.query)] = action.number
            else:
                self.rows = self.rows + action.change
                self._certify(action.positions[""])
        return True

    def _certify(self, position: Position) -> None:
        """The view is what it should be in the state that it names; earlier states are no longer of interest."""
        assert self.rows == self.states[position], "the certificate names another state"
        self.installed.append(position)
        for earlier in list(self.states):
            if earlier == position:
                break
            del self.states[earlier]


def shown(source: PostgresSource) -> SpjView:
    """Orders with their customers, the keys of both shown."""
    o, c = scan(source.tables["orders"], "o"), scan(source.tables["customers"], "c")
    at = columns(o, c)
    joined = call("eq", at["o.customer"], at["c.id"])
    return view([o, c], [joined], {name: at[name] for name in ("o.id", "c.id", "c.name", "o.amount")})


def whole(source: PostgresSource, name: str) -> SpjView:
    leaf = scan(source.tables[name], name)
    at = columns(leaf)
    return view([leaf], [], {column: at[column] for column in at})


@pytest.mark.parametrize("changes", ["slot", "outbox"])
@pytest.mark.parametrize(
    ("protocol", "batched"),
    [("eca", False), ("eca", True), ("eca_key", False), ("eca_local", False), ("lca", False), ("sweep", False)],
)
def test_every_state_is_the_one_that_it_is_certified_for(
    shop: Shop, protocol: str, batched: bool, changes: str
) -> None:
    keep(shop, protocol, batched, changes, transactions=60, pause=0.1)


@pytest.mark.long
@pytest.mark.parametrize("changes", ["slot", "outbox"])
@pytest.mark.parametrize(("protocol", "batched"), [("eca", True), ("eca_key", False)])
def test_fifty_thousand_transactions(shop: Shop, protocol: str, batched: bool, changes: str) -> None:
    keep(shop, protocol, batched, changes, transactions=25_000, pause=1.0)


def keep(shop: Shop, protocol: str, batched: bool, changes: str, transactions: int, pause: float) -> None:
    address = Address(shop.server.options)
    source = PostgresSource("shop", address, changes=changes, setup="create", reader=shop.name)
    warehouse = Warehouse(source, protocol, batched)
    threads = [threading.Thread(target=scribble, args=(shop, seed, transactions)) for seed in (1, 2)]
    killer = threading.Thread(target=kill_often, args=(shop, threads, pause))
    for thread in (*threads, killer):
        thread.start()
    while any(thread.is_alive() for thread in threads):
        warehouse.step(0.05)
        if len(warehouse.installed) % 100 == 99:
            source.forget(warehouse.installed[-1])
    killer.join()
    while warehouse.step(0.3) or not warehouse.keeper.idle:
        pass
    there = shop.contents("orders", "customers")
    assert warehouse.rows == answer(warehouse.view.query, there)
    assert warehouse.installed
    if warehouse.keeper.level == Level.COMPLETE:
        assert set(warehouse.told) <= set(warehouse.installed)
    source.close()
