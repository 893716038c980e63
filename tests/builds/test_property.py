"""Views built in the background, while random changes go on, are what the evaluator says: as of every epoch."""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random

import pytest

import tidemill
from tests.answers import differ, inner
from tests.builds.stepping import _stepping, step, step_to_end
from tests.generators import Scenario, many_views
from tidemill.changes.zset import ZSet
from tidemill.model.errors import TidemillError

__all__ = ["_stepping"]

FOLDER, MEMORY = "folder", ":memory:"


class BuildTrial:
    """A history in which views are built in the background, in a random number of steps between its epochs."""

    def __init__(self, scenario: Scenario, random: Random, place: str) -> None:
        self._scenario = scenario
        self._random = random
        self._place = place
        self._first = {name for name, _ in scenario.views[:3]}
        self.warehouse = tidemill.open(place, runtime="native")
        self.refused: Counter[str] = Counter()
        self.compared = 0

    def run(self) -> None:
        """Play the whole history, and compare."""
        with_views = self._random.randrange(len(self._scenario.epochs))
        for table in self._scenario.tables:
            self.warehouse.sql(f"CREATE {'STREAM' if table.stream else 'TABLE'} {table.sql()}")
        for number, epoch in enumerate(self._scenario.epochs):
            if number == with_views:
                self._create()
            self.warehouse.apply(epoch)
            step(self.warehouse, self._random.randrange(12))
            self._disturb()
        step_to_end(self.warehouse)
        self._compare()
        self.warehouse.close()

    def _create(self) -> None:
        for (name, query), strategy in zip(self._scenario.views, self._scenario.strategies, strict=True):
            options = f"strategy = '{strategy}'" + ("" if name in self._first else ", build = 'background'")
            try:
                self.warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {query}")
            except TidemillError as error:
                if "cannot be built in the background" not in error.what:
                    raise
                self.refused[error.detail or ""] += 1

    def _disturb(self) -> None:
        """Close and open, vacuum, pause and resume, now and then."""
        names = [one.view for one in self.warehouse.builds]
        what = self._random.randrange(8)
        if what == 0 and self._place != MEMORY:
            self.warehouse.close()
            self.warehouse = tidemill.open(self._place, runtime="native")
        elif what == 1:
            self.warehouse.vacuum(self._random.randrange(1, 4))
        elif what == 2 and names:
            self.warehouse.builds.pause(self._random.choice(names))
        elif what == 3:
            for name in names:
                self.warehouse.builds.resume(name)

    def _compare(self) -> None:
        for status in list(self.warehouse.builds):
            self.warehouse.builds.resume(status.view)
        step_to_end(self.warehouse)
        assert not list(self.warehouse.builds), self.warehouse.builds
        for name, query in self._scenario.views:
            catalog = self.warehouse._engine.catalog
            # What streams held is gone, so views over them are not computed again.
            if name in catalog.views and not any(map(catalog.is_stream, catalog.ancestors(catalog.view(name)))):
                self._compare_view(name, query)

    def _compare_view(self, name: str, query: str) -> None:
        found = self.warehouse.view(name).verify(against="evaluator")
        assert found.ok, f"{name} AS {query}\n{found}\n{self._scenario!r}"
        engine, fields = self.warehouse._engine, self.warehouse.view(name).fields
        for epoch in range(max(engine.catalog.view(name).created, engine.store.oldest), self.warehouse.epoch):
            past = self.warehouse.at(epoch)
            rows, meant = past.view(name).rows(), past.sql(f"SELECT * FROM ({query}) AS q").rows()
            different = differ(*(ZSet.of(inner(some, fields, name)) for some in (rows, meant)), fields)
            assert not different, f"{name} AS {query} as of {epoch}\n{different}\n{self._scenario!r}"
            self.compared += 1


def _play(seed: int, views: int, epochs: int, place: str) -> BuildTrial:
    trial = BuildTrial(many_views(seed, views, epochs), Random(seed), place)
    trial.run()
    return trial


@pytest.mark.parametrize("place", [FOLDER, MEMORY])
def test_many_views(place: str, random_seed: int, tmp_path: Path, stepping: None) -> None:
    _play(random_seed, 12, 6, MEMORY if place == MEMORY else str(tmp_path / "wh"))


@pytest.mark.long
def test_many_histories(random_seed: int, tmp_path: Path, stepping: None) -> None:
    """New histories until the time is up."""
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "300"))
    refused: Counter[str] = Counter()
    compared = built = 0
    for number in count(random_seed):
        place = MEMORY if number % 4 == 0 else str(tmp_path / f"wh{number}")
        trial = _play(number, 15, 8, place)
        refused += trial.refused
        compared += trial.compared
        built += 12 - sum(trial.refused.values())
        if time.monotonic() > until:
            print(f"{built:,} views built, {compared:,} epochs compared; refused: {dict(refused)}")
            return
