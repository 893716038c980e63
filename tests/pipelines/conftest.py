"""A project of declarative pipelines in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.project import PipelineProject


@pytest.fixture
def project(tmp_path: Path) -> PipelineProject:
    return PipelineProject(tmp_path / "shop")
