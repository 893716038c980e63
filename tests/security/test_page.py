"""The page on security claims nothing without a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_claim_has_its_test() -> None:
    page = (ROOT / "docs/reference/security.md").read_text(encoding="utf-8")
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 10
    assert [name for name in named if f"def {name}(" not in tests] == []
    assert [path for path in re.findall(r"`(tests/\S+\.py)`", page) if not (ROOT / path).is_file()] == []
