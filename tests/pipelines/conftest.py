"""A project of declarative pipelines in a folder of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.project import PipelineProject
from tidemill.serving.pipelines.plan import Planner


@pytest.fixture
def project(tmp_path: Path) -> PipelineProject:
    return PipelineProject(tmp_path / "shop")


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each dataset was planned."""
    found: Counter[str] = Counter()
    step = Planner._step

    def counted(self: Planner, dataset: Any) -> Any:
        found[dataset.name[-1]] += 1
        return step(self, dataset)

    monkeypatch.setattr(Planner, "_step", counted)
    return found
