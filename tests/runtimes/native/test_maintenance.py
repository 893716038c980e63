"""The one property, on the native runtime: load and all emitted changes are what the oracle says of the last tables."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.shop import TABLES, changes_of, epochs_of, program_of, relation_of, rows_of
from tests.compiler.test_maintenance import VIEWS
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import ZSet
from tidemill.model.errors import DuplicateKey
from tidemill.model.schema import Table
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.row_map import RowMap

RECOMPUTED = [view for view, sql in VIEWS.items() if "clicks" not in sql][::3]
CASES = [(view, "delta") for view in VIEWS] + [(view, "recompute") for view in RECOMPUTED]


def reads_of(view: str) -> tuple[str, ...]:
    """The tables that a view reads."""
    return tuple(sorted(scans(relation_of(VIEWS[view]))))


def entries_of(harness: Harness) -> dict[str, dict[Any, Any]]:
    """All state of the view in memory, maps and relations alike."""
    maps = {name: map_.entries for stage in harness.runtime._state.held_maps.values() for name, map_ in stage.items()}
    return {name: dict(entries) for name, entries in maps.items()} | {
        f"contents of {name}": dict(contents.entries) for name, contents in contents_of(harness).items()
    }


def contents_of(harness: Harness) -> dict[str, RowMap]:
    """What is in dictionaries of each relation; of a large one that is what changed since it was read."""
    held = harness.runtime._state._contents.items()
    return {name: contents.since if isinstance(contents, OverlaidRelation) else contents for name, contents in held}


def indexes_of(harness: Harness) -> dict[Any, dict[Any, list[Any]]]:
    return {
        (name, positions): {key: sorted(pairs, key=repr) for key, pairs in index.pairs.items()}
        for name, contents in contents_of(harness).items()
        for positions, index in contents._indexes.items()
    }


@pytest.mark.parametrize(("view", "strategy"), CASES, ids=[f"{view}/{strategy}" for view, strategy in CASES])
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_view_is_kept_fresh(view: str, strategy: str, data: st.DataObject) -> None:
    check_fresh(view, strategy, data)


@pytest.mark.turns("view", 28)
@pytest.mark.parametrize("view", list(VIEWS)[::2])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_view_is_kept_fresh_over_columns(view: str, data: st.DataObject) -> None:
    """The same where every relation and map counts as large and stays in columns."""
    with patch.object(runtime_state, "RESIDENT_ROWS", -1):
        check_fresh(view, "delta", data)


def check_fresh(view: str, strategy: str, data: st.DataObject) -> None:
    harness = Harness(program_of(VIEWS[view], strategy), TABLES)
    reads = reads_of(view)
    contents = {name: seeded(TABLES[name], data) if TABLES[name].kept else ZSet() for name in reads}
    harness.seed({name: rows for name, rows in contents.items() if TABLES[name].kept})
    total = harness.load()
    assert total == evaluate(relation_of(VIEWS[view]), contents)
    for moves in data.draw(epochs_of(reads)) if reads else []:
        total += advance(harness, contents, moves)
        assert total == evaluate(relation_of(VIEWS[view]), contents)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("view", ["three", "self", "group", "group_double", "group_join", "distinct", "twice"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_rollback_restores_everything(view: str, columns: bool, data: st.DataObject) -> None:
    with patch.object(runtime_state, "RESIDENT_ROWS", -1 if columns else runtime_state.RESIDENT_ROWS):
        check_rollback(view, data)


def check_rollback(view: str, data: st.DataObject) -> None:
    harness = Harness(program_of(VIEWS[view], "delta"), TABLES)
    contents = {name: ZSet() for name in reads_of(view)}
    harness.load()
    *first, last = data.draw(epochs_of(reads_of(view)).filter(bool))
    for moves in first:
        advance(harness, contents, moves)
    # A first run of the epoch reads all state that it needs into memory, so that the second starts from a known one.
    changes = changes_of(last, contents)
    for _ in range(2):
        before, looked_up = entries_of(harness), indexes_of(harness)
        with suppress(DuplicateKey):
            harness.run(changes)
            harness.runtime.commit()
            harness.runtime.rollback()
    assert entries_of(harness) == before
    assert indexes_of(harness) == looked_up


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("view", ["group", "group_double", "group_join", "distinct", "twice", "stream_groups"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_state_read_from_the_store_is_the_same(view: str, compacts: bool, data: st.DataObject) -> None:
    harness = Harness(program_of(VIEWS[view], "delta"), TABLES)
    contents = {name: ZSet() for name in reads_of(view)}
    harness.load()
    for moves in data.draw(epochs_of(reads_of(view))):
        advance(harness, contents, moves)
    if compacts:
        compact(harness)
    again = Harness(harness.program, TABLES, store=harness.store)
    assert map_entries(again) == map_entries(harness)
    rows = ZSet.summed(again.runtime._state.scan("v"))
    for moves in data.draw(epochs_of(reads_of(view))):
        rows += advance(again, contents, moves)
    assert rows == evaluate(relation_of(VIEWS[view]), contents)


def seeded(table: Table, data: st.DataObject) -> ZSet:
    """Rows for a table before the view is made, one for each primary key."""
    rows = data.draw(rows_of(table))
    positions = table.key_positions
    return ZSet.of({tuple(row[p] for p in positions): row for row in rows}.values() if positions else rows)


def advance(harness: Harness, contents: dict[str, ZSet], moves: list[Any]) -> ZSet:
    """An epoch of moves; one that breaks a primary key is left out."""
    changes = changes_of(moves, contents)
    try:
        result = harness.apply(changes)
    except DuplicateKey:
        return ZSet()
    for name, change in changes.items():
        contents[name].update_by(change)
    return result


def map_entries(harness: Harness) -> dict[str, dict[Any, Any]]:
    """The maps of all stages, read from the store where they are not in memory yet."""
    compiled = [harness.runtime._compiled[stage.name] for stage in harness.program.stages]
    return {name: map_.entries for stage in compiled for name, map_ in harness.runtime._state.maps(stage).items()}


def compact(harness: Harness) -> None:
    harness.store.vacuum(keep=1)
    harness.store.compact({map_.name: map_ for stage in harness.program.stages for map_ in stage.maps})
