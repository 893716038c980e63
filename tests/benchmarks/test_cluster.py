"""The figures of ``tidemill bench cluster`` as a table and as a plot, and the benchmark itself at its smallest."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.cluster import as_table
from benchmarks.cluster.plots import draw
from benchmarks.cluster.run import PLACES, scaling
from tests.storage.samples import child_environment
from tidemill.serving.cli.bench_runner import Figure


def figures() -> list[Figure]:
    times = [
        Figure("cluster", f"scale0.1/change{percent}/{place}", metric, value / (1 + number), unit)
        for percent in (1, 5, 20)
        for number, place in enumerate(PLACES)
        for metric, value, unit in (("refresh_s", 3.0 * percent, "s"), ("speedup", 6.0, "x"))
    ]
    return [*times, Figure("cluster", "scale0.1/row/workers1", "refresh_s", 0.25, "s")]


def test_two_workers_are_compared_with_one_on_bulk_changes() -> None:
    found = {figure.case: (figure.metric, round(figure.value, 3)) for figure in scaling(figures())}
    assert found == {f"scale0.1/change{percent}/workers2": ("workers_ratio", 1.5) for percent in (5, 20)}


def test_the_table_has_a_line_for_each_change_and_place() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(as_table([*figures(), *scaling(figures())]))
    lines = [line for line in captured.get().splitlines() if re.match(r" *(\d+ %|row) ", line)]
    assert len(lines) == 10
    assert any(line.split() == ["5", "%", "workers2", "5.00", "2.00", "1.50"] for line in lines)


def test_the_plot_is_the_same_for_the_same_figures(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(figures(), tmp_path / name)
    plot = (tmp_path / "a" / "refresh.svg").read_text()
    assert plot == (tmp_path / "b" / "refresh.svg").read_text()
    assert all(place in plot for place in PLACES)


@pytest.mark.long
@pytest.mark.spark
def test_the_benchmark_runs_in_each_place(tmp_path: Path) -> None:
    """In a process of its own: it starts and stops Spark several times."""
    command = [sys.executable, "-c", "from tidemill.serving.cli.app import main; main()", "bench", "cluster", "--quick"]
    told = subprocess.run(
        [*command, "--json", "figures.jsonl"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert told.returncode == 0, told.stderr
    found = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    assert {figure["bench"] for figure in found} == {"cluster"}
    assert {figure["case"].rpartition("/")[2] for figure in found} == set(PLACES)
    metrics = {figure["metric"] for figure in found}
    assert metrics >= {"refresh_s", "speedup", "speedup_duckdb", "jobs", "exchanges", "bytes_read", "bytes_written"}
    assert metrics >= {"bytes_exchanged", "workers_ratio"}
