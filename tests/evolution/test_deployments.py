"""A deployment makes of a warehouse what the project says, in one epoch, or leaves it as it was."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.evolution.projects import TABLES, random_project, write_project
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


def from_scratch(folder: Path, wh: tidemill.Warehouse, place: Path) -> dict[str, Any]:
    """All views of a project that is deployed in an empty warehouse, and then gets the rows."""
    tidemill.deploy(folder, place, runtime="native")
    with tidemill.open(place, runtime="native", backend="python") as fresh:
        fresh.apply({name: [(1, row) for row in wh.table(name).rows()] for name in ("t", "s")})
        return shown(fresh)


def deploy_often(tmp_path: Path, seed: int, steps: int) -> int:
    """Deploy random versions of a project, with changes between; returns how many could be."""
    chance, done, version = random.Random(seed), 0, 0
    tmp_path.mkdir(exist_ok=True)
    folder, place = tmp_path / "models", tmp_path / "w"
    history: dict[int, dict[str, Any]] = {}
    for step in range(steps):
        version = min(version + (chance.random() < 0.2), len(TABLES) - 1)
        write_project(folder, random_project(chance, version))
        told = (seed, step)
        try:
            report = tidemill.deploy(folder, place, runtime="native")
        except SqlError as refused:
            if step:  # what it was is not touched
                with tidemill.open(place, runtime="native", backend="python") as wh:
                    assert (wh.epoch, shown(wh)) == (epoch, before), (told, refused)
            else:
                assert not place.exists() or not tidemill.open(place, read_only=True, runtime="native").views()
                return 0
            continue
        done += 1
        assert not tidemill.plan(folder, place), (told, str(tidemill.plan(folder, place)), str(report))
        with tidemill.open(place, runtime="native", backend="python") as wh:
            assert not (wrong := [one for one in wh.verify(against="evaluator") if not one.ok]), (told, wrong)
            now = shown(wh)
            assert now == from_scratch(folder, wh, tmp_path / f"fresh{step}"), (told, str(report))
            if step:
                assert wh.epoch == epoch + bool(report.plan), told
                follow(wh, before, now, epoch, (told, str(report)))
            for _ in range(chance.randrange(3) if step else 4):
                wh.apply(changes(chance, wh))
            assert not (wrong := [one for one in wh.verify(against="evaluator") if not one.ok]), (told, wrong)
            epoch, before = wh.epoch, shown(wh)
            history[epoch] = before
            for earlier, views in history.items():
                for name in views.keys() & {*wh.views()}:
                    assert rows_at(wh, name, earlier) in (views[name], None), (told, earlier, name)
    return done


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
