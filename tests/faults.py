"""The points at which crash tests kill a process: every call of ``fault`` in the sources."""

from __future__ import annotations

import re
from pathlib import Path

import tidemill

CALL = re.compile(r"\bfault\(\"([a-z-]+)\"\)")


OF_COPIES = {"before-name", "during-copy"}
"""Points of backups and clones, which tests/engine/test_copies.py tries."""


def fault_points(*packages: str) -> set[str]:
    """The points in packages of ``tidemill``: of ``storage``, those at which a commit can be cut short."""
    folders = [Path(tidemill.__file__).parent / package for package in packages]
    return {point for folder in folders for file in folder.rglob("*.py") for point in CALL.findall(file.read_text())}
