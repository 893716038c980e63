"""Paths as users write them: files and folders of this machine, plain or as ``file://`` URLs; all else is refused.

A URL of another kind would otherwise be taken for the name of a local folder, which would be made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from tidemill.model.errors import SetupError

__all__ = ["Progress", "local_path", "url_scheme"]

Progress = Callable[[int, int], None]
"""Called with the bytes of files read so far, and their total."""

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.:-]+?):(?P<rest>/.*)", re.DOTALL)
"""A scheme has two letters or more: one letter and a colon is a drive."""


def url_scheme(given: str | Path) -> str | None:
    """The scheme of a URL in small letters; None for a plain path.

    >>> url_scheme("S3://bucket/shop"), url_scheme("orders:2026/x.csv")
    ('s3', None)
    """
    url = _URL.fullmatch(str(given))
    return None if url is None else url["scheme"].lower()


def local_path(given: str | Path, what: str = "path") -> Path:
    """The file or folder that ``given`` names; ``what`` is what errors call it.

    >>> local_path("file:///tmp/my%20data").as_posix(), local_path("orders:2026/x.csv").as_posix()
    ('/tmp/my data', 'orders:2026/x.csv')
    >>> local_path("s3a://bucket/orders")
    Traceback (most recent call last):
    tidemill.model.errors.SetupError: a path with "s3a:" cannot be used
    ...
    """
    text = str(given)
    if isinstance(given, str) and (not text.strip() or "\0" in text):
        raise SetupError(f"the {what} has no name", where=repr(given), hint="Name a file or folder.")
    url = _URL.fullmatch(text)
    if url is None:
        return Path(given)
    scheme, rest = url["scheme"].lower(), url["rest"]
    if scheme != "file":
        raise SetupError(
            f'a {what} with "{scheme}:" cannot be used',
            where=text,
            detail="Files and folders are those of this machine, or of a disk that is mounted here.",
            hint="Mount it, or copy it here first; or read it with Spark and give the frame to apply().",
        )
    return Path(_without_host(rest, text, what))


def _without_host(rest: str, text: str, what: str) -> str:
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise SetupError(
                f"the {what} is on another machine", where=text, hint="A local one begins with file:/// and its path."
            )
        rest = f"/{path}"
    return unquote(rest)
