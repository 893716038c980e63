"""Views that are filled by DuckDB: maps and rows are those of the native runtime, and later changes go on from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tidemill
from tests.answers import differ, inner
from tests.matrix.cases import FILES
from tests.matrix.expected import Expected, Moment, at, expected, together
from tests.matrix.programs import compiling_once
from tests.ways import opened
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.compiler import choose
from tidemill.engine.epochs.placement import Placement
from tidemill.program.stages import Stage
from tidemill.runtimes.duckdb.fill import fill_stage
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import FilledStage, NotAnswered, ReadTable, Runtime

LEAST_FILLED = 1
"""Least number of stages of golden files that DuckDB fills: it may only rise."""

NOTHING = ChangeSet.of((), ())


class Comparing:
    """Loads each stage in both ways, and notes what differs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.wrong: list[str] = []

    def fill(
        self, placement: Placement, runtime: Runtime, stage: Stage, work: int, read: ReadTable
    ) -> FilledStage | None:
        """As ``Placement.fill_in_columns``, after the native runtime has loaded the stage."""
        assert runtime is placement.native
        try:
            filled = fill_stage(stage, read)
        except NotAnswered as error:
            self.counts["not translated" if isinstance(error, NotLowered) else "an error"] += 1
            self.reasons[str(error)[:60]] += 1
            return None
        rows = placement.native.load(stage)
        loaded = dict(placement.native._changes(stage))
        if stage.reader is None:
            self._compare(stage.name, filled.rows, rows)
        for map_ in stage.maps:
            self._compare(map_.name, filled.maps.get(map_.name, NOTHING), loaded.get(map_.name, NOTHING))
        self.counts["filled"] += 1
        placement.native.leave_in_store(stage)
        return filled

    def _compare(self, name: str, filled: ChangeSet, loaded: ChangeSet) -> None:
        if len(filled.zset()) != len(filled) or filled.zset() != loaded.zset():
            self.wrong.append(f"{name}: {filled.pairs()[:9]} is not {loaded.pairs()[:9]}")


@pytest.fixture
def comparing(monkeypatch: pytest.MonkeyPatch) -> Comparing:
    """All views are filled in columns, however few rows there are."""
    comparing = Comparing()
    monkeypatch.setattr(choose, "COLUMN_WORK", -1)
    monkeypatch.setattr(Placement, "fill_in_columns", lambda placement, *given: comparing.fill(placement, *given))
    return comparing


def _play(told: Expected, way: str) -> None:
    """A conversation whose views are created when most of it is over."""
    late, views = 2 * len(told.moments) // 3, dict[str, str]()
    with opened(way) as wh:
        for place, moment in enumerate(told.moments):
            if moment.step.error:
                continue
            with at(told.conversation, moment.step):
                views |= dict(moment.step.views)
                _take(wh, moment)
                if place >= late:
                    for name, query in views.items():
                        wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                    views.clear()
                    _check(wh, told, moment)


def _take(wh: tidemill.Warehouse, moment: Moment) -> None:
    for text in filter(None, (moment.step.declare, moment.step.sql)):
        wh.sql(text)
    if moment.rows:
        wh.apply(together(moment.rows))


def _check(wh: tidemill.Warehouse, told: Expected, moment: Moment) -> None:
    for name, rows in moment.views.items():
        found = ZSet.of(inner(wh.view(name).rows(), told.fields(name), name))
        difference = differ(rows, found, told.fields(name))
        assert not difference, f"{name} is wrong:\n{difference}"


def _conversations() -> list[Path]:
    """Golden files without streams, whose earlier rows a view does not see."""
    return [path for path in FILES if all(table.kept for table in expected(path).answers.tables.values())]


def test_golden_files(comparing: Comparing) -> None:
    with compiling_once():
        for path in _conversations():
            _play(expected(path), "held")
    print(dict(comparing.counts), comparing.reasons.most_common(40), sep="\n")
    assert not comparing.wrong, "\n".join(comparing.wrong)
    assert comparing.counts["filled"] >= LEAST_FILLED
