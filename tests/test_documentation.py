"""What the documentation lists is what the code has: the terms of the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tidemill"
CODE = re.compile(r"`([^`\n]+)`")


def _page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _words_of_source() -> set[str]:
    """Every name in the source, its modules and packages included."""
    paths = [*SOURCE.rglob("*.py")]
    names = {part.removesuffix(".py") for path in paths for part in path.relative_to(SOURCE).parts}
    return names.union(*(re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in paths))


def test_terms_of_the_glossary_are_in_the_source() -> None:
    terms = set(CODE.findall(_page("docs/glossary.md")))
    assert len(terms) > 40
    assert not terms - _words_of_source()


@pytest.mark.parametrize("system", ["DBToaster", "GraphIVM", "MOVIE", "ECA", "SWEEP", "ViewDF", "DBSP", "SQL standard"])
def test_the_glossary_names_its_sources(system: str) -> None:
    terms, _, references = _page("docs/glossary.md").partition("## References")
    assert system in terms and f"*{system}*" in references
