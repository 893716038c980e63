"""Packages that workers of a cluster need, and how a worker is refused. ``tests/integration`` has a cluster."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.sessions import worker_packages
from tidemill.runtimes.spark.sessions.worker_packages import NEEDED, WorkerPackages, refuse_lacking

ROOT = Path(__file__).parents[3]


def test_workers_need_what_the_project_needs() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest = {found[1]: found[2] for one in declared if (found := re.match(r"([\w-]+)>=([\d.]+)", one))}
    assert {name: oldest[name] for name in NEEDED} == {name: ".".join(map(str, NEEDED[name])) for name in NEEDED}


def test_what_is_missing_is_said_for_each_python() -> None:
    whole = {"duckdb": "2.0.1", "numpy": "2.1.0", "pandas": "2.2.3", "pyarrow": "18.0.0"}
    workers = [
        WorkerPackages("one", "/a/python", whole),
        WorkerPackages("two", "/b/python", {**whole, "pyarrow": "17.0.1"}),
        WorkerPackages("three", "/c/python", {**whole, "pyarrow": None, "numpy": None}),
    ]
    refuse_lacking(workers[:1])
    with pytest.raises(SetupError) as raised:
        refuse_lacking(workers)
    assert raised.value.what == "Spark's workers need numpy>=1.26 and pyarrow>=18"
    assert raised.value.where == "/b/python on two, /c/python on three"
    assert raised.value.detail == "/b/python has pyarrow 17.0.1. /c/python has no numpy and no pyarrow."
    assert "pip install 'numpy>=1.26' 'pyarrow>=18'" in (raised.value.hint or "")


def test_workers_may_be_without_duckdb(recwarn: pytest.WarningsRecorder) -> None:
    """An old one is refused: it would be used."""
    others = {"numpy": "2.1.0", "pandas": "2.2.3", "pyarrow": "18.0.0"}
    without, old = (WorkerPackages("one", "/a/python", {**others, "duckdb": found}) for found in (None, "1.4.0"))
    refuse_lacking([without])
    worker_packages.warn_of_spared([WorkerPackages("two", "/b/python", {**others, "duckdb": "2.0.1"})])
    assert not recwarn.list
    with pytest.warns(RuntimeWarning, match=r"no DuckDB \(/a/python on one\).*pip install 'duckdb>=2'"):
        worker_packages.warn_of_spared([without])
    with pytest.raises(SetupError, match=r"Spark's workers need duckdb>=2"):
        refuse_lacking([old])


def test_another_python_is_named() -> None:
    text = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark "
        "cannot run with different minor versions."
    )
    assert worker_packages._no_worker(text).what == "Spark's workers run Python 3.9, and this process 3.11"


def test_the_archive_has_every_module_compiled() -> None:
    source = ROOT / "src"
    with zipfile.ZipFile(worker_packages.archive()) as archive:
        names = set(archive.namelist())
    assert names == {str(file.relative_to(source).with_suffix(".pyc")) for file in source.glob("tidemill/**/*.py")}
