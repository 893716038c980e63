"""``tidemill bench lake``: lakes change as their MERGE says, answers are checked, and figures have the agreed names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from rich.console import Console

from benchmarks.lake import as_table
from benchmarks.lake.answers import check, same_rows
from benchmarks.lake.lakes import KEYS, LAKES, lake_of, plain_tables
from benchmarks.lake.pipelines import DELTA, write_project
from benchmarks.lake.refresh import Refresher
from benchmarks.lake.run import run
from benchmarks.tpch.data import Changes, generate
from benchmarks.tpch.views import VIEWS
from tests.storage.samples import child_environment
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions

SCALE = 0.01
METRICS = {"rows", "merge_s", "refresh_s", "read_s", "epoch_s", "publish_s", "command_s", "first_s", "warm_up_s"} | {
    f"bytes_{what}" for what in ("changed", "stored", "published", "ratio")
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    plain_tables(folder, SCALE)
    return folder


@pytest.mark.parametrize("name", LAKES)
def test_a_day_of_changes(name: str, data: Path, tmp_path: Path) -> None:
    lake = lake_of(name, tmp_path / "lake", plain_tables(data, SCALE))
    changes = Changes(generate(data, SCALE))
    for table, change in changes.draw(0.5).items():
        before = lake.files(table)
        lake.merge(table, change)
        assert lake.files(table) != before
        left = (
            duckdb.read_parquet(lake.files(table)).to_arrow_table().sort_by([(key, "ascending") for key in KEYS[table]])
        )
        right = changes.tables[table].sort_by([(key, "ascending") for key in KEYS[table]])
        assert left.cast(right.schema).equals(right), table


def test_figures_of_one_lake(data: Path) -> None:
    options = BenchmarkOptions(scale=SCALE, quick=True, folder=data, runtimes=("feed",))
    figures = list(run(options, baselines=False))
    assert {figure.metric for figure in figures} == METRICS
    assert {figure.case for figure in figures} == {"scale0.01/change0.1/feed"}
    console = Console(width=160)
    with console.capture() as captured:
        console.print(as_table(figures))
    assert any(line.split()[:3] == ["feed", "0.1", "%"] for line in captured.get().splitlines())


def test_a_wrong_answer_is_found(data: Path, tmp_path: Path) -> None:
    lake = lake_of("files", tmp_path / "lake", plain_tables(data, SCALE))
    refresher = Refresher(lake, tmp_path)
    refresher.close()
    check(refresher.published, lake)
    table = DeltaTable(str(refresher.published["shipping_modes"]))
    write_deltalake(table, pa.table(table.scan()).slice(1), mode="overwrite")
    with pytest.raises(AssertionError, match="shipping_modes differs"):
        check(refresher.published, lake)


def test_rows_are_compared_as_multisets() -> None:
    one, two = pa.table({"a": ["x", "y", "y"]}), pa.table({"a": ["y", "x", "x"]})
    assert same_rows(one, one.take([2, 0, 1])) and not same_rows(one, two)


def test_the_project_has_the_text_of_the_views(tmp_path: Path) -> None:
    write_project(tmp_path / "project", DELTA, {})
    text = (tmp_path / "project" / "transformations" / "views.sql").read_text()
    assert all(f"CREATE MATERIALIZED VIEW {name} AS {query};" in text for name, query in VIEWS.items())


def test_an_unknown_lake(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no lake"):
        lake_of("hudi", tmp_path, tmp_path)


@pytest.mark.long
@pytest.mark.spark
def test_the_benchmark_runs_beside_spark(tmp_path: Path) -> None:
    """In a process of its own: it starts and stops Spark."""
    command = [sys.executable, "-c", "from tidemill.serving.cli.app import main; main()", "bench", "lake", "--quick"]
    told = subprocess.run(
        [*command, "--json", "figures.jsonl"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert told.returncode == 0, told.stderr
    found = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    assert {figure["case"].rpartition("/")[2] for figure in found} == set(LAKES)
    assert {figure["metric"] for figure in found} == METRICS | {
        "spark_s",
        "speedup",
        "pipelines_s",
        "bytes_spark",
        "speedup_command",
        "run_s",
    }
