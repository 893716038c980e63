"""The cost model of windows: over a grid of measured shapes the chosen method is nearly the best one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.viewdf.regret import SHAPES, Shape
from tidemill.compiler.rewrites.sliding_windows.choose_method import method_costs
from tidemill.compiler.statistics.sizes import WindowSizes

MEASURED = [json.loads(line) for line in (Path(__file__).parent / "slide_times.jsonl").read_text().splitlines()]
"""CPU milliseconds of a slide, by ``bench viewdf --queries regret`` on 2026-11-19, on a machine that was shared."""


def shape_of(one: dict[str, Any]) -> Shape:
    return Shape(one["query"], one["rows"], one["each"], one["window"])


def test_the_whole_grid_was_measured() -> None:
    assert set(map(shape_of, MEASURED)) == set(SHAPES)


@pytest.mark.parametrize("one", MEASURED, ids=lambda one: shape_of(one).name)
def test_regret_is_small(one: dict[str, Any]) -> None:
    shape, taken = shape_of(one), one["milliseconds"]
    assert taken.keys() == shape.predicted.keys()
    assert taken[shape.chosen] <= 1.2 * min(taken.values())


def test_predictions_are_near_what_was_measured() -> None:
    """Those of all methods but ``direct``, which stores equal rows once: how many are equal is not known."""
    pairs = [(shape_of(one), one["milliseconds"]) for one in MEASURED]
    off = [shape.predicted[m] / t for shape, taken in pairs for m, t in taken.items() if m != "direct"]
    assert min(off) > 0.4 and max(off) < 2.5, (min(off), max(off))


def test_rows_that_share_groups_are_worth_panes_and_others_are_not() -> None:
    alone, shared = WindowSizes(1e5, 1e5, 1e6), WindowSizes(1e5, 1e2, 1e2)
    for invertible in (True, False):
        alone_costs, shared_costs = (method_costs(12, invertible, sizes) for sizes in (alone, shared))
        assert min(alone_costs, key=alone_costs.__getitem__) == "direct"
        assert min(shared_costs, key=shared_costs.__getitem__) == ("subtract" if invertible else "panes")


def test_prefix_pays_where_windows_are_long_and_groups_few() -> None:
    costs = method_costs(10_000, True, WindowSizes(1e4, 100, 100))
    assert costs["prefix"] < costs["panes"] and "prefix" not in method_costs(10_000, False)
