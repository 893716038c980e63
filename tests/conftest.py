"""One Spark session for all tests of a process: starting one costs seconds, and a process can have only one."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Queries here run once, over few rows: the second compiler of Java would take more time than it saves, and verifying
# the code of 20,000 classes takes a sixth of the start. Plans are garbage at once: with room for those of many queries,
# Java looks through what is left less often.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Xms1g -Xmn640m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)

hypothesis.settings.register_profile(
    "tests", deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Every run draws its random tests anew, from one seed: that of hypothesis, which other processes get from here."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = getattr(config, "workerinput", {}).get("seed") or str(random.randrange(1 << 32))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of xdist the seed."""
    node.workerinput["seed"] = node.config.option.hypothesis_seed


SYNCS = os.fsync, os.fdatasync


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test's machine does not lose power: outside the tests of the storage, files are not synced in this process.

    A handle that could not be synced, since it is closed, is refused as before.
    """
    os.fsync, os.fdatasync = SYNCS if "storage" in item.path.parts else (os.fstat, os.fstat)


@pytest.fixture(scope="session")
def random_seed(pytestconfig: pytest.Config) -> int:
    """What random tests draw from, the same in all of a run."""
    return int(pytestconfig.option.hypothesis_seed)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files by name, to be run alone."""
    parser.addoption("--golden", default="", help="golden files, such as join_self,top_k: each runs alone")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Group tests that share a process where there are several: golden files and others on Spark, Spark's other tests,
    native golden files of a group, else the tests of a module.

    What takes longest comes first, so that nobody waits for it at the end. A wrapper, because xdist itself looks early.
    """
    _take_turns(items)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_place)
    yield


def _take_turns(items: Iterable[Any]) -> None:
    """Ask what ``turns(argument)`` is for in one way each, others in each run; `make fuzz` asks in all of them."""
    families: dict[object, list[Any]] = {}
    for item in items:
        marker = item.get_closest_marker("turns")
        if marker is not None and item.config.option.markexpr:
            others = sorted((name, repr(of)) for name, of in item.callspec.params.items() if name != marker.args[0])
            families.setdefault((item.nodeid.partition("[")[0], *others), []).append(item)
    for family in families.values():
        _draw(family, *family[0].get_closest_marker("turns").args)


def _draw(family: Sequence[Any], argument: str, count: int = 1) -> None:
    """Mark as long all of a family but so many, and these too where all that is long is asked for."""
    option = family[0].config.option
    chosen = random.Random(f"{option.hypothesis_seed} {family[0].nodeid}").sample(family, min(count, len(family)))
    for item in family:
        if item not in chosen or option.markexpr == "long":
            item.add_marker(pytest.mark.long)


ELSEWHERE = ("test_spark_versions", "test_spark_cluster", "test_spark_objects", "test_spark_connect")
"""Modules whose Spark is another process: they wait for no other."""

BESIDE_GOLDEN = ("algebra", "compiler", "constraints", "engine", "oql", "objects", "test_corpus.py", "test_tpch.py")
"""What runs in the process of golden files on Spark, so that the two processes with a session end at the same time."""

SHARING = {
    "tests/runtimes/duckdb/test_corpus_answers.py": "tests/test_corpus.py",
    **{
        f"tests/serving/console/{module}.py": "tests/serving/console/test_console.py"
        for module in ("test_many_views", "test_operations", "test_users")
    },
}
"""Modules that share a process with another one, since both need what takes long to make."""

LONG_MODULES = (
    *("test_corpus_answers", "test_property", "test_fill", "test_corpus", "test_interruptions", "test_publish_kills"),
    *("test_console", "test_levels", "test_postgres", "test_interrupts", "test_model", "test_retail", "test_depth"),
)
"""Modules that take ten seconds and more."""


def _place(item: pytest.Item) -> int:
    kinds = {"spark": 0, "spark golden": 1}
    if _group(item) in kinds:
        return kinds[_group(item)]
    return 2 if item.path.name == "test_golden.py" else 3 if item.path.stem in (*ELSEWHERE, *LONG_MODULES) else 4


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker("spark") and item.path.stem not in ELSEWHERE:
        place = item.path.relative_to(Path(__file__).parent).parts[0]
        return "spark golden" if place in ("test_golden.py", *BESIDE_GOLDEN) else "spark"
    call = getattr(item, "callspec", None)
    golden = call.params["group"][0].stem if call is not None and item.path.name == "test_golden.py" else ""
    module = item.nodeid.partition("::")[0]
    return f"{SHARING.get(module, module)} {golden}".strip()


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


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker has seen of the golden matrix."""
    from tests.matrix.table import TABLE

    TABLE.add(getattr(node, "workeroutput", {}).get("golden", []))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The local Spark session that Tidemill itself would start, shared by every test that needs one."""
    from tidemill.runtimes.spark.sessions import session

    yield session.local_session()
    session.stop_local_session()


@pytest.fixture(scope="session")
def interpreted_spark(spark: SparkSession) -> SparkSession:
    """A session beside it for questions that are asked once, over a few rows: Spark compiles nothing for them."""
    from tests.ways import interpreting

    return interpreting(spark)


def pytest_collection_finish() -> None:
    """What thousands of cases were made of stays to the end: the garbage collector need not look at it each time.

    Nor, while a stage is compiled, at what it is made of so far: hundreds of thousands of objects, of which none goes
    before the end.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After its golden files, neither need it look at the programs of all of them, which others take up again."""
    if item.path.name == "test_golden.py" and (nextitem is None or nextitem.path != item.path):
        gc.collect()
        gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """And at the end it may go as it would have gone. A worker tells of its golden files."""
    from tests.matrix.table import TABLE

    gc.unfreeze()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["golden"] = TABLE.figures()
