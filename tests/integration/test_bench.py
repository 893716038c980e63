"""The TPC-H benchmark at its smallest: it compares its answers itself, and its figures have the agreed names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemill.serving.cli.bench_runner import BenchmarkOptions, run


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_tpch(tmp_path: Path) -> None:
    run("tpch", BenchmarkOptions(scale=0.01, quick=True, folder=tmp_path), tmp_path / "figures.jsonl")
    figures = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    assert {figure["bench"] for figure in figures} == {"tpch"}
    assert {figure["metric"] for figure in figures} >= {"speedup", "jobs", "bytes_read", "bytes_written"}
    assert {figure["case"] for figure in figures} >= {"scale0.01/change0.1/spark", "scale0.01/change0.1/auto"}
    assert all(figure["value"] >= 0 for figure in figures)
