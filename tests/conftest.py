"""One Spark session for all tests: starting one costs seconds, and a process can have only one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Generated tests say the same in every run of `make test`, so that a failure is a failure of the change at hand; `make
# fuzz` looks elsewhere every time.
hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile("fuzz", parent=hypothesis.settings.get_profile("repeatable"), derandomize=False)
hypothesis.settings.load_profile("fuzz" if "FUZZ_SECONDS" in os.environ else "repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files by name, to be run alone."""
    parser.addoption("--golden", default="", help="golden files, such as join_self,top_k: each runs alone")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many cases of the golden matrix were seen."""
    from tests.matrix.table import TABLE

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
