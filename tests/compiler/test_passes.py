"""The compiler is the list of its passes, and the documentation has the same list."""

from __future__ import annotations

import re
from pathlib import Path

from tidemill.compiler.passes import PASSES

ARCHITECTURE = Path(__file__).parents[2] / "docs/design/architecture.md"


def test_documentation_lists_the_passes_in_order() -> None:
    section = ARCHITECTURE.read_text().partition("## From algebra to program")[2].partition("\n## ")[0]
    listed = re.findall(r"^(\d+)\. `(\w+)`:", section, re.MULTILINE)
    assert [name for _, name in listed] == [getattr(one, "__name__", "") for one in PASSES]
    assert [int(number) for number, _ in listed] == list(range(1, len(PASSES) + 1))
