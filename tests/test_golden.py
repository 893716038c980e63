"""Every golden conversation on each strategy x way of a runtime x form of epochs, beside three second opinions.

``--golden join_self,top_k`` runs these files alone, each in a warehouse of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.answers import differ
from tests.conversation import read
from tests.matrix.cases import FILES, Way, drawn, groups, leading, run
from tests.matrix.expected import expected, require_duckdb_agrees
from tests.matrix.table import FORMS, STRATEGIES
from tests.ways import AGAIN, MOVING, NATIVE, STORED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_quick(way: str, strategy: str, form: str) -> bool:
    """True for what `make test` runs, and `make fuzz` need not; as DataFrames only a few files (see ``test_frames``).

    On dictionaries ``delta`` whole and by rows, others cut. Elsewhere in this process all are cut; recomputation is the
    same on every way: no stage of it is compiled, and none looks rows up. On the driver of Spark some strategies,
    whole. Between runtimes ``delta`` on dictionaries, and so in the store, where others look up what
    columns are asked for; a budget without room asks the store whatever the first epochs after opening ask it. Views
    that are computed again are those of ``delta``.
    """
    if way in STORED:
        return way != "fresh" and (strategy, form) == ("delta", "cut")
    if way in AGAIN:
        return (strategy, form) == ("delta", "whole")
    if way in MOVING:
        return (way, strategy, form) == ("moving", "delta", "cut")
    if way == "driver":
        return form == "whole" and strategy in ("delta", "joingraph", "lineage", "partition")
    if way == "held":
        return (form == "cut") == (strategy != "delta")
    return form == "cut" and strategy != "recompute"


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

DRIVER = [
    pytest.param(strategy, form, marks=() if is_quick("driver", strategy, form) else pytest.mark.long)
    for strategy in STRATEGIES
    for form in FORMS
]


MOVES = [
    pytest.param(way, strategy, form, marks=() if is_quick(way, strategy, form) else pytest.mark.long)
    for way in MOVING
    for strategy in STRATEGIES
    for form in ("rows", "cut")
]


def require_right(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} files:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("way", "strategy", "form"), IN_PROCESS)
def test_native(way: str, strategy: str, form: str, group: list[Path], random_seed: int) -> None:
    require_right(run(Way(strategy, way, form, random_seed), group))


@pytest.mark.parametrize(("way", "strategy", "form"), MOVES)
def test_moving(way: str, strategy: str, form: str, group: list[Path], random_seed: int) -> None:
    """Views that move from runtime to runtime: whatever a stage keeps catches up with the epochs that it has missed."""
    require_right(run(Way(strategy, way, form, random_seed), group))


@pytest.mark.spark
@pytest.mark.parametrize(("strategy", "form"), DRIVER)
def test_driver(strategy: str, form: str, group: list[Path], spark: SparkSession) -> None:
    require_right(run(Way(strategy, "driver", form), group, spark))


@pytest.mark.spark
def test_tasks(spark: SparkSession) -> None:
    """In tasks, which are other processes: a file of every third kind, since operators are those of ``test_native``."""
    for part in groups(leading(FILES)[::3]):
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
    """As DataFrames a stage is a job: files of every second kind with ``delta``, and all that have the same program.

    Files that are asked for run all.
    """
    way = Way(strategy, "frames", "whole")
    first = group if pytestconfig.getoption("golden") else drawn(group, 2, random_seed)
    first = first if strategy == "delta" else []
    others = [path for path in group if path not in first]
    require_right([*run(way, first, spark), *run(way, others, spark, costly=False)])


@pytest.mark.spark
def test_refilled(spark: SparkSession) -> None:
    """Computed again as DataFrames: a file of every seventh kind, since fills are those of all ways on Spark."""
    for part in groups(leading(FILES)[1::7]):
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
