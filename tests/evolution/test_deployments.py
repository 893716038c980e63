"""A deployment makes of a warehouse what the project says, in one epoch, or leaves it as it was."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.evolution.projects import TABLES, random_project, write_project
from tidemill.engine.projects.deploy import DeployReport
from tidemill.model.errors import EpochGone, FellBehind, SqlError

Row = tuple[Any, ...]


def changes(chance: random.Random, wh: tidemill.Warehouse) -> dict[str, list[tuple[int, Row]]]:
    """Some rows that come, and some that go."""
    rows = wh.table("t").rows()
    gone = chance.sample(rows, min(len(rows), chance.randrange(3)))
    more = {name: (None,) * (len(wh.table(name).fields) - columns) for name, columns in (("t", 3), ("s", 2))}
    come = [(chance.randrange(5), chance.choice([None, *range(40)]), str(chance.randrange(3))) for _ in range(4)]
    return {
        "t": [*((1, (*row, *more["t"])) for row in come), *((-1, row) for row in gone)],
        "s": [(1, (chance.randrange(6), chance.randrange(50), *more["s"]))],
    }


def shown(wh: tidemill.Warehouse) -> dict[str, Any]:
    """All views with their columns and rows."""
    return {n: ([f.name for f in wh.view(n).fields], sorted(wh.view(n).rows(), key=str)) for n in wh.views()}


class Deployments:
    """A warehouse that gets random versions of a project, with changes between."""

    def __init__(self, place: Path, seed: int) -> None:
        place.mkdir(exist_ok=True)
        self.folder, self.warehouse, self.fresh = place / "models", place / "w", place / "fresh"
        self.chance = random.Random(seed)
        self.version, self.done = 0, 0
        self.told: tuple[Any, ...] = (seed, 0)
        self.epoch, self.shown = 0, dict[str, Any]()
        self.history: dict[int, dict[str, Any]] = {}

    def opened(self) -> tidemill.Warehouse:
        return tidemill.open(self.warehouse, runtime="native", backend="python")

    def step(self) -> None:
        """Deploy another version, or be refused, and then change rows."""
        self.told = self.told[0], self.told[1] + 1
        self.version = min(self.version + (self.chance.random() < 0.2), len(TABLES) - 1)
        write_project(self.folder, random_project(self.chance, self.version))
        report, said = None, ""
        try:
            if self.history and self.chance.random() < 0.5:
                report = self.deployed_by_stage()
            else:
                report = tidemill.deploy(self.folder, self.warehouse, runtime="native")
        except SqlError as refused:
            said = str(refused)
        with self.opened() as wh:
            if report is None:  # what it was is not touched
                assert (wh.epoch, shown(wh)) == (self.epoch, self.shown), (self.told, said)
                return
            self.done += 1
            self.is_what_the_project_says(wh, report)
            for _ in range(self.chance.randrange(3) if self.history else 4):
                wh.apply(changes(self.chance, wh))
            self.is_right(wh)
            self.epoch, self.shown = wh.epoch, shown(wh)
            self.history[self.epoch] = self.shown
            for earlier, views in self.history.items():
                for name in views.keys() & {*wh.views()}:
                    assert rows_at(wh, name, earlier) in (views[name], None), (self.told, earlier, name)

    def deployed_by_stage(self) -> DeployReport | None:
        """Build the project beside what there is, change rows, and promote it or give it up."""
        staged = tidemill.deploy(self.folder, self.warehouse, stage="blue", runtime="native")
        self.told = *self.told[:2], str(staged)
        with self.opened() as wh:
            now = shown(wh)
            assert {name: now[name] for name in self.shown} == self.shown == now, self.told
            for _ in range(self.chance.randrange(3)):
                wh.apply(changes(self.chance, wh))
            self.is_right(wh)
            expected, present = self.from_scratch(wh), shown(wh)
            assert {n[6:]: rows_at(wh, n, wh.epoch) for n in staged.done} == {
                n[6:]: expected[n[6:]] for n in staged.done
            }
            self.epoch, self.shown = wh.epoch, present
        found = tidemill.diff(self.warehouse, f"{self.warehouse}@blue")
        differ = {name for name in present.keys() | expected.keys() if present.get(name) != expected.get(name)}
        of_types = {one.name for one in found.relations if one.only == "columns"}
        assert differ <= {one.name for one in found.relations} <= differ | of_types, (self.told, str(found))
        if self.chance.random() < 0.3:
            tidemill.drop_stage(self.warehouse, "blue")
            self.epoch += 1
            assert bool(tidemill.plan(self.folder, self.warehouse)) == bool(staged.plan)
            return None
        return tidemill.promote(self.warehouse, "blue", runtime="native")

    def is_right(self, wh: tidemill.Warehouse) -> None:
        names = wh._engine.catalog.views  # those of stages, too
        wrong = [one for one in wh.verify(*names, against="evaluator") if not one.ok]
        assert not wrong, (self.told, wrong)

    def is_what_the_project_says(self, wh: tidemill.Warehouse, report: DeployReport) -> None:
        """The views are those of a warehouse that was deployed from scratch, and changes lead to them."""
        self.is_right(wh)
        found = tidemill.plan(self.folder, self.warehouse)
        assert not found, (self.told, str(found), str(report))
        now = shown(wh)
        assert now == self.from_scratch(wh), (self.told, str(report))
        assert wh.epoch == self.epoch + bool(report.plan), self.told
        follow(wh, self.shown, now, self.epoch, (self.told, str(report)))

    def from_scratch(self, wh: tidemill.Warehouse) -> dict[str, Any]:
        """All views of the project in an empty warehouse, which then gets the rows."""
        shutil.rmtree(self.fresh, ignore_errors=True)
        tidemill.deploy(self.folder, self.fresh, runtime="native")
        with tidemill.open(self.fresh, runtime="native", backend="python") as fresh:
            fresh.apply({name: [(1, row) for row in wh.table(name).rows()] for name in ("t", "s")})
            return shown(fresh)


def deploy_often(place: Path, seed: int, steps: int) -> int:
    """Deploy random versions of a project; returns how many were not refused."""
    deployments = Deployments(place, seed)
    for _ in range(steps):
        deployments.step()
    return deployments.done


def rows_at(wh: tidemill.Warehouse, name: str, epoch: int) -> Any:
    """The columns and rows of a view as of an epoch; None if it is younger."""
    try:
        then = wh.at(epoch).view(name)
    except EpochGone:
        return None
    return [f.name for f in then.fields], sorted(then.rows(), key=str)


def follow(wh: tidemill.Warehouse, before: dict[str, Any], now: dict[str, Any], since: int, told: object) -> None:
    """Changes of views that keep their columns lead from the rows of before to those of now."""
    for name in before.keys() & now.keys():
        if before[name][0] != now[name][0] or rows_at(wh, name, since) is None:
            continue
        summed = Counter(before[name][1])
        try:
            for weight, row in wh.view(name).changes(since=since):
                summed[row] += weight
        except FellBehind:  # a column has another type
            continue
        assert {row: n for row, n in summed.items() if n} == Counter(now[name][1]), (told, name)


@pytest.mark.parametrize("number", range(2))
def test_random_deployments(tmp_path: Path, random_seed: int, number: int) -> None:
    assert deploy_often(tmp_path, random_seed * 2 + number, 5)


@pytest.mark.long
def test_many_random_deployments(tmp_path: Path, random_seed: int) -> None:
    done = sum(deploy_often(tmp_path / f"{number}", random_seed + number, 12) for number in range(40))
    assert done > 200
