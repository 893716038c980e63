"""Views and the programs that keep them fresh, side by side: each file is SQL, ``----``, and the program's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler.shop import program_of
from tidemill.program.text import text_of_program

FILES = sorted((Path(__file__).parent / "programs").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_program_of_view(path: Path) -> None:
    sql, expected = path.read_text().split("\n----\n")
    strategy = "recompute" if path.stem.startswith("recompute") else "delta"
    assert text_of_program(program_of(sql, strategy)) == expected.strip("\n")
