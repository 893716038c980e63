"""The parts of pyspark that are not public: a release that changes one is met with its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.pipelines import internals


@pytest.fixture(autouse=True)
def _fresh() -> None:
    internals.require_pipelines.cache_clear()


def test_this_release_is_the_one_that_is_known() -> None:
    internals.require_pipelines()


def test_a_loader_with_other_parameters_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.pipelines.cli.register_definitions", lambda spec: None)
    with pytest.raises(SetupError, match=r"pyspark\.pipelines\.cli\.register_definitions has changed"):
        internals.require_pipelines()


def test_a_definition_without_a_field_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Flow:
        name: str

    monkeypatch.setattr("pyspark.pipelines.flow.Flow", Flow)
    with pytest.raises(SetupError, match=r"pyspark\.pipelines\.flow\.Flow has changed"):
        internals.require_pipelines()


def test_an_older_release_has_no_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    with pytest.raises(SetupError, match=r"Spark 4\.0\.1 has no declarative pipelines"):
        internals.require_pipelines()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> Any:
        raise ImportError("No module named 'grpc'")

    monkeypatch.setattr(internals, "import_module", missing)
    with pytest.raises(SetupError, match="grpc"):
        internals.require_pipelines()
