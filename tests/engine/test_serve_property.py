"""Whatever a view serves, it shows the same: generated views with rows stored, made when read, and followed live."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import hypothesis
import pytest

import tidemill
from tests.generators import Scenario, scenarios
from tests.ways import opened
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.model.errors import ArithmeticFault, Unsupported


class Copies:
    """Each view of a scenario and its copies that store no rows, with subscriptions to all that publish."""

    def __init__(self, warehouse: tidemill.Warehouse, scenario: Scenario) -> None:
        self.wh = warehouse
        self.copies: dict[str, str] = {}
        self.feeds: dict[str, tuple[Subscription, Counter[str]]] = {}
        for name, query in scenario.views:
            self.wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            for serve in ("read", "subscribe"):
                with suppress(Unsupported):  # not everything is a join graph
                    copy, options = f"{name}_{serve}", f"strategy = 'joingraph', serve = '{serve}'"
                    self.wh.sql(f"CREATE MATERIALIZED VIEW {copy} WITH ({options}) AS {query}")
                    self.copies[copy] = name
            self._follow(name)
        for copy in self.copies:
            if copy.endswith("_subscribe"):
                self._follow(copy)

    def _follow(self, view: str) -> None:
        buffer = 1 + len(self.feeds) % 3 * 10
        self.feeds[view] = self.wh.subscribe(view, timeout=0, buffer=buffer), self.shown(view)

    def shown(self, view: str) -> Counter[str]:
        return Counter(map(repr, self.wh.view(view).rows()))

    def compare(self, before: dict[str, Counter[str]]) -> None:
        """Rows beside rows, now and at the epoch before, and the sum of what was heard beside them."""
        for copy, view in self.copies.items():
            assert self.shown(copy) == self.shown(view)
            past = self.wh.at(self.wh.epoch - 1).view(copy).rows()
            assert Counter(map(repr, past)) == before[view]
        for view, (feed, total) in self.feeds.items():
            for batch in feed:
                old, new = [o for o, _ in batch.updates], [n for _, n in batch.updates]
                total.update(map(repr, [*batch.inserts, *new]))
                total.subtract(map(repr, [*batch.deletes, *old]))
            assert +total == self.shown(view)
            assert min(total.values(), default=0) >= 0

    def compare_filtered(self, since: int) -> None:
        """What a filter lets through is what passes it of everything."""
        for view in self.feeds:
            changes = [
                (batch.epoch, weight, row) for batch in self.wh.view(view).batches(since) for weight, row in batch
            ]
            plain = [c for _, _, c in changes if c and not isinstance(c[0], list | dict | float)]
            if plain:
                column, wanted = self.wh.view(view).columns[0], plain[0][0]
                passed = self.wh.view(view).batches(since, where={column: wanted})
                found = [(batch.epoch, weight, row) for batch in passed for weight, row in batch]
                assert Counter(map(repr, found)) == Counter(repr(c) for c in changes if _same(c[2][0], wanted))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def play(scenario: Scenario, way: str) -> None:
    with opened(way) as warehouse:
        for table in scenario.tables:
            warehouse.sql(f"CREATE {'STREAM' if table.stream else 'TABLE'} {table.sql()}")
        copies: Copies | None = None
        for number, epoch in enumerate(scenario.epochs):
            if number == scenario.before:
                copies, start = Copies(warehouse, scenario), warehouse.epoch
            before = {} if copies is None else {view: copies.shown(view) for view in copies.copies.values()}
            warehouse.apply(epoch)
            if copies is not None:
                copies.compare(before)
        if copies is not None:
            copies.compare_filtered(start)


@hypothesis.settings(max_examples=12)
@hypothesis.given(scenarios())
def test_served_alike(scenario: Scenario) -> None:
    with suppress(ArithmeticFault):  # what is not worked out cannot fail, until it is read
        play(scenario, "held")


@pytest.mark.long
@hypothesis.settings(max_examples=250)
@hypothesis.given(scenarios())
def test_served_alike_for_long(scenario: Scenario) -> None:
    with suppress(ArithmeticFault):
        play(scenario, "held")
