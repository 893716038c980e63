"""Every golden conversation on each strategy x way of a runtime x form of epochs, beside three second opinions.

``--golden join_self,top_k`` runs these files alone, each in a warehouse of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.answers import differ
from tests.conversation import read
from tests.matrix.cases import FILES, STRATEGIES, Way, groups, run
from tests.matrix.expected import expected, require_duckdb_agrees
from tests.matrix.table import FORMS
from tests.ways import NATIVE, SPARK, interpreting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each group of files; with ``--golden`` one for each of those files."""
    asked = metafunc.config.getoption("golden")
    files = [path for path in FILES if not asked or path.stem in asked.split(",")]
    if "group" in metafunc.fixturenames:
        parts = [[path] for path in files] if asked else groups(files)
        metafunc.parametrize("group", parts, ids=[part[0].stem for part in parts])


def hold(way: str, strategy: str, form: str, group: Sequence[Path], spark: SparkSession | None = None) -> None:
    wrong = run(Way(strategy, way, form), group, spark)
    assert not wrong, f"{len(wrong)} files, {strategy} on {way}, {form}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("way", NATIVE)
def test_native(way: str, strategy: str, form: str, group: list[Path]) -> None:
    hold(way, strategy, form, group)


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "strategy", [pytest.param(name, marks=[pytest.mark.long] if name != "delta" else []) for name in STRATEGIES]
)
@pytest.mark.parametrize("way", SPARK)
def test_spark(way: str, strategy: str, form: str, group: list[Path], spark: SparkSession) -> None:
    hold(way, strategy, form, group, spark)


def test_duckdb_answers_the_same_texts(group: list[Path]) -> None:
    """DuckDB's answers are the evaluator's after every step: what a warehouse is compared with."""
    for path in group:
        if read(path).asks("duckdb"):
            require_duckdb_agrees(path)


@pytest.mark.spark
def test_spark_answers_the_same_texts(group: list[Path], spark: SparkSession) -> None:
    """The last word is Spark's own answer, to the views' own texts over the final tables, of every file."""
    session = interpreting(spark)
    for conversation in map(read, group):
        if conversation.asks("spark"):
            final = expected(conversation.path)
            for name, rows in final.answers.spark(session).items():
                difference = differ(rows, final.moments[-1].views[name], final.fields(name))
                assert not difference, f"{conversation.path.name}: {name} is not what Spark says:\n{difference}"
