"""Reports of faults in Tidemill itself, with the facts for a diagnosis and without secrets."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any

__all__ = ["fault_report", "mask_secrets"]

MAX_TRACEBACK_LINES, MAX_CHARACTERS, MAX_VIEWS = 12, 2_000, 5
"""Limits of a report: lines of a traceback, characters of a text, and views."""

SECRETS = re.compile(
    r"(?P<key>\b\w*(?:password|passwd|pwd|secret|token|credential|key_id|access_key)\w*\s*[=:]\s*)"
    r"(?P<value>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|[^\s,;)]+)",
    re.IGNORECASE,
)
ACCOUNTS = re.compile(r"(?P<scheme>://[^\s/:@']+:)[^\s/@']+@")


def mask_secrets(text: str) -> str:
    """``text`` with ``***`` in place of passwords.

    >>> mask_secrets("OPTIONS (url = 'postgres://ann:hush@db/shop', password = 'it''s me')")
    "OPTIONS (url = 'postgres://ann:***@db/shop', password = ***)"
    """
    return ACCOUNTS.sub(r"\g<scheme>***@", SECRETS.sub(r"\g<key>***", text))


def fault_report(error: BaseException, call: str, arguments: dict[str, Any], target: object) -> str:
    """The report of ``error``, raised by ``call``: its text, the views involved, and the place in the code."""
    lines = [
        f"{type(error).__name__}: {mask_secrets(_clipped(str(error)))}",
        f"tidemill {_version()}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"in {call}",
        *_texts(arguments),
        *_definitions(arguments, target),
        *_places(error.__traceback__),
    ]
    return "\n  ".join(lines)


def _version() -> str:
    try:
        return version("tidemill")
    except PackageNotFoundError:
        return "(not installed)"


def _texts(arguments: dict[str, Any]) -> Iterator[str]:
    for name in ("text", "query", "where", "view", "table"):
        if isinstance(value := arguments.get(name), str):
            yield f"{name}: {mask_secrets(_clipped(value))}"


def _definitions(arguments: dict[str, Any], target: object) -> Iterator[str]:
    """The query of the view concerned; for a change, the queries of the views that it can reach."""
    views = getattr(getattr(getattr(target, "_engine", None), "catalog", None), "views", {})
    name = getattr(target, "name", None) or arguments.get("view")
    wanted = [views[name]] if name in views else list(views.values()) if "changes" in arguments else []
    for view in wanted[:MAX_VIEWS]:
        yield f"view {view.name} {dict(view.options)}: {mask_secrets(_clipped(view.query))}"


def _places(traceback: TracebackType | None) -> Iterator[str]:
    places = []
    while traceback is not None:
        frame = traceback.tb_frame
        where = frame.f_globals.get("__name__") or "generated code"
        places.append(f"at {where}:{traceback.tb_lineno} {frame.f_code.co_name}")
        traceback = traceback.tb_next
    return iter(places[-MAX_TRACEBACK_LINES:])


def _clipped(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}... ({len(text)} letters)"


LIBRARY_MODULES = frozenset(
    {
        *sys.stdlib_module_names,
        "llvmlite",
        "numpy",
        "pandas",
        "psycopg",
        "py4j",
        "pyarrow",
        "pyspark",
        "sqlglot",
        "tidemill",
    }
) - {"__main__"}
"""The top-level packages that Tidemill calls itself; all other code is a user's."""


def is_user_code(traceback: TracebackType | None) -> bool:
    """True if an error passed through user code: a function or iterator that was passed in."""
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__")
        if module is not None and module.partition(".")[0] not in LIBRARY_MODULES:
            return True
        traceback = traceback.tb_next
    return False
