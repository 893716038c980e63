"""Every version of Spark that Tidemill runs on: golden files and epochs, each version in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

VERSIONS = [pytest.param("3.5"), *(pytest.param(version, marks=pytest.mark.long) for version in ("4.0", "4.1", "4.2"))]

GOLDEN = "doubles_drift,match_partitions,median,structs_in_arrays,window_range_time"
"""Files that have exact sums, functions of workers, nested types, times and ranks between them."""

CHOSEN = "test_frames or overflow or zero or large"
"""Golden files as DataFrames, and single epochs whose texts differ between versions: errors, and results that Spark
writes."""


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_gives_the_same_answers(version: str) -> None:
    python = ROOT / ".versions" / version / "bin" / "python"
    if not python.exists():
        pytest.skip(f"there is no environment for Spark {version}: make versions makes it")
    assert said(python, "-c", "import pyspark; print(pyspark.__version__)").startswith(version)
    files = ["tests/test_golden.py", "tests/runtimes/spark/test_run.py"]
    chosen = ["-m", "spark and not long", "-k", CHOSEN, "--golden", GOLDEN]
    assert " passed" in said(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, *chosen)


def said(python: Path, *arguments: str) -> str:
    """The output of a Python that ends well. It has our sources, and the pyspark of its own environment."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": str(python)}
    told = subprocess.run([python, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert told.returncode == 0, told.stdout[-4_000:] + told.stderr[-1_000:]
    return told.stdout
