"""The ways in which a runtime may maintain a view. The choice goes by size, and tests are small, so they choose.

========= ===========================================================================================
held      native, all state in dictionaries
columns   native, state left in columns and fetched from there, as for relations of many rows
fresh     native, state left in the store, where touched rows are looked up by indexes: each epoch is the first after
          opening
stored    the same, and what was found is kept for three epochs
budget    native, under a memory budget that has no room: all lookups go to the store, and every second epoch what was
          found is released
llvm      native, every stage compiled that has a native form, as for stages that have taken in many rows
trees     native, arrays of more than one element as trees, as large ones are
again     native, every view computed again in every epoch that DuckDB can compute, as for changes of most rows
refilled  "spark dataframes", views computed again in two of three epochs, as for changes of most rows
frames    "spark dataframes", one task for a query, as for small relations
bulk      "spark dataframes", as for large changes: tables are broadcast, rows exchanged, and plans compiled
tasks     "spark tasks", each change in two parts and two shards, as for bulk changes: those of one row in Python,
          others as queries over columns where there are such; tasks check keys, too
driver    "spark driver", over rows that Spark looks up, as for small changes of much data
moving    native, on one runtime and another by turns: each misses the epochs of the other
swapped   the same, one of them with every stage compiled
========= ===========================================================================================
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partialmethod
from itertools import cycle
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pytest

import tidemill
from tests.moving import moving
from tidemill.compiler import choose, choose_recomputation
from tidemill.engine.epochs import placement
from tidemill.model import array_tree
from tidemill.runtimes.native import backends, runtime_state
from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.runtime_state import RuntimeState
from tidemill.runtimes.native.state import group_ends, stored_lookups
from tidemill.runtimes.native.state_room import UNLIMITED_BYTES, StateRoom, release_least_recently_used
from tidemill.storage.mapped import lookup_costs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NATIVE = ("held", "columns", "llvm")
STORED = ("stored", "fresh", "budget")
TREES = ("trees",)
AGAIN = ("again",)
MOVING = ("moving", "swapped")
SPARK = ("frames", "bulk", "refilled", "tasks", "driver")


@contextmanager
def taking(way: str) -> Iterator[None]:
    """Within this block warehouses take that way, whatever the size of their data."""
    with pytest.MonkeyPatch.context() as patch:
        if way == "columns":
            patch.setattr(runtime_state, "RESIDENT_ROWS", 0)
        elif way == "budget":
            patch.setattr(stored_lookups, "LOOKUP_ROWS", 1e-9)
            patch.setattr(stored_lookups.StoredLookups, "are_cheaper", lambda *_: False)
            patch.setattr(lookup_costs, "WORTH", 0.0)
            patch.setattr(StateRoom, "fits", lambda room, bytes_: False)
            patch.setattr(RuntimeState, "begin", _begin_with_releases)
        elif way in STORED:
            patch.setattr(stored_lookups, "LOOKUP_ROWS", 1e-9)
            patch.setattr(stored_lookups, "KEY_ROWS", 0)
            patch.setattr(lookup_costs, "WORTH", 0.0)
            patch.setattr(group_ends, "END_ENTRIES", 1)
            patch.setattr(group_ends, "SMALL_GROUP", 0)
            patch.setattr(RuntimeState, "begin", partialmethod(_begin_anew, every=1 if way == "fresh" else 3))
        elif way == "llvm":
            # Conversations are short: most of their time went into optimizing code that then ran for microseconds.
            patch.setattr(jit, "LEVEL", 0)
            patch.setattr(backends, "BACKEND", "llvm")
        elif way in TREES:
            patch.setattr(array_tree, "LIMIT", 1)
            patch.setattr(array_tree, "LEAF", 2)
        elif way in AGAIN:
            patch.setattr(choose, "COLUMN_WORK", -1)
            patch.setattr(choose_recomputation, "LEAST_CHANGED", 0)
            patch.setattr(choose_recomputation, "WORTH", -1.0)
            patch.setattr(placement.Placement, "stays_in_python", lambda *_: True)
        elif way in ("moving", "swapped"):
            patch.setattr(jit, "LEVEL", 0)
            with moving(backends=("llvm" if way == "swapped" else "python", "python")):
                yield
            return
        elif way in ("frames", "bulk", "refilled"):
            patch.setattr(placement, "DRIVER_WORK", -1)
            patch.setattr(choose_recomputation, "WORTH", inf)
            if way == "refilled":
                turns = cycle(random.Random(7).choices(("a test", ""), (2, 1), k=1_001))
                patch.setattr(choose_recomputation, "LEAST_CHANGED", 0)
                patch.setattr(choose_recomputation, "reason_to_recompute", lambda *_: next(turns))
            if way == "bulk":
                from tidemill.runtimes.spark.execution import job_settings

                patch.setattr(job_settings, "SINGLE_TASK_ROWS", -1)
        elif way == "tasks":
            from tidemill.runtimes.spark import task_runtime

            patch.setattr(placement, "LEAST_TASK_WORK", 0)
            patch.setattr(choose_recomputation, "cheapest", tasks_if_possible)
            patch.setattr(task_runtime, "PART_ROWS", 1)
            patch.setattr(task_runtime, "COLUMN_ROWS", 2)
            patch.setattr(task_runtime, "CHECK_ROWS", 1)
        elif way == "driver":
            from tidemill.runtimes.spark.driver_runtime import DriverRuntime

            patch.setattr(DriverRuntime, "__init__", partialmethod(DriverRuntime.__init__, resident=0))
        yield


def tasks_if_possible(predicted: Mapping[str, float]) -> tuple[str, str]:
    """For ``choose_recomputation.cheapest``: tasks, wherever a view can run in these."""
    return next((name for name in predicted if name == "spark tasks"), next(iter(predicted))), "a test"


_begin = RuntimeState.begin


def _begin_anew(state: RuntimeState, every: int) -> None:
    """Start an epoch, with nothing in memory at first and after so many more."""
    _begins[state] = _begins.get(state, -1) + 1
    _begin(state)
    if _begins[state] % every == 0:
        state.free()


def _begin_with_releases(state: RuntimeState) -> None:
    """Start an epoch; every second one releases all state as a memory budget would, the least recently used first."""
    _begins[state] = _begins.get(state, 0) + 1
    _begin(state)
    if _begins[state] % 2:
        release_least_recently_used(state.releasable(), UNLIMITED_BYTES)


_begins: WeakKeyDictionary[RuntimeState, int] = WeakKeyDictionary()


@contextmanager
def opened(way: str, spark: SparkSession | None = None, path: str | Path = ":memory:") -> Iterator[tidemill.Warehouse]:
    """A warehouse that takes that way."""
    runtime = "spark" if way in SPARK else "native"
    with taking(way), tidemill.open(path, runtime=runtime, spark=spark) as warehouse:
        yield warehouse


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Within this block warehouses on ``spark`` run their queries as they are planned, and compile nothing."""
    from tidemill.runtimes.spark.sessions import session

    branch = interpreting(spark)
    for key, value in session.HADOOP_SETTINGS.items():
        branch.conf.set(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(session._branches, spark, branch)
        yield


def interpreting(spark: SparkSession) -> SparkSession:
    """A session beside ``spark`` that compiles nothing: queries over a few rows are asked once."""
    from tidemill.runtimes.spark.sessions.session import LATENCY_SETTINGS, SEMANTIC_SETTINGS

    session = spark.newSession()
    quick = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for key, value in (SEMANTIC_SETTINGS | LATENCY_SETTINGS | quick).items():
        session.conf.set(key, value)
    return session
