"""Every golden conversation on each strategy x way of a runtime x form of epochs, beside three second opinions.

``--golden join_self,top_k`` runs these files alone, each in a warehouse of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.answers import differ
from tests.conversation import read
from tests.matrix.cases import FILES, Way, drawn, groups, leading, run, run_drawn, turn
from tests.matrix.expected import expected, require_duckdb_agrees
from tests.matrix.table import FORMS, STRATEGIES
from tests.ways import AGAIN, MOVING, NATIVE, STORED, TREES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DRAWN_PROGRAMS = {"columns": "cut", "llvm": "cut", "driver": "whole"}
"""Ways in which `make test` runs each file with one of its programs, and the form."""

DRAWN_WAYS = {"stored": "cut", "budget": "cut", "again": "whole", "moving": "cut"}
"""Ways of which each file runs with ``delta`` in two, and the form."""


def is_quick(way: str, strategy: str, form: str) -> bool:
    """True for what `make test` runs for all files, and `make fuzz` need not: dictionaries, ``delta`` whole and by
    rows, others cut.

    All other ways compute with the same programs. There files take turns, with what is drawn anew in each run: see
    ``test_drawn_programs``, ``test_drawn_ways``, ``test_driver`` and ``test_frames``. `make fuzz` runs all.
    """
    return way == "held" and (form == "cut") == (strategy != "delta")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each group of files; with ``--golden`` one for each of those files."""
    asked = metafunc.config.getoption("golden")
    files = [path for path in FILES if not asked or path.stem in asked.split(",")]
    if "group" in metafunc.fixturenames:
        parts = [[path] for path in files] if asked else groups(files)
        metafunc.parametrize("group", parts, ids=[part[0].stem for part in parts])


IN_PROCESS = [
    pytest.param(way, strategy, form, marks=() if is_quick(way, strategy, form) else pytest.mark.long)
    for way in (*NATIVE, *STORED, *AGAIN)
    for strategy in STRATEGIES
    for form in FORMS
]

MOVES = [(way, strategy, form) for way in MOVING for strategy in STRATEGIES for form in ("rows", "cut")]


def require_right(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} files:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("way", "strategy", "form"), IN_PROCESS)
def test_native(way: str, strategy: str, form: str, group: list[Path], random_seed: int) -> None:
    require_right(run(Way(strategy, way, form, random_seed), group))


@pytest.mark.parametrize("way", TREES)
def test_arrays_as_trees(way: str, group: list[Path], random_seed: int) -> None:
    """Files with arrays give the same where these are trees; nothing else could differ."""
    arrays = [path for path in group if re.search("array|collect|explode", path.read_text(), re.IGNORECASE)]
    require_right(run(Way("delta", way, "rows", random_seed), arrays))


@pytest.mark.parametrize("way", ["columns", "llvm"])
def test_drawn_programs(way: str, group: list[Path], random_seed: int) -> None:
    """In columns and as machine code each file runs with one of the programs that strategies give it.

    Recomputation is the same on every way: no stage of it is compiled, and none looks rows up.
    """
    some = Way("delta", way, DRAWN_PROGRAMS[way], random_seed)
    strategies = [strategy for strategy in STRATEGIES if strategy != "recompute"]
    require_right(run_drawn(some, strategies, group, random_seed))


@pytest.mark.parametrize("at", range(len(DRAWN_WAYS)), ids=list(DRAWN_WAYS))
def test_drawn_ways(at: int, group: list[Path], random_seed: int) -> None:
    """From the store, without room for state, computed again, and moving: each file in two of these ways."""
    ways = [Way("delta", way, form, random_seed) for way, form in DRAWN_WAYS.items()]
    require_right(run(ways[at], turn(ways, group, at, random_seed)))


@pytest.mark.long
@pytest.mark.parametrize(("way", "strategy", "form"), MOVES)
def test_moving(way: str, strategy: str, form: str, group: list[Path], random_seed: int) -> None:
    """Views that move from runtime to runtime: whatever a stage keeps catches up with the epochs that it has missed."""
    require_right(run(Way(strategy, way, form, random_seed), group))


@pytest.mark.spark
def test_driver(group: list[Path], spark: SparkSession, random_seed: int) -> None:
    """On the driver every second file runs, with one of its programs."""
    some = Way("delta", "driver", DRAWN_PROGRAMS["driver"])
    strategies = ("delta", "joingraph", "lineage", "partition")
    require_right(run_drawn(some, strategies, group, random_seed, parts=2, spark=spark))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_driver_of_all(strategy: str, form: str, group: list[Path], spark: SparkSession) -> None:
    require_right(run(Way(strategy, "driver", form), group, spark))


@pytest.mark.spark
def test_tasks(spark: SparkSession, random_seed: int) -> None:
    """In tasks, which are other processes: files of every sixth kind, since operators are those of ``test_native``."""
    for part in groups(drawn(leading(FILES)[::3], 2, random_seed)):
        require_right(run(Way("delta", "tasks", "whole"), part, spark))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tasks_of_all(strategy: str, form: str, group: list[Path], spark: SparkSession) -> None:
    require_right(run(Way(strategy, "tasks", form), group, spark))


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_frames(
    strategy: str, group: list[Path], spark: SparkSession, random_seed: int, pytestconfig: pytest.Config
) -> None:
    """As DataFrames a stage is a job: files of every fourth kind with ``delta``, and all that have the same program.

    Files that are asked for run all.
    """
    way = Way(strategy, "frames", "whole")
    first = group if pytestconfig.getoption("golden") else drawn(leading(group), 4, random_seed)
    first = first if strategy == "delta" else []
    others = [path for path in group if path not in first]
    require_right([*run(way, first, spark), *run(way, others, spark, costly=False)])


@pytest.mark.spark
def test_refilled(spark: SparkSession, random_seed: int) -> None:
    """Computed again as DataFrames: files of every fourteenth kind, since fills are those of all ways on Spark."""
    for part in groups(drawn(leading(FILES)[1::7], 2, random_seed)):
        require_right(run(Way("delta", "refilled", "whole"), part, spark))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_refilled_of_all(strategy: str, group: list[Path], spark: SparkSession) -> None:
    require_right(run(Way(strategy, "refilled", "whole"), group, spark))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_frames_of_all(strategy: str, form: str, group: list[Path], spark: SparkSession) -> None:
    """And here ``delta`` with whole blocks is planned as for large changes."""
    require_right(
        run(Way(strategy, "bulk" if (strategy, form) == ("delta", "whole") else "frames", form), group, spark)
    )


def test_duckdb_answers_the_same_texts(group: list[Path]) -> None:
    """DuckDB's answers are the evaluator's after every step: what a warehouse is compared with."""
    for path in group:
        if read(path).asks("duckdb"):
            require_duckdb_agrees(path)


@pytest.mark.spark
def test_spark_answers_the_same_texts(group: list[Path], interpreted_spark: SparkSession) -> None:
    """The last word is Spark's own answer, to the views' own texts over the final tables, of every file."""
    for conversation in map(read, group):
        if conversation.asks("spark"):
            final = expected(conversation.path)
            for name, rows in final.answers.spark(interpreted_spark).items():
                difference = differ(rows, final.moments[-1].views[name], final.fields(name))
                assert not difference, f"{conversation.path.name}: {name} is not what Spark says:\n{difference}"
