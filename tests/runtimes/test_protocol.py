"""Runtimes are known by their protocol: no name and no type of one is asked for where the engine uses them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tidemill.engine.epochs.placement import RUNTIMES
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.runtime import Runtime
from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
from tidemill.runtimes.spark.driver_runtime import DriverRuntime

SOURCE = Path(__file__).parents[2] / "src" / "tidemill"
TYPES = (NativeRuntime, DriverRuntime, DataFrameRuntime)
NAMES = {*RUNTIMES, *(runtime.name for runtime in TYPES)} - {"auto"}

OPTIONS = {
    "serving/demo/recompute.py",  # recomputes the views of the demo
    "serving/demo/run_demo.py",  # and what to say while Spark starts
}
"""Modules that compare what a user has asked for, beside ``placement``, which has constants for it."""


@cache
def _nodes() -> list[tuple[str, ast.Compare | ast.Call]]:
    """The comparisons and calls in all modules."""
    return [
        (str(path.relative_to(SOURCE)), node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare | ast.Call)
    ]


def _compared(node: ast.Compare) -> set[object]:
    """The constants that a comparison has, those of tuples and sets included."""
    sides = [node.left, *node.comparators]
    return {one.value for side in sides for one in ast.walk(side) if isinstance(one, ast.Constant)}


def test_no_runtime_is_told_by_its_name() -> None:
    found = {place for place, node in _nodes() if isinstance(node, ast.Compare) and _compared(node) & NAMES}
    assert found == OPTIONS
    named = {
        place
        for place, node in _nodes()
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Attribute) and side.attr == "name" and "runtime" in ast.unparse(side.value)
    }
    assert not named


def test_no_runtime_is_told_by_its_type() -> None:
    types = {runtime.__name__ for runtime in TYPES}
    asked = [
        (place, ast.unparse(node))
        for place, node in _nodes()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass", "type")
        and types & {one.id for argument in node.args for one in ast.walk(argument) if isinstance(one, ast.Name)}
    ]
    assert not asked


@pytest.mark.parametrize("runtime", TYPES, ids=lambda runtime: runtime.__name__)
def test_a_runtime_has_all_of_the_protocol(runtime: type) -> None:
    asked = {name for name in [*vars(Runtime), *Runtime.__annotations__] if not name.startswith("_")}
    assert not {name for name in asked if not hasattr(runtime, name)}
