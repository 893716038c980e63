"""One Spark session for all tests: starting one costs seconds, and a process can have only one."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's queries here run once, over few rows: the second compiler of Java would take more time than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")

hypothesis.settings.register_profile(
    "tests", deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Every run draws its random tests anew, from one seed; hypothesis and the workers of xdist take it from here."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.randrange(1 << 32))


@pytest.fixture(scope="session")
def random_seed(pytestconfig: pytest.Config) -> int:
    """What random tests draw from, the same in all of a run."""
    return int(pytestconfig.option.hypothesis_seed)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files by name, to be run alone."""
    parser.addoption("--golden", default="", help="golden files, such as join_self,top_k: each runs alone")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How random tests that failed can be drawn again, and how many cases of the golden matrix were seen."""
    from tests.matrix.table import TABLE

    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(
            f"random tests draw the same with --hypothesis-seed={config.option.hypothesis_seed}"
        )
    if TABLE.cases:
        terminalreporter.section("golden matrix")
        for line in TABLE.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The local Spark session that Tidemill itself would start, shared by every test that needs one."""
    from tidemill.runtimes.spark.execution.session import local_session, stop_local_session

    yield local_session()
    stop_local_session()


def pytest_collection_finish() -> None:
    """What thousands of cases were made of stays to the end: the garbage collector need not look at it each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """And at the end it may go as it would have gone."""
    gc.unfreeze()
