"""Examples of the README and the tutorial run, and print what they show."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [page for page in PAGES if "```python" in page.read_text()]
ON_SPARK = [page for page in EXAMPLES if re.search(r'runtime="spark"\)|import tidemill\.spark', page.read_text())]
TUTORIALS = sorted((ROOT / "docs/tutorial").glob("*.md"), key=lambda page: int(page.stem.split("-")[0]))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _conversation(page: Path) -> list[tuple[str, str]]:
    """Each Python block of a page and the output shown right after it, if any."""
    blocks = [*BLOCK.findall(page.read_text()), ("", "")]
    return [
        (text, output if kind == "" else "")
        for (language, text), (kind, output) in pairwise(blocks)
        if language == "python"
    ]


def _run(page: Path) -> None:
    """The blocks of a page are one program: later ones see the names of earlier ones."""
    names: dict[str, object] = {}
    for text, shown in _conversation(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, page.name, "exec"), names)
        assert printed.getvalue() == shown, f"{page.name}:\n{text}"


def test_readme_example_fits_a_screen() -> None:
    (example, _) = _conversation(ROOT / "README.md")[0]
    assert len(example.strip().splitlines()) <= 20


INSTALLS = re.compile(r"^(?:pip|make) ", flags=re.MULTILINE)


def _shell_blocks(page: Path) -> list[str]:
    """What a page types into a shell, but for what installs."""
    blocks = BLOCK.findall(page.read_text())
    return [text for language, text in blocks if language == "sh" and not INSTALLS.search(text)]


def test_readme_commands_run(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "tidemill"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidemill "$@"\n')
    command.chmod(0o755)
    search = {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    (text,) = _shell_blocks(ROOT / "README.md")
    for again in (text, text.splitlines()[0] + "\n" + text.splitlines()[1]):
        run = subprocess.run(
            ["bash", "-ec", again], cwd=tmp_path, env=os.environ | search, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        assert again != text or all(told in run.stdout for told in ("ann", "9.50", "equal"))


@pytest.mark.parametrize("page", [p for p in EXAMPLES if p not in ON_SPARK], ids=lambda page: page.stem)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _run(page)
    if any(tmp_path.iterdir()) and page in TUTORIALS:  # it can be run again where it has been
        os.chdir(tmp_path)
        _run(page)


def test_tutorials_leave_each_other_alone() -> None:
    """Each writes below names of its own, so that they can be followed one after another in one folder."""
    written: dict[str, str] = {}
    for page in TUTORIALS:
        code = "".join(text for language, text in BLOCK.findall(page.read_text()) if language == "python")
        inside = re.search(r'os\.chdir\("([^"]+)"\)', code)
        named = re.findall(r'(?:open|Path|connect|rmtree|mkdir)\("([^":]+)"', code)
        for name in {inside[1]} if inside else {one.split("/")[0] for one in named}:
            assert written.setdefault(name, page.name) == page.name, f"{name} of {page.name}"


@pytest.mark.long
def test_tutorials_one_after_another_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for page in [page for page in TUTORIALS if page not in ON_SPARK] * 2:
        os.chdir(tmp_path)
        _run(page)


@pytest.mark.spark
@pytest.mark.parametrize("page", ON_SPARK, ids=lambda page: page.stem)
def test_examples_on_spark(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    """A page finds a session without temporary views, as in a program of its own."""
    from tidemill.runtimes.spark.sessions.session import active_session_kept

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(type(spark), "_instantiatedSession", spark.newSession())
    with active_session_kept(spark):
        _run(page)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
